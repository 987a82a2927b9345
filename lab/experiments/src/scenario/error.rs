// SPDX-License-Identifier: Apache-2.0
//! Error of loading a scenario.

use driveline_bench::UsageError;
use driveline_graph::{Colour, Diagnostics};
use std::fmt;

/// Reason why a scenario cannot be used, for people: with file, line and remedy.
#[derive(Debug)]
pub enum LoadError {
    /// The word is no experiment's, and no file's.
    NoSuchExperiment(String),
    /// The file cannot be read, or has mistakes: all that were found.
    File(Diagnostics),
}

impl LoadError {
    /// The mistakes of a scenario file, if it is these that something failed for.
    #[must_use]
    pub fn mistakes(error: &anyhow::Error) -> Option<&Diagnostics> {
        match error.downcast_ref()? {
            Self::File(found) => Some(found),
            Self::NoSuchExperiment(_) => None,
        }
    }

    /// As the error of a command whose word was to be loaded.
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
