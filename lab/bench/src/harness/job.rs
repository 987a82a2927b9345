// SPDX-License-Identifier: Apache-2.0
//! Job of a measured process.

use super::{MEMCPY_KINDS, MemcpyKind, System};
use driveline::WaitMode;
use driveline_graph::closest;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Placement of the two ends.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Threads of one process.
    Process,
    /// Processes of one host, one per subscriber.
    Host,
    /// Processes of two hosts, each a network namespace of this machine: the sending end on one,
    /// the receiving ends on the other.
    #[value(skip)]
    Network,
}

/// Addresses of the two hosts of [`Reach::Network`]: of the sending end, and of the receiving ends.
pub const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 98, 0, 1), Ipv4Addr::new(10, 98, 0, 2)];

/// Role of a process (or, at process reach, of each of its threads).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sends on its schedule (open loop).
    Publisher,
    /// Receives.
    Subscriber,
    /// Sends, waits for the answer, sends the next (closed loop).
    Ping,
    /// Answers.
    Echo,
    /// All ends in this one process, a thread each.
    Threads,
    /// Publishes and runs the callback on the same thread.
    SameThread,
    /// Matches, and then stays idle until a line comes on its standard input.
    IdlePublisher,
    /// Sleeps on an idle link until the end mark comes.
    IdleSubscriber,
    /// Publishes one sample for late subscribers, and stays until a line comes on its standard
    /// input.
    KeepsLast,
    /// Starts after a process with the role `KeepsLast` and waits for that process's sample.
    LateSubscriber,
    /// Copies bytes.
    Memcpy,
    /// Burns processor time until it is killed.
    Hog,
    /// Runs the middleware's own latency tool.
    OwnTool,
    /// Provides the resources that the ends of a peer need (a daemon, a domain number) and removes
    /// their leftovers. It runs from before the first end until after the last one.
    Keeper,
    /// One step of a chain ([`crate::chain`]).
    Stage,
    /// All steps of a chain in this one process, a thread each.
    Stages,
    /// Fusing node of the workload `fusion`.
    Fusion,
    /// A publisher of that workload.
    FusionPublisher,
    /// Callbacks of a module in the workload `chain`.
    Callbacks,
}

/// Wait mode of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Sleeps in the kernel.
    Block,
    /// Never sleeps.
    Spin,
    /// Spins for this many microseconds, then sleeps.
    SpinThenBlock(u64),
}

impl Wait {
    /// Returns the wait mode of Driveline's API.
    #[must_use]
    pub fn mode(self) -> WaitMode {
        match self {
            Self::Block => WaitMode::Block,
            Self::Spin => WaitMode::Spin,
            Self::SpinThenBlock(us) => WaitMode::SpinThenBlock(Duration::from_micros(us)),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => f.write_str("block"),
            Self::Spin => f.write_str("spin"),
            Self::SpinThenBlock(us) => write!(f, "spin:{us}"),
        }
    }
}

impl FromStr for Wait {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "block" => Ok(Self::Block),
            "spin" => Ok(Self::Spin),
            _ => match s.strip_prefix("spin:").map(str::parse) {
                Some(Ok(us)) if us > 0 => Ok(Self::SpinThenBlock(us)),
                _ => Err(format!("'{s}' is no way to wait: {}", remedy(s))),
            },
        }
    }
}

/// Returns the correct spelling for an invalid value.
fn remedy(given: &str) -> String {
    let duration = given
        .strip_prefix("spin:")
        .and_then(|d| Some(d.split_at(d.find(|c: char| !c.is_ascii_digit())?)));
    let factor = duration.and_then(|(_, unit)| match unit.trim() {
        "us" | "µs" => Some(1),
        "ms" => Some(1_000),
        "s" => Some(1_000_000),
        _ => None,
    });
    let us = duration
        .zip(factor)
        .and_then(|((number, _), factor)| number.parse::<u64>().ok()?.checked_mul(factor))
        .filter(|us| *us > 0);
    if let Some(us) = us {
        return format!("it is microseconds, without a unit: spin:{us}");
    }
    let near = closest(given, ["block", "spin"])
        .map_or_else(String::new, |near| format!("did you mean {near}? "));
    format!("{near}use block, spin, or spin:US with a number of microseconds, e.g. spin:50")
}

/// Access of a reader to the payload.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// Reads it in place.
    Borrow,
    /// Copies it into memory of its own.
    Copy,
}

/// Work on the payload.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Neither written nor read: measures the cost of the transport alone.
    Untouched,
    /// Written before publishing, and read and verified after receiving (sequence and checksum).
    Filled,
}

/// Send times of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Sends the next sample after the answer to the last one; half the round trip is reported.
    PingPong,
    /// Sends at absolute times, this many per second, whatever happened to earlier samples.
    RateHz(f64),
}

/// Permission to lose samples.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// The sender never waits for a reader.
    #[default]
    BestEffort,
    /// The sender waits for slow readers, within bounds.
    Reliable,
}

