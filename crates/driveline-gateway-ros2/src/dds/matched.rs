// SPDX-License-Identifier: Apache-2.0
//! With whom a writer or a reader is matched at this moment.

use super::discovery::{Endpoint, read};
use super::{DdsError, Entity, Reader, Result, Waiting, Writer, checked};
use cyclors as c;

/// Matches that there is room for at first …
const MATCHES: usize = 64;
/// … and at most.
const MAX_MATCHES: usize = 4096;

/// Handles of all that are matched. `tell` fills as many as there is room for, and says how many
/// there are.
fn matches(action: &'static str, tell: impl Fn(&mut [u64]) -> i32) -> Result<Vec<u64>> {
    let mut handles = vec![0; MATCHES];
    loop {
        let count = usize::try_from(checked(action, tell(&mut handles))?).unwrap_or(0);
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
        // Others may come in between.
        handles.resize((count * 2).min(MAX_MATCHES), 0);
    }
}

impl Writer {
    /// Its readers; those of this process are not among them. An error if they are more than can be
    /// looked at.
    pub(crate) fn readers(&self) -> Result<Vec<Endpoint>> {
        // SAFETY: the buffer has room for as many numbers as passed.
        let tell = |to: &mut [u64]| unsafe {
            c::dds_get_matched_subscriptions(self.entity.0, to.as_mut_ptr(), to.len())
        };
        // SAFETY: numbers; what comes is freed by `owned`.
        let of = |handle: &u64| unsafe {
            owned(c::dds_get_matched_subscription_data(self.entity.0, *handle), *handle)
        };
        Ok(matches("list readers", tell)?.iter().filter_map(of).collect())
    }

    /// Has `waiting` wake up as readers come and go. [`Self::looked`] is for what has been seen.
    pub(crate) fn watch(&self, waiting: &Waiting) -> Result<()> {
        watch(&self.entity, c::dds_status_id_DDS_PUBLICATION_MATCHED_STATUS_ID, waiting)
    }

    /// From now on, only later changes wake a waiting thread. Call it before the check, so that no
    /// change is missed.
    pub(crate) fn looked(&self) {
        // SAFETY: plain numbers, for which zeros are good; written by the call, which keeps no
        // pointer.
        unsafe {
            let mut status = std::mem::zeroed::<c::dds_publication_matched_status>();
            c::dds_get_publication_matched_status(self.entity.0, &raw mut status);
        }
    }
}

impl Reader {
    /// As [`Writer::readers`].
    pub(crate) fn writers(&self) -> Result<Vec<Endpoint>> {
        // SAFETY: the buffer has room for as many numbers as passed.
        let tell = |to: &mut [u64]| unsafe {
            c::dds_get_matched_publications(self.entity.0, to.as_mut_ptr(), to.len())
        };
        Ok(matches("list writers", tell)?
            .iter()
            .filter_map(|handle| self.writer(*handle))
            .collect())
    }

    /// The writer with this handle, while it is matched.
    pub(crate) fn writer(&self, handle: u64) -> Option<Endpoint> {
        // SAFETY: numbers; what comes is freed by `owned`.
        unsafe { owned(c::dds_get_matched_publication_data(self.entity.0, handle), handle) }
    }

    /// As [`Writer::watch`], for writers.
    pub(crate) fn watch(&self, waiting: &Waiting) -> Result<()> {
        watch(&self.entity, c::dds_status_id_DDS_SUBSCRIPTION_MATCHED_STATUS_ID, waiting)
    }

    /// As [`Writer::looked`].
    pub(crate) fn looked(&self) {
        // SAFETY: plain numbers, for which zeros are good; written by the call, which keeps no
        // pointer.
        unsafe {
            let mut status = std::mem::zeroed::<c::dds_subscription_matched_status>();
            c::dds_get_subscription_matched_status(self.entity.0, &raw mut status);
        }
    }
}

fn watch(entity: &Entity, status: c::dds_status_id, waiting: &Waiting) -> Result<()> {
    // SAFETY: numbers; the last one is only given back by `dds_waitset_wait`.
    unsafe {
        checked("watch matches", c::dds_set_status_mask(entity.0, 1 << status))?;
        checked("watch matches", c::dds_waitset_attach(waiting.set.0, entity.0, 2))?;
    }
    Ok(())
}

/// Reads what CycloneDDS has given, and gives it back.
///
/// # Safety
/// `endpoint` is null, or was given by `dds_get_matched_…_data` and is used nowhere else.
unsafe fn owned(endpoint: *mut c::dds_builtintopic_endpoint_t, handle: u64) -> Option<Endpoint> {
    if endpoint.is_null() {
        return None;
    }
    // SAFETY: a whole structure of ours alone, as the caller says, with texts and QoS that end with
    // it; nothing of it is used after it was freed.
    unsafe {
        let found = read(&*endpoint, handle);
        c::dds_builtintopic_free_endpoint(endpoint);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many are matched; as CycloneDDS does, it says how many, and fills what there is room for.
    fn told(there: usize) -> Result<Vec<u64>> {
        matches("tell", |to| {
            to.iter_mut().zip(1..=there as u64).for_each(|(to, handle)| *to = handle);
            there as i32
        })
    }

    #[test]
    fn all_matches_are_read_or_an_error_is_returned() {
        for there in [0, 1, MATCHES, MATCHES + 1, 1000, MAX_MATCHES] {
            assert_eq!(told(there).unwrap(), (1..=there as u64).collect::<Vec<_>>());
        }
        let refused = told(MAX_MATCHES + 1).unwrap_err().to_string();
        assert!(refused.contains("4097 are matched, and at most 4096 are supported"), "{refused}");
    }

    #[test]
    fn some_may_come_while_there_is_made_room_for_them() {
        let there = std::cell::Cell::new(MATCHES);
        let all = matches("tell", |to| {
            there.set(there.get() + 50);
            to.iter_mut().zip(1..=there.get() as u64).for_each(|(to, handle)| *to = handle);
            there.get() as i32
        });
        assert_eq!(all.unwrap().len(), there.get());
    }
}
