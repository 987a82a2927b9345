// SPDX-License-Identifier: Apache-2.0
//! Processor time and memory of a container engine: of its clients (`podman run`, `podman exec`),
//! of the supervisors of the containers (`conmon`), and of the processes that these waited for
//! (`runc`, for example).

use crate::machine::ProcessUse;
use crate::observations::Observations;
use std::fs;
use std::io::Result;
use std::process::{Command, Output};

/// Counter: processor time of each process of the engine until the program that it starts exists,
/// and of clients that have exited.
pub const ENGINE_START: &str = "container engine: processor time to start the ends, ns";
/// Counter: processor time of the engine's living processes after that, until all ends are done.
pub const ENGINE_CPU: &str = "container engine: processor time while the ends run, ns";
/// Counter: sum of the peak resident memory of these living processes.
pub const ENGINE_MEMORY: &str = "container engine: peak memory, byte";

/// Processes of the engine in one run.
#[derive(Default)]
pub(super) struct Engine {
    processes: Vec<Used>,
    /// Processor time of clients that have ended.
    ended_ns: u64,
}

/// Processor time and memory of one process. The record remains when the process has ended.
struct Used {
    pid: u32,
    /// Processor time at the first reading, when the program of its end had just started.
    start: CpuTime,
    /// Own processor time since then.
    since_ns: u64,
    peak_bytes: u64,
}

impl Engine {
    /// Runs a client to its end, and adds its processor time. Blocks. Also adds the time of other
    /// children of this process that end meanwhile.
    pub(super) fn run(&mut self, client: &mut Command) -> Result<Output> {
        let of_children = || CpuTime::of(std::process::id()).map_or(0, |time| time.children_ns);
        let before = of_children();
        let out = client.output();
        self.ended_ns += of_children().saturating_sub(before);
        out
    }

    /// Adds processes whose start is complete. Known ones are not added again.
    pub(super) fn add(&mut self, pids: impl IntoIterator<Item = u32>) {
        for pid in pids {
            if self.processes.iter().all(|known| known.pid != pid) {
                let start = CpuTime::of(pid);
                let used = start.map(|start| Used { pid, start, since_ns: 0, peak_bytes: 0 });
                self.processes.extend(used);
            }
        }
    }

    /// Reads the use of all living processes.
    pub(super) fn read(&mut self) {
        for used in &mut self.processes {
            if let Some(now) = CpuTime::of(used.pid) {
                used.since_ns = used.since_ns.max(now.own_ns.saturating_sub(used.start.own_ns));
            }
            let status = fs::read_to_string(format!("/proc/{}/status", used.pid));
            let peak = status.ok().and_then(|text| peak_bytes(&text));
            used.peak_bytes = used.peak_bytes.max(peak.unwrap_or(0));
        }
    }

    /// Adds the counters of the run, as last read.
    pub(super) fn report(&self, observations: &mut Observations) {
        let all = || self.processes.iter();
        let start: u64 = all().map(|used| used.start.own_ns + used.start.children_ns).sum();
        for (name, n) in [
            (ENGINE_START, self.ended_ns + start),
            (ENGINE_CPU, all().map(|used| used.since_ns).sum()),
            (ENGINE_MEMORY, all().map(|used| used.peak_bytes).sum()),
        ] {
            observations.counters.insert(name.into(), n);
        }
    }
}

/// Use of processor time and memory by the supervisors of running containers that other code has
/// started, for example the launcher of a graph.
pub struct SupervisorUse(Engine);

impl SupervisorUse {
    /// Starts the observation of the supervisors of the containers with these names. The time of
    /// all ended children of this process counts as that of clients. Reads two files for each
    /// process of this machine.
    #[must_use]
    pub fn of(names: &[String]) -> Self {
        let clients = CpuTime::of(std::process::id()).map_or(0, |time| time.children_ns);
        let mut engine = Engine { processes: Vec::new(), ended_ns: clients };
        engine.add(supervisors(&Process::all(), names));
        Self(engine)
    }

