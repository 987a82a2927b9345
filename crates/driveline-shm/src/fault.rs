// SPDX-License-Identifier: Apache-2.0
//! Named places where a test can kill or stop this process.
//!
//! `DRIVELINE_FAULT_POINT=name[:nth]` kills the process (SIGKILL: no destructor, no flush) when it
//! passes the named point for the nth time, from 1. `DRIVELINE_FAULT_ACTION=stop` stops it
//! (SIGSTOP) instead. `DRIVELINE_FAULT_SWITCHES=name,…` switches on deviations: `distrust` (treats
//! its own user as another one), `passrights` (a kernel without SO_PASSRIGHTS), `impatient` and
//! `patient` (no wait, or an endless one, while memory is reserved elsewhere).
//! `DRIVELINE_FAULT_MEMORY=DIR` replaces the machine's memory: `DIR/limit` contains the number of
//! bytes, `DIR/used` a line for each reservation. Without the cargo feature `fault-points`, these
//! variables have no effect. `docs/protocols/shm.md` lists all points.

/// Passes a named point. Does nothing in this build, which has no fault points.
#[cfg(not(all(feature = "fault-points", not(loom))))]
#[inline(always)]
pub(crate) fn point(_name: &'static str) {}

/// Returns true if a test has switched on this deviation.
#[cfg(not(all(feature = "fault-points", not(loom))))]
#[inline(always)]
#[cfg_attr(loom, allow(dead_code, reason = "the models have no users and no kernels"))]
pub(crate) fn is_switched_on(_name: &'static str) -> bool {
    false
}

/// Returns true if a test has switched on this deviation.
#[cfg(all(feature = "fault-points", not(loom)))]
pub(crate) fn is_switched_on(name: &'static str) -> bool {
    static SWITCHES: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let switches =
        SWITCHES.get_or_init(|| std::env::var("DRIVELINE_FAULT_SWITCHES").unwrap_or_default());
    switches.split(',').any(|s| s == name)
}

/// Returns the directory that replaces the machine's memory in a test.
#[cfg(not(loom))]
pub(crate) fn memory_double() -> Option<&'static std::path::Path> {
    #[cfg(feature = "fault-points")]
    {
        static DOUBLE: std::sync::OnceLock<Option<std::path::PathBuf>> = std::sync::OnceLock::new();
        DOUBLE.get_or_init(|| std::env::var_os("DRIVELINE_FAULT_MEMORY").map(Into::into)).as_deref()
    }
    #[cfg(not(feature = "fault-points"))]
    None
}

/// Returns the available bytes and the total in a test.
#[cfg(not(loom))]
pub(crate) fn memory() -> Option<(u64, u64)> {
    let dir = memory_double()?;
    let numbers = |name| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    let total = numbers("limit").trim().parse().unwrap_or(u64::MAX);
    let used: u64 = numbers("used").lines().filter_map(|l| l.parse::<u64>().ok()).sum();
    Some((total.saturating_sub(used), total))
}

/// Counts what was reserved in a test.
#[cfg(not(loom))]
pub(crate) fn record_memory(bytes: u64) {
    use std::io::Write as _;
    if let Some(dir) = memory_double()
        && let Ok(mut used) =
            std::fs::OpenOptions::new().create(true).append(true).open(dir.join("used"))
    {
        let _ = used.write_all(format!("{bytes}\n").as_bytes());
    }
}

/// Passes a named point. Kills or stops the process if the environment requests that here.
#[cfg(all(feature = "fault-points", not(loom)))]
#[allow(unsafe_code, reason = "a signal to itself is a C call")]
pub(crate) fn point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    struct Order {
        name: String,
        left: AtomicU64,
        stop: bool,
    }
    static ORDER: OnceLock<Option<Order>> = OnceLock::new();
    let order = ORDER.get_or_init(|| {
        let text = std::env::var("DRIVELINE_FAULT_POINT").ok()?;
        let (name, nth) = text.split_once(':').unwrap_or((&text, "1"));
        let stop = std::env::var("DRIVELINE_FAULT_ACTION").is_ok_and(|a| a == "stop");
        Some(Order { name: name.to_owned(), left: AtomicU64::new(nth.parse().unwrap_or(1)), stop })
    });
    if let Some(order) = order
        && order.name == name
        && order.left.fetch_sub(1, Relaxed) == 1
    {
        if order.stop {
            // Raised on this very thread, which then stops before the call returns. If the signal
            // were sent to the process, another thread could take it while this one runs on.
            // SAFETY: sends a signal; no memory is involved.
            let _ = unsafe { libc::raise(libc::SIGSTOP) };
        } else {
            // SIGKILL ends all threads before any of them returns. Nothing is left to do if a
            // process cannot signal itself.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }
}
