// SPDX-License-Identifier: Apache-2.0
//! Records between the first process of a module's container and the launcher
//! (`docs/protocols/deployment.md`).

use serde::{Deserialize, Serialize};

/// Version of [`ContainedRecord`].
pub const CONTAINED_FORMAT: u32 = 1;

/// One line from the first process of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ContainedRecord {
    /// First record: the container's first process runs.
    Contained {
        /// [`CONTAINED_FORMAT`].
        format: u32,
        /// Module.
        module: String,
    },
    /// The module has printed a line.
    Output {
        /// Stream it was written to.
        stream: OutputStream,
        /// The line, without its end. Lines of more than 4096 bytes come in pieces; bytes that are
        /// not UTF-8 are then replaced.
        line: String,
    },
    /// Resource use of the container: each second and at the end, if it has changed.
    Usage(Usage),
    /// The module's process has ended.
    Exited {
        /// Exit code, unless a signal ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// Number of the signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// The kernel has killed a process of this container for its memory limit.
        #[serde(default)]
        oom: bool,
    },
    /// A record of a newer release.
    #[serde(other)]
    Unknown,
}

/// Output stream of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Memory and CPU use that a cgroup reports; figures it does not report are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Memory in use, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Peak memory use, in bytes. If the kernel does not report it: the maximum of the readings,
    /// once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// Memory limit, in bytes; also absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Time for which threads had to wait because the CPU quota was used up, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_us: Option<u64>,
    /// Number of periods with such waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Processes that the kernel has killed for the memory limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// CPUs on which the first process of the container may run, as the kernel writes them:
    /// `0-3,8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
}

/// A command from the launcher to the first process of a container, one a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Send SIGTERM to the module.
    Terminate,
    /// Send SIGKILL to the module.
    Kill,
}

impl Word {
    /// Returns the command with the end of its line.
    #[must_use]
    pub fn line(self) -> &'static str {
        match self {
            Self::Terminate => "terminate\n",
            Self::Kill => "kill\n",
        }
    }

    /// Parses a line without its end.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        match line {
            b"terminate" => Some(Self::Terminate),
            b"kill" => Some(Self::Kill),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_words_survive_a_round_trip_and_newer_ones_are_no_error() {
        for (record, line) in [
            (
                ContainedRecord::Contained { format: 1, module: "lane".into() },
                r#"{"record":"contained","format":1,"module":"lane"}"#,
            ),
            (
                ContainedRecord::Output { stream: OutputStream::Err, line: "no".into() },
                r#"{"record":"output","stream":"err","line":"no"}"#,
            ),
            (
                ContainedRecord::Usage(Usage { memory_bytes: Some(7), ..Usage::default() }),
                r#"{"record":"usage","memory_bytes":7}"#,
            ),
            (
                ContainedRecord::Exited { code: None, signal: Some(11), oom: false },
                r#"{"record":"exited","signal":11,"oom":false}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&record).unwrap(), line);
            assert_eq!(serde_json::from_str::<ContainedRecord>(line).unwrap(), record);
        }
        let newer = serde_json::from_str::<ContainedRecord>(r#"{"record":"weather","rain":true}"#);
        assert_eq!(newer.unwrap(), ContainedRecord::Unknown);
        for word in [Word::Terminate, Word::Kill] {
            assert_eq!(Word::parse(word.line().trim_end().as_bytes()), Some(word));
        }
        assert_eq!(Word::parse(b"dance"), None);
    }
}
