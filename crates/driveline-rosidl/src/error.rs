// SPDX-License-Identifier: Apache-2.0
//! Errors in definitions.

use crate::name::TypeName;
use std::sync::Arc;
use thiserror::Error;

/// Place of an error: the file of a definition, or the name under which its text was given, and a
/// line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Path of the file, or the name under which a text was given.
    pub file: Arc<str>,
    /// Line from 1; 0 for the file as a whole.
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line == 0 {
            f.write_str(&self.file)
        } else {
            write!(f, "{}:{}", self.file, self.line)
        }
    }
}

/// A mistake in a definition, or between definitions.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{place}: {problem}; {remedy}")]
pub struct DefinitionError {
    /// Place of the error.
    pub place: Place,
    /// Description of the error.
    pub problem: String,
    /// Remedy.
    pub remedy: String,
    /// The type without a definition, if that is the error.
    pub missing: Option<Box<TypeName>>,
}

impl DefinitionError {
    pub(crate) fn new(place: Place, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { place, problem: problem.into(), remedy: remedy.into(), missing: None }
    }

    /// Returns the error for a referenced type without a definition.
    pub(crate) fn missing(
        place: Place,
        problem: impl Into<String>,
        remedy: impl Into<String>,
        name: &TypeName,
    ) -> Self {
        Self { missing: Some(Box::new(name.clone())), ..Self::new(place, problem, remedy) }
    }
}

/// Shortens external text before it is shown, and replaces control characters and other misleading
/// ones.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut out: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if driveline_types::text::misleads(c) { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}
