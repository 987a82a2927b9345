// SPDX-License-Identifier: Apache-2.0
//! Graphs run by real processes: start, output, account, the ways to end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::Record;
use driveline_runtime::launch::{Death, End, Event};
use std::time::Duration;
use support::{Fixture, GRACE, Seen, graph, host, script};

#[test]
fn a_finished_component_ends_the_run_when_its_samples_are_processed() {
    let f = Fixture::new(&graph(20, "", ""));
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Finished { component: "counter".into() }, "{:?}", seen.lines);
    assert!(outcome.killed.is_empty());

    let printed = seen.printed("one");
    assert_eq!(printed[0], "printer is ready");
    assert_eq!(printed[1], "printer got 1", "nothing is published before everybody is ready");
    assert!(printed.contains(&"printer got 20"), "{printed:?}");
    assert_eq!(printed.last(), Some(&"printer is shut down"));
    assert_eq!(seen.ended(), ["two", "one"], "stopped in reverse order");

    let calls: Vec<_> = seen
        .records
        .iter()
        .filter_map(|(m, r)| if let Record::Callback(c) = r { Some((m.as_str(), c)) } else { None })
        .collect();
    let relayed: Vec<_> =
        calls.iter().filter(|(m, c)| *m == "one" && c.component == "relay").collect();
    assert_eq!(relayed.len(), 20);
    let input = &relayed[0].1.inputs[0];
    assert_eq!(
        (input.input.as_str(), input.sequence, input.triggered, input.fresh),
        ("in", 1, true, true)
    );
    assert!(
        input.publish_ns <= relayed[0].1.start_ns && relayed[0].1.start_ns <= relayed[0].1.end_ns
    );
    let at_the_end = calls.iter().find(|(_, c)| c.component == "printer").unwrap().1;
    assert_eq!(
        at_the_end.inputs[0].origins[0].topic,
        "a".parse::<driveline::types::TopicName>().unwrap().id()
    );
    assert!(
        calls.iter().any(|(_, c)| c.component == "counter"),
        "a component's own timer is accounted to it"
    );
    let published = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Output { component, output, published, .. } if component == "counter" => {
            Some((output.as_str(), *published))
        }
        _ => None,
    });
    assert_eq!(published, Some(("count", 20)));
    let ticks = calls.iter().filter(|(_, c)| c.component == "counter").count();
    assert_eq!(ticks, 21, "20 ticks publish, the 21st finishes, and none follows");
    let counted = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Counters { component, stats } if component == "relay" => Some(stats.invocations),
        _ => None,
    });
    assert_eq!(counted, Some(20));
    let received = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Input { component, input, stats, .. } if component == "relay" && input == "in" => {
            Some((stats.received, stats.missed))
        }
        _ => None,
    });
    assert_eq!(received, Some((20, 0)));
    let fact = Record::Fact {
        component: "printer".into(),
        name: "detector".into(),
        text: "none, this is a test".into(),
    };
    assert!(seen.records.contains(&("one".into(), fact)));
}

