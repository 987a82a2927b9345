// SPDX-License-Identifier: Apache-2.0
//! Unit tests of one component: no processes, no threads, no waiting, on a clock that the test
//! moves.
//!
//! A [`ComponentTest`] brings a component up like `driveline-host`, with the trigger and QoS that a
//! graph would give it. The test publishes to its inputs, moves the time and reads its outputs.
//! Callbacks and timers run on the thread of the test, at the times at which they fall due on the
//! test's [`VirtualClock`]. Threads that the component starts have the kernel's clock.
//!
//! Not here: graphs of several components; those are run by [`crate::launch`].

use crate::component::{ComponentLibrary, StopControl};
use crate::host::failures::FailureSink;
use crate::host::instance::{Bringup, Instance};
use driveline::{
    Context, ContextOptions, Executor, ExecutorOptions, ParameterValue, PublisherOptions,
    RawPublisher, RawSample, RawSubscription, Reach, SubscriptionOptions, SubscriptionStats,
};
use driveline_graph::descriptor::{ComponentClass, Port};
use driveline_graph::model::{QosChange, TriggerSpec};
use driveline_graph::{
    ByteSize, DescribeError, Diagnostics, LoadOptions, ResolvedComponent, ResolvedGraph, Severity,
    load, parse_document, suggest,
};
use driveline_types::plain::PlainLayout;
use driveline_types::{MonotonicNs, PayloadKind, Qos, Schema, VirtualClock};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// First time on the clock of a test: late enough that data may be hours old.
const START: MonotonicNs = MonotonicNs(1_000_000_000_000_000);
/// Maximum number of samples of one output that one call may publish.
const PUBLISHED_BY_A_CALL: u32 = 8;
/// Maximum number of samples of one output that wait until the test takes them.
const KEPT: usize = 4096;
/// Maximum number of calls at one point in time.
const CALLS_AT_ONCE: usize = 10_000;
/// Period at which outputs with a deadline or a lease are polled, as in `driveline-host`.
const EVENTS: Duration = Duration::from_millis(100);
/// Default maximum payload of types without a fixed size.
const MAX_PAYLOAD: u64 = 2 << 20;

/// Settings of a graph for the component. The default is a graph that declares nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TestSettings {
    /// Parameters that differ from the class's defaults.
    pub parameters: IndexMap<String, ParameterValue>,
    /// Trigger of the callback. Default: a sample on any input.
    pub trigger: Option<TriggerSpec>,
    /// Inputs with more detail.
    pub inputs: IndexMap<String, InputSettings>,
    /// Outputs with more detail.
    pub outputs: IndexMap<String, OutputSettings>,
    /// Largest payload of inputs and outputs without a fixed size: bytes, or text such as `8 MiB`.
    /// Default: 2 MiB. Each such port takes several times this memory.
    pub max_payload: Option<ByteSize>,
}

/// An input in detail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InputSettings {
    /// Samples that the component may hold at once.
    pub max_held: Option<u32>,
    /// QoS of the subscription.
    pub qos: QosChange,
}

/// An output in detail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OutputSettings {
    /// QoS of the publisher.
    pub qos: QosChange,
}

impl TestSettings {
    /// Reads settings as they would stand in a graph file:
    /// `{parameters: {low: 40}, trigger: {kind: timer, period_ms: 100}}`. An empty text is the
    /// default.
    ///
    /// # Errors
    /// [`TestError::Settings`] with all mistakes.
    pub fn from_yaml(text: &str) -> Result<Self, TestError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let document = parse_document::<Self>(Path::new("settings"), text.to_owned());
        document.map(|d| d.value).map_err(|d| TestError::Settings(one_line(&d)))
    }
}

