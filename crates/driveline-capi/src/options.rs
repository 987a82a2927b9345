// SPDX-License-Identifier: Apache-2.0
//! QoS and the options of endpoints as C structs.

use crate::sized::{SizedStruct, read_argument};
use crate::status::*;
use driveline::{
    Access, ClientOptions, PublisherOptions, Reach, ServiceOptions, SubscriptionOptions,
};
use driveline_types::{Durability, Liveliness, Qos, Reliability};

/// Reach of a topic.
#[repr(C)]
pub enum dl_reach {
    /// Only this process; samples move as pointers. The default.
    DL_REACH_PROCESS = 0,
    /// Every process of this host that shares the domain directory and has rights on the topic.
    DL_REACH_HOST = 1,
    /// As host, and other hosts too, if a gateway of the domain carries the topic.
    DL_REACH_NETWORK = 2,
}

/// Behaviour of a publisher towards slow subscriptions.
#[repr(C)]
pub enum dl_reliability {
    /// Newer samples replace older ones; samples that a slow subscription does not read in time
    /// count as missed. The default.
    DL_BEST_EFFORT = 0,
    /// The publisher waits, at most `max_blocking_ms`.
    DL_RELIABLE = 1,
}

/// Delivery of earlier samples to late subscriptions.
#[repr(C)]
pub enum dl_durability {
    /// Only what is published after the match. The default.
    DL_VOLATILE = 0,
    /// Also the last `depth` samples before the match.
    DL_TRANSIENT_LOCAL = 1,
}

/// Way in which a publisher shows that it is alive.
#[repr(C)]
pub enum dl_liveliness {
    /// By its process being alive. The default.
    DL_LIVELINESS_AUTOMATIC = 0,
    /// By publishing, or by asserting its liveliness, at least once per lease.
    DL_LIVELINESS_MANUAL_BY_TOPIC = 1,
}

/// Users at the other end that are accepted at host reach.
#[repr(C)]
pub enum dl_access {
    /// The user of this process. The default.
    DL_ACCESS_OWN_USER = 0,
    /// Every process that can reach the domain directory.
    DL_ACCESS_ANYONE = 1,
    /// The user of this process and the listed users.
    DL_ACCESS_USERS = 2,
}

/// Quality of service, with DDS's names and rules. All zero is the default: keep last 1, best
/// effort, volatile.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct dl_qos {
    /// Keep the last `depth` samples; 0 means 1.
    pub depth: u32,
    /// A `dl_reliability`.
    pub reliability: u32,
    /// Longest wait of a reliable publish, in milliseconds; 0 means 100.
    pub max_blocking_ms: u32,
    /// A `dl_durability`.
    pub durability: u32,
    /// Longest interval between samples, in milliseconds; 0: none.
    pub deadline_ms: u32,
    /// Greatest age of a sample that is delivered, in milliseconds; 0: no limit.
    pub lifespan_ms: u32,
    /// A `dl_liveliness`.
    pub liveliness: u32,
    /// Time without a sign of life from which a publisher counts as not alive, in milliseconds; 0:
    /// none.
    pub lease_ms: u32,
    /// 1: a publisher puts an XXH3-64 of the payload into each header; a subscription matches only
    /// such publishers, and verifies it.
    pub checksum: u32,
    /// Zero. Space for fields of later releases: this struct is part of others and cannot become
    /// longer.
    pub reserved: [u32; 7],
}

/// Options of a publisher. All zero but `size` is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_publisher_options {
    /// `sizeof(dl_publisher_options)`.
    pub size: usize,
    /// A `dl_reach`.
    pub reach: u32,
    /// Maximum number of loans at once; 0 means 2.
    pub loans: u32,
    /// Longest payload in bytes; 0 means 65536. This much is reserved for every slot when the
    /// publisher is created.
    pub max_payload: u64,
    /// Maximum number of samples that all subscriptions together may hold at host reach; 0 means 8.
    pub pins: u32,
    /// A `dl_access`.
    pub access: u32,
    /// Borrowed: user ids for `DL_ACCESS_USERS`.
    pub users: *const u32,
    /// Number of `users`.
    pub user_count: usize,
    /// Quality of service.
    pub qos: dl_qos,
}

/// Options of a subscription. All zero but `size` is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_subscription_options {
    /// `sizeof(dl_subscription_options)`.
    pub size: usize,
    /// A `dl_reach`.
    pub reach: u32,
    /// Maximum number of samples that the reader may hold at once; 0 means 2.
    pub max_held: u32,
    /// A `dl_access`: users whose publishers are accepted at host reach.
    pub access: u32,
    /// Zero.
    pub reserved: u32,
    /// Borrowed: user ids for `DL_ACCESS_USERS`.
    pub users: *const u32,
    /// Number of `users`.
    pub user_count: usize,
    /// Quality of service. `depth` limits the unread samples that wait: of all publishers that pass
    /// pointers together, and of each publisher in shared memory.
    pub qos: dl_qos,
}

