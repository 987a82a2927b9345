// SPDX-License-Identifier: Apache-2.0
//! Subscriptions.

use crate::context::dl_node;
use crate::event::dl_event;
use crate::exclusive::{Exclusive, Inside};
use crate::options::{dl_subscription_options, subscription_options};
use crate::sample::dl_sample;
use crate::schema::dl_schema;
use crate::sized::{SizedStruct, write_result};
use crate::status::*;
use driveline::{RawSubscription, ReadError, ReceiveError, TakeError, WaitMode};
use driveline_types::TopicName;
use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The receiving end of a topic. One thread at a time; a second one gets `DL_ERROR_BUSY`. Samples
/// outlive it.
pub struct dl_subscription {
    raw: Exclusive<RawSubscription>,
}

impl dl_subscription {
    #[inline]
    fn raw(&self) -> Outcome<Inside<'_, RawSubscription>> {
        let busy = || {
            Failure::new(
                DL_ERROR_BUSY,
                "another thread uses this subscription: give each thread one of its own",
            )
        };
        self.raw.enter().ok_or_else(busy)
    }
}

/// Wait strategy of a blocking reader.
#[repr(C)]
pub enum dl_wait_mode {
    /// Sleep in the kernel; an idle reader uses no CPU.
    DL_WAIT_BLOCK = 0,
    /// Never sleep: lowest latency, one whole CPU.
    DL_WAIT_SPIN = 1,
    /// Spin for `spin_ns`, then sleep.
    DL_WAIT_SPIN_THEN_BLOCK = 2,
}

/// Creates a subscription. `options`: NULL takes the defaults. `*subscription`: owned by the
/// caller, to be given to `dl_subscription_drop`; it may outlive node, context and schema.
///
/// # Safety
/// Handles are NULL or live; `topic` is NULL or NUL-terminated; `options` is NULL or its `size`
/// bytes are readable; `subscription` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_new(
    node: *const dl_node,
    topic: *const c_char,
    schema: *const dl_schema,
    options: *const dl_subscription_options,
    subscription: *mut *mut dl_subscription,
) -> dl_status {
    guard(|| {
        place("subscription", subscription)?;
        // SAFETY: this function's contract.
        let (node, topic, schema, options) = unsafe {
            (
                borrow("node", node)?,
                text("topic", topic)?,
                borrow("schema", schema)?,
                subscription_options(options)?,
            )
        };
        let raw = node.node.raw_subscription(topic, schema.schema.clone(), options)?;
        let made = dl_subscription { raw: Exclusive::new(raw) };
        // SAFETY: this function's contract.
        unsafe { put("subscription", subscription, Box::into_raw(Box::new(made))) }
    })
}

/// Drops a subscription; its samples stay. `*subscription` (moved) becomes NULL; NULL is permitted.
///
/// # Safety
/// `subscription` is NULL or points to NULL or to an owned handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_drop(subscription: *mut *mut dl_subscription) {
    // SAFETY: this function's contract.
    unsafe { release(subscription) }
}

impl From<TakeError> for Failure {
    fn from(e: TakeError) -> Self {
        let status = match &e {
            TakeError::HeldLimit { .. }
            | TakeError::Host { source: driveline_shm::TakeError::AllHeld { .. }, .. } => {
                DL_ERROR_HELD_LIMIT
            }
            TakeError::Host { .. } => DL_ERROR_TRANSPORT,
        };
        Self::new(status, e)
    }
}

/// The newest unread sample; older unread ones count as missed. `*sample`: NULL if there is none,
/// else owned by the caller, to be given to `dl_sample_drop`. Does not block.
///
/// # Safety
/// `subscription` is NULL or a live handle; `sample` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_latest(
    subscription: *const dl_subscription,
    sample: *mut *mut dl_sample,
) -> dl_status {
    // SAFETY: this function's contract.
    unsafe { read(subscription, sample, |raw| Ok(raw.latest()?)) }
}

/// The oldest unread sample. `*sample`: NULL if there is none, else owned by the caller, to be
/// given to `dl_sample_drop`. Does not block.
///
/// # Safety
/// As `dl_subscription_latest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_take(
    subscription: *const dl_subscription,
    sample: *mut *mut dl_sample,
) -> dl_status {
    // SAFETY: this function's contract.
    unsafe { read(subscription, sample, |raw| Ok(raw.take()?)) }
}

