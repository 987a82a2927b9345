// SPDX-License-Identifier: Apache-2.0
//! The components of the chain's graph, compiled into this program.

use super::table::SOURCE_TOPIC;
use crate::work::Crunch;
use driveline::types::{Lineage, MonotonicNs, SampleHeader, Schema, TopicName, header::Arrival};
use driveline::{Invocation, ParameterValue, RawPublisher};
use driveline_graph::descriptor::{ComponentClass, ParameterDecl, Port};
use driveline_runtime::component::{
    Component, ComponentFailure, ComponentIo, ComponentLibrary, ComponentLoader, LoadError,
    StopHandle,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const SOURCE_CLASS: &str = "Source";
/// Class that only reads. The workload `protection` uses it; the chain does not.
pub(crate) const READER_CLASS: &str = "Reader";
pub(super) const STAGE_CLASS: &str = "Stage";
pub(super) const PERIODIC_CLASS: &str = "Periodic";
pub(super) const END_CLASS: &str = "End";

/// Maximum number of recorded commands, at most one for each scan: five hours of them.
const ROOM: usize = 200_000;

/// First command that descends from a scan: its publish time, and the parts of its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) time_ns: u64,
    pub(super) latency_ns: u64,
    pub(super) idle_ns: u64,
    pub(super) communication_ns: u64,
    pub(super) computation_ns: u64,
}

impl Instance {
    /// Returns the instance as words of a file.
    fn words(self) -> [u64; 5] {
        [self.time_ns, self.latency_ns, self.idle_ns, self.communication_ns, self.computation_ns]
    }

    /// Reads instances from the bytes of a file; an incomplete last instance is left out.
    pub(super) fn read_all(bytes: &[u8]) -> Vec<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let (rows, _) = words.as_chunks::<5>();
        let row = |r: &[[u8; 8]; 5]| {
            let [time_ns, latency_ns, idle_ns, communication_ns, computation_ns] =
                r.map(u64::from_le_bytes);
            Self { time_ns, latency_ns, idle_ns, communication_ns, computation_ns }
        };
        rows.iter().map(row).collect()
    }
}

/// Factory of the components; the path of a library is ignored.
pub(crate) struct Builtin;

impl ComponentLoader for Builtin {
    fn load(&self, _: &Path) -> Result<Box<dyn ComponentLibrary>, LoadError> {
        Ok(Box::new(Self))
    }
}

impl ComponentLibrary for Builtin {
    fn classes(&self) -> Vec<ComponentClass> {
        let port = |name: &str| Port {
            name: name.into(),
            schema: Schema::bytes("workload/Message", "opaque", ""),
            doc: String::new(),
        };
        let integer = |name: &str, doc: &str| ParameterDecl {
            name: name.into(),
            default: ParameterValue::Integer(0),
            doc: doc.into(),
            range: None,
            live: None,
        };
        let text = |name: &str, doc: &str| ParameterDecl {
            name: name.into(),
            default: ParameterValue::Text(String::new()),
            doc: doc.into(),
            range: None,
            live: None,
        };
        let class =
            |name: &str, doc: &str, inputs: &[&str], more: Vec<ParameterDecl>| ComponentClass {
                name: name.into(),
                doc: doc.into(),
                inputs: inputs.iter().map(|n| port(n)).collect(),
                outputs: vec![port("out")],
                parameters: [
                    integer("bytes", "Length of each message."),
                    integer("limit", "Primes are counted up to here."),
                    integer("times", "How often they are."),
                ]
                .into_iter()
                .chain(more)
                .collect(),
            };
        vec![
            class(
                SOURCE_CLASS,
                "A sensor with a clock of its own.",
                &[],
                vec![integer("period_ns", "Time between messages.")],
            ),
            class(
                STAGE_CLASS,
                "Works on what comes, or at fixed times on what came.",
                &["in"],
                vec![],
            ),
            class(PERIODIC_CLASS, "Works at fixed times.", &[], vec![]),
            class(
                END_CLASS,
                "Works, and accounts for the way of each scan.",
                &["in"],
                vec![text("account", "File for the account.")],
            ),
            ComponentClass {
                name: READER_CLASS.into(),
                doc: "Takes what comes.".into(),
                inputs: vec![port("in")],
                outputs: vec![],
                parameters: vec![],
            },
        ]
    }

    fn create(&self, class: &str, _: &str) -> Result<Box<dyn Component>, LoadError> {
        match class {
            SOURCE_CLASS => Ok(Box::new(Source::default())),
            STAGE_CLASS | PERIODIC_CLASS => Ok(Box::new(Stage::default())),
            END_CLASS => Ok(Box::new(End::default())),
            READER_CLASS => Ok(Box::new(Reader)),
            _ => Err(LoadError { text: format!("there is no class {class}") }),
        }
    }
}

fn failure(e: impl std::fmt::Display) -> ComponentFailure {
    ComponentFailure { text: e.to_string() }
}

fn integer(io: &ComponentIo, name: &str) -> u64 {
    match io.parameters.get(name) {
        Some(ParameterValue::Integer(i)) => i.unsigned_abs(),
        _ => 0,
    }
}

/// Common part of all classes that publish.
struct Worker {
    work: Crunch,
    bytes: usize,
    output: Mutex<RawPublisher>,
}