/// A component could not be tested, or failed in a test.
#[derive(Debug, Error)]
pub enum TestError {
    /// The settings do not fit the class.
    #[error("the settings of the test: {0}")]
    Settings(String),
    /// The library has no such class.
    #[error("{0}")]
    Class(String),
    /// The class has no such port.
    #[error("class {class} has no {kind} '{port}'; {help}")]
    Port {
        /// The class.
        class: String,
        /// `input` or `output`.
        kind: &'static str,
        /// Requested port.
        port: String,
        /// The ports it has.
        help: String,
    },
    /// The port carries another type.
    #[error("{0}")]
    Type(String),
    /// The component could not be brought up.
    #[error("{0}")]
    BringUp(String),
    /// A parameter was not changed, because of its declaration or by the component.
    #[error("{0}")]
    Parameter(String),
    /// Calls of the component failed; each failure is a line.
    #[error("{}", .0.join("\n"))]
    Failed(Vec<String>),
    /// An output published more samples than the test keeps.
    #[error("{0}")]
    Lost(String),
    /// Calls follow one another without any time between them.
    #[error(
        "{CALLS_AT_ONCE} calls were made at one point in time, and more are due: the component \
         triggers itself"
    )]
    Endless,
    /// The system refused something.
    #[error("{what}: {source}")]
    Os {
        /// Operation that failed.
        what: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
}

/// An output, and what it has published.
struct Tap {
    port: String,
    subscription: RawSubscription,
    waiting: VecDeque<RawSample>,
    lost: u64,
    /// Number of missed samples that was reported already.
    missed: u64,
}

/// One component under test. One thread at a time. The component is shut down when this is dropped.
pub struct ComponentTest {
    clock: VirtualClock,
    class: ComponentClass,
    component: ResolvedComponent,
    max_payload: u64,
    taps: Vec<Tap>,
    failures: Arc<Mutex<Vec<String>>>,
    stop: StopControl,
    finished: bool,
    is_shut_down: bool,
    instance: Instance,
    executor: Arc<Executor>,
    context: Context,
    // Last, so that it is dropped last: the fields above use the domain in this directory.
    _directory: tempfile::TempDir,
}

