// SPDX-License-Identifier: Apache-2.0
//! Modules that others have started: they find their launcher by a socket with a name, and it makes
//! one run of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::Record;
use driveline_runtime::launch::{End, Event, Placement};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use support::{Fixture, PATIENCE, Seen, graph, host};

/// Modules in processes of their own, each of which waits for a launcher.
struct Others {
    fixture: Fixture,
    accounts: PathBuf,
    processes: Vec<Child>,
}

impl Others {
    fn new(text: &str) -> Self {
        let mut fixture = Fixture::new(text);
        let accounts = fixture.dir.path().join("accounts");
        for module in &fixture.graph.modules {
            std::fs::create_dir_all(accounts.join(module.name.as_str())).unwrap();
        }
        fixture.options.placement = Some(Placement { accounts: accounts.clone(), starter: None });
        fixture.options.ready_within = PATIENCE;
        Self { fixture, accounts, processes: Vec::new() }
    }

    /// `with`: `run` or `contain`.
    fn start(&mut self, with: &str, module: &str) -> u32 {
        let child = self.command(with, module).into_inner().unwrap().spawn().unwrap();
        let pid = child.id();
        self.processes.push(child);
        pid
    }

    fn command(&self, with: &str, module: &str) -> Mutex<Command> {
        let mut command = Command::new(host());
        command
            .arg0(format!("driveline:{module}"))
            .args([with, "--module", module, "--graph"])
            .arg(&self.fixture.graph.file)
            .arg("--account-socket")
            .arg(self.accounts.join(module).join("socket"))
            .env("DRIVELINE_DOMAIN_DIR", &self.fixture.options.domain_dir)
            .env("GREETING", "hello")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Mutex::new(command)
    }

    fn codes(&mut self) -> Vec<Option<i32>> {
        self.processes.drain(..).map(|mut p| p.wait().unwrap().code()).collect()
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for mut process in self.processes.drain(..) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn modules_that_others_have_started_are_one_run_and_the_end_of_a_source_ends_all() {
    let mut others = Others::new(&graph(20, "", ""));
    // Before the launcher listens, and with and without a first process of a container.
    others.start("contain", "one");
    others.start("run", "two");
    let mut seen = Seen::default();
    let outcome = others.fixture.run(&mut seen);
    assert_eq!(outcome.end, End::Finished { component: "counter".into() }, "{:?}", seen.lines);
    assert!(outcome.down.is_empty() && outcome.killed.is_empty(), "{outcome:?}");
    assert_eq!(seen.ended(), ["two", "one"], "stopped in reverse order");
    let printed = seen.printed("one");
    assert_eq!(printed[0], "printer is ready");
    assert_eq!(printed[1], "printer got 1", "nothing is published before everybody is ready");
    assert!(printed.contains(&"printer got 20"), "{printed:?}");
    assert_eq!(seen.printed("two"), Vec::<&str>::new(), "its output is where it was started");
    let waits = |r: &Record| matches!(r, Record::Started { waits: Some(_), .. });
    assert_eq!(seen.records.iter().filter(|(_, r)| waits(r)).count(), 2);
    assert_eq!(others.codes(), [Some(0), Some(0)]);
    assert!(!others.accounts.join("one/socket").exists());
}

#[test]
fn a_module_that_is_killed_and_started_again_comes_back_into_the_run() {
    let mut others = Others::new(&graph(0, "", ""));
    others.start("contain", "one");
    let second = others.start("contain", "two");
    let command = others.command("contain", "two");
    let on_event = move |event: &Event| match event {
        // As an engine kills a container: its end comes without its word.
        Event::Running => {
            kill_process(Pid::from_raw(second.cast_signed()).unwrap(), Signal::KILL).unwrap();
        }
        // The orchestrator.
        Event::Restarts { module, .. } if module == "two" => {
            let mut again = command.lock().unwrap().spawn().unwrap();
            std::thread::spawn(move || again.wait());
        }
        _ => {}
    };
    let mut seen = Seen {
        interrupt_at: Some("works again"),
        on_event: Some(Box::new(on_event)),
        ..Seen::default()
    };
    let outcome = others.fixture.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.lines);
    assert!(outcome.down.is_empty(), "{outcome:?}");
    let death = seen.events.iter().find_map(|e| match e {
        Event::Ended { death, expected: false } => Some(death.to_string()),
        _ => None,
    });
    let death = death.unwrap();
    assert!(death.contains("'two'") && death.contains("from outside"), "{death}");
}

#[test]
fn an_interrupt_ends_the_modules_that_have_come_and_waits_for_no_other() {
    let mut others = Others::new(&graph(0, "", ""));
    others.start("run", "one");
    let is_ready: fn(&Record) -> bool = |r| matches!(r, Record::Ready);
    let mut seen = Seen { interrupt_at_record: Some(is_ready), ..Seen::default() };
    let outcome = others.fixture.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.lines);
    assert_eq!(others.codes(), [Some(0)]);
}
