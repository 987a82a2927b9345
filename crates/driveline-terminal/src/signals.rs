// SPDX-License-Identifier: Apache-2.0
//! Requests to end a command.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns a flag that becomes true on SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is gone),
/// whose default actions are replaced for good. SIGHUP stays ignored if it was, as under `nohup`.
///
/// # Errors
/// If the system refuses handlers.
pub fn interruption() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        if signal == signal_hook::consts::SIGHUP && is_ignored(signal) {
            continue;
        }
        // The request takes effect within a second. Many senders signal both the process and its
        // group: the repetition changes nothing.
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    Ok(interrupted)
}

fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("SigIgn:"))
        .and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.is_some_and(|m| m >> (signal - 1) & 1 == 1)
}