impl ComponentTest {
    /// Brings a component of `class` up: it is constructed, and its `init` and `on_activate` have
    /// returned. Reads and writes files below the system's directory for temporary files.
    ///
    /// # Errors
    /// [`TestError`] if there is no such class, the settings do not fit it, or one of its calls
    /// fails.
    pub fn new(
        library: &dyn ComponentLibrary,
        class: &str,
        settings: &TestSettings,
    ) -> Result<Self, TestError> {
        let class = class_of(library, class)?;
        let os = |what| move |source| TestError::Os { what, source };
        let directory = tempfile::Builder::new()
            .prefix("driveline-test-")
            .tempdir()
            .map_err(os("cannot make a directory for the test"))?;
        let graph = resolve(&class, settings, directory.path())?;
        let Some(component) = graph.components().next().map(|(_, c)| c.clone()) else {
            return Err(TestError::BringUp("the graph of the test has no component".into()));
        };
        let clock = VirtualClock::starting_at(START);
        let entered = clock.enter();
        let up = |e: &dyn std::fmt::Display| TestError::BringUp(e.to_string());
        let context = Context::new(ContextOptions {
            name: "test".into(),
            domain_dir: Some(directory.path().join("domain")),
        })
        .map_err(|e| up(&e))?;
        let taps = taps(&context, &component)?;
        let executor = Executor::new(ExecutorOptions { name: "test".into(), ..Default::default() });
        let executor = Arc::new(executor.map_err(|e| up(&e))?);
        let stop = StopControl::new().map_err(os("cannot make a socket pair"))?;
        let failures: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = failures.clone();
        let sink: FailureSink = Arc::new(move |text: String| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        });
        let with = Bringup {
            graph: &graph,
            context: &context,
            library,
            executor: executor.clone(),
            stop: stop.handle(component.name.as_str()),
            account: None,
            beats: None,
            failures: Some(sink),
        };
        let instance = Instance::bring_up(&component, with).map_err(|e| up(&e))?;
        instance.activate().map_err(|e| up(&e))?;
        let max_payload = settings.max_payload.map_or(MAX_PAYLOAD, |ByteSize(n)| n);
        executor.begin();
        drop(entered);
        Ok(Self {
            clock,
            class,
            component,
            max_payload,
            taps,
            failures,
            stop,
            finished: false,
            is_shut_down: false,
            instance,
            executor,
            context,
            _directory: directory,
        })
    }

    /// Returns the clock of the test. Enter it to publish to an input, so that the samples have the
    /// times of this clock.
    #[must_use]
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Creates a publisher to an input, with the QoS that the input requests. Publish while the
    /// [`Self::clock`] is entered. A publisher of a reliable input does not wait for room: samples
    /// beyond the input's depth count as missed.
    ///
    /// # Errors
    /// [`TestError`] if there is no such input, or memory is short.
    pub fn input(&self, port: &str) -> Result<RawPublisher, TestError> {
        let declared = self.class.inputs.iter().find(|p| p.name == port);
        let input = self.component.inputs.iter().find(|i| i.port == port);
        let (Some(declared), Some(input)) = (declared, input) else {
            return Err(self.no_port("input", port, &self.class.inputs));
        };
        let _entered = self.clock.enter();
        let options = PublisherOptions {
            reach: Reach::Process,
            qos: Qos { max_blocking_ms: 0, ..input.qos.clone() },
            max_payload: usize::try_from(self.room_for(&declared.schema)).unwrap_or(usize::MAX),
            ..PublisherOptions::default()
        };
        let up = |e: &dyn std::fmt::Display| TestError::BringUp(e.to_string());
        let node = self.context.node("test").map_err(|e| up(&e))?;
        node.raw_publisher(input.topic.as_str(), declared.schema.clone(), options)
            .map_err(|e| up(&e))
    }

    /// Fails unless an input carries values of this type.
    ///
    /// # Errors
    /// [`TestError`] with the difference.
    pub fn check_input(&self, port: &str, given: &Schema) -> Result<(), TestError> {
        let declared = self.class.inputs.iter().find(|p| p.name == port);
        let declared = declared.ok_or_else(|| self.no_port("input", port, &self.class.inputs))?;
        same_type("input", port, &declared.schema, given)
    }

    /// Fails unless an output carries values of this type.
    ///
    /// # Errors
    /// [`TestError`] with the difference.
    pub fn check_output(&self, port: &str, given: &Schema) -> Result<(), TestError> {
        let declared = self.class.outputs.iter().find(|p| p.name == port);
        let declared = declared.ok_or_else(|| self.no_port("output", port, &self.class.outputs))?;
        same_type("output", port, &declared.schema, given)
    }

    /// Makes all calls that are due now. Returns the number of calls of the callback and of
    /// timers.
    ///
    /// # Errors
    /// [`TestError::Failed`] if calls failed, [`TestError::Lost`] if an output published more
    /// samples than the test keeps, [`TestError::Endless`] if calls follow one another without end.
    /// Due calls after the failed ones were made as well.
    pub fn run(&mut self) -> Result<u64, TestError> {
        self.advance(Duration::ZERO)
    }

    /// Moves the time forward and makes each call at the time at which it falls due: timers,
    /// deadlines, events. Returns the number of calls, as [`Self::run`].
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn advance(&mut self, by: Duration) -> Result<u64, TestError> {
        let _entered = self.clock.enter();
        let end = self.clock.now() + by;
        let before = self.instance.calls();
        self.run_due()?;
        while self.clock.now() < end {
            let now = self.clock.now();
            let mut next = self.executor.next_deadline().unwrap_or(end);
            if self.instance.promises() {
                next = next.min(now + EVENTS);
            }
            // The next deadline may stay in the past. The time then moves on by `EVENTS`.
            let next = if next <= now { now + EVENTS } else { next }.min(end);
            self.clock.advance(next.since(now));
            self.run_due()?;
        }
        let failed =
            std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        if !failed.is_empty() {
            return Err(TestError::Failed(failed));
        }
        self.all_kept()?;
        Ok(self.instance.calls() - before)
    }

    /// Changes a parameter, as `driveline param set` does while a graph runs: the component's
    /// `on_parameter` is called on this thread.
    ///
    /// # Errors
    /// [`TestError::Parameter`] if the class does not declare the parameter as changeable, the
    /// value has another type or is out of range, or the component refuses it.
    pub fn set_parameter(&mut self, name: &str, value: ParameterValue) -> Result<(), TestError> {
        let refused = |why: String| TestError::Parameter(format!("parameter '{name}' {why}"));
        let have = &self.component.parameters;
        let Some(present) = have.get(name) else {
            let help = suggest(name, "parameters", have.keys().map(String::as_str));
            return Err(refused(format!("does not exist: {help}")));
        };
        let Some(range) = self.component.live.get(name) else {
            return Err(refused("is not declared as changeable".into()));
        };
        let (wanted, given) = (present.type_name(), value.type_name());
        let value = value
            .coerce(present)
            .ok_or_else(|| refused(format!("is {wanted}, and the new value is {given}")))?;
        if let Some(mistake) = range.mistake(&value) {
            return Err(refused(format!("is not changed: {mistake}")));
        }
        let _entered = self.clock.enter();
        let changed = self.instance.change_here(name, &value);
        changed.map_err(|why| refused(format!("is not changed: {why}")))
    }

    /// Returns the oldest sample of an output that was not taken yet. It is a copy, and holds no
    /// memory of the component.
    ///
    /// # Errors
    /// [`TestError::Port`] if there is no such output.
    pub fn take(&mut self, port: &str) -> Result<Option<RawSample>, TestError> {
        self.collect();
        match self.taps.iter_mut().find(|t| t.port == port) {
            Some(tap) => Ok(tap.waiting.pop_front()),
            None => Err(self.no_port("output", port, &self.class.outputs)),
        }
    }

    /// Counters of an input: samples that were missed, expired, not read, …
    ///
    /// # Errors
    /// [`TestError::Port`] if there is no such input.
    pub fn input_stats(&self, port: &str) -> Result<SubscriptionStats, TestError> {
        let _entered = self.clock.enter();
        let inputs = self.instance.inputs();
        let found = inputs.into_iter().find(|i| i.input == port);
        found.map(|i| i.stats).ok_or_else(|| self.no_port("input", port, &self.class.inputs))
    }

    /// Returns true if the component has reported that its work is done.
    pub fn is_finished(&mut self) -> bool {
        self.finished |= !self.stop.take_finished().is_empty();
        self.finished
    }

    /// Shuts the component down, as at the end of a run; nothing is called after it. A second call
    /// does nothing.
    pub fn shut_down(&mut self) {
        if !std::mem::replace(&mut self.is_shut_down, true) {
            let _entered = self.clock.enter();
            self.stop.stop();
            self.executor.stop();
            self.instance.shutdown();
            self.collect();
        }
    }

    fn run_due(&mut self) -> Result<(), TestError> {
        for _ in 0..CALLS_AT_ONCE {
            self.executor.poll_events();
            self.instance.log_events(None);
            if !self.executor.run_next() {
                // Takes the samples that no call has published: those of `init`, and of the
                // component's own threads.
                self.collect();
                return Ok(());
            }
            self.collect();
        }
        Err(TestError::Endless)
    }

    /// Takes new samples from the outputs. Copies them, so that no memory of the publishers is
    /// held.
    fn collect(&mut self) {
        for tap in &mut self.taps {
            // Cannot fail: each sample is copied and released at once, so the limit of held samples
            // is not reached, and the topic does not use the host transport.
            while let Ok(Some(sample)) = tap.subscription.take() {
                if tap.waiting.len() == KEPT {
                    tap.waiting.pop_front();
                    tap.lost += 1;
                }
                tap.waiting.push_back(sample.detached());
            }
        }
    }

    fn all_kept(&mut self) -> Result<(), TestError> {
        for tap in &mut self.taps {
            let missed = tap.subscription.stats().missed;
            let missed = missed - std::mem::replace(&mut tap.missed, missed);
            if missed > 0 {
                let text = format!(
                    "output '{}': {missed} samples were lost to the test, which keeps \
                     {PUBLISHED_BY_A_CALL} of one call; publish less in each call",
                    tap.port
                );
                return Err(TestError::Lost(text));
            }
            if std::mem::take(&mut tap.lost) > 0 {
                let text = format!(
                    "output '{}': more than {KEPT} samples waited, and the oldest were dropped; \
                     take them in between",
                    tap.port
                );
                return Err(TestError::Lost(text));
            }
        }
        Ok(())
    }

    fn no_port(&self, kind: &'static str, port: &str, ports: &[Port]) -> TestError {
        let help = suggest(port, &format!("{kind}s"), ports.iter().map(|p| p.name.as_str()));
        TestError::Port { class: self.class.name.clone(), kind, port: port.to_owned(), help }
    }

    fn room_for(&self, schema: &Schema) -> u64 {
        match has_fixed_size(schema) {
            Some(size) => size,
            None => self.max_payload,
        }
    }
}

