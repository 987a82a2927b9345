// SPDX-License-Identifier: Apache-2.0
//! How long something took, and for how much of that somebody who was to do it stood ready and had
//! no processor. So a machine that has other work to do as well, which makes everything take
//! longer, does not decide what is said of gateways.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No more is put down to the machine, however little of it there was: what is late by more has
/// another reason, or says nothing.
pub(crate) const MOST: Duration = Duration::from_millis(1_500);
/// Who has waited for no longer has had a processor when one was needed.
const QUIET: Duration = Duration::from_millis(100);
/// How often it is looked who waits. What is on its way from one host to the other passes some
/// threads of each process in that time, and not all.
const LOOK: Duration = Duration::from_millis(50);
/// Of `/proc/stat`, which is in hundredths of a second everywhere.
const TICK: Duration = Duration::from_millis(10);

/// Runs. It looks at this process and those that it has started.
///
/// Threads that wait side by side delay nobody twice, so what they have waited is not added up.
/// Whatever is on its way is with one thread at a time. So of each process counts, of each
/// twentieth of a second, the thread that has waited for longest; processes are added up, as it
/// passes from one to the next; and all of it is no more than the time that has gone by. That is
/// less than what the machine may have cost where several threads of one process had their turn and
/// waited within that twentieth, and never more than what somebody has waited.
pub(crate) struct Stopwatch {
    began: Instant,
    looks: Arc<Mutex<Looks>>,
}

/// What was seen until the last look.
struct Looks {
    /// What each thread of each process has waited for a processor since it began, in nanoseconds.
    waited: HashMap<(u32, u32), u64>,
    /// What the hypervisor has taken of each processor.
    stolen: Vec<Duration>,
    /// For how long somebody has waited since the first look.
    sum: Duration,
}

/// What a stopwatch has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    /// For how long of that threads that were needed may have been ready to run and did not; what
    /// the hypervisor has taken is among it.
    pub(crate) waited: Duration,
}

/// For how long nothing came, at most.
pub(crate) struct Gaps {
    last: Instant,
    longest: Duration,
}

impl Gaps {
    pub(crate) fn begin() -> Self {
        Self { last: Instant::now(), longest: Duration::ZERO }
    }

    /// Something has come.
    pub(crate) fn heard(&mut self) {
        self.longest = self.longest();
        self.last = Instant::now();
    }

    /// Until now: one that has not ended counts.
    pub(crate) fn longest(&self) -> Duration {
        self.longest.max(self.last.elapsed())
    }
}

impl Looks {
    fn look(&mut self) {
        let (waited, stolen) = (all_waited(), stolen());
        let mut longest: HashMap<u32, u64> = HashMap::new();
        for ((process, thread), ns) in &waited {
            let since =
                ns.saturating_sub(self.waited.get(&(*process, *thread)).copied().unwrap_or(0));
            let longest = longest.entry(*process).or_default();
            *longest = since.max(*longest);
        }
        let taken =
            stolen.iter().zip(&self.stolen).map(|(now, before)| now.saturating_sub(*before)).max();
        self.sum += Duration::from_nanos(longest.values().sum()) + taken.unwrap_or_default();
        (self.waited, self.stolen) = (waited, stolen);
    }
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let looks = Arc::new(Mutex::new(Looks {
            waited: all_waited(),
            stolen: stolen(),
            sum: Duration::ZERO,
        }));
        let of_thread = Arc::downgrade(&looks);
        // Until nobody has the watch any more.
        std::thread::spawn(move || {
            loop {
                // time: how often a measurement looks; it decides no gating test
                std::thread::sleep(LOOK);
                let Some(looks) = of_thread.upgrade() else { return };
                looks.lock().unwrap_or_else(PoisonError::into_inner).look();
            }
        });
        Self { began: Instant::now(), looks }
    }

    pub(crate) fn read(&self) -> Took {
        let time = self.began.elapsed();
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.look();
        Took { time, waited: looks.sum.min(time) }
    }
}

