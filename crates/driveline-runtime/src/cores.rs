// SPDX-License-Identifier: Apache-2.0
//! Keeps the threads of a process off the exclusive cores of executors.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs on which threads of this process ran before. On drop, the threads run there again.
pub(crate) struct KeptOff {
    before: Vec<(Pid, CpuSet)>,
    restore: bool,
}

impl KeptOff {
    /// Leaves the threads on their restricted CPUs: the drop restores nothing.
    pub(crate) fn stay(mut self) {
        self.restore = false;
    }
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        for (thread, cpus) in self.before.iter().filter(|_| self.restore) {
            // The thread may have ended meanwhile.
            let _ = sched_setaffinity(Some(*thread), cpus);
        }
    }
}

/// Restricts every thread of this process to its present CPUs without `exclusive` and, if given,
/// within `within`. Threads that they start inherit the restriction.
///
/// # Errors
/// A text for people: no CPU would remain, or the kernel refuses. Then nothing has changed, except
/// for threads that start or end meanwhile.
pub(crate) fn keep_off(exclusive: &[usize], within: Option<&[usize]>) -> Result<KeptOff, String> {
    let mut kept = KeptOff { before: Vec::new(), restore: true };
    for thread in threads()? {
        // The thread may have ended meanwhile.
        let Ok(now) = sched_getaffinity(Some(thread)) else { continue };
        let allowed = remaining(&now, exclusive, within);
        if allowed.count() == 0 {
            return Err(format!(
                "no core remains for the other threads: they may use {}",
                list(&cpus(&now))
            ));
        }
        match sched_setaffinity(Some(thread), &allowed) {
            Ok(()) => kept.before.push((thread, now)),
            Err(rustix::io::Errno::SRCH) => {}
            Err(e) => return Err(format!("CPUs {}: {e}", list(&cpus(&allowed)))),
        }
    }
    Ok(kept)
}

fn remaining(now: &CpuSet, exclusive: &[usize], within: Option<&[usize]>) -> CpuSet {
    let mut allowed = CpuSet::new();
    let free = |c: &usize| !exclusive.contains(c) && within.is_none_or(|w| w.contains(c));
    cpus(now).into_iter().filter(free).for_each(|c| allowed.set(c));
    allowed
}

fn threads() -> Result<Vec<Pid>, String> {
    let read = std::fs::read_dir("/proc/self/task").map_err(|e| format!("/proc/self/task: {e}"))?;
    let id = |entry: std::io::Result<std::fs::DirEntry>| {
        Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?)
    };
    Ok(read.filter_map(id).collect())
}

/// Returns the CPUs of the calling thread.
pub(crate) fn of_this_thread() -> Vec<usize> {
    sched_getaffinity(None).map(|set| cpus(&set)).unwrap_or_default()
}

fn cpus(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect()
}

/// Formats CPUs as the kernel does: `0-3,8`.
pub(crate) fn list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|c| set.set(*c));
        set
    }

    #[test]
    fn exclusive_cores_and_other_nodes_are_left_out() {
        let all = set(&[0, 1, 2, 3]);
        assert_eq!(cpus(&remaining(&all, &[2], None)), [0, 1, 3]);
        assert_eq!(cpus(&remaining(&all, &[2], Some(&[2, 3, 9]))), [3]);
        assert_eq!(cpus(&remaining(&set(&[2]), &[2], None)), [0; 0]);
    }

    #[test]
    fn lists_are_as_the_kernel_writes_them() {
        assert_eq!(list(&[0, 1, 2, 8]), "0-2,8");
        assert_eq!(list(&[]), "");
    }

    /// Fails if a thread of the process keeps the exclusive core, or does not get it back.
    /// Meanwhile, the other tests of this process run on one core less.
    #[test]
    fn every_thread_leaves_an_exclusive_core_and_returns() {
        let before = of_this_thread();
        let Some((&taken, rest)) = before.split_last().filter(|(_, rest)| !rest.is_empty()) else {
            return;
        };
        let kept = keep_off(&[taken], None).unwrap();
        assert_eq!(of_this_thread(), rest);
        assert_eq!(std::thread::spawn(of_this_thread).join().unwrap(), rest);
        drop(kept);
        assert_eq!(of_this_thread(), before);
        let refused = keep_off(&before, None).err().unwrap();
        assert!(refused.contains("no core remains"), "{refused}");
        assert_eq!(of_this_thread(), before);
    }
}