/// # Safety
/// As `dl_subscription_latest`.
unsafe fn read(
    subscription: *const dl_subscription,
    sample: *mut *mut dl_sample,
    reading: impl FnOnce(&mut RawSubscription) -> Outcome<Option<driveline::RawSample>>,
) -> dl_status {
    guard(|| {
        place("sample", sample)?;
        // SAFETY: this function's contract.
        unsafe { put("sample", sample, std::ptr::null_mut())? };
        // SAFETY: this function's contract.
        let mut raw = unsafe { borrow("subscription", subscription)? }.raw()?;
        if let Some(read) = reading(&mut raw)? {
            // SAFETY: this function's contract.
            unsafe { put("sample", sample, dl_sample::into_handle(read))? };
        }
        Ok(())
    })
}

/// Waits until a sample is readable and takes the newest, as `dl_subscription_latest`; NULL if the
/// time-out passes first. A sample that has expired does not end the wait. `timeout_ns`, `mode` and
/// `spin_ns` as for `dl_subscription_wait`. Blocks.
///
/// # Safety
/// As `dl_subscription_latest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_receive(
    subscription: *const dl_subscription,
    timeout_ns: i64,
    mode: u32,
    spin_ns: u64,
    sample: *mut *mut dl_sample,
) -> dl_status {
    let receive = |raw: &mut RawSubscription| {
        let (timeout, mode) = wait_arguments(timeout_ns, mode, spin_ns)?;
        raw.receive(timeout, mode).map_err(|e| match e {
            ReceiveError::Wait(e) => Failure::new(DL_ERROR_WAIT, e),
            ReceiveError::Read(ReadError::Take(e)) => e.into(),
            ReceiveError::Read(e) => Failure::new(DL_ERROR_DECODE, e),
        })
    };
    // SAFETY: this function's contract.
    unsafe { read(subscription, sample, receive) }
}

fn wait_arguments(
    timeout_ns: i64,
    mode: u32,
    spin_ns: u64,
) -> Outcome<(Option<Duration>, WaitMode)> {
    let mode = match mode {
        0 => WaitMode::Block,
        1 => WaitMode::Spin,
        2 => WaitMode::SpinThenBlock(Duration::from_nanos(spin_ns)),
        other => {
            return Err(Failure::argument(format_args!("mode {other} is not a dl_wait_mode")));
        }
    };
    Ok((u64::try_from(timeout_ns).ok().map(Duration::from_nanos), mode))
}

/// Waits until a sample is unread (`*ready` = 1) or the time-out has passed (0). `timeout_ns`:
/// negative waits for ever. `mode`: a `dl_wait_mode`. `spin_ns`: for `DL_WAIT_SPIN_THEN_BLOCK`. A
/// sample that has expired ends the wait as well, and the next read returns none;
/// `dl_subscription_receive` continues to wait in this case. Blocks.
///
/// # Safety
/// `subscription` is NULL or a live handle; `ready` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_wait(
    subscription: *const dl_subscription,
    timeout_ns: i64,
    mode: u32,
    spin_ns: u64,
    ready: *mut c_int,
) -> dl_status {
    guard(|| {
        place("ready", ready)?;
        let (timeout, mode) = wait_arguments(timeout_ns, mode, spin_ns)?;
        // SAFETY: this function's contract.
        let mut raw = unsafe { borrow("subscription", subscription)? }.raw()?;
        let come = raw.wait(timeout, mode).map_err(|e| Failure::new(DL_ERROR_WAIT, e))?;
        // SAFETY: this function's contract.
        unsafe { put("ready", ready, c_int::from(come)) }
    })
}

/// A descriptor for `poll`, `epoll` and the like, readable while samples may be unread: read
/// samples until there is none, and do not read from it. Borrowed: closed with the subscription.
/// Costs one thread, which sleeps.
///
/// # Safety
/// `subscription` is NULL or a live handle; `fd` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_fd(
    subscription: *const dl_subscription,
    fd: *mut c_int,
) -> dl_status {
    guard(|| {
        place("fd", fd)?;
        // SAFETY: this function's contract.
        let mut raw = unsafe { borrow("subscription", subscription)? }.raw()?;
        let number = raw.fd().map_err(|e| Failure::new(DL_ERROR_WAIT, e))?.as_raw_fd();
        // SAFETY: this function's contract.
        unsafe { put("fd", fd, number) }
    })
}

