// SPDX-License-Identifier: Apache-2.0
//! Log lines of C++ code, in the one log of the process.

use crate::status::{guard_value, optional_text};
use driveline_types::text::seen;
use std::ffi::c_char;
use std::io::IsTerminal;
use std::sync::OnceLock;
use tracing_subscriber::EnvFilter;

/// Severity of a line of the log.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dl_log_level {
    /// Something failed.
    DL_LOG_ERROR = 1,
    /// Something is wrong, but work continues.
    DL_LOG_WARNING = 2,
    /// Something notable happened.
    DL_LOG_INFO = 3,
    /// For developers.
    DL_LOG_DEBUG = 4,
}

/// Sends log lines to stderr if the process has set no other log. `DRIVELINE_LOG` contains the
/// filter; `default` is used if it is not set or not valid.
pub(crate) fn to_stderr_unless_set(default: &str) {
    if tracing::dispatcher::has_been_set() {
        return;
    }
    let filter =
        EnvFilter::try_from_env("DRIVELINE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // If the log cannot be written, this error cannot be reported either: an attempt would panic.
    let log = log.log_internal_errors(false);
    // Called last, because the type of the handle depends on the writer and the format.
    let log = log.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
    let handle = log.reload_handle();
    // Another thread may have been faster; then its choice holds.
    if log.try_init().is_ok() {
        let change = move |filter: EnvFilter| handle.reload(filter).map_err(|e| e.to_string());
        let _ = CHANGE.set(Box::new(change));
    }
}

/// Changes the filter of the log, if this library has created it.
static CHANGE: OnceLock<Box<Change>> = OnceLock::new();

type Change = dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync;

/// Changes the filter of the process's log.
pub(crate) fn set_filter(filter: &str) -> Result<(), String> {
    let refused = |reason: &dyn std::fmt::Display| {
        format!(
            "{filter:?} is no filter ({reason}); write error, warn, info, debug, trace or off, or \
             a filter such as `driveline=debug,warn`"
        )
    };
    // A word alone that is no level would select the target of this name: a misspelt level would
    // silence everything else.
    let is_level = |word: &str| {
        !word.is_empty() && word.parse::<tracing::level_filters::LevelFilter>().is_ok()
    };
    let words = || filter.split(',').map(str::trim);
    if let Some(word) = words().find(|w| !w.contains(['=', '[', '{']) && !is_level(w)) {
        return Err(refused(&format!("{word:?} is no level")));
    }
    let parsed = EnvFilter::try_new(filter).map_err(|e| refused(&e))?;
    let change = CHANGE.get().ok_or("the program has a log of its own, which it filters itself")?;
    change(parsed)
}

/// Writes a line into the log. `level`: a `dl_log_level`, anything else counts as `DL_LOG_INFO`.
/// `who`: name of the component or node, may be NULL. Not for the data path: it allocates and
/// writes.
///
/// # Safety
/// `who` and `text` are NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_log(level: u32, who: *const c_char, text: *const c_char) {
    guard_value((), || {
        // SAFETY: this function's contract.
        let (Ok(who), Ok(Some(text))) =
            (unsafe { (optional_text("who", who), optional_text("text", text)) })
        else {
            return;
        };
        let (who, text) = (seen(who.unwrap_or("driveline")), seen(text));
        match level {
            1 => tracing::error!("[{who}] {text}"),
            2 => tracing::warn!("[{who}] {text}"),
            4 => tracing::debug!("[{who}] {text}"),
            _ => tracing::info!("[{who}] {text}"),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_changed_while_the_process_runs() {
        to_stderr_unless_set("warn");
        set_filter("off,filter_test=debug").unwrap();
        assert!(tracing::enabled!(target: "filter_test", tracing::Level::DEBUG));
        set_filter("warn").unwrap();
        assert!(!tracing::enabled!(target: "filter_test", tracing::Level::DEBUG));
        let e = set_filter("filter_test=much").unwrap_err();
        assert!(e.contains("is no filter") && e.contains("driveline=debug,warn"), "{e}");
        for misspelt in ["debgu", "", "warn,inof"] {
            let e = set_filter(misspelt).unwrap_err();
            assert!(e.contains("is no level"), "{e}");
        }
    }
}
