// SPDX-License-Identifier: Apache-2.0
//! Executors that always have work, on a virtual clock.
use super::*;
use driveline_types::VirtualClock;

/// A component whose timer overruns by a tenth, next to another component. What a second thread does meanwhile is done
/// within the call: `run_ready` there finds the group busy.
#[test]
fn a_timer_that_overruns_leaves_the_others_of_its_component_their_calls() {
    for threads in [1, 2] {
        let clock = VirtualClock::starting_at(MonotonicNs(1_000_000_000));
        let _entered = clock.enter();
        let r = Arc::new(rig(threads));
        let timer = |name: &str, group: &CallbackGroup, period, tick: Box<dyn Fn() + Send + Sync>| {
            let options = TimerOptions { name: name.into(), group: group.clone(), period: Duration::from_millis(period) };
            r.executor.add_timer(options, move |_| tick()).unwrap()
        };
        let feed = Mutex::new(r.publisher("tick"));
        let other = r.executor.group(GroupKind::MutuallyExclusive);
        let source = timer("fast", &other, 20, Box::new(move || send(&mut feed.lock().unwrap(), 0, 1)));
        let (time, weak) = (clock.clone(), Arc::downgrade(&r));
        let plan = move || {
            for _ in 0..11 {
                time.advance(Duration::from_millis(10));
                (threads > 1).then(|| weak.upgrade().unwrap().executor.run_ready());
            }
        };
        let group = r.executor.group(GroupKind::MutuallyExclusive);
        let plans = timer("plan", &group, 100, Box::new(plan));
        let beats = timer("beat", &group, 100, Box::new(|| {}));
        let o = CallbackOptions { name: "in".into(), group, trigger: Trigger::any(), inputs: vec![r.input("tick", 1)] };
        let inputs = r.executor.add_callback(o, |_| {}).unwrap();
        while clock.now() < MonotonicNs(9_000_000_000) {
            if r.executor.run_ready() == 0 {
                clock.advance(Duration::from_millis(1));
            }
        }
        let [published, plans, beats, calls] = [&source, &plans, &beats, &inputs].map(|h| h.stats().invocations);
        assert!(plans >= 60 && beats * 5 >= plans * 4 && calls * 5 >= plans * 4, "plans {plans}, heartbeats {beats}, inputs {calls}");
        let input = &inputs.inputs()[0].stats;
        assert_eq!(published, input.received + input.missed + input.not_read, "{input:?}");
    }
}

#[test]
fn a_stop_ends_work_that_never_ends() {
    let r = rig(2);
    let (feed, handed) = (Mutex::new(r.publisher("feed")), mpsc::channel());
    r.callback(Trigger::any(), vec![r.input("feed", 1)], move |_| {
        send(&mut feed.lock().unwrap(), 0, 1);
        let _ = handed.0.send(());
    });
    send(&mut r.publisher("feed"), 0, 1);
    r.executor.start().unwrap();
    for _ in 0..100 {
        handed.1.recv_timeout(PATIENCE).unwrap();
    }
    r.executor.stop();
    assert_eq!(r.executor.run_ready(), 0, "nothing new is begun after a stop");
}

#[test]
fn events_are_polled_although_work_never_ends() {
    let clock = driveline_types::VirtualClock::starting_at(MonotonicNs(1_000_000_000));
    let _entered = clock.enter();
    let r = rig(1);
    let refusals = Arc::new(Refusals::default());
    r.executor.set_observer(refusals.clone());
    let feed = Mutex::new(r.publisher("feed"));
    let time = clock.clone();
    r.callback(Trigger::any(), vec![r.input("feed", 1), r.input("camera", 1)], move |_| {
        time.advance(Duration::from_millis(1));
        send(&mut feed.lock().unwrap(), 0, 1);
    });
    send(&mut r.publisher("feed"), 0, 1);
    // 64 ms of work each; the first call polls at once, the next poll comes 100 ms later.
    assert_eq!(r.executor.run_ready(), 64);
    let _other = r.node.bytes_publisher("camera", "another", PublisherOptions::default()).unwrap();
    assert_eq!(r.executor.run_ready(), 64);
    let refusals = refusals.0.lock().unwrap();
    assert!(refusals.len() == 1 && refusals[0].starts_with("callback camera: topic 'camera'"), "{refusals:?}");
}
