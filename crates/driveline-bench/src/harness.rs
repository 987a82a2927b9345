// SPDX-License-Identifier: Apache-2.0
//! What the conductor of a measurement and the measured processes say to each other.
//!
//! A measured process gets one line on its standard input, a [`Job`] as JSON, and writes [`Event`]s, one JSON object a
//! line, to its standard output. Raw stamps go into files that the job names, as rows of little-endian 64-bit words, so
//! that nothing is computed while it is measured. What is not an event goes to standard error, and is shown if the
//! process fails. Any program that does this can be measured.

use driveline::WaitMode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What carries the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Driveline's public API.
    Driveline,
    /// A bare shared futex word, no payload: the floor of every blocking wait.
    Futex,
    /// A bare shared word that the reader spins on, no payload: the floor of every spinning wait.
    Spin,
}

/// Where the two ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Threads of one process.
    Process,
    /// Processes of one host, one per subscriber.
    Host,
}

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

/// Whether the machine lets a thread run where it should, and such; what it refuses is reported, never hidden.
pub type Unset = Vec<String>;

/// One process's part of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// See [`Role`].
    pub role: Role,
    /// See [`System`].
    pub system: System,
    /// See [`Reach`].
    pub reach: Reach,
    /// Directory through which the ends find each other.
    pub domain_dir: PathBuf,
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
    /// Directory for the files of raw stamps.
    pub raw_dir: PathBuf,
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

/// What one end did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// What it was.
    pub role: Role,
    /// Which subscriber it was.
    pub index: usize,
    /// File with its rows of sent samples, if it sent any.
    pub sent_file: Option<PathBuf>,
    /// File with its rows of received samples, if it received any.
    pub received_file: Option<PathBuf>,
    /// Samples published in all: the first one, warm-up, counted ones, the last one.
    pub published: u64,
    /// Sequence number of the first of them.
    pub first_sequence: u64,
    /// Sequence number from which samples count.
    pub counted_from: u64,
    /// Scheduled samples, warm-up included, that were not published, by reason.
    pub not_sent: BTreeMap<String, u64>,
    /// Samples received in all.
    pub received: u64,
    /// Samples missed in all, as the reads said.
    pub missed: u64,
    /// Payloads verified.
    pub verified: u64,
    /// What was wrong with payloads: the first few, and how many more.
    pub mismatches: Vec<String>,
    /// Processor time of the process while the counted samples ran, in nanoseconds.
    pub cpu_ns: u64,
    /// Counted samples that this processor time belongs to.
    pub cpu_samples: u64,
    /// System calls for waking readers while the counted samples ran.
    pub wake_calls: Option<u64>,
    /// When the first sample came, on `CLOCK_MONOTONIC`.
    pub first_sample_ns: Option<u64>,
    /// What the machine refused.
    pub unset: Unset,
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
            verified: 0,
            mismatches: Vec::new(),
            cpu_ns: 0,
            cpu_samples: 0,
            wake_calls: None,
            first_sample_ns: None,
            unset: Vec::new(),
        }
    }
}

/// Stamps of one sample at the sending end, in nanoseconds on `CLOCK_MONOTONIC`; 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRow {
    /// Sequence number.
    pub sequence: u64,
    /// When it was due.
    pub scheduled: u64,
    /// Before memory for it was asked for.
    pub before_fill: u64,
    /// The payload exists; just before `publish()`.
    pub before_publish: u64,
    /// `publish()` has returned.
    pub returned: u64,
}

/// Stamps of one sample at the receiving end, in nanoseconds on `CLOCK_MONOTONIC`; 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedRow {
    /// Sequence number.
    pub sequence: u64,
    /// The wait returned.
    pub woken: u64,
    /// The sample is in hand.
    pub in_hand: u64,
    /// The payload is copied.
    pub copied: u64,
    /// The payload is read and verified.
    pub read: u64,
}

/// A row of a raw file.
pub trait Row: Sized {
    /// As words.
    fn words(&self) -> [u64; 5];
    /// From words.
    fn from_words(w: [u64; 5]) -> Self;
}

impl Row for SentRow {
    fn words(&self) -> [u64; 5] {
        [self.sequence, self.scheduled, self.before_fill, self.before_publish, self.returned]
    }
    fn from_words([sequence, scheduled, before_fill, before_publish, returned]: [u64; 5]) -> Self {
        Self { sequence, scheduled, before_fill, before_publish, returned }
    }
}

impl Row for ReceivedRow {
    fn words(&self) -> [u64; 5] {
        [self.sequence, self.woken, self.in_hand, self.copied, self.read]
    }
    fn from_words([sequence, woken, in_hand, copied, read]: [u64; 5]) -> Self {
        Self { sequence, woken, in_hand, copied, read }
    }
}

/// Writes rows to a file.
///
/// # Errors
/// The file system's.
pub fn write_rows<R: Row>(path: &std::path::Path, rows: &[R]) -> std::io::Result<()> {
    let bytes: Vec<u8> = rows.iter().flat_map(Row::words).flat_map(u64::to_le_bytes).collect();
    std::fs::write(path, bytes)
}

/// Reads the rows of a file.
///
/// # Errors
/// The file system's; `InvalidData` if there is not a whole number of rows.
pub fn read_rows<R: Row>(path: &std::path::Path) -> std::io::Result<Vec<R>> {
    let bytes = std::fs::read(path)?;
    let (rows, rest) = bytes.as_chunks::<40>();
    if !rest.is_empty() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("{} bytes are no whole number of rows", bytes.len())));
    }
    let word = |chunk: &[u8; 8]| u64::from_le_bytes(*chunk);
    Ok(rows
        .iter()
        .map(|row| {
            let (words, _) = row.as_chunks::<8>();
            R::from_words(std::array::from_fn(|i| words.get(i).map_or(0, word)))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let rows: Vec<_> = (1..9)
            .map(|i| SentRow { sequence: i, scheduled: i * 2, before_fill: u64::MAX, before_publish: i * 4, returned: i * 5 })
            .collect();
        write_rows(&path, &rows).unwrap();
        assert_eq!(read_rows::<SentRow>(&path).unwrap(), rows);
        std::fs::write(&path, [0; 41]).unwrap();
        assert!(read_rows::<SentRow>(&path).unwrap_err().to_string().contains("41 bytes"));
    }

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
        let job = Job {
            role: Role::Ping,
            system: System::Spin,
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
            raw_dir: "/z".into(),
        };
        let line = serde_json::to_string(&job).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Job>(&line).unwrap(), job);
    }
}
