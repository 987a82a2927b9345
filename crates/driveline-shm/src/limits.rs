// SPDX-License-Identifier: Apache-2.0
//! The bounds of everything, in one place. `docs/protocols/shm.md` repeats them for readers.

pub use driveline_types::limits::{
    DEFAULT_LOANS, DEFAULT_MAX_HELD, DEFAULT_PINS, MAX_HELD, MAX_LOANS, MAX_PAYLOAD, MAX_PINS,
};

/// Greatest number of slots of a publisher: a slot number has 16 bits.
pub const MAX_SLOTS: usize = 65_535;
/// Greatest sequence number: it has 48 bits.
pub const MAX_SEQUENCE: u64 = (1 << 48) - 1;
/// Pins that every publisher reserves for observers, in addition to the declared ones: tools can
/// observe a topic with any number of subscriptions.
pub const OBSERVER_PINS: u32 = 2;
/// Number of attempts to borrow while the publisher overtakes the reader.
pub const BORROW_TRIES: u32 = if cfg!(loom) { 2 } else { 8 };
/// Shortest loan, in bytes, for which samples that no subscription can read any more are withdrawn
/// before a slot is chosen. Shorter ones gain nothing: all slots of the publisher fit into the
/// caches together. Builds with fault points withdraw earlier, so that tests of deaths and hostile
/// peers can use short samples.
pub const WITHDRAW_FROM: usize =
    if cfg!(feature = "fault-points") { 64 * 1024 } else { 2 * 1024 * 1024 };
/// Trust groups (users) of one publisher at a time.
pub const MAX_GROUPS: usize = 16;
/// Connections of one user to one publisher that have not been matched yet.
pub const MAX_PENDING_PER_USER: usize = 64;
/// Connections to one publisher that have not been matched yet.
pub const MAX_PENDING: usize = 256;
/// Publishers that one subscription matches.
pub const MAX_MATCHES: usize = 256;
/// Of these, publishers of one user other than the subscription's own and root.
pub const MAX_MATCHES_PER_USER: usize = 64;
/// Of these, publishers of all such users.
pub const MAX_FOREIGN_MATCHES: usize = 192;
/// Publishers that one subscription has asked and that have not answered; above, the longest silent
/// is hung up on.
pub const MAX_ASKED: usize = 256;
/// Of these, publishers of one user other than the subscription's own and root.
pub const MAX_ASKED_PER_USER: usize = 16;
/// Of these, publishers of all such users.
pub const MAX_FOREIGN_ASKED: usize = 64;
/// Publishers that have gone but still have unread samples, per subscription.
pub const MAX_ENDED: usize = 16;
/// Bytes of such samples, per subscription; those of the publisher that has gone last are kept in
/// any case.
pub const MAX_LEFT_BYTES: usize = 64 * 1024 * 1024;
/// Publishers of other hosts that are gone and of which it is kept how far they were read, per
/// subscription.
pub const MAX_KNOWN_AFAR: usize = 1024;
/// Samples that one take passes over (expired, damaged or vanished) before it returns to its
/// caller.
pub const MAX_SKIPS: usize = 2048;
/// Of these, samples whose payload had to be read to find it damaged.
pub const MAX_FAILED_CHECKSUMS: usize = 4;
/// Time that a peer has to say what it wants, in milliseconds.
pub const HANDSHAKE_MS: u64 = 2_000;
/// Longest message on a socket, in bytes.
pub const MAX_MESSAGE_LEN: usize = 160 * 1024;
/// Longest free-form description of a participant, in bytes.
pub const MAX_DESCRIPTION_LEN: usize = 64 * 1024;
/// Longest answer to a listing that is accepted from one participant, in bytes.
pub const MAX_LISTING_LEN: usize = 8 * 1024 * 1024;
/// Participants of other users that one listing asks.
pub const MAX_FOREIGN_LISTED: usize = 256;
/// Events that wait for `poll_event`; the oldest give way and are counted.
pub const MAX_EVENTS: usize = 256;
/// Directory entries looked at in one scan.
pub const MAX_DIRECTORY_ENTRIES: usize = 65_536;
/// Connections for listings that are served at once for one user.
pub const MAX_INFO_CONNECTIONS_PER_USER: usize = 4;
/// Connections for listings that are served at once for all users but the participant's own.
pub const MAX_INFO_CONNECTIONS: usize = 16;
/// Threads of a participant that close what other users have sent; more users share them.
pub const MAX_BLOCKING_THREADS: usize = 32;
/// Descriptors that wait to be closed or read on these threads; above, no connection is accepted.
pub const MAX_BLOCKING_TASKS: usize = 256;

#[cfg(not(loom))]
pub(crate) const FORKED: &str = "this handle was inherited through fork(), where it has no memory \
     and no peers: create the participant after the fork";
