// SPDX-License-Identifier: Apache-2.0
//! Limits of the transport. Limits that only one file uses are in that file.
//! `docs/protocols/shm.md` lists the sizes.

pub use driveline_types::limits::{
    DEFAULT_LOANS, DEFAULT_MAX_HELD, DEFAULT_PINS, MAX_HELD, MAX_LOANS, MAX_PAYLOAD, MAX_PINS,
};

/// Maximum number of slots of a publisher: a slot number has 16 bits.
pub const MAX_SLOTS: usize = 65_535;
/// Maximum sequence number: it has 48 bits.
pub const MAX_SEQUENCE: u64 = (1 << 48) - 1;
/// Pins that every publisher reserves for observers, in addition to the declared ones. So tools can
/// observe a topic even if its subscriptions use all declared pins.
pub const OBSERVER_PINS: u32 = 2;
/// Number of attempts to borrow while the publisher overtakes the reader.
pub const BORROW_TRIES: u32 = if cfg!(loom) { 2 } else { 8 };
/// Shortest loan, in bytes, for which samples that no subscription can read any more are withdrawn
/// before a slot is chosen. Shorter ones gain nothing: all slots of the publisher fit into the
/// caches together. Builds with fault points withdraw earlier, so that tests of deaths and hostile
/// peers can use short samples.
pub const WITHDRAW_FROM: usize =
    if cfg!(feature = "fault-points") { 64 * 1024 } else { 2 * 1024 * 1024 };
/// Maximum number of trust groups (users) of one publisher at a time.
pub const MAX_GROUPS: usize = 16;
/// Maximum number of connections of one user to one publisher that are not matched yet.
pub const MAX_PENDING_PER_USER: usize = 64;
/// Maximum number of connections to one publisher that are not matched yet.
pub const MAX_PENDING: usize = 256;
/// Maximum number of publishers that one subscription matches.
pub const MAX_MATCHES: usize = 256;
/// Part of `MAX_MATCHES`: publishers of one user other than the subscription's own and root.
pub const MAX_MATCHES_PER_USER: usize = 64;
/// Part of `MAX_MATCHES`: publishers of all such users.
pub const MAX_FOREIGN_MATCHES: usize = 192;
/// Maximum number of publishers that one subscription has dialled and that have not answered. At
/// this limit, the publisher that has been silent longest is disconnected in favour of another, if
/// it has not answered for 2 s. Otherwise the other one is dialled later.
pub const MAX_ASKED: usize = 256;
/// Part of `MAX_ASKED`: publishers of one user other than the subscription's own and root.
pub const MAX_ASKED_PER_USER: usize = 16;
/// Part of `MAX_ASKED`: publishers of all such users.
pub const MAX_FOREIGN_ASKED: usize = 64;
/// Maximum number of ended publishers with unread samples, per subscription.
pub const MAX_ENDED: usize = 16;
/// Maximum number of bytes of such samples, per subscription. Samples of the publisher that ended
/// last are always kept.
pub const MAX_LEFT_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of departed publishers of other hosts that one subscription remembers.
pub const MAX_KNOWN_AFAR: usize = 1024;
/// Maximum number of samples that one take skips, for example expired or damaged ones, before it
/// returns.
pub const MAX_SKIPS: usize = 2048;
/// Part of `MAX_SKIPS`: samples whose payload had to be read to find it damaged.
pub const MAX_FAILED_CHECKSUMS: usize = 4;
/// Time in milliseconds for a subscription to send HELLO, for a publisher to answer before its
/// silence is reported, and for a tool's whole query.
pub const HANDSHAKE_MS: u64 = 2_000;
/// Maximum length of a message on a socket, in bytes.
pub const MAX_MESSAGE_LEN: usize = 160 * 1024;
/// Maximum length of the free-form description of a participant, in bytes.
pub const MAX_DESCRIPTION_LEN: usize = 64 * 1024;
/// Maximum length of one participant's answer to a request for a listing, in bytes.
pub const MAX_LISTING_LEN: usize = 8 * 1024 * 1024;
/// Maximum number of participants of other users that one listing queries.
pub const MAX_FOREIGN_LISTED: usize = 256;
/// Maximum number of events that wait for `poll_event`; the oldest are dropped and counted.
pub const MAX_EVENTS: usize = 256;
/// Maximum number of directory entries read in one scan.
pub const MAX_DIRECTORY_ENTRIES: usize = 65_536;
/// Maximum number of simultaneous connections of one user that request listings.
pub const MAX_INFO_CONNECTIONS_PER_USER: usize = 4;
/// The same for all users together, without the participant's own user.
pub const MAX_INFO_CONNECTIONS: usize = 16;
/// Maximum number of threads of a participant that receive and close descriptors of other users.
/// Each user has one thread; beyond this number, several users share one.
pub const MAX_BLOCKING_THREADS: usize = 32;
/// Maximum number of descriptors that wait to be closed or read on these threads. Beyond it, no
/// connection is accepted.
pub const MAX_BLOCKING_TASKS: usize = 256;

#[cfg(not(loom))]
pub(crate) const FORKED: &str = "this handle was inherited through fork(), where it has no memory \
     and no peers: create the participant after the fork";