impl Worker {
    fn new(io: &mut ComponentIo) -> Result<Self, ComponentFailure> {
        let bounded = |n: u64| u32::try_from(n).map_err(failure);
        let work = Crunch {
            limit: bounded(integer(io, "limit"))?,
            times: bounded(integer(io, "times"))?,
            unit_ns: 0,
        };
        let bytes = usize::try_from(integer(io, "bytes")).map_err(failure)?;
        let output = io.outputs.pop().map(Mutex::new).ok_or_else(|| failure("no output"))?;
        Ok(Self { work, bytes, output })
    }

    fn publish(&self) -> Result<(), ComponentFailure> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let mut loan = output.loan(self.bytes).map_err(failure)?;
        // Messages are real: their memory is written.
        loan.payload_mut().fill(1);
        output.publish(loan).map_err(failure)?;
        Ok(())
    }
}

#[derive(Default)]
struct Stage {
    worker: OnceLock<Worker>,
}

impl Component for Stage {
    fn init(&self, mut io: ComponentIo) -> Result<(), ComponentFailure> {
        let _ = self.worker.set(Worker::new(&mut io)?);
        Ok(())
    }

    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure> {
        // A callback on a timer reads its input here. Before the first sample, this call reads
        // nothing and has no effect.
        let _sample = invocation.read(0);
        let worker = self.worker.get().ok_or_else(|| failure("not initialised"))?;
        worker.work.run();
        worker.publish()
    }

    fn shutdown(&self) {}
}

struct Reader;

impl Component for Reader {
    fn init(&self, _: ComponentIo) -> Result<(), ComponentFailure> {
        Ok(())
    }

    fn on_trigger(&self, _: &Invocation<'_>) -> Result<(), ComponentFailure> {
        Ok(())
    }

    fn shutdown(&self) {}
}

/// Publishes from a thread of its own, like a driver of a device with its own clock.
#[derive(Default)]
struct Source {
    running: Mutex<Option<(StopHandle, JoinHandle<()>)>>,
}

impl Component for Source {
    fn init(&self, mut io: ComponentIo) -> Result<(), ComponentFailure> {
        let period = Duration::from_nanos(integer(&io, "period_ns").max(1));
        let worker = Worker::new(&mut io)?;
        let (stop, inside) = (io.stop.clone(), io.stop.clone());
        let body = move || {
            let mut due = MonotonicNs::now() + period;
            while !inside.is_stopping() {
                crate::record::sleep_until(due.0);
                if worker.publish().is_err() {
                    // The run has ended. No other error is possible, because all loans are
                    // returned.
                    return;
                }
                // Messages missed while the machine stood still are not sent later.
                while due <= MonotonicNs::now() {
                    due = due + period;
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("source".into()).spawn(body).map_err(failure)?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some((stop, thread));
        Ok(())
    }

    fn on_trigger(&self, _: &Invocation<'_>) -> Result<(), ComponentFailure> {
        Ok(())
    }

    fn shutdown(&self) {
        if let Some((_, thread)) =
            self.running.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct End {
    worker: OnceLock<Worker>,
    account: OnceLock<PathBuf>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    newest_scan: MonotonicNs,
    instances: Vec<Instance>,
}

impl Component for End {
    fn init(&self, mut io: ComponentIo) -> Result<(), ComponentFailure> {
        if let Some(ParameterValue::Text(path)) = io.parameters.get("account") {
            let _ = self.account.set(path.into());
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).instances.reserve_exact(ROOM);
        let _ = self.worker.set(Worker::new(&mut io)?);
        Ok(())
    }

    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure> {
        let worker = self.worker.get().ok_or_else(|| failure("not initialised"))?;
        worker.work.run();
        worker.publish()?;
        let Some(sample) = invocation.sample(0) else { return Ok(()) };
        let topic = SOURCE_TOPIC.parse::<TopicName>().map_err(failure)?;
        let Some(scan) = sample
            .header()
            .origins
            .as_slice()
            .iter()
            .find(|o| o.topic == topic.id())
            .map(|o| o.source_newest)
        else {
            // The sample does not descend from any scan.
            return Ok(());
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if scan > seen.newest_scan && seen.instances.len() < ROOM {
            seen.newest_scan = scan;
            // Age of the published sample, computed in the same way as Driveline's stamp.
            let mut lineage = Lineage::start(invocation.start());
            lineage.inherit(sample.header(), Arrival::Triggered);
            let mut header =
                SampleHeader { publish_time: MonotonicNs::now(), ..SampleHeader::default() };
            lineage.stamp(&mut header, topic.id(), None, 1);
            if let Some(o) = header.origins.as_slice().iter().find(|o| o.topic == topic.id()) {
                // The whole chain is on this host, with one clock, so times are not negative.
                let ns = |ns: i64| u64::try_from(ns).map_err(failure);
                seen.instances.push(Instance {
                    time_ns: header.publish_time.0,
                    latency_ns: ns(o.age_ns(header.publish_time))?,
                    idle_ns: ns(o.idle_ns)?,
                    communication_ns: ns(o.communication_ns)?,
                    computation_ns: ns(o.computation_ns)?,
                });
            }
        }
        Ok(())
    }

    fn shutdown(&self) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> =
            seen.instances.iter().flat_map(|i| i.words()).flat_map(u64::to_le_bytes).collect();
        // If the file is missing, the program that reads the results reports it.
        let _ = self
            .account
            .get()
            .map(|path| std::fs::File::create(path).and_then(|mut f| f.write_all(&bytes)));
    }
}
