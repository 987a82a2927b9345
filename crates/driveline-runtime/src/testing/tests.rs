// SPDX-License-Identifier: Apache-2.0
//! Tests of components without processes, with components of the test's own.

use super::*;
use crate::component::{Component, ComponentFailure, ComponentIo, LoadError, StopHandle};
use driveline::{EndpointEvent, Invocation, PortEvent};
use driveline_graph::descriptor::ParameterDecl;
use std::sync::Mutex;

/// Adds `offset` to each number, reports the time every 100 ms, and remembers missed deadlines.
struct Adder {
    io: Mutex<Option<(RawPublisher, StopHandle)>>,
    offset: Mutex<u8>,
}

struct Library;

fn port(name: &str) -> Port {
    Port { name: name.into(), schema: Schema::bytes("test/Number", "u8", ""), doc: String::new() }
}

impl ComponentLibrary for Library {
    fn classes(&self) -> Vec<ComponentClass> {
        let offset = ParameterDecl {
            name: "offset".into(),
            default: ParameterValue::Integer(1),
            doc: String::new(),
            range: None,
            live: None,
        };
        vec![ComponentClass {
            name: "Adder".into(),
            doc: String::new(),
            inputs: vec![port("number"), port("other")],
            outputs: vec![port("sum"), port("ticks")],
            parameters: vec![offset],
        }]
    }

    fn create(&self, _: &str, _: &str) -> Result<Box<dyn Component>, LoadError> {
        Ok(Box::new(Adder { io: Mutex::default(), offset: Mutex::new(0) }))
    }
}

fn publish(to: &mut RawPublisher, value: u8) {
    let mut loan = to.loan(1).unwrap();
    loan.payload_mut()[0] = value;
    to.publish(loan).unwrap();
}

impl Component for Adder {
    fn init(&self, mut io: ComponentIo) -> Result<(), ComponentFailure> {
        let ParameterValue::Integer(offset) = io.parameters["offset"] else { unreachable!() };
        if offset == 100 {
            return Err(ComponentFailure { text: "100 is too much".into() });
        }
        *self.offset.lock().unwrap() = u8::try_from(offset).unwrap();
        let mut ticks = io.outputs.pop().unwrap();
        let sum = io.outputs.pop().unwrap();
        *self.io.lock().unwrap() = Some((sum, io.stop));
        let ticks_of_timer = Mutex::new(0);
        let start = MonotonicNs::now();
        publish(&mut ticks, 77);
        let ticks = Mutex::new(ticks);
        io.timers
            .add(Duration::from_millis(100), move |tick| {
                let mut count = ticks_of_timer.lock().unwrap();
                *count += 1;
                assert_eq!(tick.scheduled, start + Duration::from_millis(100) * u32::from(*count));
                assert_eq!(tick.scheduled, MonotonicNs::now(), "at the time at which it is due");
                publish(&mut ticks.lock().unwrap(), *count);
                Ok(())
            })
            .unwrap();
        Ok(())
    }

    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure> {
        let number = invocation.sample(0).map(|s| s.payload().unwrap()[0]);
        let mut io = self.io.lock().unwrap();
        let (sum, stop) = io.as_mut().unwrap();
        match number {
            Some(255) => return Err(ComponentFailure { text: "255 does not fit".into() }),
            Some(254) => (0..20).for_each(|i| publish(sum, i)),
            Some(253) => stop.finish(),
            Some(n) => publish(sum, n + *self.offset.lock().unwrap()),
            None => publish(sum, 200),
        }
        Ok(())
    }

    fn on_event(&self, event: &PortEvent) -> Result<(), ComponentFailure> {
        if let EndpointEvent::DeadlineMissed { .. } = event.event {
            let mut io = self.io.lock().unwrap();
            publish(&mut io.as_mut().unwrap().0, 99);
        }
        Ok(())
    }

    fn shutdown(&self) {
        let mut io = self.io.lock().unwrap();
        publish(&mut io.as_mut().unwrap().0, 111);
    }
}

fn test(settings: &str) -> ComponentTest {
    ComponentTest::new(&Library, "Adder", &TestSettings::from_yaml(settings).unwrap()).unwrap()
}

fn all(test: &mut ComponentTest, port: &str) -> Vec<u8> {
    std::iter::from_fn(|| test.take(port).unwrap()).map(|s| s.payload().unwrap()[0]).collect()
}

fn feed(test: &ComponentTest, port: &mut RawPublisher, value: u8) {
    let _entered = test.clock().enter();
    publish(port, value);
}

