// SPDX-License-Identifier: Apache-2.0
//! Report of tests that cannot run on every machine. Included by path, since tests of different
//! crates share no other code.

/// Prints what is not tested on this machine, why, and the remedy. `tools/run_tests.py` repeats the
/// line at the end. It is written to standard error directly, because the test harness hides the
/// output of passing tests.
pub(crate) fn skipped(what: &str, why: &str, remedy: &str) {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("a test");
    // One write, so that the output of other tests does not split the line.
    let _ = std::io::Write::write_all(
        &mut std::io::stderr().lock(),
        format!("\nSKIPPED: {test}: {what}: {why}; {remedy}\n").as_bytes(),
    );
}
