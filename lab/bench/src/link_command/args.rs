// SPDX-License-Identifier: Apache-2.0
//! Arguments of `bench link`.

use crate::harness::{Pace, Payload, Reach, Reliability, Take, Wait};
use clap::{Args, ValueEnum};
use driveline_shm::limits::MAX_PAYLOAD;
use std::path::PathBuf;
use std::str::FromStr;

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub usize);

impl FromStr for Size {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "'{s}' is not a size: write bytes, or a number with k, M or G (1k = 1024), e.g. \
                 64,1k,4M"
            )
        };
        // In the form of files: 4MiB.
        let short = s.strip_suffix("iB").unwrap_or(s);
        let (digits, factor) = match short.char_indices().last() {
            Some((i, 'k' | 'K')) => (&short[..i], 1usize << 10),
            Some((i, 'm' | 'M')) => (&short[..i], 1 << 20),
            Some((i, 'g' | 'G')) => (&short[..i], 1 << 30),
            _ => (s, 1),
        };
        let size = digits
            .parse::<usize>()
            .ok()
            .and_then(|n| n.checked_mul(factor))
            .filter(|&n| n <= MAX_PAYLOAD)
            .ok_or_else(bad)?;
        if size < crate::peer::MIN_SIZE {
            return Err(format!(
                "a payload has at least {} bytes here; {s} is too small",
                crate::peer::MIN_SIZE
            ));
        }
        Ok(Self(size))
    }
}

/// Processors of the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// The first usable CPU for the publisher. Subscribers get the others in turn, and then the
    /// first.
    Auto,
    /// The kernel decides.
    Any,
    /// These, in turn.
    These(Vec<usize>),
}

impl FromStr for Cpus {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "auto" => Ok(Self::Auto),
            "any" => Ok(Self::Any),
            _ => s
                .split(',')
                .map(str::parse)
                .collect::<Result<Vec<usize>, _>>()
                .map(Self::These)
                .map_err(|_| {
                    format!(
                        "'{s}' names no CPUs: write auto, any (the kernel decides), \
                     or numbers, e.g. 1 or 1,2,3"
                    )
                }),
        }
    }
}

/// Measurements in addition to the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Extra {
    /// Memory bandwidth at the sizes of the links
    Memcpy,
    /// Processor time of a link at rest
    Idle,
    /// From the start of a process to its first sample
    StartUp,
    /// None of these
    None,
}

const EXAMPLES: &str = "\
Examples:
  driveline bench link
      all sizes, blocking and spinning; half round trips and their floors
  driveline bench link --size 1M --subscribers 1,10 --rate 100 --wait block
      1 and 10 subscribers, open loop at 100 Hz, and the ratio of the two
  driveline bench link --size 1M --take borrow,copy --payload untouched,filled
      costs of copying, filling and reading, compared with memcpy
  driveline bench link --reach process --size 64,1M
      inside one process: between threads, and to a callback on one thread
  driveline bench link --size 64,1M --wait block --peers fastdds/shm,cyclonedds
      next to other middleware (`make peers`; `driveline bench peers`)
  driveline bench link --messages 4000 --json --raw samples.csv > link.json
      enough samples for p99.9 in every run; results as JSON, stamps as CSV

Environment:
  DRIVELINE_PEERS  directory with the programs of other middleware [default:
                   `peers` next to this program, or one level up]

Results are meaningful on a quiet machine only. They include the machine's other load.";

