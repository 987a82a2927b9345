// SPDX-License-Identifier: Apache-2.0
//! The first wait of a subscription creates the resources for waiting. If a sample arrives
//! meanwhile, the wait must still end.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use driveline::{Context, ContextOptions, PublisherOptions, Reach, SubscriptionOptions, WaitMode};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Only a lost wake-up takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each round creates a subscription, and publishes 0 to 30 µs after this subscription begins to
/// wait.
fn rounds(reach: Reach, rounds: u32) {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new(ContextOptions {
        domain_dir: Some(dir.path().join("d")),
        ..ContextOptions::named("a")
    })
    .unwrap();
    let node = context.node("n").unwrap();
    for round in 0..rounds {
        let mut publisher = node
            .bytes_publisher(
                "data",
                "raw",
                PublisherOptions { reach, max_payload: 64, ..Default::default() },
            )
            .unwrap();
        let mut subscription = node
            .bytes_subscription("data", "raw", SubscriptionOptions { reach, ..Default::default() })
            .unwrap();
        while publisher.matched() == 0 {
            std::thread::yield_now();
        }
        let loan = publisher.loan(8).unwrap();
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                let until = Instant::now() + Duration::from_nanos(u64::from(round % 60) * 500);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                publisher.publish(loan).unwrap();
            });
            both.wait();
            let begun = Instant::now();
            // If the wake-up was lost, the wait finds the sample only after the time-out.
            assert!(subscription.wait(Some(PATIENCE), WaitMode::Block).unwrap());
            assert!(begun.elapsed() < PATIENCE, "round {round}: the sample did not end the wait");
        });
    }
}

#[test]
fn nothing_is_slept_over_inside_a_process() {
    rounds(Reach::Process, 3000);
}

#[test]
fn nothing_is_slept_over_between_processes() {
    rounds(Reach::Host, 300);
}
