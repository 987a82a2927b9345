// SPDX-License-Identifier: Apache-2.0
//! Many hosts and many topics: time until all hosts have found each other, resources of gateways at
//! rest and under load, transit times, and the outage after a gateway is killed. Run it on a quiet
//! machine, as root: `cargo bench -p driveline-gateway-zenoh --features engine --bench many_hosts`.
//! HOSTS= and TOPICS= change the numbers (8 and 1000). docs/scaling.md has the results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark may stop at a surprise"
)]

#[path = "../tests/rig/mod.rs"]
mod rig;

use driveline::types::Qos;
use driveline::{RawPublisher, RawSubscription};
use rig::net::Net;
use rig::{Host, Transit, carried, eventually, publisher_options, signed_ms, subscription_options};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PAYLOAD: usize = 1024;
/// Period of each topic.
const PERIOD: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(15);

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect(variable))
}

/// Returns the processor time of a process so far, in seconds, and its number of threads.
fn used(pid: u32) -> (f64, u64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    (ticks as f64 / rustix::param::clock_ticks_per_second() as f64, fields[17].parse().unwrap())
}

fn cpu_of(hosts: &[Host]) -> f64 {
    hosts.iter().map(|h| used(h.pid()).0).sum()
}

/// Publishes on every topic once a period, evenly spread, and reads arriving samples. Returns
/// transit times in nanoseconds, and the number of sent samples.
fn work(publishers: &mut [RawPublisher], subscriptions: &mut [RawSubscription]) -> (Vec<i64>, u64) {
    let mut transits = Vec::new();
    let mut sent = 0;
    let began = Instant::now();
    let step = PERIOD / publishers.len() as u32;
    let end = began + MEASURED;
    let linger = end + Duration::from_secs(2);
    while Instant::now() < linger {
        while Instant::now() < end && began + step * sent as u32 <= Instant::now() {
            let publisher = &mut publishers[sent as usize % publishers.len()];
            let loan = publisher.loan(PAYLOAD).unwrap();
            publisher.publish(loan).unwrap();
            sent += 1;
        }
        for subscription in &mut *subscriptions {
            while let Some(sample) = subscription.take().unwrap() {
                transits.push(sample.header().remote.unwrap().transit_ns);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (transits, sent)
}

fn main() -> ExitCode {
    let (hosts, topics) = (number("HOSTS", 8), number("TOPICS", 1000));
    let Some(mut net) = Net::new(hosts + 1) else { return ExitCode::FAILURE };
    let addresses = net.switch(hosts);
    let dir = tempfile::tempdir().unwrap();
    // Topic t goes from host t to the next one.
    let (from, to) = (|t: usize| t % hosts, |t: usize| (t + 1) % hosts);
    let qos = Qos::default();
    let mut all: Vec<Host> = (0..hosts)
        .map(|h| {
            let mine: Vec<_> = (0..topics)
                .filter(|t| from(*t) == h || to(*t) == h)
                .map(|t| {
                    carried(&format!("topic{t}"), from(t) == h, to(t) == h, PAYLOAD as u64, &qos)
                })
                .collect();
            let network = json!({
                "host": format!("h{h}"), "listen": [addresses[h]], "connect": &addresses[..h],
            });
            Host::new(dir.path(), &format!("h{h}"), net.on(h), &network, &mine)
        })
        .collect();
    let mut publishers: Vec<_> = (0..topics)
        .map(|t| {
            let node = &all[from(t)].node;
            node.bytes_publisher(&format!("topic{t}"), "raw", publisher_options(&qos, PAYLOAD))
                .unwrap()
        })
        .collect();
    let mut subscriptions: Vec<_> = (0..topics)
        .map(|t| {
            let node = &all[to(t)].node;
            node.bytes_subscription(&format!("topic{t}"), "raw", subscription_options(&qos))
                .unwrap()
        })
        .collect();
    let began = Instant::now();
    all.iter_mut().for_each(Host::start);
    // The gateway has two subscriptions: one watches, one sends.
    eventually("all matched", || publishers.iter_mut().all(|p| p.matched() == 2));
    println!(
        "{hosts} hosts, {topics} topics of {PAYLOAD} bytes: all carried {:.2} s after the gateways \
         were started",
        began.elapsed().as_secs_f64()
    );
    println!("processor time of all gateways for that: {:.2} s", cpu_of(&all));

    // Clocks of hosts are measured more often at the beginning.
    std::thread::sleep(Duration::from_secs(5));
    let rest = (Instant::now(), cpu_of(&all));
    std::thread::sleep(Duration::from_secs(10));
    let at_rest = (cpu_of(&all) - rest.1) / rest.0.elapsed().as_secs_f64() / hosts as f64 * 100.0;
    let memory = all.iter().map(Host::private_memory).max().unwrap() as f64 / (1 << 20) as f64;
    let threads = all.iter().map(|h| used(h.pid()).1).max().unwrap();
    println!(
        "at rest: {at_rest:.2} % of a CPU each; {memory:.0} MiB of private memory and {threads} \
         threads in the greatest gateway"
    );

    let before = (Instant::now(), cpu_of(&all));
    let (transits, sent) = work(&mut publishers, &mut subscriptions);
    let busy = (cpu_of(&all) - before.1) / sent as f64 * 1e6;
    let transits = Transit::of(transits);
    println!(
        "{:.0} samples/s: {} of {sent} arrived; transit p50 {}, p99 {}, greatest {}; gateways' \
         processor time for a sample, both ends: {busy:.0} µs",
        sent as f64 / MEASURED.as_secs_f64(),
        transits.n,
        signed_ms(transits.p50),
        signed_ms(transits.p99),
        signed_ms(transits.max),
    );

    // Kills and restarts the gateway of the first host. Its topics are back when a sample arrives
    // on each.
    all[0].kill_gateway();
    let killed = Instant::now();
    all[0].start();
    let away: Vec<usize> = (0..topics).filter(|t| from(*t) == 0 || to(*t) == 0).collect();
    let mut heard = vec![false; topics];
    for t in &away {
        while subscriptions[*t].take().unwrap().is_some() {}
    }
    eventually("carried again", || {
        for t in &away {
            let loan = publishers[*t].loan(PAYLOAD).unwrap();
            publishers[*t].publish(loan).unwrap();
            while let Some(sample) = subscriptions[*t].take().unwrap() {
                heard[*t] |= sample.header().remote.is_some();
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        away.iter().all(|t| heard[*t])
    });
    println!(
        "a gateway that was killed and started again: its {} topics are carried after {:.2} s",
        away.len(),
        killed.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
