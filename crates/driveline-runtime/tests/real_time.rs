// SPDX-License-Identifier: Apache-2.0
//! What modules ask of the kernel for real time: in force in their processes, or refused once with
//! the remedy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::{Record, SettingAccount};
use driveline_runtime::launch::{End, Event, Sink, Stream};
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
    let f = Fixture::new(text);
    let (interrupt, interrupter) = driveline_runtime::launch::Interrupt::by_hand().unwrap();
    let mut reader = Reader::default();
    reader.seen.interrupter = Some(interrupter);
    let outcome =
        driveline_runtime::launch::run(&f.graph, &f.options, &interrupt, &mut reader).unwrap();
    assert_eq!(outcome.end, End::Interrupted, "{:?}", reader.seen.lines);
    reader
}

fn graph(one: &str, executor: &str) -> String {
    format!(
        "driveline: 1\nname: real\nmodules:\n  one:\n{one}    executors: {{main: {{{executor}}}}}\n    components:\n      a: {{library: lib, class: Counter, parameters: {{limit: 0}}}}\n  two:\n    components:\n      b: {{library: lib, class: Counter, parameters: {{limit: 0}}}}\n"
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
