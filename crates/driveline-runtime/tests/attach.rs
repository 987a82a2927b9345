// SPDX-License-Identifier: Apache-2.0
//! Modules that others have started: they find their launcher by a named socket, and the launcher
//! combines them in one run.

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
        let command = self.command(with, module);
        self.spawn(command)
    }

    fn spawn(&mut self, mut command: Command) -> u32 {
        let child = command.spawn().unwrap();
        let pid = child.id();
        self.processes.push(child);
        pid
    }

    fn command(&self, with: &str, module: &str) -> Command {
        self.command_at(with, module, module)
    }

    /// `at`: module whose socket the process connects to.
    fn command_at(&self, with: &str, module: &str, at: &str) -> Command {
        let mut command = Command::new(host());
        command
            .arg0(format!("driveline:{module}"))
            .args([with, "--module", module, "--graph"])
            .arg(&self.fixture.graph.file)
            .arg("--account-socket")
            .arg(self.accounts.join(at).join("socket"))
            .env("DRIVELINE_DOMAIN_DIR", &self.fixture.options.domain_dir)
            .env("GREETING", "hello")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
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
    // Both start before the launcher listens: one as in a container, with a first process, and one
    // without.
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
    let command = Mutex::new(others.command("contain", "two"));
    let on_event = move |event: &Event| match event {
        // As if an engine kills the container: its first process ends without a last record.
        Event::Running { .. } => {
            kill_process(Pid::from_raw(second.cast_signed()).unwrap(), Signal::KILL).unwrap();
        }
        // Acts as the orchestrator, which starts the module again.
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

#[test]
fn a_module_on_the_socket_of_another_is_refused_at_both_ends() {
    for with in ["contain", "run"] {
        let mut others = Others::new(&graph(0, "", ""));
        others.start("contain", "one");
        let wrong = others.command_at(with, "one", "two");
        others.spawn(wrong);
        let mut right = Some(others.command("contain", "two"));
        let on_event = move |event: &Event| {
            if matches!(event, Event::Refused { module, .. } if module == "two")
                && let Some(mut right) = right.take()
            {
                let mut right = right.spawn().unwrap();
                std::thread::spawn(move || right.wait());
            }
        };
        let mut seen = Seen {
            interrupt_at: Some("all modules are ready"),
            on_event: Some(Box::new(on_event)),
            ..Seen::default()
        };
        let outcome = others.fixture.run(&mut seen);
        assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.lines);
        let failed = |e: &&Event| matches!(e, Event::Ended { expected: false, .. });
        assert_eq!(seen.events.iter().find(failed), None);
        let named = seen.events.iter().map(ToString::to_string);
        assert!(named.into_iter().any(|text| text.contains("it runs module 'one'")));
        assert_ne!(others.codes()[1], Some(0), "{with}");
    }
}

#[test]
fn a_module_with_other_settings_is_named() {
    let mut others = Others::new(&graph(20, "", ""));
    others.start("contain", "one");
    let mut other = others.command("contain", "two");
    other.args(["--set", "other.period_ms=6"]);
    others.spawn(other);
    let mut seen = Seen::default();
    let outcome = others.fixture.run(&mut seen);
    assert_eq!(outcome.end, End::Finished { component: "counter".into() }, "{:?}", seen.lines);
    let named = seen.events.iter().filter_map(|e| match e {
        Event::OtherGraph { module } => Some(module.as_str()),
        _ => None,
    });
    assert_eq!(named.collect::<Vec<_>>(), ["two"]);
}

#[test]
fn a_suspended_first_process_does_not_hold_up_the_end() {
    let mut others = Others::new(&graph(0, "", ""));
    others.start("contain", "one");
    let second = others.start("contain", "two");
    let on_event = move |event: &Event| {
        if matches!(event, Event::Running { .. }) {
            kill_process(Pid::from_raw(second.cast_signed()).unwrap(), Signal::STOP).unwrap();
        }
    };
    let mut seen = Seen {
        interrupt_at: Some("all modules are ready"),
        on_event: Some(Box::new(on_event)),
        ..Seen::default()
    };
    let outcome = others.fixture.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.lines);
    assert_eq!(outcome.killed, ["two"], "{outcome:?}");
    let of_second = seen.events.iter().find_map(|e| match e {
        Event::Ended { death, .. } if death.module == "two" => Some(death.to_string()),
        _ => None,
    });
    assert!(of_second.as_ref().is_some_and(|d| d.contains("does not respond")), "{of_second:?}");
}

#[test]
fn a_socket_that_cannot_be_made_ends_the_start() {
    let others = Others::new(&graph(0, "", ""));
    std::fs::create_dir(others.accounts.join("two/socket")).unwrap();
    let mut seen = Seen::default();
    let End::Died(death) = others.fixture.run(&mut seen).end else { panic!("{:?}", seen.lines) };
    let text = death.to_string();
    assert!(text.contains("'two'") && text.contains("two/socket: Is a directory"), "{text}");
    let restarts = seen.events.iter().filter(|e| matches!(e, Event::Restarts { .. }));
    assert_eq!(restarts.count(), 0, "{:?}", seen.lines);
}
