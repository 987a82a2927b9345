// SPDX-License-Identifier: Apache-2.0
//! Information of the kernel on a process, for texts that users read. The kernel reuses process
//! ids, so the information can be about another process: no action depends on it.

use std::collections::BTreeMap;
use std::time::Instant;

/// Returns the name of a process, of which the kernel keeps 15 bytes. A module's process has the
/// name of its module.
pub(crate) fn name(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|n| n.trim_end().to_owned())
}

/// Returns the name of the program in its command line, without the directory.
pub(crate) fn program(pid: u32) -> Option<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let path = line.split('\0').next()?;
    Some(path.rsplit('/').next().unwrap_or(path).to_owned())
}

/// Returns true if SIGSTOP or a debugger has suspended a process.
pub(crate) fn is_stopped(pid: u32) -> bool {
    field(pid, 0).is_some_and(|state| state.starts_with(['T', 't']))
}

/// Returns the parent of a process. If the process that started it has ended, that is the one that
/// adopted it.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    field(pid, 1)?.parse().ok()
}

/// Returns a field of `/proc/PID/stat` after the name, which may contain any characters.
fn field(pid: u32, n: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(n).map(str::to_owned)
}

/// Returns the launcher that started a module, if it still runs.
pub(crate) fn launcher(module: u32) -> Option<u32> {
    parent(module).filter(|p| name(*p).is_some_and(|n| n == "driveline"))
}

/// Describes how to end the processes of a run.
pub(crate) fn how_to_end(modules: &[u32]) -> String {
    let (it, belongs, is) = if modules.len() > 1 {
        ("them", "they belong", "they are")
    } else {
        ("it", "it belongs", "it is")
    };
    if let Some(launcher) = modules.iter().find_map(|pid| launcher(*pid)) {
        return format!(
            "{belongs} to the run of process {launcher}: end that with Ctrl-C or `kill {launcher}`"
        );
    }
    let pids: Vec<_> = modules.iter().map(u32::to_string).collect();
    let pids = pids.join(" ");
    format!(
        "{is} not supervised any more: end {it} with `kill {pids}`, or `kill -KILL {pids}` if \
         that does not help"
    )
}

/// Returns the processor time of a process and its threads so far, in clock ticks of 10 ms.
fn cpu_ticks(pid: u32) -> Option<u64> {
    let ticks = |n| field(pid, n)?.parse::<u64>().ok();
    Some(ticks(11)?.saturating_add(ticks(12)?))
}

/// Clock ticks per second in `/proc`, on every Linux that Driveline runs on.
const TICKS_PER_S: f64 = 100.0;
/// Maximum number of modules that a line names.
const MAX_MODULES: usize = 6;

/// Use of processors by the modules and gateways of a run, since the previous reading.
#[derive(Default)]
pub(crate) struct CpuUse {
    /// By module: its process, and its ticks at the previous reading.
    processes: BTreeMap<String, (u32, Option<u64>)>,
    looked: Option<Instant>,
}

impl CpuUse {
    pub(crate) fn started(&mut self, module: &str, pid: u32) {
        self.processes.insert(module.to_owned(), (pid, None));
    }

    /// Returns a text such as `CPU, of one processor: perception 180 %, sensing 12 %`, the greatest
    /// first; `None` at the first reading.
    pub(crate) fn line(&mut self) -> Option<String> {
        let now = Instant::now();
        let seconds = self.looked.replace(now).map(|then| (now - then).as_secs_f64());
        let mut shares = Vec::new();
        for (module, (pid, before)) in &mut self.processes {
            let ticks = cpu_ticks(*pid);
            let since = ticks.zip(std::mem::replace(before, ticks));
            let share = since.zip(seconds.filter(|s| *s > 0.0)).map(|((new, old), seconds)| {
                new.saturating_sub(old) as f64 / TICKS_PER_S / seconds * 100.0
            });
            shares.extend(share.map(|share| (share, module.as_str())));
        }
        cpu_line(shares)
    }
}

fn cpu_line(mut shares: Vec<(f64, &str)>) -> Option<String> {
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named: Vec<String> = shares
        .iter()
        .take(MAX_MODULES)
        .map(|(share, module)| format!("{module} {share:.0} %"))
        .collect();
    let more = shares.len().checked_sub(MAX_MODULES).filter(|more| *more > 0);
    let more = more.map(|n| {
        let rest: f64 = shares.iter().skip(MAX_MODULES).map(|(share, _)| share).sum();
        format!(", {n} more {rest:.0} %")
    });
    (!named.is_empty())
        .then(|| format!("CPU, of one processor: {}{}", named.join(", "), more.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_processors_names_the_greatest_and_sums_up_the_rest() {
        let shares = (1..=8).map(|n| (f64::from(n), "m")).collect();
        assert_eq!(
            cpu_line(shares).unwrap(),
            "CPU, of one processor: m 8 %, m 7 %, m 6 %, m 5 %, m 4 %, m 3 %, 2 more 3 %"
        );
        assert_eq!(cpu_line(Vec::new()), None);
        assert!(cpu_ticks(std::process::id()).is_some());
    }

    #[test]
    fn a_process_is_found_by_its_number() {
        let own = std::process::id();
        assert!(name(own).is_some() && program(own).is_some());
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
        assert!(!is_stopped(own));
        assert_eq!(parent(u32::MAX), None);
    }
}
