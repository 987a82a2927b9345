// SPDX-License-Identifier: Apache-2.0
//! Faults while samples flow: a writer is killed, a reader is killed, or a writer's shared memory
//! is filled with random bytes.
//!
//! Readers read two topics: `frames`, whose writer (or one of whose readers) is the victim, and
//! `beside`, with a writer that has no faults. Each fault of the writer begins a new *epoch*. Each
//! sample has the number of its epoch, and readers verify every byte of it. A run observes the time
//! until each reader has an undamaged sample of the new epoch, or the restarted reader has any. It
//! also counts torn samples, and records the latencies of all readers.

mod ends;
mod payload;

pub(crate) use ends::{FaultReader, FaultWriter};

use crate::children::{Children, PATIENCE};
use crate::experiment::Experiment;
use crate::job::WorkloadJob;
use crate::orders::{Order, Said};
use crate::part::Part;
use crate::record::{Window, sleep_until};
use anyhow::{Result, ensure};
use driveline::types::MonotonicNs;
use driveline_bench::observations::{Observations, Point, Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum wait for a recovery before the next fault.
const RECOVERY: Duration = Duration::from_secs(5);
/// Minimum time after a fault in which samples count as received during the fault. That time lasts
/// longer if a reader has not yet recovered.
const AFTERMATH: Duration = Duration::from_millis(100);
/// Time for which a writer with damaged memory may continue before it is restarted, as by a
/// supervisor.
const RESTART_AFTER: Duration = Duration::from_millis(250);

/// Kind of fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Fault {
    /// The writer gets SIGKILL and is restarted at once.
    #[default]
    WriterKilled,
    /// The last reader gets SIGKILL and is restarted at once.
    ReaderKilled,
    /// The writer fills its segment with random bytes and continues. In every second fault, that
    /// includes the word with the newest sample. If a reader gets no undamaged sample within 250
    /// ms, the writer is restarted.
    RegionCorrupted,
}

/// Parameters of the faults.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Faults {
    /// Kind of fault.
    fault: Fault,
    /// Number of faults, evenly spread over the measured time.
    #[schemars(range(min = 1, max = 10_000))]
    times: u32,
    /// Reading processes.
    #[schemars(range(min = 2, max = 32))]
    readers: u32,
    /// Length of each sample in bytes.
    #[schemars(range(min = 32, max = 67_108_864))]
    payload_bytes: u32,
    /// Time between samples in milliseconds.
    #[schemars(range(min = 0.1, max = 1000.0))]
    period_ms: f64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            fault: Fault::WriterKilled,
            times: 5,
            readers: 2,
            payload_bytes: 65_536,
            period_ms: 10.0,
        }
    }
}

impl Experiment for Faults {
    const NAME: &'static str = "faults";
    const DESCRIPTION: &'static str = "Writer killed, reader killed or shared memory damaged while \
         others go on: recovery, torn samples";

    fn verify(&self) -> Result<()> {
        ensure!(
            (1..=10_000).contains(&self.times),
            "'times' is {}; it must be between 1 and 10000",
            self.times
        );
        ensure!(
            (2..=32).contains(&self.readers),
            "'readers' is {}; it must be between 2 and 32",
            self.readers
        );
        ensure!(
            (32..=64 << 20).contains(&self.payload_bytes),
            "'payload_bytes' is {}; it must be between 32 and 67108864",
            self.payload_bytes
        );
        ensure!(
            (0.1..=1000.0).contains(&self.period_ms),
            "'period_ms' is {}; it must be between 0.1 and 1000",
            self.period_ms
        );
        Ok(())
    }