#[test]
fn a_run_whose_processes_all_get_sigterm_at_once_ends_normally() {
    let f = Fixture::new(&graph(0, "", ""));
    let mut seen = Seen { terminate_all_at: Some("printer got 3"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!((outcome.end, outcome.killed), (End::Interrupted, vec![]), "{:?}", seen.lines);
    assert_eq!(seen.printed("one").last(), Some(&"printer is shut down"));
}

/// A Ctrl-C of a terminal reaches the whole process group of the launcher, and so does the end of
/// the terminal. They also reach a process that has not left the group yet.
#[test]
fn processes_that_an_interrupt_of_the_whole_group_ends_while_they_start_are_no_failure() {
    for signal in ["INT", "HUP", "TERM"] {
        let mut f = Fixture::new(&graph(0, "", ""));
        f.options.host = f.dir.path().join("host");
        script(&f.options.host, &format!("kill -{signal} $$; exec sleep 60"));
        let mut seen = Seen { interrupt_at: Some("started as process"), ..Seen::default() };
        let outcome = f.run(&mut seen);
        assert_eq!((outcome.end, outcome.killed), (End::Interrupted, vec![]), "{signal}");
        let ends: Vec<String> = seen
            .events
            .iter()
            .filter(|e| matches!(e, Event::Ended { .. }))
            .map(ToString::to_string)
            .collect();
        let end =
            |m| format!("module '{m}' has ended (was asked to end while it was still starting)");
        assert!([end("one"), end("two")].iter().all(|end| ends.contains(end)), "{ends:?}");
    }
}

#[test]
fn what_a_slow_step_has_begun_is_ended_and_processed() {
    let modules = "modules:\n  source:\n    components:\n      counter: {library: lib, class: \
                   Counter, parameters: {limit: 3, period_ms: 2400}, outputs: {count: a}}\n  \
                   step:\n    components:\n      relay: {library: lib, class: Relay, parameters: \
                   {take_ms: 4000}, inputs: {in: {topic: a, qos: {depth: 16}}}, outputs: {out: \
                   b}}\n  end:\n    components:\n      printer: {library: lib, class: Printer, \
                   inputs: {count: {topic: b, qos: {depth: 16}}}}\n";
    let mut f = Fixture::new(&format!(
        "driveline: 1\nname: slow\ntopics:\n  a: {{reach: host, max_payload: 8}}\n  b: {{reach: \
         host, max_payload: 8}}\n{modules}"
    ));
    // Shorter than the slow call, and longer than the machine may stand still.
    f.options.quiet = Duration::from_secs(3);
    let mut seen = Seen::default();
    assert!(matches!(f.run(&mut seen).end, End::Finished { .. }));
    assert!(seen.printed("end").contains(&"printer got 3"), "{:?}", seen.lines);
}

#[test]
fn an_interrupt_stops_in_reverse_order() {
    let f = Fixture::new(&graph(0, "", ""));
    let mut seen = Seen { interrupt_at: Some("printer got 3"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted);
    assert_eq!(seen.ended(), ["two", "one"]);
    assert!(seen.printed("one").last() == Some(&"printer is shut down"), "{:?}", seen.lines);
}

#[test]
fn failures_are_reported_with_topic_and_sequence_and_the_run_goes_on() {
    let f = Fixture::new(&graph(9, "fail_on: 4", ""));
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert!(matches!(outcome.end, End::Finished { .. }));
    assert!(
        seen.said("error: component 'relay' failed on sample 4 of 'a': this number was forbidden"),
        "{:?}",
        seen.lines
    );
    assert!(seen.printed("one").contains(&"printer got 9"));
    let failures: Vec<_> =
        seen.records.iter().filter(|(_, r)| matches!(r, Record::Failure { .. })).collect();
    let expected = Record::Failure {
        component: "relay".into(),
        topic: Some("a".into()),
        sequence: Some(4),
        text: "this number was forbidden".into(),
        count: 1,
    };
    assert_eq!(failures, [&("one".into(), expected)]);
}

#[test]
fn a_crash_ends_the_run_and_is_named() {
    let f = Fixture::new(&graph(0, "abort_on: 3", ""));
    let mut seen = Seen::default();
    let End::Died(death) = f.run(&mut seen).end else { panic!("{:?}", seen.events) };
    assert_eq!(death.module, "one");
    assert!(death.how.starts_with("was killed by SIGABRT"), "{death}");
    assert_eq!(
        death.cause.as_deref(),
        Some("in component 'relay' in on_trigger on sample 3 of 'a'")
    );
    assert!(
        seen.printed("one").contains(&"printer got 2"),
        "what it said before is not lost: {:?}",
        seen.lines
    );
    assert_eq!(seen.ended(), ["one", "two"]);
}

#[test]
fn a_module_killed_from_outside_ends_the_run() {
    let f = Fixture::new(&graph(0, "", ""));
    let mut seen = Seen { kill_at: Some("printer got 2"), ..Seen::default() };
    let End::Died(Death { module, how, .. }) = f.run(&mut seen).end else { panic!() };
    assert_eq!(module, "one");
    assert!(how.contains("SIGKILL"), "{how}");
}

#[test]
fn a_module_is_ended_by_the_first_fatal_signal() {
    let f = Fixture::new(&graph(0, "", ""));
    let mut seen = Seen { crash_at: Some("printer got 2"), ..Seen::default() };
    let End::Died(Death { module, how, .. }) = f.run(&mut seen).end else {
        panic!("{:?}", seen.events)
    };
    assert_eq!(module, "one");
    assert!(how.contains("SIGSEGV"), "{how}");
}

#[test]
fn a_module_ended_from_outside_reports_it() {
    let f = Fixture::new(&graph(0, "", ""));
    let mut seen = Seen { terminate_at: Some("printer got 2"), ..Seen::default() };
    let End::Died(death) = f.run(&mut seen).end else { panic!("{:?}", seen.events) };
    assert_eq!((death.module.as_str(), death.exit_code), ("one", Some(0)));
    assert!(
        death
            .cause
            .as_ref()
            .is_some_and(|c| c.contains("another process sent it SIGTERM or SIGINT")),
        "{death}"
    );
}

#[test]
fn a_component_that_cannot_start_ends_the_run_before_anything_runs() {
    let f = Fixture::new(&graph(0, "fail_init: 1", ""));
    let mut seen = Seen::default();
    let End::Died(death) = f.run(&mut seen).end else { panic!() };
    let text = "module 'one' exited with code 1 while starting: component 'relay' cannot start: \
                asked to fail";
    assert_eq!(death.to_string(), text);
    assert!(seen.said("component 'relay' cannot start: asked to fail"), "{:?}", seen.lines);
    assert!(!seen.said("got"), "{:?}", seen.lines);
}

#[test]
fn a_module_that_does_not_stop_is_killed() {
    let mut f = Fixture::new(&graph(3, "", "hang: 1"));
    f.options.grace = GRACE;
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.killed, ["two"]);
    assert!(matches!(outcome.end, End::Finished { .. }));
    assert!(
        seen.printed("one").contains(&"printer is shut down"),
        "the others still end in good order"
    );
}

#[test]
fn modules_that_never_get_ready_are_named() {
    let mut f = Fixture::new(&graph(3, "", ""));
    let deaf = f.dir.path().join("deaf");
    script(&deaf, "exec sleep 1000");
    f.options.host = deaf;
    f.options.ready_within = Duration::from_millis(50);
    let mut seen = Seen::default();
    assert_eq!(f.run(&mut seen).end, End::NotReady { modules: vec!["one".into(), "two".into()] });
}

#[test]
fn a_host_program_of_another_build_is_named_once_with_the_remedy() {
    let mut f = Fixture::new(&graph(3, "", ""));
    let other = f.dir.path().join("other");
    let hello = r#"{"record":"hello","format":1,"module":"m","pid":1,"build":"0.0.1-deadbeef"}"#;
    script(&other, &format!("echo '{hello}' >&0\nexec sleep 1000"));
    f.options.host = other.clone();
    let mut seen = Seen { interrupt_at: Some("of another build"), ..Seen::default() };
    assert_eq!(f.run(&mut seen).end, End::Interrupted);
    let lines: Vec<String> = seen
        .events
        .iter()
        .filter(|e| matches!(e, Event::OtherBuild { .. }))
        .map(ToString::to_string)
        .collect();
    assert_eq!(lines.len(), 1, "{:?}", seen.events);
    for part in [&*other.to_string_lossy(), "0.0.1-deadbeef", "DRIVELINE_HOST"] {
        assert!(lines[0].contains(part), "{part} is missing: {}", lines[0]);
    }
}

#[test]
fn a_host_program_that_does_not_know_its_arguments_is_called_another_build() {
    let mut f = Fixture::new(&graph(3, "", ""));
    let old = f.dir.path().join("old");
    script(&old, "echo 'error: unknown option' >&2\nexit 2");
    f.options.host = old;
    let End::Died(death) = f.run(&mut Seen::default()).end else { panic!("it died") };
    let cause = death.cause.unwrap();
    assert!(cause.contains("does not understand its arguments"), "{cause}");
    assert!(cause.contains("of another build than this command"), "{cause}");
}

#[test]
fn one_module_can_run_alone_and_parameters_are_passed_on() {
    let mut f = Fixture::new(&graph(0, "", ""));
    f.options.modules = Some(vec!["one".into()]);
    f.options.set = vec!["counter.limit=2".into()];
    let mut seen = Seen::default();
    assert!(matches!(f.run(&mut seen).end, End::Finished { .. }));
    assert_eq!(
        seen.printed("one"),
        ["printer is ready", "printer got 1", "printer got 2", "printer is shut down"]
    );
    assert_eq!(seen.ended(), ["one"]);
}

#[test]
fn modules_end_when_their_launcher_is_gone() {
    let f = Fixture::new(&graph(0, "", ""));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut host = std::process::Command::new(host())
        .args(["run", "--account-stdin", "--module", "one", "--graph"])
        .arg(&f.graph.file)
        .env("DRIVELINE_DOMAIN_DIR", f.dir.path().join("domain"))
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(ours);
    assert!(host.wait().unwrap().success());
}

#[test]
fn modules_exchange_samples_over_host_topics_from_the_first_one_on() {
    let f = Fixture::new(
        "driveline: 1\nname: demo\ntopics:\n  a: {reach: host, max_payload: 8, qos: {depth: \
         64}}\n  b: {reach: host, max_payload: 8, qos: {depth: 64}}\nmodules:\n  source:\n    \
         components:\n      counter: {library: lib, class: Counter, parameters: {limit: 20}, \
         outputs: {count: a}}\n  middle:\n    components:\n      relay: {library: lib, class: \
         Relay, inputs: {in: a}, outputs: {out: b}}\n  sink:\n    components:\n      printer: \
         {library: lib, class: Printer, inputs: {count: b}}\n      second: {library: lib, class: \
         Printer, inputs: {count: a}}\n",
    );
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Finished { component: "counter".into() }, "{:?}", seen.lines);
    let printed = seen.printed("sink");
    for n in 1..=20 {
        assert!(
            printed.contains(&format!("printer got {n}").as_str())
                && printed.contains(&format!("second got {n}").as_str()),
            "{n}: {printed:?}"
        );
    }
    let end = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Callback(c) if c.component == "printer" => Some(c.clone()),
        _ => None,
    });
    let header = end.unwrap().inputs[0].header();
    let origin = header.origins.as_slice()[0];
    assert_eq!(
        origin.topic,
        "a".parse::<driveline::types::TopicName>().unwrap().id(),
        "the lineage crosses processes"
    );
    assert_eq!(
        origin.communication_ns + origin.computation_ns + origin.idle_ns,
        origin.age_ns(header.publish_time)
    );
}