#[test]
fn what_is_fed_comes_out_and_time_is_the_tests() {
    let mut t = test("{parameters: {offset: 5}, inputs: {number: {qos: {depth: 2}}}}");
    assert_eq!(all(&mut t, "ticks"), [77], "published by init");
    let mut number = t.input("number").unwrap();
    feed(&t, &mut number, 1);
    assert_eq!(all(&mut t, "sum"), [0u8; 0], "nothing runs by itself");
    assert_eq!(t.run().unwrap(), 1);
    let sample = t.take("sum").unwrap().unwrap();
    assert_eq!(sample.payload(), Some(&[6][..]));
    assert_eq!(sample.header().publish_time, t.clock().now(), "published on the test's clock");
    assert!(t.take("sum").unwrap().is_none());

    assert_eq!(t.advance(Duration::from_millis(350)).unwrap(), 3);
    assert_eq!(all(&mut t, "ticks"), [1, 2, 3]);
    assert_eq!(t.clock().now(), START + Duration::from_millis(350));

    // An input keeps as many samples as its QoS says. The other samples are counted as missed.
    for n in 1..=5 {
        feed(&t, &mut number, n);
    }
    assert_eq!(t.run().unwrap(), 2);
    assert_eq!(all(&mut t, "sum"), [9, 10]);
    let stats = t.input_stats("number").unwrap();
    assert_eq!((stats.received, stats.missed), (3, 3));
}

#[test]
fn triggers_and_deadlines_follow_the_tests_clock() {
    let mut t =
        test("{trigger: {kind: timer, period_ms: 30}, inputs: {other: {qos: {deadline_ms: 40}}}}");
    assert_eq!(t.advance(Duration::from_millis(95)).unwrap(), 3);
    assert_eq!(all(&mut t, "sum"), [200; 3]);
    let mut other = t.input("other").unwrap();
    feed(&t, &mut other, 1);
    t.advance(Duration::from_millis(200)).unwrap();
    assert!(all(&mut t, "sum").contains(&99), "on_event was called with a missed deadline");
    assert!(t.input_stats("other").unwrap().deadlines_missed >= 4);
}

#[test]
fn failures_are_errors_of_the_step_and_the_component_stays_in_service() {
    let mut t = test("");
    let mut number = t.input("number").unwrap();
    feed(&t, &mut number, 255);
    let failed = t.run().unwrap_err().to_string();
    assert_eq!(
        failed,
        "error: component 'component' failed on sample 1 of 'in/number': 255 does not fit"
    );
    feed(&t, &mut number, 1);
    assert_eq!(t.run().unwrap(), 1);
    assert_eq!(all(&mut t, "sum"), [2]);

    feed(&t, &mut number, 254);
    let lost = t.run().unwrap_err().to_string();
    assert!(lost.contains("output 'sum': 12 samples were lost"), "{lost}");
    assert_eq!(all(&mut t, "sum").len(), 8);
    t.run().unwrap();

    assert!(!t.is_finished());
    feed(&t, &mut number, 253);
    t.run().unwrap();
    assert!(t.is_finished());
    t.shut_down();
    assert_eq!(all(&mut t, "sum"), [111]);
}

#[test]
fn mistakes_are_named_with_what_there_is() {
    let error = |class: &str, settings: &str| {
        TestSettings::from_yaml(settings)
            .and_then(|s| ComponentTest::new(&Library, class, &s).map(drop))
            .unwrap_err()
            .to_string()
    };
    for (class, settings, says) in [
        ("Ader", "", "no component class 'Ader'; did you mean `Adder`?"),
        ("Adder", "{parameters: {ofset: 1}}", "`offset`"),
        ("Adder", "{parameters: {offset: many}}", "offset"),
        ("Adder", "{parameters: {offset: 100}}", "100 is too much"),
        ("Adder", "{trigger: {kind: all_latest, on: nothing}}", "nothing"),
        ("Adder", "{triggr: {kind: any}}", "`trigger`"),
        ("Adder", "{inputs: {numbr: {}}}", "no input 'numbr'; did you mean `number`?"),
        ("Adder", "{outputs: {nothing: {}}}", "no output 'nothing'; outputs: `sum`, `ticks`"),
    ] {
        let text = error(class, settings);
        assert!(text.contains(says) && !text.contains('\n'), "{settings}: {text}");
    }
    let mut t = test("");
    assert!(t.take("summ").unwrap_err().to_string().contains("did you mean `sum`?"));
    assert!(t.input("sum").is_err() && t.input_stats("x").is_err());
    let image = Schema::bytes("test/Image", "u8", "");
    let text = t.check_input("number", &image).unwrap_err().to_string();
    assert_eq!(text, "input 'number' carries bytes 'test/Number', not bytes 'test/Image'");
    let other = Schema::bytes("test/Number", "u8", "other");
    let text = t.check_output("sum", &other).unwrap_err().to_string();
    assert!(text.contains("different definitions"), "{text}");
    t.check_output("sum", &port("x").schema).unwrap();
}

#[test]
fn tests_side_by_side_have_clocks_of_their_own() {
    let (mut a, mut b) = (test(""), test(""));
    a.advance(Duration::from_secs(1)).unwrap();
    b.run().unwrap();
    assert_eq!(b.clock().now(), START);
    assert_eq!((all(&mut a, "ticks").len(), all(&mut b, "ticks").len()), (11, 1));
    drop(a);
    b.advance(Duration::from_millis(100)).unwrap();
    assert_eq!(all(&mut b, "ticks"), [1]);
    assert!(VirtualClock::current().is_none(), "left after each call");
}