/// Number of publishers that are matched now.
///
/// # Safety
/// `subscription` is NULL or a live handle; `count` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_matched(
    subscription: *const dl_subscription,
    count: *mut usize,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let matched = unsafe { borrow("subscription", subscription)? }.raw()?.matched();
        // SAFETY: this function's contract.
        unsafe { put("count", count, matched) }
    })
}

/// Counters of a subscription since its creation. Published after the match = received + missed +
/// superseded + expired + corrupt + refused + lost_on_the_way + not_read + inactive + standby.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_subscription_stats {
    /// `sizeof(dl_subscription_stats)`, set by the caller.
    pub size: usize,
    /// Samples read.
    pub received: u64,
    /// Samples that newer ones replaced before they were read.
    pub missed: u64,
    /// Samples older than the lifespan when a read came to them.
    pub expired: u64,
    /// Part of `missed` or `superseded`: replaced because the history was full, not passed over by
    /// a read of the newest.
    pub overwritten: u64,
    /// Replaced samples of an input that does not trigger its component: only the newest is wanted.
    pub superseded: u64,
    /// Samples whose header, checksum or index made no sense.
    pub corrupt: u64,
    /// Samples that broke what their publisher had promised at the match: without its checksum, or
    /// longer than its `max_payload`.
    pub refused: u64,
    /// Samples of other hosts, or of ROS 2, that did not arrive here or that the gateway here
    /// dropped.
    pub lost_on_the_way: u64,
    /// Samples that are unread now. Expired ones are included until a read comes to them.
    pub not_read: u64,
    /// Number of publishers of other hosts, or of ROS 2, whose samples after the newest one that
    /// arrived are not known, and are not in the sum.
    pub uncounted: u64,
    /// Reason for one of them: 0 there is none; 1 its host is out of reach; 2 its host did not come
    /// back, or came back without it; 3 it ended, and its last number was not announced; 4 the
    /// gateway here gave its place to another publisher; 5 the gateway here has ended; others: a
    /// reason of a later release.
    pub uncounted_reason: u64,
    /// Periods of the requested deadline that ended without a sample, from the first sample on. Not
    /// part of the sum.
    pub deadlines_missed: u64,
    /// Samples that arrived while the component was inactive, or were unread when it became so.
    pub inactive: u64,
    /// Samples of publishers that stood by for a stronger one.
    pub standby: u64,
}

// SAFETY: `repr(C)`, `size` is first, integers may be zero.
unsafe impl SizedStruct for dl_subscription_stats {
    const NAME: &'static str = "dl_subscription_stats";
    const FIRST: usize = 40;
}

/// Reads the counters.
///
/// # Safety
/// `subscription` is NULL or a live handle; `stats` is NULL or points to a `dl_subscription_stats`
/// whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_get_stats(
    subscription: *const dl_subscription,
    stats: *mut dl_subscription_stats,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let s = unsafe { borrow("subscription", subscription)? }.raw()?.stats();
        let value = dl_subscription_stats {
            size: 0,
            received: s.received,
            missed: s.missed,
            expired: s.expired,
            overwritten: s.overwritten,
            superseded: s.superseded,
            corrupt: s.corrupt,
            refused: s.refused,
            lost_on_the_way: s.lost_on_the_way,
            not_read: s.not_read,
            uncounted: s.uncounted,
            uncounted_reason: s.uncounted_reason.map_or(0, |reason| u64::from(reason.code())),
            deadlines_missed: s.deadlines_missed,
            inactive: s.inactive,
            standby: s.standby,
        };
        // SAFETY: this function's contract.
        unsafe { write_result("stats", stats, value) }
    })
}

/// Takes the next event; its kind is `DL_EVENT_NONE` if there is none.
///
/// # Safety
/// `subscription` is NULL or a live handle; `event` is NULL or points to a `dl_event` whose `size`,
/// `text` and `text_capacity` are set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_subscription_poll_event(
    subscription: *const dl_subscription,
    event: *mut dl_event,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let mut raw = unsafe { borrow("subscription", subscription)? }.raw()?;
        // SAFETY: this function's contract.
        unsafe { crate::event::poll(event, || raw.poll_event()) }
    })
}

/// The id of a topic, as in `dl_origin`.
///
/// # Safety
/// `topic` is NULL or NUL-terminated; `id` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_topic_id(topic: *const c_char, id: *mut u64) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let name: TopicName =
            unsafe { text("topic", topic)? }.parse().map_err(|e| Failure::new(DL_ERROR_NAME, e))?;
        // SAFETY: this function's contract.
        unsafe { put("id", id, name.id().0) }
    })
}
