// SPDX-License-Identifier: Apache-2.0
//! How long something took, and for how much of that somebody who was to do it stood ready and had no processor. So a machine that has other
//! work to do as well, which makes everything take longer, does not decide what is said of gateways.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// No more than that is put down to the machine.
const MOST: Duration = Duration::from_secs(8);
/// Of `/proc/stat`, which is in hundredths of a second everywhere.
const TICK: Duration = Duration::from_millis(10);

/// Runs. It looks at this process and those that it has started.
pub(crate) struct Stopwatch {
    began: Instant,
    /// What each thread has waited for a processor since it began, in nanoseconds.
    waited: HashMap<u32, u64>,
    stolen: Duration,
}

/// What a stopwatch has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    /// For how long threads were ready to run and did not, all of them together; what the hypervisor has taken is among it.
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

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let (waited, stolen) = (all_waited(), stolen());
        Self { began: Instant::now(), waited, stolen }
    }

    pub(crate) fn read(&self) -> Took {
        let time = self.began.elapsed();
        let since = |(thread, ns): (&u32, &u64)| ns.saturating_sub(self.waited.get(thread).copied().unwrap_or(0));
        let waited = Duration::from_nanos(all_waited().iter().map(since).sum());
        Took { time, waited: waited + stolen().saturating_sub(self.stolen) }
    }
}

impl Took {
    /// Whether it would have been in time, had all had a processor when they needed one. Where there are enough of them, that is the time alone.
    pub(crate) fn is_within(self, promised: Duration) -> bool {
        self.time <= promised + self.waited.min(MOST)
    }
}

/// The thread that asks, as `waited_of` knows it.
pub(crate) fn this_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// How long a thread of this process has waited for a processor since it began.
pub(crate) fn waited_of(thread: u32) -> Duration {
    Duration::from_nanos(waited_ns(&Path::new("/proc/self/task").join(thread.to_string())).unwrap_or(0))
}

/// `None` if it is gone, or the kernel does not count that.
fn waited_ns(thread: &Path) -> Option<u64> {
    std::fs::read_to_string(thread.join("schedstat")).ok()?.split_whitespace().nth(1)?.parse().ok()
}

fn all_waited() -> HashMap<u32, u64> {
    let own = std::process::id();
    let numbers = |directory: &Path| -> Vec<u32> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
    };
    let processes = numbers(Path::new("/proc")).into_iter().filter(|pid| *pid == own || parent(*pid) == Some(own));
    let tasks = processes.map(|pid| Path::new("/proc").join(pid.to_string()).join("task"));
    let threads = tasks.flat_map(|tasks| numbers(&tasks).into_iter().map(move |thread| (thread, tasks.join(thread.to_string()))));
    threads.filter_map(|(thread, path)| Some((thread, waited_ns(&path)?))).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// What the hypervisor has given to others although somebody here was ready.
fn stolen() -> Duration {
    fn ticks() -> Option<u32> {
        std::fs::read_to_string("/proc/stat").ok()?.lines().next()?.split_whitespace().nth(8)?.parse().ok()
    }
    TICK * ticks().unwrap_or(0)
}
