// SPDX-License-Identifier: Apache-2.0
//! For tests that cannot be made everywhere; included by path, since tests of different crates
//! share no other code.

/// Says that something is not tested here, why, and what would help, as a line that
/// `tools/run_tests.py` repeats at the end. It goes past the test harness, which keeps to itself
/// what passing tests print.
pub(crate) fn skipped(what: &str, why: &str, remedy: &str) {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("a test");
    // In one piece: other tests say something as well.
    let _ = std::io::Write::write_all(
        &mut std::io::stderr().lock(),
        format!("\nSKIPPED: {test}: {what}: {why}; {remedy}\n").as_bytes(),
    );
}
