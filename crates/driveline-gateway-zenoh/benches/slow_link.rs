// SPDX-License-Identifier: Apache-2.0
//! A camera over a link that is too slow for it: age of the frames that arrive, use of the link,
//! and transit time of a command meanwhile. Run it on a quiet machine, as root: `cargo bench -p
//! driveline-gateway-zenoh --features engine --bench slow_link`. SECONDS= changes the duration (20
//! s, in which about 55 frames arrive). Below 300 samples the maximum age is judged, not the 99th
//! percentile. Exit status 1: a limit was missed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark may stop at a surprise"
)]

#[path = "../tests/rig/mod.rs"]
mod rig;

use driveline::WaitMode;
use driveline::types::{MonotonicNs, Qos};
use rig::{
    ADDRESSES, Carried, Rig, Transit, eventually, publisher_options, signed_ms,
    subscription_options,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MBIT: u32 = 100;
const FRAME: usize = 4 << 20;
const PERIOD: Duration = Duration::from_millis(20);
const COMMAND: usize = 100;
const COMMAND_PERIOD: Duration = Duration::from_millis(10);

/// Returns the number of bytes per second that one TCP connection carries over the link.
fn raw_tcp(rig: &Rig) -> f64 {
    let [a, b] = rig.cable.hosts().unwrap();
    let receive = || {
        b.enter().unwrap();
        let listener = TcpListener::bind((ADDRESSES[1], 9000)).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 20];
        let (mut bytes, mut began) = (0, None);
        // The first megabyte fills queues and windows.
        while let Ok(n) = stream.read(&mut buffer) {
            if n == 0 {
                break;
            }
            bytes += n;
            if bytes > 1 << 20 && began.is_none() {
                began = Some((Instant::now(), bytes));
            }
        }
        let (began, before) = began.unwrap();
        (bytes - before) as f64 / began.elapsed().as_secs_f64()
    };
    let send = || {
        a.enter().unwrap();
        let mut stream = loop {
            match TcpStream::connect((ADDRESSES[1], 9000)) {
                Ok(stream) => break stream,
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        let end = Instant::now() + Duration::from_secs(4);
        let chunk = vec![7; 64 << 10];
        while Instant::now() < end {
            stream.write_all(&chunk).unwrap();
        }
    };
    thread::scope(|scope| {
        let receiver = scope.spawn(receive);
        scope.spawn(send);
        receiver.join().unwrap()
    })
}

/// Returns the age to which a limit applies, in milliseconds: the 99th percentile, or the maximum
/// if there are too few samples.
fn judged(ages: &Transit) -> f64 {
    ages.p99.or(ages.max).map_or(f64::INFINITY, |ns| ns as f64 / 1e6)
}

fn main() -> ExitCode {
    let measured = Duration::from_secs(
        std::env::var("SECONDS").ok().map_or(20, |text| text.parse().expect("SECONDS")),
    );
    let qos = Qos::default();
    let rig = Rig::new(
        &[Carried::from_a("camera", FRAME as u64), Carried::from_a("command", COMMAND as u64)],
        &qos,
    );
    if !rig.cable.limit(MBIT) {
        println!("not measured: no network namespaces here, or no traffic control (`tc`) in them");
        return ExitCode::FAILURE;
    }
    let congestion_control =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let bandwidth = raw_tcp(&rig);
    let node = |host: &rig::Host| host.node.clone();
    let (a, b) = (node(&rig.a), node(&rig.b));
    let mut camera = a.bytes_publisher("camera", "raw", publisher_options(&qos, FRAME)).unwrap();
    let mut command =
        a.bytes_publisher("command", "raw", publisher_options(&qos, COMMAND)).unwrap();
    let mut frames = b.bytes_subscription("camera", "raw", subscription_options(&qos)).unwrap();
    let mut commands = b.bytes_subscription("command", "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || camera.matched() == 2 && command.matched() == 2);

    let stop = AtomicBool::new(false);
    // Both hosts have one clock, so ages are wrong only by the estimated offset.
    let age_ns = |header: &driveline::types::SampleHeader| {
        let sent = header.publish_time.0.wrapping_sub(header.remote.unwrap().transit_ns as u64);
        MonotonicNs::now().signed_since(MonotonicNs(sent))
    };
    let (mut frame_ages, mut command_ages, mut missed) = (Vec::new(), Vec::new(), 0);
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let loan = camera.loan(FRAME).unwrap();
                camera.publish(loan).unwrap();
                thread::sleep(PERIOD);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let loan = command.loan(COMMAND).unwrap();
                command.publish(loan).unwrap();
                thread::sleep(COMMAND_PERIOD);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if commands.wait(Some(PERIOD), WaitMode::Block).unwrap()
                    && let Some(sample) = commands.latest().unwrap()
                {
                    command_ages.push(age_ns(sample.header()));
                }
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if frames.wait(Some(PERIOD), WaitMode::Block).unwrap()
                    && let Some(sample) = frames.latest().unwrap()
                {
                    frame_ages.push(age_ns(sample.header()));
                    missed += sample.missed();
                }
            }
        });
        thread::sleep(measured);
        stop.store(true, Ordering::Relaxed);
    });
    let goodput = frame_ages.len() as f64 * FRAME as f64 / began.elapsed().as_secs_f64();
    let [frame_ages, command_ages] = [frame_ages, command_ages].map(Transit::of);
    let limit = 1.25 * FRAME as f64 / bandwidth * 1e3 + PERIOD.as_secs_f64() * 1e3;
    println!(
        "congestion control {}, raw TCP {:.2} MB/s; camera: {} frames, {missed} missed, {:.2} MB/s \
         ({:.0} %), age p50 {}, p99 {}, greatest {} (at most {limit:.0} ms); \
         command: {} samples, p50 {}, p99 {} (at most 15 ms)",
        congestion_control.trim(),
        bandwidth / 1e6,
        frame_ages.n,
        goodput / 1e6,
        goodput / bandwidth * 100.0,
        signed_ms(frame_ages.p50),
        signed_ms(frame_ages.p99),
        signed_ms(frame_ages.max),
        command_ages.n,
        signed_ms(command_ages.p50),
        signed_ms(command_ages.p99),
    );
    println!("{:#?}", rig.a.report());
    let missed = [
        (judged(&frame_ages) <= limit, "frames are too old"),
        (goodput >= 0.9 * bandwidth, "the link is not used"),
        (judged(&command_ages) <= 15.0, "commands wait too long"),
    ];
    for (_, what) in missed.iter().filter(|(kept, _)| !kept) {
        println!("MISSED: {what}");
    }
    if missed.iter().all(|(kept, _)| *kept) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