impl Took {
    /// What came after that, by the same watch.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let time = self.time - earlier.time;
        Self { time, waited: self.waited.saturating_sub(earlier.waited).min(time) }
    }

    /// Whether it would have been in time, had all had a processor when they needed one. Where
    /// there are enough of them, that is the time alone.
    pub(crate) fn is_within(self, promised: Duration) -> bool {
        self.is_within_but_for(promised, MOST)
    }

    /// The same where no more than `most` may be put down to the machine.
    pub(crate) fn is_within_but_for(self, promised: Duration, most: Duration) -> bool {
        self.time <= promised + self.waited.min(most)
    }
}

/// Returns true if durations are judged: in `make measure`, which sets `DRIVELINE_MEASURE`. A
/// gating test only waits for what is promised, and prints how long it took.
pub(crate) fn measures() -> bool {
    std::env::var_os("DRIVELINE_MEASURE").is_some()
}

/// What is promised within a time is, where durations are judged. If it was not, and the machine
/// had other work, it is measured once more: late twice is late. Tells what it took, past the test
/// harness, which keeps to itself what passing tests print.
#[track_caller]
pub(crate) fn within(promised: Duration, what: &str, measure: impl FnMut() -> Took) {
    within_if(measures(), promised, what, measure);
}

/// As [`within`], whoever runs the test.
#[track_caller]
pub(crate) fn within_if(
    judges: bool,
    promised: Duration,
    what: &str,
    mut measure: impl FnMut() -> Took,
) {
    let first = measure();
    tell(what, first, promised);
    if !judges || first.is_within(promised) {
        return;
    }
    assert!(first.waited > QUIET, "{what}: after {first:?}, and {promised:?} are promised");
    let again = measure();
    tell(&format!("{what}, once more"), again, promised);
    assert!(
        again.is_within(promised),
        "{what}: after {first:?} and, once more, after {again:?}, and {promised:?} are promised"
    );
}

/// Tells what something took of what is promised.
pub(crate) fn tell(what: &str, took: Took, promised: Duration) {
    let Took { time, waited } = took;
    let line = format!(
        "\nMEASURED: {what}: after {time:.2?} ({promised:?} promised; without a processor for up to {waited:.2?})\n"
    );
    // In one piece: other tests say something as well.
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), line.as_bytes());
}

/// The thread that asks, as `waited_of` knows it.
pub(crate) fn this_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// How long these threads of this process have waited for a processor since they began, and what
/// the hypervisor has taken of all processors.
pub(crate) fn waited_of(threads: &[u32]) -> Duration {
    let waited = threads
        .iter()
        .filter_map(|thread| waited_ns(&Path::new("/proc/self/task").join(thread.to_string())));
    Duration::from_nanos(waited.sum()) + stolen().iter().sum::<Duration>()
}

/// `None` if it is gone, or the kernel does not count that.
fn waited_ns(thread: &Path) -> Option<u64> {
    std::fs::read_to_string(thread.join("schedstat")).ok()?.split_whitespace().nth(1)?.parse().ok()
}

fn all_waited() -> HashMap<(u32, u32), u64> {
    let own = std::process::id();
    let numbers = |directory: &Path| -> Vec<u32> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
    };
    let processes = numbers(Path::new("/proc"))
        .into_iter()
        .filter(|pid| *pid == own || parent(*pid) == Some(own));
    let tasks = |pid: u32| Path::new("/proc").join(pid.to_string()).join("task");
    let threads =
        processes.flat_map(|pid| numbers(&tasks(pid)).into_iter().map(move |thread| (pid, thread)));
    threads
        .filter_map(|(pid, thread)| {
            Some(((pid, thread), waited_ns(&tasks(pid).join(thread.to_string()))?))
        })
        .collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// What the hypervisor has given to others of each processor although somebody here was ready.
fn stolen() -> Vec<Duration> {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = |line: &str| {
        line.strip_prefix("cpu")
            .filter(|l| !l.starts_with(' '))?
            .split_whitespace()
            .nth(8)?
            .parse::<u32>()
            .ok()
    };
    stat.lines().filter_map(ticks).map(|ticks| TICK * ticks).collect()
}
