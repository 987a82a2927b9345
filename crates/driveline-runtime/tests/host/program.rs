// SPDX-License-Identifier: Apache-2.0
//! A host program whose components are compiled in, in Rust, instead of loaded from shared
//! libraries.
//!
//! The `library:` of a graph for it can be any file. `Counter` publishes 1, 2, 3, … and finishes at
//! `limit`; `Relay` passes on, and misbehaves when asked to; `Planner` reads at its own times;
//! `Printer` prints.

use driveline::service::RawClient;
use driveline::types::Schema;
use driveline::{
    ClientOptions, EndpointEvent, Invocation, Node, ParameterValue, PortEvent, RawPublisher,
    RawSample, ServiceOptions,
};
use driveline_graph::descriptor::{ComponentClass, ParameterDecl, Port, ValueRange};
use driveline_runtime::component::{
    Component, ComponentFailure, ComponentIo, ComponentLibrary, ComponentLoader, LoadError,
};
use driveline_runtime::host;
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

mod modal;

struct Builtin;

impl ComponentLoader for Builtin {
    fn load(&self, _: &Path) -> Result<Box<dyn ComponentLibrary>, LoadError> {
        Ok(Box::new(Builtin))
    }
}

impl ComponentLibrary for Builtin {
    fn classes(&self) -> Vec<ComponentClass> {
        let port = |name: &str| Port {
            name: name.into(),
            schema: Schema::bytes("demo/Count", "u64-le", ""),
            doc: "A number.".into(),
        };
        let parameter = |name: &str, default: i64, doc: &str| ParameterDecl {
            name: name.into(),
            default: ParameterValue::Integer(default),
            doc: doc.into(),
            range: None,
            live: None,
        };
        vec![
            ComponentClass {
                name: "Counter".into(),
                doc: "Publishes 1, 2, 3, …".into(),
                outputs: vec![port("count")],
                parameters: vec![
                    parameter("limit", 0, "Finish at this number; 0 never does."),
                    parameter("period_ms", 10, "Time between numbers."),
                    parameter("fail_on", 0, "The timer fails after this number."),
                    parameter("panic_on", 0, "The timer panics after this number."),
                ],
                inputs: vec![],
            },
            ComponentClass {
                name: "Modal".into(),
                doc: "Says in which state it is.".into(),
                inputs: vec![port("in")],
                outputs: vec![port("out")],
                parameters: vec![
                    parameter("fail_activate", 0, "Fail to become active unless 0."),
                    parameter("hang_activate", 0, "Never become active unless 0."),
                    parameter("hang_deactivate", 0, "Never become inactive unless 0."),
                    parameter("request_on", 0, "Request a mode after so many samples."),
                    ParameterDecl {
                        name: "mode".into(),
                        default: ParameterValue::Text(String::new()),
                        doc: "The mode.".into(),
                        range: None,
                        live: None,
                    },
                ],
            },
            ComponentClass {
                name: "Relay".into(),
                doc: "Passes numbers on.".into(),
                inputs: vec![port("in")],
                outputs: vec![port("out")],
                parameters: vec![
                    parameter("fail_on", 0, "Report a failure at this number."),
                    parameter("abort_on", 0, "Abort the process at this number."),
                    parameter("fail_init", 0, "Fail to initialise unless 0."),
                    parameter("hang_init", 0, "Never come back from the initialisation unless 0."),
                    parameter("hang_on", 0, "Never come back at this number."),
                    parameter("overflow_on", 0, "Overflow the stack at this number."),
                    parameter("fill_on", 0, "Fill memory without end at this number."),
                    parameter("take_ms", 0, "How long each call takes."),
                    parameter("slow_on", 0, "Only the call for this number takes so long."),
                    parameter("keep", 0, "Keep the last samples, as many as this."),
                    parameter(
                        "give_back_ms",
                        0,
                        "Give them back each time after this time unless 0.",
                    ),
                    parameter(
                        "ask",
                        0,
                        "Ask about the numbers up to this one, of a service of its own, which \
                         refuses even ones.",
                    ),
                    parameter(
                        "spawn",
                        0,
                        "Start a process that lives long and leave it behind unless 0.",
                    ),
                ],
            },
            ComponentClass {
                name: "Planner".into(),
                doc: "Publishes the newest number that it can read, or 0; for a timer.".into(),
                inputs: vec![port("in")],
                outputs: vec![port("out")],
                parameters: vec![],
            },
            ComponentClass {
                name: "Printer".into(),
                doc: "Prints numbers.".into(),
                inputs: vec![port("count")],
                outputs: vec![],
                parameters: vec![
                    parameter("hang", 0, "Never end unless 0."),
                    ParameterDecl {
                        live: Some(ValueRange { min: Some(0.0), max: Some(99.0) }),
                        ..parameter("mark", 1, "Printed when it is changed; refuses 13.")
                    },
                ],
            },
        ]
    }

