// SPDX-License-Identifier: Apache-2.0
//! Output lines for people. A reader may be missing, and the disk of a log may be full. The module
//! continues in any case; the macros of the standard library would panic.

use driveline_types::text::seen;
use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// Writes a line on standard error, ignoring failures. Replaces characters without a visible shape,
/// such as those by which a component's text could reverse the direction of writing.
pub(crate) fn log(line: impl Display) {
    let _ = writeln!(stderr().lock(), "{}", seen(&line.to_string()));
}

/// Writes a line on standard output, ignoring failures.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(stdout().lock(), "{line}");
}
