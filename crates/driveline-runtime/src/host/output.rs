// SPDX-License-Identifier: Apache-2.0
//! Lines for people. Nobody may be there to read them, and the disk of a log may be full: a module goes on all the same,
//! which the macros of the standard library would not let it.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// A line on standard error, if somebody takes it.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(stderr().lock(), "{line}");
}

/// A line on standard output, if somebody takes it.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(stdout().lock(), "{line}");
}