    fn run(&self, job: &WorkloadJob) -> Result<Observations> {
        let mut scene = Scene::set(self, job)?;
        let mut o = Observations::default();
        for name in ["faults", "recovered", "not recovered", "writers restarted after damage"] {
            o.counters.insert(name.into(), 0);
        }
        let interval = job.duration().as_nanos() as u64 / u64::from(self.times);
        let mut disturbed = Vec::new();
        for epoch in 1..=u64::from(self.times) {
            sleep_until(scene.window.from_ns + interval * (epoch - 1) + interval / 4);
            if MonotonicNs::now().0 >= scene.window.until_ns {
                break;
            }
            let from = scene.fault(epoch, &mut o)?;
            disturbed.push(from..MonotonicNs::now().0.max(from + AFTERMATH.as_nanos() as u64));
            *o.counters.entry("faults".into()).or_default() += 1;
        }
        scene.window.sleep_until_end();
        scene.end(&mut o)?;
        let during: Vec<_> = o
            .series
            .iter()
            .filter(|s| s.quantity == Quantity::Latency)
            .map(|s| (format!("{} during faults", s.subject), among(&s.points, &disturbed)))
            .collect();
        during.into_iter().for_each(|(subject, points)| o.put(&subject, Quantity::Latency, points));
        Ok(o)
    }
}

fn among(points: &[Point], spans: &[std::ops::Range<u64>]) -> Vec<Point> {
    points.iter().filter(|p| spans.iter().any(|s| s.contains(&p.time_ns))).copied().collect()
}

/// All processes of a run.
struct Scene<'a> {
    with: &'a Faults,
    children: Children<'a>,
    window: Window,
    readers: Vec<usize>,
    writer: usize,
    bystander: usize,
}

impl<'a> Scene<'a> {
    fn set(with: &'a Faults, job: &'a WorkloadJob) -> Result<Self> {
        let mut children = Children::new(job)?;
        let readers = (0..with.readers)
            .map(|i| children.start_ready(&reader_name(i), with.reader(i)))
            .collect::<Result<Vec<_>>>()?;
        let bystander =
            children.start_ready("bystander", with.writer("beside", 0, with.readers))?;
        let writer = children.start_ready("writer", with.writer("frames", 0, with.readers))?;
        let window = Window::after(Duration::from_millis(50) + job.warm_up(), job.duration());
        for &index in readers.iter().chain([&bystander, &writer]) {
            children.begin(index, window);
        }
        Ok(Self { with, children, window, readers, writer, bystander })
    }

    /// Injects a fault and waits until it is over. Returns its time.
    fn fault(&mut self, epoch: u64, o: &mut Observations) -> Result<u64> {
        match self.with.fault {
            Fault::WriterKilled => {
                let at = self.replace_writer(epoch)?;
                self.recovery(0..self.readers.len(), epoch, at, RECOVERY, o)?;
                Ok(at)
            }
            Fault::ReaderKilled => {
                let last = self.readers.len() - 1;
                let at = MonotonicNs::now().0;
                self.children.kill(self.readers[last]);
                self.readers[last] = self
                    .children
                    .start_ready(&reader_name(last as u32), self.with.reader(last as u32))?;
                self.children.begin(self.readers[last], self.window);
                // The epoch has not changed, so the first sample of the new reader has the same
                // epoch.
                self.recovery(last..last + 1, 0, at, RECOVERY, o)?;
                Ok(at)
            }
            Fault::RegionCorrupted => {
                self.children.order(self.writer, Order::Scribble { epoch });
                let at = loop {
                    match self.children.hear(self.writer, PATIENCE)? {
                        Some(Said::Scribbled { epoch: e, time_ns }) if e == epoch => break time_ns,
                        Some(_) => {}
                        None => anyhow::bail!(
                            "the writer did not damage its memory within {PATIENCE:?}"
                        ),
                    }
                };
                let all = 0..self.readers.len();
                let left = self.wait_for_first(all.clone(), epoch, at, RESTART_AFTER, o)?;
                if !left.is_empty() {
                    *o.counters.entry("writers restarted after damage".into()).or_default() += 1;
                    self.replace_writer(epoch)?;
                    self.recovery(left, epoch, at, RECOVERY, o)?;
                }
                Ok(at)
            }
        }
    }

    /// Kills the writer, starts another and returns the time of the kill.
    fn replace_writer(&mut self, epoch: u64) -> Result<u64> {
        let at = MonotonicNs::now().0;
        self.children.kill(self.writer);
        self.writer = self.children.start_ready("writer", self.with.writer("frames", epoch, 0))?;
        self.children.begin(self.writer, self.window);
        Ok(at)
    }

