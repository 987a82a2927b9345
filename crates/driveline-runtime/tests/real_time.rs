// SPDX-License-Identifier: Apache-2.0
//! Kernel settings that modules request for real time: in force in their processes, or refused once
//! with the remedy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::{Record, SettingAccount};
use driveline_runtime::launch::{End, Event, Sink, Stream};
use rustix::time::{ClockId, clock_gettime, clock_settime};
use std::collections::BTreeMap;
use std::path::PathBuf;
use support::{Fixture, Seen};

/// Reads the processes of a run when all modules have started, and ends the run.
#[derive(Default)]
struct Reader {
    seen: Seen,
    settings: BTreeMap<String, Vec<SettingAccount>>,
    /// By module and thread: CPUs.
    cpus: Vec<(String, String, String)>,
    /// By module, in KiB.
    locked: BTreeMap<String, u64>,
    /// Called when all modules have started, before the run ends.
    then: Option<fn()>,
}

fn field(path: PathBuf, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|l| l.strip_prefix(name)).map(|v| v.trim().to_owned())
}

impl Reader {
    fn read(&mut self) {
        for module in ["one", "two"] {
            let process = PathBuf::from(format!("/proc/{}", self.seen.pid_of(module).unwrap()));
            let locked = field(process.join("status"), "VmLck:").unwrap();
            let kib = locked.split_whitespace().next().unwrap().parse().unwrap();
            self.locked.insert(module.to_owned(), kib);
            for thread in std::fs::read_dir(process.join("task")).unwrap() {
                let status = thread.unwrap().path().join("status");
                let name = field(status.clone(), "Name:");
                let cpus = field(status, "Cpus_allowed_list:");
                if let Some((name, cpus)) = name.zip(cpus) {
                    self.cpus.push((module.to_owned(), name, cpus));
                }
            }
        }
    }

    fn setting(&self, module: &str, name: &str) -> &SettingAccount {
        let found = self.settings[module].iter().find(|s| s.setting == name);
        found.unwrap_or_else(|| panic!("{module} has no {name}: {:?}", self.settings))
    }
}

impl Sink for Reader {
    fn output(&mut self, module: &str, stream: Stream, line: &str) {
        self.seen.output(module, stream, line);
    }

    fn record(&mut self, module: &str, record: Record) {
        if let Record::Started { settings, .. } = &record {
            self.settings.insert(module.to_owned(), settings.clone());
            if self.settings.len() == 2 {
                self.read();
                self.then.iter().for_each(|then| then());
                self.seen.interrupter.as_ref().unwrap().interrupt();
            }
        }
        self.seen.record(module, record);
    }

    fn event(&mut self, event: &Event) {
        self.seen.event(event);
    }
}

fn run(text: &str) -> Reader {
    run_and(text, None)
}

fn run_and(text: &str, then: Option<fn()>) -> Reader {
    let f = Fixture::new(text);
    let (interrupt, interrupter) = driveline_runtime::launch::Interrupt::by_hand().unwrap();
    let mut reader = Reader { then, ..Reader::default() };
    reader.seen.interrupter = Some(interrupter);
    let outcome =
        driveline_runtime::launch::run(&f.graph, &f.options, &interrupt, &mut reader).unwrap();
    assert_eq!(outcome.end, End::Interrupted, "{:?}", reader.seen.lines);
    reader
}

fn graph(one: &str, executor: &str) -> String {
    format!(
        "driveline: 1\nname: real\nmodules:\n  one:\n{one}    executors: {{main: \
         {{{executor}}}}}\n    components:\n      a: {{library: lib, class: Counter, parameters: \
         {{limit: 0}}}}\n  two:\n    components:\n      b: {{library: lib, class: Counter, \
         parameters: {{limit: 0}}}}\n"
    )
}