/// Settings that the machine refused, such as the CPU of a thread; they are reported, never hidden.
pub type Unset = Vec<String>;

/// One process's part of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`super::PROTOCOL`].
    pub protocol: u32,
    /// See [`Role`].
    pub role: Role,
    /// See [`System`].
    pub system: System,
    /// See [`Reach`].
    pub reach: Reach,
    /// Directory of the domain, in which the ends find each other.
    pub domain_dir: PathBuf,
    /// Name of the link in its domain; several links may share one.
    pub topic: String,
    /// Bytes of payload.
    pub size: usize,
    /// See [`Wait`].
    pub wait: Wait,
    /// See [`Take`].
    pub take: Take,
    /// See [`Payload`].
    pub payload: Payload,
    /// See [`Pace`].
    pub pace: Pace,
    /// Samples before the measured ones.
    pub warm_up: u64,
    /// Samples that count.
    pub messages: u64,
    /// History depth of both ends.
    pub depth: u32,
    /// See [`Reliability`].
    pub reliability: Reliability,
    /// Number of subscribers.
    pub subscribers: usize,
    /// Index of this subscriber. For [`Role::Memcpy`]: index of the kind in
    /// [`super::MEMCPY_KINDS`].
    pub index: usize,
    /// CPU of the sending end; `None`: the kernel chooses.
    pub publisher_cpu: Option<usize>,
    /// CPUs of the receiving ends, assigned in turn; if empty, the kernel chooses.
    pub subscriber_cpus: Vec<usize>,
    /// Real-time priority (SCHED_FIFO) of the ends; 0 is time sharing.
    pub priority: u8,
    /// Processor time in microseconds that a subscriber of an open loop spends on each counted
    /// sample before it asks for the next one.
    #[serde(default)]
    pub processing_us: u64,
    /// Time that the asking end of a closed loop waits for an answer, in milliseconds.
    #[serde(default = "default_answer_timeout_ms")]
    pub answer_timeout_ms: u64,
    /// For tests of accounts: each end of a closed loop drops every n-th question or answer, as if
    /// the link had lost it. 0: drops nothing.
    #[serde(default)]
    pub lose_every: u64,
    /// Directory for the files of raw stamps.
    pub raw_dir: PathBuf,
}

/// Returns the timeout of answers for a job without one.
const fn default_answer_timeout_ms() -> u64 {
    10_000
}

/// Maximum number of counted copies in a run of the memcpy floor.
const MEMCPY_COPIES: u64 = 300;

impl Job {
    /// Returns the index of this end's host in [`HOSTS`]: 0 for the end that publishes or asks, 1
    /// for the others.
    #[must_use]
    pub fn side(&self) -> usize {
        usize::from(!matches!(self.role, Role::Publisher | Role::Ping))
    }

    /// Returns the address on which this end listens, and the address to which it connects.
    #[must_use]
    pub fn addresses(&self) -> [Ipv4Addr; 2] {
        match (self.reach, HOSTS) {
            (Reach::Process | Reach::Host, _) => [Ipv4Addr::LOCALHOST; 2],
            (Reach::Network, [a, b]) if self.side() == 0 => [a, b],
            (Reach::Network, [a, b]) => [b, a],
        }
    }

    /// Returns the time-out of answers. On lossy links it is short enough that a few losses do not
    /// last longer than all other rounds.
    #[must_use]
    pub fn usual_answer_timeout_ms(&self) -> u64 {
        let transfer = self.size as u64 / 100_000;
        match self.reliability {
            Reliability::BestEffort => 1000 + transfer,
            Reliability::Reliable => default_answer_timeout_ms() + transfer,
        }
    }

    /// Returns true if the latency tools of middlewares measure such a link: a ping-pong between
    /// processes, with payloads that are neither written nor copied.
    #[must_use]
    pub fn may_have_own_tool(&self) -> bool {
        let shape = (self.reach, self.pace, self.take, self.payload);
        shape == (Reach::Host, Pace::PingPong, Take::Borrow, Payload::Untouched)
            && matches!(self.system, System::Peer { .. })
    }

    /// Returns the floor of this link: a bare futex if readers sleep, a bare word if they spin long
    /// enough for every sample.
    #[must_use]
    pub fn floor(&self) -> System {
        match (self.wait, self.pace) {
            (Wait::Block, _) => System::Futex,
            (Wait::Spin, _) | (Wait::SpinThenBlock(_), Pace::PingPong) => System::Spin,
            (Wait::SpinThenBlock(us), Pace::RateHz(hz)) if 1e6 / hz <= us as f64 => System::Spin,
            (Wait::SpinThenBlock(_), Pace::RateHz(_)) => System::Futex,
        }
    }

