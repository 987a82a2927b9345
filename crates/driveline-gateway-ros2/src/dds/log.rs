// SPDX-License-Identifier: Apache-2.0
//! Log lines of CycloneDDS on standard error, limited to a readable number. CycloneDDS logs each
//! broken packet, and any process that reaches its ports can send many.

use cyclors as c;
use driveline_gateway::{LineLimit, LineVerdict};
use std::ffi::c_void;
use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Instant;

/// Maximum number of lines a minute.
const LINES: u32 = 16;
/// Maximum length of a line, in bytes; the same as in CycloneDDS.
const MAX_LINE: usize = 2048;

/// Limit of this process, as CycloneDDS has one log for each process.
static LIMIT: Mutex<LineLimit> = Mutex::new(LineLimit::new(LINES));

fn limit<T>(f: impl FnOnce(&mut LineLimit) -> T) -> T {
    f(&mut LIMIT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns a note on lines that were not shown, at most once a minute.
pub(crate) fn withheld() -> Option<String> {
    let lines = limit(|limit| limit.withheld(Instant::now()))?;
    Some(format!(
        "CycloneDDS has logged {lines} more lines, which were not shown: mostly, a program sends \
         broken packets to its UDP ports; the shown lines name sender and fault"
    ))
}

/// Returns one line without control characters, as names in it come from the network.
fn printable(line: &[u8]) -> String {
    let line = line.get(..MAX_LINE).unwrap_or(line);
    String::from_utf8_lossy(line)
        .trim_end()
        .chars()
        .map(|c| if driveline_types::text::misleads(c) { ' ' } else { c })
        .collect()
}

/// Writes a line. Errors are ignored: a closed standard error does not end the gateway.
fn show(line: &[u8], verdict: &LineVerdict) {
    let more = if *verdict == LineVerdict::Last {
        "\nCycloneDDS: further lines of this minute are counted and not shown"
    } else {
        ""
    };
    let _ =
        std::io::stderr().write_all(format!("CycloneDDS: {}{more}\n", printable(line)).as_bytes());
}

unsafe extern "C" fn sink(_: *mut c_void, said: *const c::dds_log_data_t) {
    // SAFETY: CycloneDDS passes a structure that lives, and does not change, during the call.
    let Some(said) = (unsafe { said.as_ref() }) else { return };
    let verdict = limit(|limit| limit.line(Instant::now()));
    // CycloneDDS ends the process after a fatal line, so that line is always shown.
    if said.message.is_null()
        || verdict == LineVerdict::Withheld && said.priority & c::DDS_LC_FATAL == 0
    {
        return;
    }
    // SAFETY: `message` and `size` name the bytes of a buffer of the calling thread, which does not
    // change during the call.
    show(unsafe { std::slice::from_raw_parts(said.message.cast::<u8>(), said.size) }, &verdict);
}

/// Limits the log lines of all CycloneDDS domains of this process from now on.
pub(super) fn bound() {
    static ONCE: Once = Once::new();
    // SAFETY: `sink` is part of the program, has the required signature, cannot unwind (a panic in
    // a function of C's ABI ends the process), and does not use its first argument.
    ONCE.call_once(|| unsafe { c::dds_set_log_sink(Some(sink), std::ptr::null_mut()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_text_does_nothing_to_a_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\nc\xff\n"), "a [2Jb c\u{fffd}");
        assert_eq!(printable(&[b'a'; 2 * MAX_LINE]).len(), MAX_LINE);
    }
}
