// SPDX-License-Identifier: Apache-2.0
//! What the conductor of a measurement and the measured processes say to each other.
//!
//! A measured process gets one line on its standard input, a [`Job`] as JSON, and writes [`Event`]s, one JSON object a
//! line, to its standard output. Raw stamps go into files that the job names, as rows of little-endian 64-bit words, so
//! that nothing is computed while it is measured. What is not an event goes to standard error, and is shown if the
//! process fails. Any program that does this can be measured; `docs/protocols/harness.md` says it all for those who write
//! one, and [`crate::peers`] finds it.

mod rows;

pub(crate) use rows::read_bounded;
pub use rows::{ReceivedRow, Row, SentRow, read_rows, write_rows};

use driveline::WaitMode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Version of this protocol. It changes only when something that is already there changes its meaning; what is added is
/// ignored by those who do not know it.
pub const PROTOCOL: u32 = 1;

/// What carries the samples. In a job it is one word: `driveline`, `futex`, `spin`, or `name/variant` of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum System {
    /// Driveline's public API.
    Driveline,
    /// A bare shared futex word, no payload: the floor of every blocking wait.
    Futex,
    /// A bare shared word that the reader spins on, no payload: the floor of every spinning wait.
    Spin,
    /// Another middleware, in a program of its own.
    Peer {
        /// Name of the peer.
        name: String,
        /// Which of its ways.
        variant: String,
    },
}

impl System {
    /// Whether it is a variant of the other's peer whose name continues the other's: `fastdds/udp_500` varies `fastdds/udp`.
    #[must_use]
    pub fn varies(&self, usual: &Self) -> bool {
        match (self, usual) {
            (Self::Peer { name, variant }, Self::Peer { name: same, variant: of }) => {
                name == same && variant.strip_prefix(of.as_str()).is_some_and(|rest| rest.starts_with('_'))
            }
            _ => false,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driveline => f.write_str("driveline"),
            Self::Futex => f.write_str("futex"),
            Self::Spin => f.write_str("spin"),
            Self::Peer { name, variant } => write!(f, "{name}/{variant}"),
        }
    }
}

impl From<System> for String {
    fn from(system: System) -> Self {
        system.to_string()
    }
}

impl TryFrom<String> for System {
    type Error = String;
    fn try_from(s: String) -> Result<Self, String> {
        s.parse()
    }
}

impl FromStr for System {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "driveline" => Ok(Self::Driveline),
            "futex" => Ok(Self::Futex),
            "spin" => Ok(Self::Spin),
            _ => match s.split_once('/') {
                Some((name, variant)) if !name.is_empty() && !variant.is_empty() => {
                    Ok(Self::Peer { name: name.to_owned(), variant: variant.to_owned() })
                }
                _ => Err(format!("'{s}' is no system: use driveline, futex, spin, or a peer and its variant, e.g. fastdds/shm")),
            },
        }
    }
}

/// Where the two ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Threads of one process.
    Process,
    /// Processes of one host, one per subscriber.
    Host,
    /// Processes of two hosts, each a network namespace of this machine: the sending end on one, the receiving ends on the other.
    #[value(skip)]
    Network,
}

/// Where the two hosts of [`Reach::Network`] are, for each other: the sending end's, and the receiving ends'.
pub const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 98, 0, 1), Ipv4Addr::new(10, 98, 0, 2)];

/// What a process (or, at process reach, each of its threads) does.
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
    /// Matches, and then nothing happens for a while.
    IdlePublisher,
    /// Sleeps on a link at rest until the end mark comes.
    IdleSubscriber,
    /// Publishes one sample for whoever comes late, and stays until told to stop.
    KeepsLast,
    /// Comes late and waits for that sample.
    LateSubscriber,
    /// Copies bytes.
    Memcpy,
    /// Burns processor time until it is killed.
    Hog,
    /// Runs the middleware's own latency tool.
    OwnTool,
    /// Keeps what the ends of a peer need beside them (a daemon, a domain number) and removes what they leave behind. It is
    /// there before the first end and until after the last one.
    Keeper,
    /// One step of a chain ([`crate::chain`]).
    Stage,
    /// All steps of a chain in this one process, a thread each.
    Stages,
}

/// How a reader waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Sleeps in the kernel.
    Block,
    /// Never sleeps.
    Spin,
    /// Spins for so many microseconds, then sleeps.
    SpinThenBlock(u64),
}

impl Wait {
    /// In the words of the measured API.
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
                _ => Err(format!("'{s}' is no way to wait: use block, spin, or spin:US with a number of microseconds, e.g. spin:50")),
            },
        }
    }
}

/// How a reader gets at the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// Looks at it in place.
    Borrow,
    /// Copies it into memory of its own.
    Copy,
}

