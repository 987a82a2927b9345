// SPDX-License-Identifier: Apache-2.0
//! With whom a writer or a reader is matched at this moment.

use super::discovery::{Endpoint, read};
use super::{Entity, Reader, Result, Waiting, Writer, checked};
use cyclors as c;

/// Matches that are looked at.
const MAX_MATCHES: usize = 256;

impl Writer {
    /// Its readers; those of this process are not among them.
    pub(crate) fn readers(&self) -> Result<Vec<Endpoint>> {
        let mut handles = [0; MAX_MATCHES];
        // SAFETY: room for as many numbers as it is told.
        let count = unsafe { c::dds_get_matched_subscriptions(self.entity.0, handles.as_mut_ptr(), MAX_MATCHES) };
        let count = checked("tell who reads", count)?;
        // SAFETY: numbers; what comes is freed by `owned`.
        let of = |handle: &u64| unsafe { owned(c::dds_get_matched_subscription_data(self.entity.0, *handle), *handle) };
        Ok(handles.iter().take(usize::try_from(count).unwrap_or(0)).filter_map(of).collect())
    }

    /// Has `waiting` wake up as readers come and go. [`Self::looked`] is for what has been seen.
    pub(crate) fn watch(&self, waiting: &Waiting) -> Result<()> {
        watch(&self.entity, c::dds_status_id_DDS_PUBLICATION_MATCHED_STATUS_ID, waiting)
    }

    /// From now on, only later changes wake anybody up. Before a look, so that nothing is missed.
    pub(crate) fn looked(&self) {
        // SAFETY: plain numbers, for which zeros are good; written by the call, which keeps no pointer.
        unsafe {
            let mut status = std::mem::zeroed::<c::dds_publication_matched_status>();
            c::dds_get_publication_matched_status(self.entity.0, &raw mut status);
        }
    }
}

impl Reader {
    /// Its writers; those of this process are not among them.
    pub(crate) fn writers(&self) -> Result<Vec<Endpoint>> {
        let mut handles = [0; MAX_MATCHES];
        // SAFETY: room for as many numbers as it is told.
        let count = unsafe { c::dds_get_matched_publications(self.entity.0, handles.as_mut_ptr(), MAX_MATCHES) };
        let count = checked("tell who writes", count)?;
        Ok(handles.iter().take(usize::try_from(count).unwrap_or(0)).filter_map(|handle| self.writer(*handle)).collect())
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
        // SAFETY: plain numbers, for which zeros are good; written by the call, which keeps no pointer.
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
    // SAFETY: a whole structure of ours alone, as the caller says, with texts and QoS that end with it; nothing of it is used after it was freed.
    unsafe {
        let found = read(&*endpoint, handle);
        c::dds_builtintopic_free_endpoint(endpoint);
        found
    }
}
