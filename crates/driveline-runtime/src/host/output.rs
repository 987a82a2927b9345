// SPDX-License-Identifier: Apache-2.0
//! Lines for people. Nobody may be there to read them, and the disk of a log may be full: a module
//! goes on all the same, which the macros of the standard library would not let it.

use driveline_types::text::seen;
use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// A line on standard error, if somebody takes it. Texts of components in it cannot turn the
/// direction of writing.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(stderr().lock(), "{}", seen(&line.to_string()));
}

/// A line on standard output, if somebody takes it.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(stdout().lock(), "{line}");
}
