// SPDX-License-Identifier: Apache-2.0
//! Open descriptors of this process: the limit, the number of free ones, and the number kept for
//! existing endpoints.
//!
//! An endpoint that cannot be matched is useless. So a new endpoint is refused if the free
//! descriptors would not suffice for the first match of each existing endpoint. Further matches do
//! not use the descriptors kept for first matches.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once};

/// Descriptors kept for temporary use: scans of the directory, pages being passed on, tools, cgroup
/// files.
const SPARE: usize = 16;
/// Descriptors of a participant with its first endpoint: commands, epoll, hints, tools, and one in
/// reserve.
pub(crate) const OF_PARTICIPANT: usize = 5;
/// Descriptors of a publisher: segment and listener.
pub(crate) const OF_PUBLISHER: usize = 2;
/// Descriptors of a publisher's first match: connection and wake word.
pub(crate) const FIRST_OF_PUBLISHER: usize = 2;
/// Descriptor of a subscription's first match: the connection.
pub(crate) const FIRST_OF_SUBSCRIPTION: usize = 1;
/// Descriptors to accept one more connection, in addition to its own: temporarily the page, and a
/// wake word.
const ACCEPTING: usize = 2;
/// Descriptors to dial one more publisher: connection, page, and temporarily segment and wake word.
const DIALLING: usize = 4;

/// Number of descriptors kept for first matches, plus descriptors about to be opened ([`Opening`]),
/// over all participants of this process.
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// Held from the check of the free descriptors until the wanted ones are counted.
static DECISION: Mutex<()> = Mutex::new(());

/// Raises the soft limit on open descriptors to the hard limit, once per process. A failure leaves
/// it as it is.
pub(crate) fn raise_limit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let limit = getrlimit(Resource::Nofile);
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    });
}

/// Descriptors that this process lacks, in numbers and with the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorShortage {
    /// Open descriptors.
    pub open: u64,
    /// Soft limit, which was raised to the hard limit when the process joined its first domain.
    pub limit: u64,
    /// Hard limit.
    pub hard_limit: u64,
    /// Free descriptors that are kept: for the first matches of existing endpoints, and 16 for
    /// temporary use.
    pub kept: u64,
}

impl std::fmt::Display for DescriptorShortage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { open, limit, hard_limit, kept } = self;
        write!(
            f,
            "too few descriptors: {open} of {limit} are open and {kept} are kept for the first \
             matches of existing endpoints; raise the limit (`ulimit -n`, or LimitNOFILE= of a \
             systemd unit; the hard limit is {hard_limit})"
        )
    }
}

impl DescriptorShortage {
    /// Text for the other end, without the numbers that change between attempts.
    pub(crate) fn in_short(&self) -> String {
        format!(
            "too few descriptors: its limit is {}; raise it (`ulimit -n`, or LimitNOFILE= of a \
             systemd unit)",
            self.limit
        )
    }
}

/// Returns the present numbers, after a call has failed.
pub(crate) fn shortage() -> DescriptorShortage {
    present()
}

fn present() -> DescriptorShortage {
    let limit = getrlimit(Resource::Nofile);
    let number = |l: Option<u64>| l.unwrap_or(u64::MAX);
    let kept = (SPARE + KEPT.load(Relaxed)) as u64;
    DescriptorShortage {
        open: open_descriptors(),
        limit: number(limit.current),
        hard_limit: number(limit.maximum),
        kept,
    }
}

/// Returns the number of open descriptors; `u64::MAX` if no descriptor is free to read it. 0 if it
/// cannot be read for another reason, so that nothing is refused.
fn open_descriptors() -> u64 {
    const PATH: &str = "/proc/self/fd";
    // Linux 6.2 gives the number as the size of the directory; before, the size is 0.
    if let Ok(size @ 1..) = rustix::fs::stat(PATH).map(|s| u64::try_from(s.st_size).unwrap_or(0)) {
        return size;
    }
    match std::fs::read_dir(PATH) {
        // One of them is this directory's.
        Ok(entries) => (entries.count() as u64).saturating_sub(1),
        Err(e) if is_shortage(&e) => u64::MAX,
        Err(_) => 0,
    }
}

/// Returns true if a call failed because this process or the machine has too few descriptors.
pub(crate) fn is_shortage(e: &io::Error) -> bool {
    matches!(Errno::from_io_error(e), Some(Errno::MFILE | Errno::NFILE | Errno::TOOMANYREFS))
}

/// The kernel's reason, with numbers and the remedy where descriptors are short.
pub(crate) fn explain(e: io::Error) -> io::Error {
    match Errno::from_io_error(&e) {
        Some(Errno::MFILE | Errno::TOOMANYREFS) => {
            io::Error::new(e.kind(), format!("{e}: {}", present()))
        }
        Some(Errno::NFILE) => io::Error::new(
            e.kind(),
            format!("{e}: the machine has too few descriptors; raise the sysctl fs.file-max"),
        ),
        _ => e,
    }
}

/// Descriptors counted as wanted until they are open. Dropping it ends the count.
#[derive(Debug)]
pub(crate) struct Opening(usize);

impl Drop for Opening {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.0, Relaxed);
    }
}

/// Descriptors kept free for the first match of an endpoint, while it has none.
#[derive(Debug)]
pub(crate) struct ForFirstMatch {
    count: usize,
    kept: AtomicBool,
}

impl ForFirstMatch {
    fn new(count: usize) -> Self {
        KEPT.fetch_add(count, Relaxed);
        Self { count, kept: AtomicBool::new(true) }
    }

    /// Keeps the descriptors if the endpoint is unmatched, else releases them. One thread at a
    /// time.
    pub(crate) fn keep_if(&self, unmatched: bool) {
        match (self.kept.swap(unmatched, Relaxed), unmatched) {
            (false, true) => {
                KEPT.fetch_add(self.count, Relaxed);
            }
            (true, false) => {
                KEPT.fetch_sub(self.count, Relaxed);
            }
            _ => {}
        }
    }
}

impl Drop for ForFirstMatch {
    fn drop(&mut self) {
        self.keep_if(false);
    }
}

/// Admits a new endpoint that opens `opens` descriptors and whose first match takes `first`, if
/// enough are free for it and for all that exist.
pub(crate) fn admit(
    opens: usize,
    first: usize,
) -> Result<(Opening, ForFirstMatch), DescriptorShortage> {
    let _decision = crate::queue::lock(&DECISION);
    let now = present();
    if now.limit.saturating_sub(now.open) < now.kept + (opens + first) as u64 {
        return Err(now);
    }
    KEPT.fetch_add(opens, Relaxed);
    Ok((Opening(opens), ForFirstMatch::new(first)))
}

/// Checks that a matched publisher may keep one more connection, which is already open.
pub(crate) fn may_accept() -> Result<(), DescriptorShortage> {
    further(ACCEPTING)
}

/// Checks that a matched subscription may dial one more publisher.
pub(crate) fn may_dial() -> Result<(), DescriptorShortage> {
    further(DIALLING)
}

fn further(needed: usize) -> Result<(), DescriptorShortage> {
    let now = present();
    // The spare descriptors may be used for this; the ones for first matches may not.
    if now.limit.saturating_sub(now.open) < now.kept - SPARE as u64 + needed as u64 {
        Err(now)
    } else {
        Ok(())
    }
}

/// Checks that enough descriptors are free for a first dial.
pub(crate) fn can_dial() -> Result<(), DescriptorShortage> {
    let now = present();
    if now.limit.saturating_sub(now.open) < DIALLING as u64 { Err(now) } else { Ok(()) }
}
