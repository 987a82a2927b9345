// SPDX-License-Identifier: Apache-2.0
//! Processes of a measurement: found, inspected, and stopped for a while.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses some of it, and may stop at a surprise"
)]

use driveline::types::MonotonicNs;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

/// Duration of a stop.
// time: the measurement must show this stop; tests read its actual duration, which may be longer
pub(crate) const STALL: Duration = Duration::from_millis(300);

/// Time in which a process was certainly stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Stops a process for [`STALL`], and returns the times between which it certainly did nothing.
/// Returns `None` if the process has ended, or if `over` returns true.
pub(crate) fn stall(pid: i32, over: impl Fn() -> bool) -> Option<Stall> {
    let process = Pid::from_raw(pid)?;
    kill_process(process, Signal::STOP).ok()?;
    let mut from = None;
    while from.is_none() && !over() && state(pid)? != 'Z' {
        from = all_stopped(pid)?.then(|| MonotonicNs::now().0);
    }
    // time: as above
    std::thread::sleep(STALL);
    let to = MonotonicNs::now().0;
    kill_process(process, Signal::CONT).ok()?;
    // time: the process catches up, so that a stall has no effect on the next one
    std::thread::sleep(STALL);
    Some(Stall { from: from?, to })
}

/// Returns true if all threads of the process are stopped: threads of a middleware stop later than
/// the first one.
fn all_stopped(pid: i32) -> Option<bool> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let mut states = threads.filter_map(|t| {
        std::fs::read_to_string(t.path().join("stat")).ok()?.rsplit_once(") ")?.1.chars().next()
    });
    Some(states.all(|state| state == 'T'))
}

/// Returns the fields of /proc/PID/stat after the name, beginning with the third one.
pub(crate) fn stat(pid: i32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn state(pid: i32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

/// Returns the living child processes of `parent`, the oldest first.
pub(crate) fn children(parent: u32) -> Vec<i32> {
    let parent = parent.to_string();
    let mut found: Vec<(u64, i32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .filter(|(_, s)| s.get(1) == Some(&parent) && s.first().is_some_and(|s| s != "Z"))
        .filter_map(|(pid, s)| Some((s.get(19)?.parse().ok()?, pid)))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, pid)| pid).collect()
}
