// SPDX-License-Identifier: Apache-2.0
//! Ways a measurement ends, for its caller.

use std::fmt;
use std::process::ExitCode;

/// End of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run is valid.
    Valid,
    /// Some runs are not, which the result shows.
    Invalid,
    /// Interrupted; what was measured until then is reported.
    Interrupted,
}

impl Ending {
    /// 0, 1, or 130 as shells have it.
    #[must_use]
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Valid => 0,
            Self::Invalid => 1,
            Self::Interrupted => 130,
        })
    }
}

/// A mistake in the command line that its grammar does not show: options that exclude each other, a
/// name that nothing has.
#[derive(Debug)]
pub struct UsageError(String);

impl UsageError {
    /// With all that led to it.
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