/// The counter publishes each 20 ms, but both ends have a deadline of 1 ms.
#[test]
fn components_are_called_with_missed_deadlines_and_both_ends_count_them() {
    for reach in ["host", "process"] {
        let counter = "counter: {library: lib, class: Counter, parameters: {period_ms: 20}, \
                       outputs: {count: a}}";
        let printer = "printer: {library: lib, class: Printer, \
                       inputs: {count: {topic: a, qos: {depth: 16}}}}";
        let modules = match reach {
            "host" => format!(
                "  two:\n    components:\n      {counter}\n  one:\n    components:\n      \
                 {printer}\n"
            ),
            _ => format!("  one:\n    components:\n      {counter}\n      {printer}\n"),
        };
        let topic =
            format!("topics:\n  a: {{reach: {reach}, max_payload: 8, qos: {{deadline_ms: 1}}}}\n");
        let f = Fixture::new(&format!("driveline: 1\nname: late\n{topic}modules:\n{modules}"));
        let mut seen = Seen { interrupt_at: Some("both ends know"), ..Seen::default() };
        assert_eq!(f.run(&mut seen).end, End::Interrupted, "{:?}", seen.lines);
        let (mut offered, mut requested, mut failed, mut runs) = (0, 0, (0, 0), 0);
        for (_, record) in &seen.records {
            match record {
                Record::Output { deadlines_missed, .. } => offered = *deadlines_missed,
                Record::Input { stats, .. } => requested = stats.deadlines_missed,
                Record::Counters { component, stats } if component == "counter" => {
                    (failed, runs) = ((stats.failed, stats.failed_events), stats.invocations)
                }
                _ => {}
            }
        }
        let known = seen
            .printed("one")
            .iter()
            .find_map(|l| l.strip_prefix("both ends know that ")?.split(' ').next()?.parse().ok());
        assert!(
            known.is_some_and(|known: u64| known > 0 && known <= requested) && offered > 0,
            "{offered}, {requested}, {known:?}"
        );
        assert!(
            failed.0 == 0 && failed.1 > 0,
            "failed calls with events have a counter: {failed:?}"
        );
        let ticks = seen
            .records
            .iter()
            .filter(|(_, r)| matches!(r, Record::Callback(c) if c.component == "counter"))
            .count();
        assert_eq!(runs, ticks as u64, "calls with events are no runs");
    }
}

