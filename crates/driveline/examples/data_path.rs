// SPDX-License-Identifier: Apache-2.0
//! Sends messages over shared memory with both ends on one thread, for an instruction counter.
//!
//! `data_path [TURNS [BYTES]]` loans, writes 16 bytes, publishes, takes and releases. One match, no
//! sleeping reader. The turns are in two functions, so that a counter can count only these
//! (`docs/benchmarks.md`, Why not faster).

use driveline::types::Qos;
use driveline::{
    Context, ContextOptions, PublisherOptions, RawPublisher, RawSubscription, Reach,
    SubscriptionOptions,
};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[inline(never)]
fn loan_and_publish(publisher: &mut RawPublisher, bytes: usize, number: u64) -> Outcome {
    let mut loan = publisher.loan(bytes)?;
    if let Some(head) = loan.payload_mut().first_chunk_mut::<16>() {
        *head = u128::from(number).to_le_bytes();
    }
    publisher.publish(loan)?;
    Ok(())
}

#[inline(never)]
fn take_and_give_back(subscription: &mut RawSubscription) -> Outcome<Option<u8>> {
    let sample = subscription.take()?.ok_or("nothing came")?;
    Ok(sample.payload().and_then(|p| p.first().copied()))
}

fn main() -> Outcome {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let turns = numbers.next().unwrap_or(Ok(200))?;
    let bytes = numbers.next().unwrap_or(Ok(64))?;
    let dir = tempfile::tempdir()?;
    let context = Context::new(ContextOptions {
        domain_dir: Some(dir.path().join("domain")),
        ..ContextOptions::named("data-path")
    })?;
    let node = context.node("data-path")?;
    let (reach, qos) = (Reach::Host, Qos { depth: 1, ..Qos::default() });
    let options = PublisherOptions {
        reach,
        qos: qos.clone(),
        max_payload: bytes,
        loans: 1,
        pins: 1,
        ..Default::default()
    };
    let mut publisher = node.bytes_publisher("data", "raw", options)?;
    let options = SubscriptionOptions { reach, qos, max_held: 1, ..Default::default() };
    let mut subscription = node.bytes_subscription("data", "raw", options)?;
    while publisher.matched() == 0 || subscription.matched() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    for number in 0..turns as u64 {
        loan_and_publish(&mut publisher, bytes, number)?;
        take_and_give_back(&mut subscription)?;
    }
    println!("{turns} turns, {} ns each", start.elapsed().as_nanos() / turns.max(1) as u128);
    Ok(())
}
