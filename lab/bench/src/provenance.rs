// SPDX-License-Identifier: Apache-2.0
//! Origin of a result: program and command.

pub use driveline_terminal::version::{COMMIT, VERSION};

/// `true` if it was compiled with optimisation; figures without optimisation have no meaning.
pub const OPTIMISED: bool = !cfg!(debug_assertions);

/// Returns the command that produced the result.
#[must_use]
pub fn command() -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
    // The path of the program does not matter for the measurement, and is private.
    if let Some(first) = words.first_mut() {
        *first = std::path::Path::new(first.as_str())
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    }
    // In the form that users type.
    if words.first().is_some_and(|first| first == "driveline-bench") {
        words.splice(..1, ["driveline".to_owned(), "bench".to_owned()]);
    }
    words
}