/// Options of a client. All zero but `size` is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_client_options {
    /// `sizeof(dl_client_options)`.
    pub size: usize,
    /// A `dl_reach`, as the server has it; not `DL_REACH_NETWORK`.
    pub reach: u32,
    /// Maximum number of calls in flight, and of responses held; 0 means 1, at most 64. At host
    /// reach the server reserves memory for `max(pending, 2) + 2 * pending + 4` responses of its
    /// `max_response`: eight for 1. If it grants access to users, `3 * pending` instead of `2 *
    /// pending`; to anyone, `5 * pending`.
    pub pending: u32,
    /// Longest request in bytes; 0 means 4096.
    pub max_request: u64,
    /// A `dl_access`: users whose servers are accepted, and that may read requests, at host reach.
    pub access: u32,
    /// Zero.
    pub reserved: u32,
    /// Borrowed: user ids for `DL_ACCESS_USERS`.
    pub users: *const u32,
    /// Number of `users`.
    pub user_count: usize,
}

/// Options of a service. All zero but `size` is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_service_options {
    /// `sizeof(dl_service_options)`.
    pub size: usize,
    /// A `dl_reach`; not `DL_REACH_NETWORK`.
    pub reach: u32,
    /// Maximum number of clients served at a time; 0 means 8, at most 256.
    pub max_clients: u32,
    /// Longest response in bytes; 0 means 65536. Reserved several times when a client's first
    /// request is taken.
    pub max_response: u64,
    /// Maximum number of calls in flight of one client; 0 means 8, at most 64.
    pub max_pending: u32,
    /// Maximum number of requests that may be held, of each client at host reach, of all clients
    /// together inside the process; 0 means 2, at most 8.
    pub max_held: u32,
    /// A `dl_access`: users that may call at host reach.
    pub access: u32,
    /// Zero.
    pub reserved: u32,
    /// Borrowed: user ids for `DL_ACCESS_USERS`.
    pub users: *const u32,
    /// Number of `users`.
    pub user_count: usize,
}

// SAFETY: `repr(C)`, `size` is first, integers and a raw pointer may be zero.
unsafe impl SizedStruct for dl_client_options {
    const NAME: &'static str = "dl_client_options";
    const FIRST: usize = 48;
}
// SAFETY: `repr(C)`, `size` is first, integers and a raw pointer may be zero.
unsafe impl SizedStruct for dl_service_options {
    const NAME: &'static str = "dl_service_options";
    const FIRST: usize = 56;
}
// SAFETY: `repr(C)`, `size` is first, integers and a raw pointer may be zero.
unsafe impl SizedStruct for dl_publisher_options {
    const NAME: &'static str = "dl_publisher_options";
    const FIRST: usize = 112;
}
// SAFETY: `repr(C)`, `size` is first, integers and a raw pointer may be zero.
unsafe impl SizedStruct for dl_subscription_options {
    const NAME: &'static str = "dl_subscription_options";
    const FIRST: usize = 104;
}

fn choice<T>(field: &str, value: u32, choices: &[T]) -> Outcome<T>
where
    T: Clone,
{
    let max = choices.len().saturating_sub(1);
    choices.get(value as usize).cloned().ok_or_else(|| {
        Failure::argument(format_args!(
            "option '{field}' = {value} is not possible; 0 to {max} are"
        ))
    })
}

