// SPDX-License-Identifier: Apache-2.0
//! A process of a host: this program again, in a role. It publishes numbers on one topic, and
//! prints the numbers that it receives on another.

use super::{publisher_options, subscription_options};
use driveline::types::Qos;
use driveline::{Context, ContextOptions, RawSubscription};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Role of the process.
const ROLE: &str = "DRIVELINE_TEST_ROLE";
/// Test that plays the role. Each program that starts such processes has one.
pub(crate) const PLAYS: &str = "a_process_plays_its_role";
/// Prefix of the process's own lines; the test harness writes to the same stream.
const MARK: &str = "@driveline ";
/// Content of a sample: the number of the process, and the number of the sample.
pub(crate) const LEN: usize = 16;
/// Time between two samples.
pub(crate) const PACE: Duration = Duration::from_millis(5);

/// Role with its parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Role {
    pub(crate) domain_dir: PathBuf,
    pub(crate) publishes: String,
    pub(crate) hears: String,
    pub(crate) qos: Qos,
    /// Number of the process, at the start of all its samples.
    pub(crate) process: u64,
}

/// A received sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Word {
    /// Process that published it.
    pub(crate) process: u64,
    /// Number among the samples of that process.
    pub(crate) number: u64,
    /// Number of samples that were missed before it.
    pub(crate) missed: u64,
}

pub(crate) fn payload(process: u64, number: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..8].copy_from_slice(&process.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Reads all available samples.
pub(crate) fn words(subscription: &mut RawSubscription) -> Vec<Word> {
    let mut words = Vec::new();
    while let Some(sample) = subscription.take().unwrap() {
        let payload = sample.payload().unwrap();
        let word = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap());
        assert!(
            sample.header().remote.is_some() && sample.header().sequence == word(8),
            "its publisher's own numbers"
        );
        words.push(Word { process: word(0), number: word(8), missed: sample.missed() });
    }
    words
}

/// Plays the role that the process was started for, until it is killed, or its parent has ended.
/// Does nothing in a process without a role.
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let role: Role = serde_json::from_str(&role).unwrap();
    let options = ContextOptions { name: "started".into(), domain_dir: Some(role.domain_dir) };
    let node = Context::new(options).unwrap().node("started").unwrap();
    let mut publisher =
        node.bytes_publisher(&role.publishes, "raw", publisher_options(&role.qos, LEN)).unwrap();
    let mut subscription =
        node.bytes_subscription(&role.hears, "raw", subscription_options(&role.qos)).unwrap();
    for number in 1.. {
        let mut loan = publisher.loan(LEN).unwrap();
        loan.payload_mut().copy_from_slice(&payload(role.process, number));
        publisher.publish(loan).unwrap();
        for Word { process, number, missed } in words(&mut subscription) {
            println!("{MARK}{process} {number} {missed}");
        }
        // time: paces the publisher
        std::thread::sleep(PACE);
    }
}

/// Such a process. Dropping the handle kills it.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    pub(crate) fn start(role: &Role) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", PLAYS, "--nocapture", "--test-threads=1"])
            .env(ROLE, serde_json::to_string(role).unwrap());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("to start this program");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // The first line starts with output of the test harness.
            let words = out
                .lines()
                .map_while(Result::ok)
                .filter_map(|line| line.split_once(MARK).map(|(_, words)| words.to_owned()));
            for line in words {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// Returns the samples received since the last call.
    pub(crate) fn heard(&self) -> Vec<Word> {
        let word = |line: String| {
            let mut numbers = line.split(' ').map(|n| n.parse().expect("a number"));
            let mut next = || numbers.next().expect("three numbers");
            Word { process: next(), number: next(), missed: next() }
        };
        self.lines.try_iter().map(word).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
