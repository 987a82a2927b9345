// SPDX-License-Identifier: Apache-2.0
//! A gateway among the processes of a run. A script stands for the gateway. The topics that a
//! gateway carries are tested in the crates of the gateways.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::launch::{End, Event, GatewayOptions};
use support::{Fixture, Seen, graph, script};

/// Configuration that the launcher passes on unchanged.
const CONFIG: &str = r#"{"domain":"demo","topics":[]}"#;

/// A gateway that adds its configuration to the file `NAME.read`, and then does what `then` says.
fn gateway(f: &Fixture, name: &'static str, then: &str) -> GatewayOptions {
    let program = f.dir.path().join(name);
    script(&program, &format!("read -r config\necho \"$config\" >> \"$0.read\"\n{then}"));
    GatewayOptions { name, program, config: CONFIG.to_owned(), environment: Vec::new() }
}

/// A run with such a gateway.
fn fixture(then: &str) -> Fixture {
    let mut f = Fixture::new(&graph(0, "", ""));
    f.options.gateways = vec![gateway(&f, "gateway", then)];
    f
}

const READY: &str = "echo '{\"record\":\"ready\"}' >&0";
/// The first gateway process ends when the graph runs; the second one stays.
const ENDS_ONCE: &str = "if [ $(wc -l < \"$0.read\") = 1 ]; then read -r go; exit 7; fi";

#[test]
fn it_gets_its_configuration_is_there_before_the_modules_run_and_ends_last() {
    // The script prints before it reports that it is ready: after that, it may be ended at any
    // time.
    let f = fixture(&format!("echo carrying\n{READY}\ncat > /dev/null"));
    let mut seen = Seen { interrupt_at: Some("printer got 3"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!((outcome.end, outcome.killed.len()), (End::Interrupted, 0));
    assert_eq!(seen.ended(), ["two", "one", "gateway"]);
    assert_eq!(seen.printed("gateway"), ["carrying"]);
    let read = std::fs::read_to_string(f.dir.path().join("gateway.read")).unwrap();
    assert_eq!(read.trim_end(), f.options.gateways[0].config);
}

#[test]
fn one_that_ends_is_started_again_and_the_graph_goes_on() {
    let f = fixture(&format!("{READY}\n{ENDS_ONCE}\necho back\ncat > /dev/null"));
    let mut seen = Seen { interrupt_at: Some("back"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.lines);
    assert_eq!(seen.ended(), ["gateway", "two", "one", "gateway"]);
    assert!(seen.events.contains(&Event::Restarts { module: "gateway".into(), after_ms: 1000 }));
}

#[test]
fn of_two_only_the_one_that_has_ended_is_started_again() {
    let mut f = fixture(&format!("{READY}\necho stays\ncat > /dev/null"));
    let other =
        gateway(&f, "gateway-ros2", &format!("{READY}\n{ENDS_ONCE}\necho back\ncat > /dev/null"));
    f.options.gateways.push(other);
    let mut seen = Seen { interrupt_at: Some("back"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.lines);
    assert_eq!(seen.ended(), ["gateway-ros2", "two", "one", "gateway-ros2", "gateway"]);
    assert_eq!(
        (seen.printed("gateway"), seen.printed("gateway-ros2")),
        (vec!["stays"], vec!["back"])
    );
}

#[test]
fn without_modules_gateways_run_alone_and_are_started_again() {
    let bridge = "driveline: 1\ntopics: {camera/image: {reach: network, external: true, \
                  max_payload: 1 KiB}}\n";
    let mut f = Fixture::new(bridge);
    f.options.gateways = vec![gateway(
        &f,
        "gateway-ros2",
        &format!("{READY}\n{ENDS_ONCE}\necho back\ncat > /dev/null"),
    )];
    let mut seen = Seen { interrupt_at: Some("back"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted, "{:?}", seen.lines);
    assert_eq!(seen.ended(), ["gateway-ros2", "gateway-ros2"]);
    assert!(seen.events.contains(&Event::Running { down: vec![] }));
}

#[test]
fn one_that_cannot_start_ends_the_run_with_its_reason() {
    let f = fixture("echo '{\"record\":\"failed\",\"text\":\"the address is taken\"}' >&0\nexit 1");
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    let End::Died(death) = outcome.end else { panic!("{:?}", outcome.end) };
    assert_eq!(death.module, "gateway");
    assert!(death.to_string().contains("the address is taken"), "{death}");
    assert!(!seen.events.contains(&Event::Running { down: vec![] }));
}
