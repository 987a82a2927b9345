// SPDX-License-Identifier: Apache-2.0
//! End of a measurement, as reported to the caller.

use std::fmt;
use std::process::ExitCode;

/// End of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run is valid.
    Valid,
    /// Some runs are invalid; the result marks them.
    Invalid,
    /// Interrupted; the measurements until then are reported.
    Interrupted,
}

impl Ending {
    /// Returns 0, 1, or 130 as shells do.
    #[must_use]
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Valid => 0,
            Self::Invalid => 1,
            Self::Interrupted => 130,
        })
    }
}

/// An error in the command line beyond its grammar: options that exclude each other, or an unknown
/// name.
#[derive(Debug)]
pub struct UsageError(String);

impl UsageError {
    /// Makes an error whose text also has the causes of `why`.
    #[must_use]
    pub fn new(why: impl Into<anyhow::Error>) -> Self {
        Self(format!("{:#}", why.into()))
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Returns the exit code of a command of the benchmark that failed: 2 if the command line is wrong,
/// as for errors of its grammar, and 1 otherwise.
#[must_use]
pub fn exit_code_of(e: &anyhow::Error) -> ExitCode {
    ExitCode::from(if e.is::<UsageError>() { 2 } else { 1 })
}