    fn create(&self, class: &str, instance: &str) -> Result<Box<dyn Component>, LoadError> {
        match class {
            "Counter" => Ok(Box::new(Counter::default())),
            "Relay" => Ok(Box::new(Relay::default())),
            "Modal" => Ok(Box::new(modal::Modal::new(instance))),
            "Planner" => Ok(Box::new(Planner::default())),
            "Printer" => Ok(Box::new(Printer {
                name: instance.to_owned(),
                hang: AtomicI64::new(0),
                late: AtomicU64::new(0),
            })),
            _ => Err(LoadError { text: format!("there is no class {class}") }),
        }
    }
}

fn integer(io: &ComponentIo, name: &str) -> i64 {
    match io.parameters.get(name) {
        Some(ParameterValue::Integer(i)) => *i,
        _ => 0,
    }
}

fn failure(e: impl std::fmt::Display) -> ComponentFailure {
    ComponentFailure { text: e.to_string() }
}

fn publish(to: &mut RawPublisher, number: u64) -> Result<(), ComponentFailure> {
    let mut loan = to.loan(8).map_err(failure)?;
    loan.payload_mut().copy_from_slice(&number.to_le_bytes());
    to.publish(loan).map_err(failure)?;
    Ok(())
}

fn number(invocation: &Invocation<'_>) -> Option<u64> {
    let bytes = invocation.sample(0)?.payload()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Number that a counter adds to its numbers after it was called with a missed deadline.
const LATE: u64 = 1_000_000;

#[derive(Default)]
struct Counter {
    late: Arc<AtomicU64>,
}

/// Returns the total number of missed deadlines if the event is a missed deadline.
fn missed(event: &PortEvent) -> Option<u64> {
    if let EndpointEvent::DeadlineMissed { total, .. } = event.event { Some(total) } else { None }
}

impl Component for Counter {
    fn init(&self, mut io: ComponentIo) -> Result<(), ComponentFailure> {
        let (limit, period) = (integer(&io, "limit"), integer(&io, "period_ms"));
        let [fail_on, panic_on] =
            ["fail_on", "panic_on"].map(|name| integer(&io, name).unsigned_abs());
        let mut output = io.outputs.pop().map(Mutex::new);
        let Some(output) = output.take() else { return Err(failure("no output")) };
        let (next, late) = (AtomicU64::new(1), self.late.clone());
        let stop = io.stop.clone();
        let added = io.timers.add(Duration::from_millis(period.unsigned_abs().max(1)), move |_| {
            let number = next.load(Ordering::Relaxed);
            if limit > 0 && number > limit.unsigned_abs() {
                stop.finish();
                return Ok(());
            }
            let mut output = output.lock().map_err(failure)?;
            publish(&mut output, number + late.load(Ordering::Relaxed))?;
            drop(output);
            next.store(number + 1, Ordering::Relaxed);
            assert!(number != panic_on, "asked to panic");
            if number == fail_on { Err(failure("asked to fail")) } else { Ok(()) }
        });
        added.map(drop).map_err(failure)
    }

    fn on_event(&self, event: &PortEvent) -> Result<(), ComponentFailure> {
        if missed(event).is_some() && event.is_output && event.port == "count" {
            self.late.store(LATE, Ordering::Relaxed);
            return Err(failure("late"));
        }
        Ok(())
    }

    fn on_trigger(&self, _: &Invocation<'_>) -> Result<(), ComponentFailure> {
        Ok(())
    }

    fn shutdown(&self) {}
}

#[derive(Default)]
struct Relay {
    output: OnceLock<Mutex<RawPublisher>>,
    fail_on: AtomicI64,
    abort_on: AtomicI64,
    hang_on: AtomicI64,
    overflow_on: AtomicI64,
    fill_on: AtomicI64,
    take_ms: AtomicU64,
    slow_on: AtomicU64,
    ask: AtomicI64,
    client: OnceLock<Mutex<RawClient>>,
    keep: AtomicU64,
    kept: Arc<Mutex<VecDeque<RawSample>>>,
}

/// Fills memory until the kernel kills the process, or 4 GiB are filled.
fn fill_memory() {
    let mut filled: Vec<Vec<u8>> = Vec::new();
    for _ in 0..4096 {
        filled.push(vec![1; 1 << 20]);
    }
    println!("relay has filled {} MiB", filled.len());
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

fn schema() -> Schema {
    Schema::bytes("demo/Count", "u64-le", "")
}

/// Answers odd numbers and refuses even ones, as long as the process lives.
fn serve_odd_numbers(node: &Node) -> Result<(), ComponentFailure> {
    let mut service =
        node.raw_service("odd", schema(), schema(), ServiceOptions::default()).map_err(failure)?;
    std::thread::spawn(move || {
        while service.wait(None).is_ok() {
            while let Ok(Some(request)) = service.take() {
                let number = request.sample.payload().unwrap_or_default().to_vec();
                if number.first().is_some_and(|n| n % 2 == 1) {
                    let _ = request.responder.send_bytes(&number);
                } else {
                    request.responder.refuse("an even number");
                }
            }
        }
    });
    Ok(())
}

/// Recurses without end, so that the stack overflows.
#[allow(
    unconditional_recursion,
    clippy::only_used_in_recursion,
    reason = "the stack is to overflow"
)]
fn deep(n: u64) -> u64 {
    std::hint::black_box(deep(std::hint::black_box(n + 1)) + 1)
}