/// Measure the latency of one link, and compare it with the machine's floor.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LinkArgs {
    /// Payload sizes in bytes; k, M and G are powers of 1024
    #[arg(long, value_delimiter = ',', value_name = "SIZES", default_value = "64,1k,64k,1M,4M,8M")]
    pub size: Vec<Size>,
    /// Ends in threads of one process, or in two processes
    #[arg(long, value_enum, value_delimiter = ',', default_value = "host")]
    pub reach: Vec<Reach>,
    /// Numbers of subscribers; more than one needs --rate
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", default_value = "1")]
    pub subscribers: Vec<usize>,
    /// Wait mode of readers: block, spin, or spin:US (spin for US microseconds, then block)
    #[arg(long, value_delimiter = ',', value_name = "WAYS", default_value = "block,spin")]
    pub wait: Vec<Wait>,
    /// Readers access the payload in place, or copy it
    #[arg(long, value_enum, value_delimiter = ',', default_value = "borrow")]
    pub take: Vec<Take>,
    /// Payload untouched, or filled before publishing and verified after receiving
    #[arg(long, value_enum, value_delimiter = ',', default_value = "untouched")]
    pub payload: Vec<Payload>,
    /// Samples per second, at absolute times (open loop) [default: ping-pong, half round trips]
    #[arg(long, value_name = "HZ", value_parser = rate)]
    pub rate: Option<f64>,
    /// Processor time in microseconds that each subscriber spends on each sample; needs --rate
    #[arg(
        long,
        value_name = "US",
        default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(0..=1_000_000)
    )]
    pub processing_us: u64,
    /// For tests of accounts: each end of a ping-pong drops every N-th sample that reaches it, as
    /// if it were lost
    #[arg(long, hide = true, value_name = "N", default_value_t = 0)]
    pub lose_every: u64,
    /// Other middleware measured in the same rounds: all, names of peers, or peer/variant, e.g.
    /// fastdds/shm,cyclonedds
    #[arg(long, value_delimiter = ',', value_name = "PEERS")]
    pub peers: Vec<String>,
    /// Also run the middleware's own latency tool for each blocking ping-pong of a peer. Both
    /// results must agree within 20 %; needs 5 rounds
    #[arg(long, requires = "peers")]
    pub own_tools: bool,
    /// Reliable instead of best effort, for systems that offer it
    #[arg(long)]
    pub reliable: bool,
    /// Number of measured samples in each run
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000)
    )]
    pub messages: u64,
    /// Number of samples before the measured ones in each run
    #[arg(
        long,
        value_name = "N",
        default_value_t = 200,
        value_parser = clap::value_parser!(u64).range(0..=10_000_000)
    )]
    pub warm_up: u64,
    /// Number of complete restarts, each in a new random order
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=1000)
    )]
    pub rounds: u64,
    /// History depth of publisher and subscriptions
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub depth: u32,
    /// CPU of the publisher: auto, any, or a number
    #[arg(long, value_name = "CPU", default_value = "auto")]
    pub publisher_cpu: Cpus,
    /// CPUs of the subscribers in turn: auto, any, or numbers
    #[arg(long, value_name = "CPUS", default_value = "auto")]
    pub subscriber_cpus: Cpus,
    /// Real-time priority (SCHED_FIFO, 1 to 99) of all measured ends; 0: no real-time priority
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=99)
    )]
    pub priority: u8,
    /// Additional measurements in the same rounds
    #[arg(long, value_enum, value_delimiter = ',', default_value = "memcpy,idle,start-up")]
    pub extra: Vec<Extra>,
    /// Observation time of an idle link, in seconds
    #[arg(
        long,
        value_name = "S",
        default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=600)
    )]
    pub idle_seconds: u64,
    /// Seed of the random order and of the intervals [default: a new one, which is printed]
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write the time stamps of every sample to this CSV file
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
}

fn rate(s: &str) -> Result<f64, String> {
    match s.parse::<f64>() {
        Ok(hz) if (0.01..=1e6).contains(&hz) => Ok(hz),
        _ => Err(format!(
            "'{s}' is not a rate: write samples per second between 0.01 and 1000000, e.g. 20"
        )),
    }
}

impl LinkArgs {
    /// Open or closed loop.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.rate.map_or(Pace::PingPong, Pace::RateHz)
    }

    /// Best effort or reliable.
    #[must_use]
    pub fn reliability(&self) -> Reliability {
        if self.reliable { Reliability::Reliable } else { Reliability::BestEffort }
    }

    /// Returns whether an additional measurement is wanted.
    #[must_use]
    pub fn wants(&self, extra: Extra) -> bool {
        self.extra.contains(&extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_suffixes_and_bad_ones_an_example() {
        for (text, bytes) in [
            ("64", 64),
            ("1k", 1024),
            ("1K", 1024),
            ("4M", 4 << 20),
            ("4MiB", 4 << 20),
            ("1KiB", 1024),
            ("1G", 1 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        for bad in ["", "k", "1.5k", "-1", "1kB", "iB", "64iB", "9999999G"] {
            assert!(bad.parse::<Size>().unwrap_err().contains("64,1k,4M"), "{bad}");
        }
        assert!("1".parse::<Size>().unwrap_err().contains("at least 2"));
    }

    #[test]
    fn cpus_are_numbers_or_words() {
        assert_eq!("1,0".parse(), Ok(Cpus::These(vec![1, 0])));
        assert_eq!("any".parse(), Ok(Cpus::Any));
        assert!("one".parse::<Cpus>().unwrap_err().contains("auto"));
    }

    #[test]
    fn rates_have_limits() {
        assert_eq!(rate("20"), Ok(20.0));
        for bad in ["0", "-1", "nan", "1e9", "fast"] {
            assert!(rate(bad).unwrap_err().contains("samples per second"), "{bad}");
        }
    }
}