/// What is done with the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Neither written nor read: what the transport itself costs.
    Untouched,
    /// Written before publishing, and read and verified after receiving (sequence and checksum).
    Filled,
}

/// When samples are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// The next one when the answer to the last has come; half the round trip is reported.
    PingPong,
    /// At absolute times, so many a second, whatever became of the earlier ones.
    RateHz(f64),
}

/// Whether a sample may be lost on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// The sender never waits for a reader.
    #[default]
    BestEffort,
    /// The sender waits for slow readers, within bounds.
    Reliable,
}

/// Whether the machine lets a thread run where it should, and such; what it refuses is reported, never hidden.
pub type Unset = Vec<String>;

/// One process's part of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// See [`Role`].
    pub role: Role,
    /// See [`System`].
    pub system: System,
    /// See [`Reach`].
    pub reach: Reach,
    /// Directory through which the ends find each other.
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
    /// Samples before those that count.
    pub warm_up: u64,
    /// Samples that count.
    pub messages: u64,
    /// History depth of both ends.
    pub depth: u32,
    /// See [`Reliability`].
    pub reliability: Reliability,
    /// Number of subscribers.
    pub subscribers: usize,
    /// Which subscriber this is.
    pub index: usize,
    /// CPU of the sending end; `None` leaves it to the kernel.
    pub publisher_cpu: Option<usize>,
    /// CPUs of the receiving ends, in turn; none leaves it to the kernel.
    pub subscriber_cpus: Vec<usize>,
    /// Real-time priority (SCHED_FIFO) of the ends; 0 is time sharing.
    pub priority: u8,
    /// Processor time in microseconds that a subscriber of an open loop spends on each counted sample before it asks for the
    /// next one.
    #[serde(default)]
    pub processing_us: u64,
    /// How long the asking end of a closed loop waits for an answer, in milliseconds.
    #[serde(default = "default_answer_timeout_ms")]
    pub answer_timeout_ms: u64,
    /// For tests of accounts: each end of a closed loop throws every so-many-th question or answer away, as if the link had
    /// lost it. 0: none.
    #[serde(default)]
    pub lose_every: u64,
    /// Directory for the files of raw stamps.
    pub raw_dir: PathBuf,
}

/// How long an answer may take if a job does not say it.
pub(crate) const fn default_answer_timeout_ms() -> u64 {
    10_000
}

impl Job {
    /// On which of the two hosts this end is: 0 where samples are sent first, 1 where they are received.
    #[must_use]
    pub fn side(&self) -> usize {
        usize::from(!matches!(self.role, Role::Publisher | Role::Ping))
    }

    /// This end's own address, and that of the other: to listen on, and to connect to.
    #[must_use]
    pub fn addresses(&self) -> [Ipv4Addr; 2] {
        match (self.reach, HOSTS) {
            (Reach::Process | Reach::Host, _) => [Ipv4Addr::LOCALHOST; 2],
            (Reach::Network, [a, b]) if self.side() == 0 => [a, b],
            (Reach::Network, [a, b]) => [b, a],
        }
    }

    /// How long an answer may take: of what may be lost, not so long that a few losses last longer than all the rest.
    #[must_use]
    pub fn usual_answer_timeout_ms(&self) -> u64 {
        let transfer = self.size as u64 / 100_000;
        match self.reliability {
            Reliability::BestEffort => 1000 + transfer,
            Reliability::Reliable => default_answer_timeout_ms() + transfer,
        }
    }
}

/// What a measured process tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// Its endpoints exist; the others may start.
    Ready,
    /// The link is up and at rest.
    Idle,
    /// Everything is sent or received, and written to files.
    Done {
        /// One for each end in the process.
        ends: Vec<End>,
    },
    /// It cannot go on.
    Failed {
        /// Why, and what to do.
        error: String,
    },
}

