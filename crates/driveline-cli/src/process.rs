// SPDX-License-Identifier: Apache-2.0
//! What the kernel says about a process, for people. Numbers come again, so nothing is done because of it.

/// Its name; of a module's process, the module's.
pub(crate) fn name(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|n| n.trim_end().to_owned())
}

/// Whether SIGSTOP or a debugger has stopped it.
pub(crate) fn is_stopped(pid: u32) -> bool {
    field(pid, 0).is_some_and(|state| state.starts_with(['T', 't']))
}

/// The process that started it and still runs.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    field(pid, 1)?.parse().ok()
}

/// A field of `/proc/PID/stat` behind the name, which may hold anything.
fn field(pid: u32, n: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(n).map(str::to_owned)
}

/// What to do to end a process that belongs to a run.
pub(crate) fn how_to_end(pid: u32) -> String {
    let launcher = parent(pid).filter(|p| name(*p).is_some_and(|n| n == "driveline"));
    match launcher {
        Some(launcher) => format!(
            "it belongs to the run of process {launcher}: end that with Ctrl-C or `kill {launcher}`"
        ),
        None => format!(
            "nobody watches over it any more: end it with `kill {pid}`, or `kill -KILL {pid}` if that does not help"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_number() {
        let own = std::process::id();
        assert!(name(own).is_some());
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
        assert!(!is_stopped(own));
        assert_eq!(parent(u32::MAX), None);
    }
}