    fn recovery(
        &mut self,
        of: impl IntoIterator<Item = usize>,
        epoch: u64,
        at: u64,
        within: Duration,
        o: &mut Observations,
    ) -> Result<()> {
        let left = self.wait_for_first(of, epoch, at, within, o)?;
        *o.counters.entry("not recovered".into()).or_default() += left.len() as u64;
        Ok(())
    }

    /// Records the time after the fault at which each reader had its first undamaged sample.
    /// Returns the readers that had none in time.
    fn wait_for_first(
        &mut self,
        of: impl IntoIterator<Item = usize>,
        epoch: u64,
        at: u64,
        within: Duration,
        o: &mut Observations,
    ) -> Result<Vec<usize>> {
        let end = MonotonicNs::now() + within;
        let mut left = Vec::new();
        for i in of {
            loop {
                match self.children.hear(self.readers[i], end.since(MonotonicNs::now()))? {
                    Some(Said::First { epoch: e, time_ns }) if e == epoch => {
                        let value = time_ns.saturating_sub(at);
                        o.put(
                            &reader_name(i as u32),
                            Quantity::Recovery,
                            [Point { time_ns: at, value }],
                        );
                        *o.counters.entry("recovered".into()).or_default() += 1;
                        break;
                    }
                    Some(_) => {}
                    None => {
                        left.push(i);
                        break;
                    }
                }
            }
        }
        Ok(left)
    }

    fn end(&mut self, o: &mut Observations) -> Result<()> {
        for writer in [self.writer, self.bystander] {
            self.children.order(writer, Order::End);
            self.children.finish(writer, PATIENCE, o)?;
        }
        for i in 0..self.readers.len() {
            self.children.order(self.readers[i], Order::End);
            self.children.finish(self.readers[i], PATIENCE, o)?;
        }
        let take = |o: &mut Observations, name: &str| o.counters.remove(name).unwrap_or(0);
        let sent = take(o, "frames sent");
        o.counters.insert("frames sent by the last writer".into(), sent);
        let [frames, beside] = ends::TOPICS.map(|topic| take(o, &format!("{topic} not whole")));
        // Damage by a writer to its own memory during a read is not a torn sample of the transport.
        let (torn, damaged) = if self.with.fault == Fault::RegionCorrupted {
            (beside, frames)
        } else {
            (beside + frames, 0)
        };
        o.counters.insert("torn samples".into(), torn);
        o.counters.insert("damaged samples delivered".into(), damaged);
        // Readers that were never restarted account for every sample of the other writer.
        let count = |what: &str| {
            let name = format!("{} {what}", ends::TOPICS[1]);
            o.counters.get(&name).copied().unwrap_or(0)
        };
        let [sent, got, missed] = ["sent", "received", "missed"].map(count);
        let lived = self.readers.len() as u64;
        if self.with.fault != Fault::ReaderKilled && sent * lived != got + missed {
            o.invalid.push(format!(
                "the account does not close: {sent} sent to {lived} readers, {got} received, \
                 {missed} missed"
            ));
        }
        Ok(())
    }
}

fn reader_name(i: u32) -> String {
    format!("reader {i}")
}

impl Faults {
    fn writer(&self, topic: &str, epoch: u64, wait_for: u32) -> Part {
        Part::FaultWriter(FaultWriter {
            topic: topic.into(),
            epoch,
            payload_bytes: self.payload_bytes as usize,
            period_ns: (self.period_ms * 1e6) as u64,
            // One more reader is counted: a reader may start before the kernel has reported the
            // death of its predecessor.
            pins: ends::HELD * (self.readers + 1),
            wait_for: wait_for as usize,
        })
    }

    fn reader(&self, index: u32) -> Part {
        Part::FaultReader(FaultReader {
            subject: reader_name(index),
            period_ns: (self.period_ms * 1e6) as u64,
        })
    }
}