impl Component for Relay {
    fn init(&self, mut io: ComponentIo) -> Result<(), ComponentFailure> {
        if integer(&io, "fail_init") != 0 {
            return Err(failure("asked to fail"));
        }
        if integer(&io, "hang_init") != 0 {
            println!("init hangs");
            hang();
        }
        if integer(&io, "spawn") != 0 {
            let child = std::process::Command::new("sleep").arg("1000").spawn().map_err(failure)?;
            println!("spawned {}", child.id());
        }
        self.take_ms.store(integer(&io, "take_ms").unsigned_abs(), Ordering::Relaxed);
        self.slow_on.store(integer(&io, "slow_on").unsigned_abs(), Ordering::Relaxed);
        self.hang_on.store(integer(&io, "hang_on"), Ordering::Relaxed);
        self.overflow_on.store(integer(&io, "overflow_on"), Ordering::Relaxed);
        self.fill_on.store(integer(&io, "fill_on"), Ordering::Relaxed);
        self.ask.store(integer(&io, "ask"), Ordering::Relaxed);
        if integer(&io, "ask") != 0 {
            serve_odd_numbers(&io.node)?;
            let client = io
                .node
                .raw_client("odd", schema(), schema(), ClientOptions::default())
                .map_err(failure)?;
            let _ = self.client.set(Mutex::new(client));
        }
        self.fail_on.store(integer(&io, "fail_on"), Ordering::Relaxed);
        self.abort_on.store(integer(&io, "abort_on"), Ordering::Relaxed);
        self.keep.store(integer(&io, "keep").unsigned_abs(), Ordering::Relaxed);
        if integer(&io, "give_back_ms") != 0 {
            let kept = self.kept.clone();
            let period = Duration::from_millis(integer(&io, "give_back_ms").unsigned_abs());
            let given_back = move |_: &driveline::TimerTick| {
                kept.lock().map_err(failure)?.clear();
                Ok(())
            };
            io.timers.add(period, given_back).map_err(failure)?;
        }
        if let Some(output) = io.outputs.pop() {
            let _ = self.output.set(Mutex::new(output));
        }
        Ok(())
    }

    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure> {
        let number = number(invocation).ok_or_else(|| failure("not a number"))?;
        let slow_on = self.slow_on.load(Ordering::Relaxed);
        if slow_on == 0 || slow_on == number {
            // time: makes a callback that takes long
            std::thread::sleep(Duration::from_millis(self.take_ms.load(Ordering::Relaxed)));
        }
        if number.cast_signed() == self.abort_on.load(Ordering::Relaxed) {
            std::process::abort();
        }
        if number.cast_signed() == self.hang_on.load(Ordering::Relaxed) {
            println!("relay hangs");
            hang();
        }
        if number.cast_signed() == self.overflow_on.load(Ordering::Relaxed) {
            return Err(failure(deep(0)));
        }
        if number.cast_signed() == self.fill_on.load(Ordering::Relaxed) {
            fill_memory();
        }
        if number.cast_signed() == self.fail_on.load(Ordering::Relaxed) {
            return Err(failure("this number was forbidden"));
        }
        if number.cast_signed() <= self.ask.load(Ordering::Relaxed)
            && let Some(client) = self.client.get()
        {
            let mut client = client.lock().map_err(failure)?;
            client.wait_for_server(Duration::from_secs(60));
            // Only the account needs the outcome.
            let _ = client.call_bytes(&number.to_le_bytes(), Duration::from_secs(60));
        }
        let keep = usize::try_from(self.keep.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        if keep > 0 {
            let mut kept = self.kept.lock().map_err(failure)?;
            kept.extend(invocation.sample(0).cloned());
            let surplus = kept.len().saturating_sub(keep);
            kept.drain(..surplus);
        }
        match self.output.get().and_then(|o| o.lock().ok()) {
            Some(mut output) => publish(&mut output, number),
            None => Ok(()),
        }
    }

    fn shutdown(&self) {}
}

#[derive(Default)]
struct Planner {
    output: OnceLock<Mutex<RawPublisher>>,
}

impl Component for Planner {
    fn init(&self, mut io: ComponentIo) -> Result<(), ComponentFailure> {
        let output = io.outputs.pop().ok_or_else(|| failure("no output"))?;
        let _ = self.output.set(Mutex::new(output));
        Ok(())
    }

    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure> {
        let newest = invocation.read(0);
        let bytes = newest.as_ref().and_then(RawSample::payload).and_then(|b| b.try_into().ok());
        let mut output =
            self.output.get().ok_or_else(|| failure("no output"))?.lock().map_err(failure)?;
        publish(&mut output, bytes.map_or(0, u64::from_le_bytes))
    }

