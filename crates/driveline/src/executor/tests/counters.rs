// SPDX-License-Identifier: Apache-2.0
//! Counters are read without a lock of the executor.
use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Calls a function when the executor drops the value, while the executor has the lock of the
/// inputs.
struct Asks(Box<dyn Fn() + Send + Sync>);

impl Drop for Asks {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A thread of low priority that reads counters may be suspended for seconds, so reading must not
/// take a lock of the executor. Here the executor's own thread reads the counters while it checks
/// the inputs: if reading took that lock, this thread would block for ever.
#[test]
fn counters_are_read_while_the_executor_has_the_inputs() {
    // Never dropped: if the test fails, the drop would wait for the blocked thread.
    let rig = std::mem::ManuallyDrop::new(rig(1));
    let input = rig
        .node
        .raw_subscription(
            "topic",
            <crate::Object<Asks> as crate::Value>::schema(),
            SubscriptionOptions { max_held: 3, ..Default::default() },
        )
        .unwrap();
    let read_only = vec![rig.input("go", 1), ("topic".into(), input)];
    let handle = rig.callback(Trigger::AllLatest { on: 0, max_age: None }, read_only, |_| {});
    let mut publisher = rig
        .node
        .value_publisher::<crate::Object<Asks>>("topic", PublisherOptions::default())
        .unwrap();
    let mut go = rig.publisher("go");
    let (asked, answers) = mpsc::channel();
    rig.executor.start().unwrap();
    let is_called = |calls: u64| {
        let deadline = std::time::Instant::now() + PATIENCE;
        while handle.stats().invocations < calls && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        handle.stats().invocations
    };
    let asks = || {
        let (handle, asked) = (handle.clone(), Mutex::new(asked.clone()));
        Asks(Box::new(move || {
            let received = handle.inputs()[1].stats.received;
            let _ = asked.lock().unwrap().send(received);
        }))
    };
    // Publishes twice: the second value replaces the first, which the executor then drops.
    for round in 1..=2 {
        publisher.publish(asks()).unwrap();
        send(&mut go, 0, round);
        assert_eq!(is_called(round), round);
    }
    assert!(answers.recv_timeout(PATIENCE).is_ok_and(|received| received <= 2));
    assert_eq!(handle.inputs()[1].stats.received, 2);
}

/// The number of published samples equals the sum of the counters whenever no sample is being
/// published.
#[test]
fn counters_add_up_whenever_they_are_read() {
    for reach in [crate::Reach::Process, crate::Reach::Host] {
        let rig = rig(1);
        let o = PublisherOptions { reach, ..Default::default() };
        let mut publisher = rig.node.bytes_publisher("topic", "raw", o).unwrap();
        let qos = Qos { depth: 4, ..Qos::default() };
        let o = SubscriptionOptions { reach, qos, max_held: 8, ..Default::default() };
        let input = rig.node.bytes_subscription("topic", "raw", o).unwrap();
        // A sample counts for the input only after the input's own end is matched.
        while publisher.matched() == 0 || input.matched() == 0 {
            std::thread::yield_now();
        }
        let handle = rig.callback(Trigger::any(), vec![("topic".into(), input)], |_| {});
        rig.executor.start().unwrap();
        let (published, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let reader = {
            let (handle, published, ended) = (handle.clone(), published.clone(), ended.clone());
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let before = published.load(Ordering::Acquire);
                    let stats = handle.inputs()[0].stats;
                    let sum = stats.came();
                    let after = published.load(Ordering::Acquire) + 1;
                    // A publish into a full queue removes the oldest sample a moment before it
                    // counts this sample as missed.
                    let least = before.saturating_sub(1);
                    assert!((least..=after + 1).contains(&sum), "{before}..={after}: {stats:?}");
                }
            })
        };
        for n in 1..=3000 {
            send(&mut publisher, 0, n);
            published.store(n, Ordering::Release);
        }
        ended.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        let deadline = std::time::Instant::now() + PATIENCE;
        while handle.inputs()[0].stats.not_read > 0 && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let stats = handle.inputs()[0].stats;
        assert_eq!(stats.came(), 3000, "{reach:?} {stats:?}");
    }
}
