// SPDX-License-Identifier: Apache-2.0
//! The hunt for torn samples: a writer at full speed, readers of every kind. Every sample is
//! verified when it is taken, and again before it is released.

use crate::support::{Domain, repeat};
use std::time::Duration;

/// Duration for each payload size; `DRIVELINE_SOAK` sets a longer one.
const USUAL: Duration = Duration::from_millis(1500);

/// Arguments of `follow`, besides sizes.
const READERS: &[&str] = &[
    "want=latest",
    "want=next spin_us=1000000",
    "want=next copy",
    "want=latest copy stall_us=1000",
    "want=latest hold=2 stall_us=5000",
    "want=next hold=2 stall_us=100 backend=threads",
];

fn hunt(len: usize, depth: u32) {
    let d = Domain::new();
    let mut w = d.peer("writer");
    w.ask(&format!("publisher p max={len} depth={depth} pins={}", 3 * READERS.len()));
    let mut readers: Vec<_> = READERS
        .iter()
        .map(|how| {
            let mut r = d.peer(how);
            r.ask(&format!("subscription s depth={depth} held=3"));
            r.ask(&format!("follow s max={len} {how}"));
            r
        })
        .collect();
    w.ask(&format!("await p {}", readers.len()));
    w.ask(&format!("flood p {len} 0"));
    // time: pause between two checks of the received samples
    let pause = || std::thread::sleep(Duration::from_millis(100));
    repeat(USUAL, pause, || {
        let received: Vec<u64> = readers.iter_mut().map(|r| r.number("progress s")).collect();
        if received.iter().all(|n| *n > 1) {
            Ok(())
        } else {
            Err(format!("{len} bytes: received meanwhile: {received:?}"))
        }
    });
    let published = w.number("halt p");
    let mut report = format!("{len} bytes: {published} published; received");
    for (r, how) in readers.iter_mut().zip(READERS) {
        // Every reader can still take the last sample.
        r.until("progress s", |t| t.split(' ').nth(2) == Some(&published.to_string()));
        let n = r.numbers("halt s");
        assert_eq!(n[0] + n[1], published, "{how}: received and missed account for all");
        report += &format!(" {}", n[0]);
        let stats = r.ask("stats s");
        assert!(
            ["corrupt_header", "corrupt_index", "corrupt_checksum", "refused"]
                .iter()
                .all(|k| stats.contains(&format!("\"{k}\":0"))),
            "{stats}"
        );
    }
    println!("{report}");
    for p in readers.into_iter().chain([w]) {
        p.quit();
    }
}

#[test]
fn samples_of_1_kib_are_whole() {
    hunt(1 << 10, 1);
}

#[test]
fn samples_of_64_kib_are_whole() {
    hunt(64 << 10, 4);
}

#[test]
fn samples_of_1_mib_are_whole() {
    hunt(1 << 20, 2);
}

#[test]
fn samples_of_8_mib_are_whole() {
    hunt(8 << 20, 1);
}
