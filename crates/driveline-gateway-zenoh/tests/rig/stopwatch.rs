// SPDX-License-Identifier: Apache-2.0
//! Measures an operation, and the part of it in which a needed thread was ready to run and had no
//! processor. So other load on the machine does not decide the result of a measurement.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time attributed to the machine. A longer delay has another reason, or proves nothing.
pub(crate) const MOST: Duration = Duration::from_millis(1_500);
/// A thread that has waited less has had a processor whenever it needed one.
const QUIET: Duration = Duration::from_millis(100);
/// Interval at which waiting threads are sampled. In one interval, a Driveline sample passes some
/// threads of each process, but not all of them.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Unit of `/proc/stat`: hundredths of a second on every system.
const TICK: Duration = Duration::from_millis(10);

/// A running stopwatch. It observes this process and the processes that it has started.
///
/// Threads that wait in parallel delay an operation only once, so their waiting times are not added
/// up. The operation is in one thread at a time. So for each process and interval, the thread that
/// has waited longest counts. Processes are added up, because the operation passes from one to the
/// next. The sum is limited to the elapsed time. The result is too small if several threads of one
/// process took part and waited within one interval. In each interval, a process
/// contributes no more than the waiting time of one of its threads.
pub(crate) struct Stopwatch {
    began: Instant,
    looks: Arc<Mutex<Observations>>,
}

/// State of the last observation.
struct Observations {
    /// Time that each thread of each process has waited for a processor since it began, in
    /// nanoseconds.
    waited: HashMap<(u32, u32), u64>,
    /// Time that the hypervisor has taken of each processor.
    stolen: Vec<Duration>,
    /// Time that a needed thread has waited since the first observation.
    sum: Duration,
}

/// Result of a stopwatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    /// Part of that time in which needed threads may have been ready to run but did not run.
    /// Includes time taken by the hypervisor.
    pub(crate) waited: Duration,
}

/// Longest time without a sample.
pub(crate) struct Gaps {
    last: Instant,
    longest: Duration,
}

impl Gaps {
    pub(crate) fn begin() -> Self {
        Self { last: Instant::now(), longest: Duration::ZERO }
    }

    /// Notes an arrived sample.
    pub(crate) fn heard(&mut self) {
        self.longest = self.longest();
        self.last = Instant::now();
    }

    /// Returns the longest gap, including the current one.
    pub(crate) fn longest(&self) -> Duration {
        self.longest.max(self.last.elapsed())
    }
}

impl Observations {
    fn observe(&mut self) {
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
        let looks = Arc::new(Mutex::new(Observations {
            waited: all_waited(),
            stolen: stolen(),
            sum: Duration::ZERO,
        }));
        let of_thread = Arc::downgrade(&looks);
        // Observes until the last reference to the stopwatch is dropped.
        std::thread::spawn(move || {
            loop {
                // time: how often a measurement looks; it decides no gating test
                std::thread::sleep(CHECK_EVERY);
                let Some(looks) = of_thread.upgrade() else { return };
                looks.lock().unwrap_or_else(PoisonError::into_inner).observe();
            }
        });
        Self { began: Instant::now(), looks }
    }

    pub(crate) fn read(&self) -> Took {
        let time = self.began.elapsed();
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.observe();
        Took { time, waited: looks.sum.min(time) }
    }
}

impl Took {
    /// Returns the difference to an earlier result of the same stopwatch.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let time = self.time - earlier.time;
        Self { time, waited: self.waited.saturating_sub(earlier.waited).min(time) }
    }

    /// Returns whether the operation would have been in time, had all threads had a processor when
    /// they needed one. With enough processors, only the time counts.
    pub(crate) fn is_within(self, promised: Duration) -> bool {
        self.is_within_but_for(promised, MOST)
    }

    /// Like `is_within`, with another maximum attributed to the machine.
    pub(crate) fn is_within_but_for(self, promised: Duration, most: Duration) -> bool {
        self.time <= promised + self.waited.min(most)
    }
}

/// Returns true if durations are judged: in `make measure`, which sets `DRIVELINE_MEASURE`. A
/// gating test only waits for the promised effect, and prints how long it took.
pub(crate) fn measures() -> bool {
    std::env::var_os("DRIVELINE_MEASURE").is_some()
}

/// Asserts that an operation takes no longer than promised, where durations are judged. If it takes
/// longer and the machine had other work, it is measured once more; if it is late again, the
/// assertion fails. Prints the time past the test harness, which hides the output of passing tests.
#[track_caller]
pub(crate) fn within(promised: Duration, what: &str, mut measure: impl FnMut() -> Took) {
    let mut again = "";
    within_if(measures(), promised, what, || {
        let took = measure();
        print_measured(&format!("{what}{again}"), took, promised);
        again = ", once more";
        took
    });
}

/// Like [`within`], but prints nothing, and `judges` decides whether the time-out fails the test.
#[track_caller]
pub(crate) fn within_if(
    judges: bool,
    promised: Duration,
    what: &str,
    mut measure: impl FnMut() -> Took,
) {
    let first = measure();
    if !judges || first.is_within(promised) {
        return;
    }
    assert!(first.waited > QUIET, "{what}: after {first:?}, and {promised:?} are promised");
    let again = measure();
    assert!(
        again.is_within(promised),
        "{what}: after {first:?} and, once more, after {again:?}, and {promised:?} are promised"
    );
}

/// Prints the time that something took, and the promised time.
pub(crate) fn print_measured(what: &str, took: Took, promised: Duration) {
    let Took { time, waited } = took;
    let line = format!(
        "\nMEASURED: {what}: after {time:.2?} ({promised:?} promised; without a processor for up \
         to {waited:.2?})\n"
    );
    // In one piece, because other tests write as well.
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), line.as_bytes());
}

/// Id of the current thread, for `waited_of`.
pub(crate) fn this_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Returns how long these threads of this process have waited for a processor since they began, and
/// the time that the hypervisor has taken of all processors.
pub(crate) fn waited_of(threads: &[u32]) -> Duration {
    let waited = threads
        .iter()
        .filter_map(|thread| waited_ns(&Path::new("/proc/self/task").join(thread.to_string())));
    Duration::from_nanos(waited.sum()) + stolen().iter().sum::<Duration>()
}

/// `None` if the thread has ended, or the kernel does not count this.
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

/// Returns the time that the hypervisor has given to other guests of each processor although a
/// thread here was ready.
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