#[test]
fn connections_that_never_existed_are_in_the_outcome_with_their_reason() {
    let modules = "modules:\n  one:\n    components:\n      counter: {library: lib, class: \
                   Counter, parameters: {limit: 5}, outputs: {count: a}}\n  two:\n    environment: \
                   {DRIVELINE_DOMAIN_DIR: PRIVATE}\n    components:\n      other: {library: lib, \
                   class: Counter, parameters: {period_ms: 5}, outputs: {count: b}}\n      \
                   printer: {library: lib, class: Printer, inputs: {count: a}}\n      \
                   other_printer: {library: lib, class: Printer, inputs: {count: b}}\n";
    let private = tempfile::tempdir().unwrap();
    let modules = modules.replace("PRIVATE", &private.path().join("domain").display().to_string());
    let mut f = Fixture::new(&format!(
        "driveline: 1\nname: parted\ntopics:\n  a: {{reach: host, max_payload: 8}}\n  b: {{reach: \
         host, max_payload: 8}}\n{modules}"
    ));
    f.options.matched_within = Duration::ZERO;
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert!(matches!(outcome.end, End::Finished { .. }));
    let [edge] = outcome.unconnected.as_slice() else { panic!("{outcome:?}") };
    assert_eq!((&*edge.topic, &*edge.publisher, &*edge.subscription), ("a", "counter", "printer"));
    assert!(
        edge.why.contains("is not seen in ") && edge.why.contains("another directory"),
        "{edge}"
    );
    assert!(!seen.printed("two").iter().any(|l| l.starts_with("printer got")));
    // The launcher does not see the other directory, but the module there reports that its ends are
    // connected.
    let matched = Event::Matched {
        topic: "b".into(),
        publisher: "other".into(),
        subscription: "other_printer".into(),
    };
    assert!(seen.events.contains(&matched), "{:?}", seen.events);
}
