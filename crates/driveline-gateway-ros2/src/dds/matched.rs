// SPDX-License-Identifier: Apache-2.0
//! Endpoints that a writer or a reader is matched with now.

use super::discovery::{Endpoint, read};
use super::{DdsError, Entity, Reader, Result, Waiting, Writer, checked};
use cyclors as c;

/// Number of matches for which memory is reserved at first.
const MATCHES: usize = 64;
/// Maximum number of matches.
const MAX_MATCHES: usize = 4096;

/// Returns the handles of all matched endpoints. `list` fills its buffer and returns the number of
/// matches, which may be greater.
fn matches(action: &'static str, list: impl Fn(&mut [u64]) -> i32) -> Result<Vec<u64>> {
    let mut handles = vec![0; MATCHES];
    loop {
        let count = usize::try_from(checked(action, list(&mut handles))?).unwrap_or(0);
        if count <= handles.len() {
            handles.truncate(count);
            return Ok(handles);
        }
        if count > MAX_MATCHES {
            return Err(DdsError {
                action,
                reason: format!(
                    "{count} are matched, and at most {MAX_MATCHES} are supported: end endpoints \
                     that are not needed"
                ),
            });
        }
        // More may match before the next call.
        handles.resize((count * 2).min(MAX_MATCHES), 0);
    }
}

impl Writer {
    /// Returns the matched readers of other processes. Fails if there are more than `MAX_MATCHES`.
    pub(crate) fn readers(&self) -> Result<Vec<Endpoint>> {
        // SAFETY: pointer and length are those of the buffer.
        let list = |to: &mut [u64]| unsafe {
            c::dds_get_matched_subscriptions(self.entity.0, to.as_mut_ptr(), to.len())
        };
        // SAFETY: the arguments are numbers; `owned` frees the result.
        let of = |handle: &u64| unsafe {
            owned(c::dds_get_matched_subscription_data(self.entity.0, *handle), *handle)
        };
        Ok(matches("list readers", list)?.iter().filter_map(of).collect())
    }

    /// Wakes `waiting` when readers come or go. [`Self::clear_changes`] resets that.
    pub(crate) fn watch(&self, waiting: &Waiting) -> Result<()> {
        watch(&self.entity, c::dds_status_id_DDS_PUBLICATION_MATCHED_STATUS_ID, waiting)
    }

    /// From now on only later changes wake a waiting thread. Call it before the check, so that no
    /// change is missed.
    pub(crate) fn clear_changes(&self) {
        // SAFETY: the structure has only numbers, for which zeros are valid; the call writes it and
        // keeps no pointer.
        unsafe {
            let mut status = std::mem::zeroed::<c::dds_publication_matched_status>();
            c::dds_get_publication_matched_status(self.entity.0, &raw mut status);
        }
    }
}

impl Reader {
    /// Returns the matched writers of other processes. Fails as [`Writer::readers`] does.
    pub(crate) fn writers(&self) -> Result<Vec<Endpoint>> {
        // SAFETY: pointer and length are those of the buffer.
        let list = |to: &mut [u64]| unsafe {
            c::dds_get_matched_publications(self.entity.0, to.as_mut_ptr(), to.len())
        };
        Ok(matches("list writers", list)?
            .iter()
            .filter_map(|handle| self.writer(*handle))
            .collect())
    }

    /// Returns the writer with this handle if it is matched.
    pub(crate) fn writer(&self, handle: u64) -> Option<Endpoint> {
        // SAFETY: the arguments are numbers; `owned` frees the result.
        unsafe { owned(c::dds_get_matched_publication_data(self.entity.0, handle), handle) }
    }

    /// As [`Writer::watch`], for writers.
    pub(crate) fn watch(&self, waiting: &Waiting) -> Result<()> {
        watch(&self.entity, c::dds_status_id_DDS_SUBSCRIPTION_MATCHED_STATUS_ID, waiting)
    }

    /// As [`Writer::clear_changes`].
    pub(crate) fn clear_changes(&self) {
        // SAFETY: the structure has only numbers, for which zeros are valid; the call writes it and
        // keeps no pointer.
        unsafe {
            let mut status = std::mem::zeroed::<c::dds_subscription_matched_status>();
            c::dds_get_subscription_matched_status(self.entity.0, &raw mut status);
        }
    }
}

fn watch(entity: &Entity, status: c::dds_status_id, waiting: &Waiting) -> Result<()> {
    // SAFETY: all arguments are numbers; `dds_waitset_wait` only returns the last one.
    unsafe {
        checked("watch matches", c::dds_set_status_mask(entity.0, 1 << status))?;
        checked("watch matches", c::dds_waitset_attach(waiting.set.0, entity.0, 2))?;
    }
    Ok(())
}

/// Reads an endpoint that CycloneDDS has returned, and frees it.
///
/// # Safety
/// `endpoint` is null, or was returned by `dds_get_matched_…_data` and is used nowhere else.
unsafe fn owned(endpoint: *mut c::dds_builtintopic_endpoint_t, handle: u64) -> Option<Endpoint> {
    if endpoint.is_null() {
        return None;
    }
    // SAFETY: by the contract of this function the structure is ours alone. Its texts and QoS live
    // as long as it, and nothing of it is used after it is freed.
    unsafe {
        let found = read(&*endpoint, handle);
        c::dds_builtintopic_free_endpoint(endpoint);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists `count` matches as CycloneDDS does: fills the buffer and returns the number of
    /// matches.
    fn listed(count: usize) -> Result<Vec<u64>> {
        matches("list", |to| {
            to.iter_mut().zip(1..=count as u64).for_each(|(to, handle)| *to = handle);
            count as i32
        })
    }

    #[test]
    fn all_matches_are_read_or_an_error_is_returned() {
        for there in [0, 1, MATCHES, MATCHES + 1, 1000, MAX_MATCHES] {
            assert_eq!(listed(there).unwrap(), (1..=there as u64).collect::<Vec<_>>());
        }
        let refused = listed(MAX_MATCHES + 1).unwrap_err().to_string();
        assert!(refused.contains("4097 are matched, and at most 4096 are supported"), "{refused}");
    }

    #[test]
    fn matches_may_be_added_while_the_buffer_grows() {
        let there = std::cell::Cell::new(MATCHES);
        let all = matches("list", |to| {
            there.set(there.get() + 50);
            to.iter_mut().zip(1..=there.get() as u64).for_each(|(to, handle)| *to = handle);
            there.get() as i32
        });
        assert_eq!(all.unwrap().len(), there.get());
    }
}