#[test]
fn settings_are_in_force_in_the_process_or_refused_with_the_remedy() {
    let keys = "    lock_memory: true\n    cpu_dma_latency_us: 77\n    numa: 0\n";
    let reader = run(&graph(keys, "schedule: {timer_slack_ns: 1234}"));
    let lock = reader.setting("one", "lock_memory");
    match &lock.refused {
        None => {
            assert!(lock.in_force.ends_with("MiB locked"), "{lock:?}");
            assert!(reader.locked["one"] > 1024, "{:?}", reader.locked);
        }
        Some(reason) => {
            assert!(reason.contains("ulimit -l"), "{reason}");
            assert!(reader.seen.said("lock_memory: refused"), "{:?}", reader.seen.lines);
        }
    }
    assert_eq!(reader.locked["two"], 0, "it has not asked");
    let latency = reader.setting("one", "cpu_dma_latency_us");
    let remedy = latency.refused.as_ref().map(|reason| reason.contains("udev"));
    assert!(latency.in_force.ends_with("µs") || remedy == Some(true), "{latency:?}");
    let numa = reader.setting("one", "numa");
    let (one, many) = ("one node; `numa: 0` has no effect", "pages of topics are there");
    assert!(numa.in_force.contains(one) || numa.in_force.contains(many), "{numa:?}");
    let thread = reader.setting("one", "thread main/0");
    assert!(thread.in_force.contains("timer slack 1234 ns"), "{thread:?}");
    assert_eq!(reader.settings["two"], [], "nothing is asked there");
}

#[test]
fn no_other_thread_of_the_graph_runs_on_an_exclusive_core() {
    let own = field("/proc/self/status".into(), "Cpus_allowed_list:").unwrap();
    // The last one that this process may use: `0-3,8` ends in 8.
    let last = own.rsplit([',', '-']).next().unwrap().to_owned();
    if last == own {
        return;
    }
    let reader = run(&graph("", &format!("schedule: {{cpus: [{last}], exclusive: true}}")));
    let on_it = |cpus: &str| cpus.rsplit([',', '-']).next() == Some(&last);
    let there: Vec<_> = reader.cpus.iter().filter(|(.., cpus)| on_it(cpus)).collect();
    assert_eq!(there, [&("one".to_owned(), "main/0".to_owned(), last.clone())]);
    assert!(reader.cpus.len() > 3, "{:?}", reader.cpus);
    let other = reader.setting("two", "other threads");
    assert!(other.refused.is_none() && !on_it(&other.in_force), "{other:?}");
    assert!(reader.setting("one", "exclusive main").in_force.contains("no other thread"));
    assert_eq!(field("/proc/self/status".into(), "Cpus_allowed_list:").unwrap(), own);
}

const IN_A_MACHINE: &str = "tools/measure_vm.py starts one";

/// Two NUMA nodes of two CPUs each, the last CPU isolated, a PREEMPT_RT kernel.
#[test]
#[ignore = "needs a machine of its own: make measure-vm"]
fn a_machine_for_real_time_grants_everything() {
    let kernel = std::fs::read_to_string("/sys/kernel/realtime").unwrap_or_default();
    assert_eq!(kernel.trim(), "1", "{IN_A_MACHINE}");
    let keys = "    lock_memory: true\n    cpu_dma_latency_us: 0\n    numa: 1\n";
    let executor = "schedule: {class: fifo, priority: 60, cpus: [3], exclusive: true}";
    let text = graph(keys, executor)
        .replace("limit: 0}}\n  two", "limit: 0}, outputs: {count: {topic: t}}}\n  two");
    let topics = "topics:\n  t: {reach: host, max_payload: 1 MiB, external: true}\nmodules:";
    let reader = run(&text.replacen("modules:", topics, 1));
    for (name, wanted) in [
        ("lock_memory", "MiB locked"),
        ("cpu_dma_latency_us", "0 µs"),
        ("numa", "pages of topics are there"),
        ("thread main/0", "on CPUs [3]"),
        ("exclusive main", "no other process (isolated)"),
        ("other threads", "cores 2"),
    ] {
        let setting = reader.setting("one", name);
        assert!(setting.refused.is_none() && setting.in_force.contains(wanted), "{setting:?}");
    }
    let numa = &reader.setting("one", "numa").in_force;
    let pages: Vec<u64> = numa.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    assert!(pages[0] > 256 && pages[0] == pages[1], "{numa}");
    println!("in force: {:#?}", reader.settings["one"]);
}

