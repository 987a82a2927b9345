// SPDX-License-Identifier: Apache-2.0
//! Records the resource use of each process of a run at a fixed interval.

use crate::machine::{ProcessUse, resident_bytes};
use crate::observations::{Observations, Point, Quantity};
use driveline::types::MonotonicNs;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Thread that samples the use.
pub(crate) struct Watch {
    stop: Sender<()>,
    looking: JoinHandle<Observations>,
}

impl Watch {
    pub(crate) fn start(processes: Vec<(String, u32)>, every: Duration) -> Self {
        let (stop, stopped) = channel();
        let looking = std::thread::spawn(move || {
            let mut observations = Observations::default();
            let mut before: Vec<Option<ProcessUse>> =
                processes.iter().map(|(_, pid)| ProcessUse::of(*pid).ok()).collect();
            let mut due = Instant::now() + every;
            // Absolute times, so that sampling does not stretch the period.
            while let Err(RecvTimeoutError::Timeout) =
                stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
            {
                due += every;
                for ((name, pid), before) in processes.iter().zip(&mut before) {
                    let Ok(now) = ProcessUse::of(*pid) else { continue };
                    let time_ns = MonotonicNs::now().0;
                    if let Some(before) = before {
                        let cpu = now.cpu_ns.saturating_sub(before.cpu_ns);
                        let switches = now.switches.saturating_sub(before.switches);
                        observations.put(name, Quantity::Cpu, [Point { time_ns, value: cpu }]);
                        observations.put(
                            name,
                            Quantity::Switches,
                            [Point { time_ns, value: switches }],
                        );
                    }
                    if let Some(bytes) = resident_bytes(*pid) {
                        observations.put(
                            name,
                            Quantity::ResidentMemory,
                            [Point { time_ns, value: bytes }],
                        );
                    }
                    *before = Some(now);
                }
            }
            observations
        });
        Self { stop, looking }
    }

    pub(crate) fn stop(self) -> Observations {
        let _ = self.stop.send(());
        self.looking.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched_until_it_stops() {
        // Repeated, because the sampling thread may not get a processor in time.
        let mut observations = (0..10).map(|attempt| {
            let watch = Watch::start(
                vec![("me".into(), std::process::id()), ("nobody".into(), u32::MAX)],
                Duration::from_millis(2),
            );
            // time: the length of one attempt of several, each longer
            std::thread::sleep(Duration::from_millis(50) * (1 << attempt));
            watch.stop()
        });
        let observations = observations.find(|o| !o.series.is_empty()).unwrap();
        let of = |q| observations.series.iter().find(|s| s.quantity == q).unwrap();
        assert!(of(Quantity::ResidentMemory).points.iter().all(|p| p.value > 4096));
        assert_eq!(of(Quantity::Cpu).points.len(), of(Quantity::Switches).points.len());
        assert!(observations.series.iter().all(|s| s.subject == "me"));
    }
}
