// SPDX-License-Identifier: Apache-2.0
//! Resource use of the processes of a run, sampled from outside every 200 ms.

use crate::record::{Window, sleep_until};
use anyhow::{Context, Result};
use driveline::types::MonotonicNs;
use driveline_bench::machine::{ProcessUse, resident_bytes};
use driveline_bench::observations::{Observations, Point, Quantity};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sampling interval.
const INTERVAL: Duration = Duration::from_millis(200);

/// Thread that samples the use of processes.
pub(crate) struct Watcher {
    thread: JoinHandle<Observations>,
}

impl Watcher {
    /// Samples processes, by name and id, within the measured time. A process that ends is no
    /// longer sampled.
    pub(crate) fn start(processes: Vec<(String, u32)>, window: Window) -> Result<Self> {
        let body = move || watch(processes, window);
        let thread = std::thread::Builder::new()
            .name("usage".into())
            .spawn(body)
            .context("cannot start a thread")?;
        Ok(Self { thread })
    }

    /// Waits until the end of the measured time, and adds the samples.
    pub(crate) fn finish(self, into: &mut Observations) {
        if let Ok(seen) = self.thread.join() {
            for s in seen.series {
                into.put(&s.subject, s.quantity, s.points);
            }
            into.invalid.extend(seen.invalid);
        }
    }
}

fn watch(processes: Vec<(String, u32)>, window: Window) -> Observations {
    let mut o = Observations::default();
    window.sleep_until_start();
    let mut before: Vec<(String, u32, ProcessUse)> = processes
        .into_iter()
        .filter_map(|(name, pid)| Some((name, pid, ProcessUse::of(pid).ok()?)))
        .collect();
    let mut next = window.from_ns;
    while next < window.until_ns {
        // The last interval ends with the measured time.
        next = (next + INTERVAL.as_nanos() as u64).min(window.until_ns);
        sleep_until(next);
        before.retain_mut(|(name, pid, last)| {
            let (Ok(used), Some(resident)) = (ProcessUse::of(*pid), resident_bytes(*pid)) else {
                return false;
            };
            let time_ns = MonotonicNs::now().0;
            // The sum is over living threads, so it decreases when a thread ends.
            let cpu = used.cpu_ns.saturating_sub(last.cpu_ns);
            o.put(name, Quantity::Cpu, [Point { time_ns, value: cpu }]);
            o.put(
                name,
                Quantity::Switches,
                [Point { time_ns, value: used.switches.saturating_sub(last.switches) }],
            );
            o.put(name, Quantity::ResidentMemory, [Point { time_ns, value: resident }]);
            *last = used;
            true
        });
    }
    o
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_seen_as_long_as_it_lives() {
        let window = Window::after(Duration::ZERO, Duration::from_millis(450));
        let watcher = Watcher::start(
            vec![("own".into(), std::process::id()), ("gone".into(), u32::MAX)],
            window,
        )
        .unwrap();
        let mut o = Observations::default();
        watcher.finish(&mut o);
        assert!(o.series.iter().all(|s| s.subject == "own" && s.points.len() == 3), "{o:?}");
        let of = |q| o.series.iter().find(|s| s.quantity == q).unwrap().points[0].value;
        assert!(of(Quantity::ResidentMemory) > 100_000);
        of(Quantity::Cpu);
    }
}