/// Suspends the machine up to its devices for five seconds, longer than a call may take.
#[test]
#[ignore = "needs a machine of its own: make measure-vm"]
fn a_suspended_machine_restarts_nothing() {
    fn suspend() {
        assert!(std::path::Path::new("/sys/power/pm_test").exists(), "{IN_A_MACHINE}");
        std::fs::write("/sys/power/pm_test", "devices").unwrap();
        std::fs::write("/sys/power/state", "freeze").unwrap();
    }
    let keys = "    hang_ms: 1000\n    on_hang: restart\n";
    let reader = run_and(&graph(keys, "threads: 1"), Some(suspend));
    let restarted = reader.seen.pids.len() > 2;
    assert!(!restarted, "{:?}", reader.seen.lines);
}

/// Steps the wall clock by a day while samples pass, and back again.
#[derive(Default)]
struct Stepper {
    seen: Seen,
    steps: u32,
}

impl Stepper {
    fn step(&mut self, days: i64) {
        let mut time = clock_gettime(ClockId::Realtime);
        time.tv_sec += days * 24 * 60 * 60;
        clock_settime(ClockId::Realtime, time).unwrap();
        self.steps += 1;
    }
}

impl Sink for Stepper {
    fn output(&mut self, module: &str, stream: Stream, line: &str) {
        match line {
            "printer got 100" => self.step(1),
            "printer got 200" => self.step(-1),
            _ => {}
        }
        self.seen.output(module, stream, line);
    }

    fn record(&mut self, module: &str, record: Record) {
        self.seen.record(module, record);
    }

    fn event(&mut self, event: &Event) {
        self.seen.event(event);
    }
}

#[test]
#[ignore = "needs a machine of its own: make measure-vm"]
fn a_stepped_wall_clock_loses_no_sample_and_restarts_nothing() {
    let first = std::fs::read_link("/proc/1/exe").unwrap();
    assert!(first.ends_with("busybox"), "not the clock of {first:?}: {IN_A_MACHINE}");
    let hang = "    hang_ms: 2000\n    on_hang: restart\n";
    let topic = "{reach: host, max_payload: 8, qos: {reliability: reliable, depth: 4, lifespan_ms: \
                 60000, deadline_ms: 5000}}";
    let f = Fixture::new(&format!(
        "driveline: 1\nname: clock\ntopics:\n  t: {topic}\nmodules:\n  one:\n{hang}    \
         components:\n      counter: {{library: lib, class: Counter, parameters: {{limit: 300}}, \
         outputs: {{count: t}}}}\n  two:\n{hang}    components:\n      printer: {{library: lib, \
         class: Printer, inputs: {{count: t}}}}\n"
    ));
    let (interrupt, interrupter) = driveline_runtime::launch::Interrupt::by_hand().unwrap();
    let mut stepper = Stepper::default();
    stepper.seen.interrupter = Some(interrupter);
    let outcome =
        driveline_runtime::launch::run(&f.graph, &f.options, &interrupt, &mut stepper).unwrap();
    let seen = &stepper.seen;
    assert_eq!(outcome.end, End::Finished { component: "counter".into() }, "{:?}", seen.lines);
    assert_eq!((stepper.steps, seen.pids.len()), (2, 2), "{:?}", seen.events);
    let got: Vec<_> = seen.printed("two").into_iter().filter(|l| l.contains(" got ")).collect();
    let sent: Vec<_> = (1..=300).map(|n| format!("printer got {n}")).collect();
    assert_eq!(got, sent);
}