    /// Reads their use, and adds it as [`ENGINE_START`], [`ENGINE_CPU`] and [`ENGINE_MEMORY`].
    pub fn report(mut self, observations: &mut Observations) {
        self.0.read();
        self.0.report(observations);
    }
}

/// Processor time of a process so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTime {
    own_ns: u64,
    /// Processor time of its ended children.
    children_ns: u64,
}

impl CpuTime {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let in_ticks =
            Self::in_stat(&stat, 1_000_000_000 / rustix::param::clock_ticks_per_second())?;
        // The sum of the threads is exact, but lacks ended threads; so the larger number is used.
        let threads = ProcessUse::of(pid).map_or(0, |exact| exact.cpu_ns);
        Some(Self { own_ns: in_ticks.own_ns.max(threads), ..in_ticks })
    }

    /// Reads the times from the text of `/proc/PID/stat`.
    fn in_stat(stat: &str, tick_ns: u64) -> Option<Self> {
        let mut times = fields(stat)?.skip(11).map(|ticks| ticks.parse::<u64>().ok());
        let mut next = || times.next().flatten();
        let [user, system, of_children, in_kernel] = [next()?, next()?, next()?, next()?];
        let ns = |a: u64, b: u64| a.saturating_add(b).saturating_mul(tick_ns);
        Some(Self { own_ns: ns(user, system), children_ns: ns(of_children, in_kernel) })
    }
}

/// Returns the fields of the text of `/proc/PID/stat` after the name: the state, the parent, and so
/// on.
fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    // The name may contain spaces and parentheses.
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

/// Returns the greatest resident memory in the text of `/proc/PID/status`, in bytes.
fn peak_bytes(status: &str) -> Option<u64> {
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// Process of this machine, in containers or not.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    parent: u32,
    words: Vec<String>,
}

impl Process {
    /// Returns all processes. Reads two files for each.
    pub(super) fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter_map(Self::of).collect()
    }

    fn of(pid: u32) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::new(pid, &line, &stat)
    }

    /// Makes a process from the texts of its `cmdline` and `stat`.
    fn new(pid: u32, line: &[u8], stat: &str) -> Option<Self> {
        let words = String::from_utf8_lossy(line);
        let words = words.split_terminator('\0').map(str::to_owned).collect();
        Some(Self { pid, parent: fields(stat)?.nth(1)?.parse().ok()?, words })
    }

    fn is_shell(&self, mark: &str) -> bool {
        matches!(self.words.as_slice(), [sh, c, script, ..]
            if sh == "sh" && c == "-c" && script.contains(mark))
    }
}

/// Returns the process that the shell with `mark` in its script has started.
pub(super) fn end(all: &[Process], mark: &str) -> Option<u32> {
    // Only the parent's command line is checked: until a child of the shell executes its program,
    // the child has the command line of the shell.
    let is_child = |p: &&Process| all.iter().any(|q| q.pid == p.parent && q.is_shell(mark));
    all.iter().find(is_child).map(|p| p.pid)
}