/// What one end did. An end that leaves a count out did not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// What it was.
    pub role: Role,
    /// Which subscriber it was.
    #[serde(default)]
    pub index: usize,
    /// File with its rows of sent samples, if it sent any.
    pub sent_file: Option<PathBuf>,
    /// File with its rows of received samples, if it received any.
    pub received_file: Option<PathBuf>,
    /// Samples published in all: the first one, warm-up, counted ones, the last one.
    #[serde(default)]
    pub published: u64,
    /// Sequence number of the first of them.
    #[serde(default)]
    pub first_sequence: u64,
    /// Sequence number from which samples count.
    #[serde(default)]
    pub counted_from: u64,
    /// Scheduled samples, warm-up included, that were not published, by reason.
    #[serde(default)]
    pub not_sent: BTreeMap<String, u64>,
    /// Samples received in all.
    #[serde(default)]
    pub received: u64,
    /// Samples missed in all, as the reads said.
    #[serde(default)]
    pub missed: u64,
    /// Of the asking end of a closed loop: rounds without an answer in time. `None` for programs that end with the first
    /// loss, and send no end mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
    /// Of the asking end of a closed loop: answers that came after their time.
    #[serde(default)]
    pub late: u64,
    /// Payloads verified.
    #[serde(default)]
    pub verified: u64,
    /// What was wrong with payloads: the first few, and how many more.
    #[serde(default)]
    pub mismatches: Vec<String>,
    /// How many payloads were wrong.
    #[serde(default)]
    pub mismatched: u64,
    /// Processor time of the process while the counted samples ran, in nanoseconds.
    #[serde(default)]
    pub cpu_ns: u64,
    /// Counted samples that this processor time belongs to.
    #[serde(default)]
    pub cpu_samples: u64,
    /// System calls for waking readers while the counted samples ran.
    pub wake_calls: Option<u64>,
    /// When the first sample came, on `CLOCK_MONOTONIC`.
    pub first_sample_ns: Option<u64>,
    /// What the machine refused.
    #[serde(default)]
    pub unset: Unset,
    /// What a stage of a chain tells besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<crate::chain::StageAccount>,
    /// Of [`Role::OwnTool`]: what the tool said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_tool: Option<OwnTool>,
}

/// What a middleware's own latency tool says, one way: half of a round trip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Median in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds, if it says one.
    pub p99_ns: Option<u64>,
    /// Mean in nanoseconds, if it says one.
    pub mean_ns: Option<u64>,
    /// Number of round trips.
    pub n: u64,
}

impl End {
    /// An end that has not done anything yet.
    #[must_use]
    pub fn new(role: Role, index: usize) -> Self {
        Self {
            role,
            index,
            sent_file: None,
            received_file: None,
            published: 0,
            first_sequence: 0,
            counted_from: 0,
            not_sent: BTreeMap::new(),
            received: 0,
            missed: 0,
            unanswered: None,
            late: 0,
            verified: 0,
            mismatches: Vec::new(),
            mismatched: 0,
            cpu_ns: 0,
            cpu_samples: 0,
            wake_calls: None,
            first_sample_ns: None,
            unset: Vec::new(),
            stage: None,
            own_tool: None,
        }
    }
}

/// A job for tests.
#[cfg(test)]
pub(crate) fn sample_job() -> Job {
    Job {
        protocol: PROTOCOL,
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
    fn a_job_is_one_line() {
        let job = sample_job();
        let line = serde_json::to_string(&job).unwrap();
        assert!(!line.contains('\n'));
        assert!(line.contains(r#""system":"fastdds/shm""#), "{line}");
        assert_eq!(serde_json::from_str::<Job>(&line).unwrap(), job);
        // Whoever knows more may say more.
        let longer = line.replacen('{', r#"{"added_later":[1],"#, 1);
        assert_eq!(serde_json::from_str::<Job>(&longer).unwrap(), job);
        // Whoever knows less says less.
        let shorter = line.replace(r#""processing_us":7,"answer_timeout_ms":9,"lose_every":3,"#, "");
        let plain = Job { processing_us: 0, answer_timeout_ms: 10_000, lose_every: 0, ..job };
        assert_eq!(serde_json::from_str::<Job>(&shorter).unwrap(), plain);
    }

    #[test]
    fn systems_are_one_word() {
        for word in ["driveline", "futex", "spin", "fastdds/shm", "a/b/c"] {
            assert_eq!(word.parse::<System>().unwrap().to_string(), word);
        }
        for bad in ["", "fastdds", "/shm", "fastdds/"] {
            assert!(bad.parse::<System>().unwrap_err().contains("e.g. fastdds/shm"), "{bad}");
        }
    }

    #[test]
    fn a_variation_has_the_name_of_what_it_varies_and_more() {
        let varies = |a: &str, b: &str| a.parse::<System>().unwrap().varies(&b.parse().unwrap());
        assert!(varies("fastdds/udp_500", "fastdds/udp"));
        for (a, b) in
            [("fastdds/udp", "fastdds/udp"), ("ros1/udp_500", "fastdds/udp"), ("fastdds/udpx", "fastdds/udp"), ("driveline", "futex")]
        {
            assert!(!varies(a, b), "{a} {b}");
        }
    }

    #[test]
    fn an_end_may_leave_out_what_it_does_not_know() {
        let end: End = serde_json::from_str(r#"{"role":"subscriber","received":3,"someday":1}"#).unwrap();
        assert_eq!(end, End { received: 3, ..End::new(Role::Subscriber, 0) });
    }
}
