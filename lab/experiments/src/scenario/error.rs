// SPDX-License-Identifier: Apache-2.0
//! Errors of loading a scenario.

use driveline_bench::UsageError;
use driveline_graph::{Colour, Diagnostics};
use std::fmt;

/// Reason why a scenario cannot be used, with file, line and remedy.
#[derive(Debug)]
pub enum LoadError {
    /// The word is neither an experiment nor a file.
    NoSuchExperiment(String),
    /// The file cannot be read, or has mistakes, which are listed.
    File(Diagnostics),
}

impl LoadError {
    /// Returns the mistakes of a scenario file, if they are the cause of an error.
    #[must_use]
    pub fn mistakes(error: &anyhow::Error) -> Option<&Diagnostics> {
        match error.downcast_ref()? {
            Self::File(found) => Some(found),
            Self::NoSuchExperiment(_) => None,
        }
    }

    /// Converts this error to an error of the command line.
    pub(crate) fn in_command_line(self) -> anyhow::Error {
        match self {
            Self::NoSuchExperiment(_) => UsageError::new(self).into(),
            Self::File(_) => self.into(),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchExperiment(text) => f.write_str(text.trim_end()),
            Self::File(found) => {
                // The caller adds the word "error".
                let text = found.render(Colour::No);
                f.write_str(text.strip_prefix("error: ").unwrap_or(&text).trim_end())
            }
        }
    }
}

impl std::error::Error for LoadError {}