fn or_default(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

fn length(field: &str, value: u64, default: usize) -> Outcome<usize> {
    match value {
        0 => Ok(default),
        n => usize::try_from(n).map_err(|_| {
            Failure::argument(format_args!("{field} is more than this machine can address"))
        }),
    }
}

fn some(value: u32) -> Option<u32> {
    (value != 0).then_some(value)
}

impl dl_qos {
    fn to_qos(self) -> Outcome<Qos> {
        known_only("qos.reserved", self.reserved.iter().all(|&r| r == 0))?;
        let d = Qos::default();
        Ok(Qos {
            depth: or_default(self.depth, d.depth),
            reliability: choice(
                "qos.reliability",
                self.reliability,
                &[Reliability::BestEffort, Reliability::Reliable],
            )?,
            max_blocking_ms: or_default(self.max_blocking_ms, d.max_blocking_ms),
            durability: choice(
                "qos.durability",
                self.durability,
                &[Durability::Volatile, Durability::TransientLocal],
            )?,
            deadline_ms: some(self.deadline_ms),
            lifespan_ms: some(self.lifespan_ms),
            liveliness: choice(
                "qos.liveliness",
                self.liveliness,
                &[Liveliness::Automatic, Liveliness::ManualByTopic],
            )?,
            lease_ms: some(self.lease_ms),
            checksum: choice("qos.checksum", self.checksum, &[false, true])?,
            strength: None,
        })
    }
}

fn known_only(field: &str, zero: bool) -> Outcome {
    if zero {
        Ok(())
    } else {
        Err(Failure::argument(format_args!(
            "option '{field}' is not zero: update the library, or leave it zero"
        )))
    }
}

const REACHES: [Reach; 3] = [Reach::Process, Reach::Host, Reach::Network];
/// Maximum number of users in one access list.
const MAX_USERS: usize = 1024;

/// # Safety
/// `users` is NULL or points to `user_count` numbers.
unsafe fn access(access: u32, users: *const u32, user_count: usize) -> Outcome<Access> {
    Ok(match choice("access", access, &[0, 1, 2])? {
        0 => Access::OwnUser,
        1 => Access::Anyone,
        _ if users.is_null() || user_count > MAX_USERS => {
            return Err(Failure::argument(format_args!(
                "access = DL_ACCESS_USERS needs 'users', at most {MAX_USERS}"
            )));
        }
        // SAFETY: not NULL, and by contract `user_count` numbers.
        _ => Access::Users(unsafe { std::slice::from_raw_parts(users, user_count) }.to_vec()),
    })
}

/// # Safety
/// `given` is NULL or points to `given->size` readable bytes, and its `users` to `user_count`
/// numbers.
pub(crate) unsafe fn publisher_options(
    given: *const dl_publisher_options,
) -> Outcome<PublisherOptions> {
    let default = PublisherOptions::default();
    if given.is_null() {
        return Ok(default);
    }
    // SAFETY: this function's contract.
    let o = unsafe { read_argument("options", given)? };
    // SAFETY: this function's contract.
    let access = unsafe { access(o.access, o.users, o.user_count)? };
    Ok(PublisherOptions {
        reach: choice("reach", o.reach, &REACHES)?,
        qos: o.qos.to_qos()?,
        max_payload: length("max_payload", o.max_payload, default.max_payload)?,
        loans: or_default(o.loans, default.loans),
        pins: or_default(o.pins, default.pins),
        access,
    })
}

/// # Safety
/// `given` is NULL or points to `given->size` readable bytes, and its `users` to `user_count`
/// numbers.
pub(crate) unsafe fn subscription_options(
    given: *const dl_subscription_options,
) -> Outcome<SubscriptionOptions> {
    let default = SubscriptionOptions::default();
    if given.is_null() {
        return Ok(default);
    }
    // SAFETY: this function's contract.
    let o = unsafe { read_argument("options", given)? };
    known_only("reserved", o.reserved == 0)?;
    Ok(SubscriptionOptions {
        reach: choice("reach", o.reach, &REACHES)?,
        qos: o.qos.to_qos()?,
        max_held: or_default(o.max_held, default.max_held),
        // SAFETY: this function's contract.
        access: unsafe { access(o.access, o.users, o.user_count)? },
    })
}

/// # Safety
/// `given` is NULL or points to `given->size` readable bytes, and its `users` to `user_count`
/// numbers.
pub(crate) unsafe fn client_options(given: *const dl_client_options) -> Outcome<ClientOptions> {
    let default = ClientOptions::default();
    if given.is_null() {
        return Ok(default);
    }
    // SAFETY: this function's contract.
    let o = unsafe { read_argument("options", given)? };
    known_only("reserved", o.reserved == 0)?;
    Ok(ClientOptions {
        reach: choice("reach", o.reach, &REACHES)?,
        max_request: length("max_request", o.max_request, default.max_request)?,
        pending: or_default(o.pending, default.pending),
        // SAFETY: this function's contract.
        access: unsafe { access(o.access, o.users, o.user_count)? },
    })
}

/// # Safety
/// `given` is NULL or points to `given->size` readable bytes, and its `users` to `user_count`
/// numbers.
pub(crate) unsafe fn service_options(given: *const dl_service_options) -> Outcome<ServiceOptions> {
    let default = ServiceOptions::default();
    if given.is_null() {
        return Ok(default);
    }
    // SAFETY: this function's contract.
    let o = unsafe { read_argument("options", given)? };
    known_only("reserved", o.reserved == 0)?;
    Ok(ServiceOptions {
        reach: choice("reach", o.reach, &REACHES)?,
        max_response: length("max_response", o.max_response, default.max_response)?,
        max_clients: or_default(o.max_clients, default.max_clients),
        max_pending: or_default(o.max_pending, default.max_pending),
        max_held: or_default(o.max_held, default.max_held),
        // SAFETY: this function's contract.
        access: unsafe { access(o.access, o.users, o.user_count)? },
    })
}
