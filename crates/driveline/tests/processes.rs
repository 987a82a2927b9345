// SPDX-License-Identifier: Apache-2.0
//! Tests that need the rights of root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use driveline::{
    CallbackOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind,
    PublisherOptions, Reach, Schedule, SchedulingClass, SubscriptionOptions, Trigger,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Only a failure takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of rounds in which the publisher interrupted the reader.
const ROUNDS: u64 = 300;

fn fifo(priority: u8, cpu: usize) -> Schedule {
    Schedule { class: SchedulingClass::Fifo, priority, cpus: vec![cpu], ..Schedule::default() }
}

/// Three threads run on one core: an executor at FIFO 50, a publisher at FIFO 20, and a reader
/// without priority, which reads the counters. After each publish, the publisher spins until the
/// executor has received the sample. The publisher interrupts the reader anywhere within a read of
/// the counters. If the executor needed a lock that the interrupted reader holds, the reader would
/// have to continue before the executor receives the sample. The test checks that the reader does
/// not continue.
#[test]
#[ignore = "needs root, for real-time priorities: make test runs it as root"]
fn an_executor_does_not_wait_for_a_starved_reader_of_its_counters() {
    for reach in [Reach::Process, Reach::Host] {
        let dir = tempfile::tempdir().unwrap();
        let directory = Some(dir.path().join("domain"));
        let context =
            Context::new(ContextOptions { name: "test".into(), domain_dir: directory }).unwrap();
        let node = context.node("test").unwrap();
        let cpu = Schedule::default().apply_to_this_thread("test").cpus[0];
        let schedule = fifo(50, cpu);
        let executor = Executor::new(ExecutorOptions { schedule, ..Default::default() }).unwrap();
        let o = PublisherOptions { reach, ..Default::default() };
        let mut publisher = node.bytes_publisher("topic", "raw", o).unwrap();
        let mut inputs = Vec::new();
        for i in 0..16 {
            let topic = if i == 0 { "topic".to_owned() } else { format!("other{i}") };
            let o = SubscriptionOptions { reach, ..Default::default() };
            inputs.push((topic.clone(), node.bytes_subscription(&topic, "raw", o).unwrap()));
        }
        let received = Arc::new(AtomicU64::new(0));
        let count = received.clone();
        let group = executor.group(GroupKind::MutuallyExclusive);
        let options = CallbackOptions { name: "c".into(), group, trigger: Trigger::any(), inputs };
        let call = move |_: &driveline::Invocation<'_>| {
            count.fetch_add(1, Ordering::Release);
        };
        let handle = executor.add_callback(options, call).unwrap();
        let reports = executor.start().unwrap();
        assert!(reports[0].refused.is_empty(), "{}", reports[0]);

        let (looks, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let reader = {
            let (looks, ended) = (looks.clone(), ended.clone());
            let placed = Schedule { cpus: vec![cpu], ..Schedule::default() };
            std::thread::spawn(move || {
                assert!(placed.apply_to_this_thread("reader").refused.is_empty());
                while !ended.load(Ordering::Relaxed) {
                    let _ = handle.inputs();
                    looks.fetch_add(1, Ordering::Release);
                }
            })
        };
        let seen = (received, looks);
        let spinner = std::thread::spawn(move || {
            let (received, looks) = seen;
            assert!(fifo(20, cpu).apply_to_this_thread("spinner").refused.is_empty());
            let deadline = Instant::now() + PATIENCE;
            while publisher.matched() == 0 {
                assert!(Instant::now() < deadline, "not matched within 60 s");
                // time: a pause between polls; the test fails only after 60 s
                std::thread::sleep(Duration::from_millis(1));
            }
            let (mut rounds, mut sent) = (0, 0);
            let mut last = looks.load(Ordering::Acquire);
            while rounds < ROUNDS {
                assert!(Instant::now() < deadline, "{rounds} rounds within 60 s, {sent} samples");
                // time: the reader runs meanwhile; a round counts only if the reader ran
                std::thread::sleep(Duration::from_micros(700));
                let before = looks.load(Ordering::Acquire);
                rounds += u64::from(before > last);
                last = before;
                sent += 1;
                let loan = publisher.loan(1).unwrap();
                publisher.publish(loan).unwrap();
                while received.load(Ordering::Acquire) < sent {
                    assert!(Instant::now() < deadline, "sample {sent} is not received");
                    std::hint::spin_loop();
                }
                let after = looks.load(Ordering::Acquire);
                assert_eq!(before, after, "{reach:?}: the reader had to go on in round {rounds}");
            }
        });
        let outcome = spinner.join();
        ended.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        executor.stop();
        outcome.unwrap();
    }
}