    fn shutdown(&self) {}
}

struct Printer {
    name: String,
    hang: AtomicI64,
    late: AtomicU64,
}

impl Component for Printer {
    fn init(&self, io: ComponentIo) -> Result<(), ComponentFailure> {
        self.hang.store(integer(&io, "hang"), Ordering::Relaxed);
        println!("{} is ready", self.name);
        io.facts.add("detector", "none, this is a test");
        Ok(())
    }

    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure> {
        let number = number(invocation).ok_or_else(|| failure("not a number"))?;
        if number >= LATE && self.late.load(Ordering::Relaxed) > 0 {
            println!("both ends know that {} is late", self.late.load(Ordering::Relaxed));
        }
        // Not `println!`, which panics: if the first process of a container is killed, the pipe is
        // closed a moment before this process is killed, too.
        let _ = writeln!(std::io::stdout(), "{} got {number}", self.name);
        Ok(())
    }

    fn on_parameter(&self, name: &str, value: &ParameterValue) -> Result<(), ComponentFailure> {
        if *value == ParameterValue::Integer(13) {
            return Err(failure("13 is unlucky"));
        }
        println!("{} has {name} {value} now", self.name);
        Ok(())
    }

    fn on_event(&self, event: &PortEvent) -> Result<(), ComponentFailure> {
        if let Some(total) = missed(event).filter(|_| !event.is_output && event.port == "count") {
            self.late.store(total, Ordering::Relaxed);
        }
        Ok(())
    }

    fn shutdown(&self) {
        while self.hang.load(Ordering::Relaxed) != 0 {
            // time: hangs; a test ends it
            std::thread::sleep(Duration::from_secs(1));
        }
        println!("{} is shut down", self.name);
    }
}

fn main() -> ExitCode {
    ExitCode::from(host::main(std::env::args_os().skip(1), &Builtin))
}