/// Returns the supervisors of the containers with these names.
pub(super) fn supervisors(all: &[Process], names: &[String]) -> Vec<u32> {
    let is_one = |p: &&Process| {
        let program = p.words.first().and_then(|path| path.rsplit('/').next());
        let mut options = p.words.windows(2);
        program == Some("conmon")
            && options.any(|pair| matches!(pair, [n, name] if n == "-n" && names.contains(name)))
    };
    all.iter().filter(is_one).map(|p| p.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text of a client, cut after the fields that are read.
    const STAT: &str =
        "30852 (pod (man) S 30849 30809 25167 0 -1 4194560 3071 923 0 0 2 3 4 5 20 0";

    #[test]
    fn times_of_the_process_and_of_its_children_are_read_apart() {
        let time = CpuTime::in_stat(STAT, 10_000_000).unwrap();
        assert_eq!(time, CpuTime { own_ns: 50_000_000, children_ns: 90_000_000 });
        for text in ["", "1 (a", "1 (a) S 1 1", "1 (a) S 1 1 1 0 -1 0 0 0 0 0 x 0 0 0"] {
            assert_eq!(CpuTime::in_stat(text, 1), None, "{text}");
        }
        let own = CpuTime::of(std::process::id()).unwrap();
        assert!(own.own_ns > 0);
    }

    #[test]
    fn the_peak_is_in_bytes() {
        let status =
            "Name:\tconmon\nVmPeak:\t    8868 kB\nVmHWM:\t    1976 kB\nVmRSS:\t     12 kB\n";
        assert_eq!(peak_bytes(status), Some(1976 * 1024));
        // A process that has ended has no memory.
        assert_eq!(peak_bytes("Name:\tconmon\nState:\tZ (zombie)\n"), None);
        assert_eq!(peak_bytes("VmHWM:\t    1976 MB\n"), None);
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(peak_bytes(&own).unwrap() > 4096);
    }

    #[test]
    fn ends_and_supervisors_are_found_by_their_command_lines() {
        let process = |pid, parent: u32, words: &str| {
            let line = words.replace(' ', "\0") + "\0";
            Process::new(pid, line.as_bytes(), &format!("{pid} (x y) S {parent} 1 1")).unwrap()
        };
        let all = [
            process(2, 1, "podman run --name first sh -c :mark-a program"),
            process(3, 1, "/usr/bin/conmon -c 0123 -n first -l none"),
            process(4, 1, "/usr/bin/conmon -c 4567 -n other -l none"),
            process(5, 3, "sh -c :mark-a program"),
            process(6, 5, "program"),
            process(7, 4, "sh -c :mark-b program"),
            process(8, 2, "grep -n first conmon"),
            process(9, 6, "worker"),
        ];
        assert_eq!(end(&all, "mark-a"), Some(6));
        assert_eq!(end(&all, "mark-b"), None);
        assert_eq!(supervisors(&all, &["first".into()]), [3]);
        assert_eq!(supervisors(&all, &[]), [0; 0]);
    }

    #[test]
    fn a_process_is_added_once() {
        let own = std::process::id();
        let mut engine = Engine::default();
        engine.add([own, own, u32::MAX]);
        engine.read();
        let mut observations = Observations::default();
        engine.report(&mut observations);
        assert_eq!(engine.processes.len(), 1);
        let of = |name: &str| observations.counters[name];
        assert!(of(ENGINE_START) > 0 && of(ENGINE_MEMORY) > 4096, "{observations:?}");
        assert!(observations.counters.contains_key(ENGINE_CPU));
    }

    #[test]
    fn the_use_of_a_process_remains_when_it_has_ended() {
        let start = CpuTime { own_ns: 5, children_ns: 6 };
        let ended = Used { pid: u32::MAX, start, since_ns: 7, peak_bytes: 8 };
        let mut engine = Engine { processes: vec![ended], ended_ns: 4 };
        engine.read();
        let mut observations = Observations::default();
        engine.report(&mut observations);
        let of = |name: &str| observations.counters[name];
        assert_eq!([of(ENGINE_START), of(ENGINE_CPU), of(ENGINE_MEMORY)], [15, 7, 8]);
    }

    #[test]
    fn the_use_of_a_client_that_has_ended_counts() {
        // The script ends when it has used four clock ticks.
        let script = "until read -r a a a a a a a a a a a a a user system a < /proc/$$/stat
            [ $((user + system)) -ge 4 ]; do :; done";
        let mut engine = Engine::default();
        let out = engine.run(Command::new("sh").args(["-c", script])).unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert!(engine.ended_ns >= 4 * tick_ns, "{} ns", engine.ended_ns);
        let mut observations = Observations::default();
        engine.report(&mut observations);
        assert_eq!(observations.counters[ENGINE_START], engine.ended_ns);
    }
}