impl Drop for ComponentTest {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn class_of(library: &dyn ComponentLibrary, name: &str) -> Result<ComponentClass, TestError> {
    let classes = library.classes();
    if let Some(class) = classes.iter().find(|c| c.name == name) {
        return Ok(class.clone());
    }
    let help = suggest(name, "classes", classes.iter().map(|c| c.name.as_str()));
    Err(TestError::Class(format!("there is no component class '{name}'; {help}")))
}

fn same_type(kind: &str, port: &str, declared: &Schema, given: &Schema) -> Result<(), TestError> {
    if declared == given {
        return Ok(());
    }
    let shown = |s: &Schema| format!("{} '{}'", s.kind, s.name);
    let mut text = format!("{kind} '{port}' carries {}, not {}", shown(declared), shown(given));
    if (declared.kind, &declared.name) == (given.kind, &given.name) {
        text = format!(
            "{kind} '{port}' carries another '{}' than the test: the two were built from different \
             definitions",
            declared.name
        );
    }
    Err(TestError::Type(text))
}

/// Returns the size of payloads, if the type alone determines it. Protobuf messages and objects
/// pass as pointers in a test, so their size is 0.
fn has_fixed_size(schema: &Schema) -> Option<u64> {
    match schema.kind {
        PayloadKind::Protobuf | PayloadKind::Object => Some(0),
        PayloadKind::Bytes => None,
        PayloadKind::Plain => {
            let layout = schema.definition.parse::<PlainLayout>().ok()?;
            layout.tail.is_none().then_some(layout.size as u64)
        }
    }
}

/// Returns a graph of one module with one component. It is read from a file, as any graph is, so
/// that defaults and errors are the same.
fn resolve(
    class: &ComponentClass,
    settings: &TestSettings,
    directory: &Path,
) -> Result<ResolvedGraph, TestError> {
    let text = graph_text(class, settings).map_err(TestError::Settings)?;
    let os = |source| TestError::Os { what: "cannot write the graph of the test", source };
    let path = directory.join("test.yaml");
    std::fs::write(&path, text).map_err(os)?;
    // The graph needs a library file that exists, so an empty one is made. `describe` below returns
    // the class without reading it.
    std::fs::write(directory.join(LIBRARY), []).map_err(os)?;
    let describe = |_: &Path| Ok::<_, DescribeError>(vec![class.clone()]);
    let options = LoadOptions { library_dirs: Vec::new(), ..LoadOptions::new(&describe) };
    let loaded = load(&path, &options);
    loaded.graph.ok_or_else(|| TestError::Settings(one_line(&loaded.diagnostics)))
}

/// Name of the file that stands for the library.
const LIBRARY: &str = "component.so";
/// Name of the component under test.
const COMPONENT: &str = "component";

fn graph_text(class: &ComponentClass, settings: &TestSettings) -> Result<String, String> {
    let mut topics = serde_json::Map::new();
    let mut topic = |kind: &str, port: &Port| {
        let name = format!("{kind}/{}", port.name);
        let mut spec = json!({ "reach": "process", "external": true });
        if has_fixed_size(&port.schema).is_none() {
            let ByteSize(bytes) = settings.max_payload.unwrap_or(ByteSize(MAX_PAYLOAD));
            spec["max_payload"] = bytes.into();
        }
        topics.insert(name.clone(), spec);
        name
    };
    let (mut inputs, mut outputs) = (serde_json::Map::new(), serde_json::Map::new());
    for port in &class.inputs {
        let given = settings.inputs.get(&port.name);
        let mut detail = json!({ "topic": topic("in", port) });
        if let Some(max_held) = given.and_then(|s| s.max_held) {
            detail["max_held"] = max_held.into();
        }
        if let Some(given) = given {
            detail["qos"] = without_nulls(&given.qos)?;
        }
        inputs.insert(port.name.clone(), detail);
    }
    for port in &class.outputs {
        let mut detail = json!({ "topic": topic("out", port) });
        if let Some(given) = settings.outputs.get(&port.name) {
            detail["qos"] = without_nulls(&given.qos)?;
        }
        outputs.insert(port.name.clone(), detail);
    }
    for (kind, given, have) in [
        ("input", settings.inputs.keys().collect::<Vec<_>>(), &class.inputs),
        ("output", settings.outputs.keys().collect(), &class.outputs),
    ] {
        if let Some(unknown) = given.into_iter().find(|g| !have.iter().any(|p| p.name == **g)) {
            let help = suggest(unknown, &format!("{kind}s"), have.iter().map(|p| p.name.as_str()));
            return Err(format!("class {} has no {kind} '{unknown}'; {help}", class.name));
        }
    }
    let mut component = json!({
        "library": LIBRARY, "class": class.name, "inputs": inputs, "outputs": outputs,
        "parameters": without_nulls(&settings.parameters)?,
    });
    if let Some(trigger) = &settings.trigger {
        component["trigger"] = without_nulls(trigger)?;
    }
    let graph = json!({
        "driveline": 1, "topics": topics,
        "modules": { "test": { "components": { COMPONENT: component } } },
    });
    // JSON is YAML.
    Ok(graph.to_string())
}

/// Returns the value as JSON, without keys whose value is null.
fn without_nulls(value: &impl Serialize) -> Result<serde_json::Value, String> {
    let mut json = serde_json::to_value(value).map_err(|e| e.to_string())?;
    if let Some(map) = json.as_object_mut() {
        map.retain(|_, v| !v.is_null());
    }
    Ok(json)
}

/// Formats errors without their places, which are in a file that no user has written.
fn one_line(found: &Diagnostics) -> String {
    let errors = found.iter().filter(|d| d.severity == Severity::Error);
    let texts = errors.map(|d| match &d.help {
        Some(help) => format!("{} ({help})", d.message),
        None => d.message.clone(),
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn taps(context: &Context, component: &ResolvedComponent) -> Result<Vec<Tap>, TestError> {
    let up = |e: &dyn std::fmt::Display| TestError::BringUp(e.to_string());
    let node = context.node("test").map_err(|e| up(&e))?;
    let tap = |output: &driveline_graph::ResolvedOutput| {
        let schema = output.schema.clone()?;
        let qos = Qos { depth: PUBLISHED_BY_A_CALL, ..Qos::default() };
        let options = SubscriptionOptions {
            reach: Reach::Process,
            qos,
            max_held: 1,
            ..SubscriptionOptions::default()
        };
        let made = node.raw_subscription(output.topic.as_str(), schema, options);
        Some(made.map_err(|e| up(&e)).map(|subscription| Tap {
            port: output.port.clone(),
            subscription,
            waiting: VecDeque::new(),
            lost: 0,
            missed: 0,
        }))
    };
    component.outputs.iter().filter_map(tap).collect()
}

#[cfg(test)]
mod tests;