    /// Returns the baseline of an end that writes or copies payloads: a job that copies one payload
    /// at the link's pace, on the CPU of that end. It makes one copy for each sample of the link,
    /// whatever the number of subscribers, but at most 300 copies that count.
    #[must_use]
    pub fn memcpy(&self, kind: MemcpyKind) -> Self {
        let cpu = if kind == MemcpyKind::FromSharedSlots {
            self.subscriber_cpus.first().copied()
        } else {
            self.publisher_cpu
        };
        let messages = MEMCPY_COPIES.min(self.messages);
        Self {
            role: Role::Memcpy,
            system: System::Memcpy,
            index: MEMCPY_KINDS.iter().position(|k| *k == kind).unwrap_or(0),
            subscribers: 1,
            publisher_cpu: cpu,
            warm_up: messages / 10,
            messages,
            ..self.clone()
        }
    }

    /// Returns an upper estimate of the memory that the ends of this link need, in bytes.
    #[must_use]
    pub fn memory_needed(&self) -> u64 {
        // The depth, the transport's reserve, a loan, a pin for each reader, and pins for
        // observers (tools such as `driveline topic echo`).
        let slots = u64::from(self.depth) + 5 + self.subscribers as u64;
        let segments = match (&self.system, self.pace) {
            (System::Futex | System::Spin | System::Memcpy, _) | (_, Pace::RateHz(_)) => 1,
            (_, Pace::PingPong) => 2,
        };
        // Each reader has a copy, and each writer its data.
        let private = 2 + self.subscribers as u64;
        let rows = (self.warm_up + self.messages)
            * 40
            * (2 + self.subscribers as u64)
            * if self.reach == Reach::Process { 1 } else { 2 };
        self.size as u64 * (slots * segments + private) + rows
    }
}

/// A job for tests.
#[cfg(test)]
pub(crate) fn sample_job() -> Job {
    Job {
        protocol: super::PROTOCOL,
        role: Role::Ping,
        system: System::Peer { name: "fastdds".into(), variant: "shm".into() },
        topic: "link".into(),
        reliability: Reliability::Reliable,
        reach: Reach::Host,
        domain_dir: "/x\ny".into(),
        size: 1,
        wait: Wait::SpinThenBlock(3),
        take: Take::Copy,
        payload: Payload::Filled,
        pace: Pace::RateHz(0.5),
        warm_up: 1,
        messages: 2,
        depth: 1,
        subscribers: 1,
        index: 0,
        publisher_cpu: None,
        subscriber_cpus: vec![1],
        priority: 0,
        processing_us: 7,
        answer_timeout_ms: 9,
        lose_every: 3,
        raw_dir: "/z".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_wait_are_understood_or_explained() {
        assert_eq!("spin:50".parse(), Ok(Wait::SpinThenBlock(50)));
        for w in ["block", "spin", "spin:7"] {
            assert_eq!(w.parse::<Wait>().unwrap().to_string(), w);
        }
        for bad in ["", "poll", "spin:", "spin:0", "spin:x"] {
            assert!(bad.parse::<Wait>().unwrap_err().contains("spin:US"), "{bad}");
        }
    }

    #[test]
    fn a_copy_runs_where_the_end_is_that_would_copy() {
        let link = Job {
            publisher_cpu: Some(0),
            subscriber_cpus: vec![1, 0],
            subscribers: 10,
            messages: 1000,
            warm_up: 500,
            ..sample_job()
        };
        let [into, from] = [MemcpyKind::IntoSharedSlots, MemcpyKind::FromSharedSlots]
            .map(|kind| link.memcpy(kind));
        assert_eq!((into.publisher_cpu, from.publisher_cpu), (Some(0), Some(1)));
        assert_eq!(
            (into.role, &into.system, into.subscribers, into.size, into.pace),
            (Role::Memcpy, &System::Memcpy, 1, link.size, link.pace)
        );
        assert_eq!(MEMCPY_KINDS.map(|kind| MEMCPY_KINDS[link.memcpy(kind).index]), MEMCPY_KINDS);
        // No more copies than the maximum, and no more than the link has samples.
        assert_eq!((into.messages, into.warm_up), (300, 30));
        assert_eq!(Job { messages: 20, ..link }.memcpy(MemcpyKind::of(Take::Borrow)).messages, 20);
    }

    #[test]
    fn a_job_is_one_line() {
        let job = sample_job();
        let line = serde_json::to_string(&job).unwrap();
        assert!(!line.contains('\n'));
        assert!(line.contains(r#""system":"fastdds/shm""#), "{line}");
        assert_eq!(serde_json::from_str::<Job>(&line).unwrap(), job);
        // Later versions may add fields.
        let longer = line.replacen('{', r#"{"added_later":[1],"#, 1);
        assert_eq!(serde_json::from_str::<Job>(&longer).unwrap(), job);
        // Earlier versions have fewer fields.
        let shorter =
            line.replace(r#""processing_us":7,"answer_timeout_ms":9,"lose_every":3,"#, "");
        let plain = Job { processing_us: 0, answer_timeout_ms: 10_000, lose_every: 0, ..job };
        assert_eq!(serde_json::from_str::<Job>(&shorter).unwrap(), plain);
    }
}
