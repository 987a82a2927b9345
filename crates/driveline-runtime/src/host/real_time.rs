// SPDX-License-Identifier: Apache-2.0
//! Real-time settings that a module's process requests from the kernel before it opens its topics
//! (`docs/real-time.md`). Each setting is read back.

use crate::account::SettingAccount;
use crate::cores::{KeptOff, keep_off, list, of_this_thread};
use driveline::{Schedule, ScheduleReport};
use driveline_graph::{ResolvedExecutor, ResolvedGraph, ResolvedModule, ResolvedRealTime};
use driveline_shm::{numa_cpus, numa_nodes, prefer_numa_node, segment_placement};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{Read, Write};

/// File in which a process requests short idle states of the cores.
const LATENCY_FILE: &str = "/dev/cpu_dma_latency";
const LOCK_REMEDY: &str = "make the memlock limit unlimited (`ulimit -l unlimited`, \
                           LimitMEMLOCK=infinity of a systemd unit, `--ulimit memlock=-1` of a \
                           container), or give the process CAP_IPC_LOCK";
/// Bit of CAP_IPC_LOCK.
const IPC_LOCK: u32 = 14;
const LATENCY_REMEDY: &str = "run as root, or let a udev rule give the file to the user; in a \
                              container also `devices: [/dev/cpu_dma_latency]`";

/// The settings of one process. They hold until the process ends, except that the request for short
/// idle states ends when this value is dropped.
pub(super) struct RealTime {
    asked: ResolvedRealTime,
    /// Settings that [`Self::apply`] has read back. The others are read back when the executors
    /// run.
    settled: Vec<SettingAccount>,
    locked: Result<(), String>,
    preferred: Result<Placed, String>,
    /// The kernel drops the request when the file is closed.
    _latency: Option<File>,
}

/// Result of `numa: N`.
enum Placed {
    /// The machine has one node.
    OneNode,
    Node(u32),
}

impl RealTime {
    /// Applies the module's settings of the graph, on the thread that will open its topics.
    pub(super) fn apply(graph: &ResolvedGraph, module: &ResolvedModule) -> Self {
        let asked = module.real_time;
        let preferred = asked.numa.map_or(Ok(Placed::OneNode), prefer);
        let within = match &preferred {
            Ok(Placed::Node(node)) => Some(numa_cpus(*node)),
            _ => None,
        };
        let mut settled = Vec::new();
        let exclusive = graph.exclusive_cpus();
        if !exclusive.is_empty() || within.is_some() {
            let kept = keep_off(&exclusive, within.as_deref()).map(KeptOff::stay);
            settled.push(other_threads(kept.err(), &exclusive));
        }
        let locked = if asked.lock_memory { lock_memory() } else { Ok(()) };
        let latency = asked.cpu_dma_latency_us.map(request_latency);
        let _latency = latency.and_then(|(file, setting)| {
            settled.push(setting);
            file
        });
        for executor in module.executors.iter().filter(|e| e.schedule.exclusive) {
            settled.push(cores(executor, &Isolated::here(), &online()));
        }
        Self { asked, settled, locked, preferred, _latency }
    }

    /// All settings, read back from the kernel. Call it when the topics are open and the executors
    /// run. Reads files and allocates.
    pub(super) fn settings(&self, threads: &[(&Schedule, ScheduleReport)]) -> Vec<SettingAccount> {
        let mut all = self.settled.clone();
        if self.asked.lock_memory {
            let refused = self.locked.as_ref().err().cloned();
            all.push(setting("lock_memory", locked_text(), refused));
        }
        if let Some(node) = self.asked.numa {
            all.push(placement(node, &self.preferred));
        }
        let asked = threads.iter().filter(|(schedule, _)| **schedule != Schedule::default());
        all.extend(asked.map(|(_, report)| {
            let refused = (!report.refused.is_empty()).then(|| report.refused.join("; "));
            setting(&format!("thread {}", report.thread), report.granted(), refused)
        }));
        all
    }

    /// Returns the refused settings, one line each, without those of single executor threads.
    pub(super) fn refusals<'s>(settings: &'s [SettingAccount]) -> Vec<String> {
        let own = settings.iter().filter(|s| !s.setting.starts_with("thread "));
        let line = |s: &'s SettingAccount| {
            Some(format!("{}: refused: {}", s.setting, s.refused.as_ref()?))
        };
        own.filter_map(line).collect()
    }
}

fn setting(name: &str, in_force: impl Into<String>, refused: Option<String>) -> SettingAccount {
    SettingAccount { setting: name.to_owned(), in_force: in_force.into(), refused }
}

fn other_threads(refused: Option<String>, exclusive: &[usize]) -> SettingAccount {
    let in_force = format!("cores {}", list(&of_this_thread()));
    let refused = refused.map(|reason| {
        format!("{reason}; leave a core without `exclusive` (exclusive: {})", list(exclusive))
    });
    setting("other threads", in_force, refused)
}

/// Raises the limit on locked memory, if one applies. If that is not possible, returns the reason
/// and the remedy.
pub fn memory_lock_refusal() -> Option<String> {
    // With a limit, mappings beyond it would fail later, and with them threads and allocations.
    let limit = getrlimit(Resource::Memlock);
    limit.current?;
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    if ignores_memlock_limit(&read("/proc/self/status"), &read("/proc/self/uid_map")) {
        return None;
    }
    let raised = Rlimit { current: None, maximum: None };
    setrlimit(Resource::Memlock, raised).err().map(|_| {
        let kib = limit.maximum.or(limit.current).unwrap_or(0) >> 10;
        format!("the memlock limit is {kib} KiB; {LOCK_REMEDY}")
    })
}

/// Returns true if the kernel does not apply the memlock limit: with CAP_IPC_LOCK in the machine's
/// own user namespace. `status`, `uid_map`: the files in `/proc/self`.
fn ignores_memlock_limit(status: &str, uid_map: &str) -> bool {
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let capabilities = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    capabilities.is_some_and(|set| set >> IPC_LOCK & 1 == 1)
        && uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns why idle states cannot be bounded, with the remedy. Bounds them for a moment.
pub fn idle_state_refusal(asked_us: u32) -> Option<String> {
    request_latency(asked_us).1.refused
}

/// Locks all memory of this process, that of later mappings included, and makes it present.
///
/// # Errors
/// The reason and the remedy; nothing is locked then.
pub fn lock_memory() -> Result<(), String> {
    memory_lock_refusal().map_or(Ok(()), Err)?;
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|e| {
        format!("{e}: the memory of the process cannot be kept present; {LOCK_REMEDY}")
    })
}

fn locked_text() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let locked = status.lines().find_map(|l| l.strip_prefix("VmLck:")?.split_whitespace().next());
    let kib = locked.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    if kib == 0 { "not locked".into() } else { format!("{} MiB locked", kib.div_ceil(1024)) }
}

fn prefer(node: u32) -> Result<Placed, String> {
    let nodes = numa_nodes();
    if nodes.len() < 2 {
        return Ok(Placed::OneNode);
    }
    if !nodes.contains(&node) {
        let nodes: Vec<_> = nodes.iter().map(|n| *n as usize).collect();
        return Err(format!("there is no node {node}; this machine has {}", list(&nodes)));
    }
    prefer_numa_node(node).map(|()| Placed::Node(node)).map_err(|e| {
        format!("set_mempolicy: {e}; in a container add `--cap-add SYS_NICE`, or remove `numa`")
    })
}

/// Returns the placement of the segments, as the kernel reports it page by page.
fn placement(node: u32, preferred: &Result<Placed, String>) -> SettingAccount {
    match preferred {
        Ok(Placed::OneNode) => {
            let text = format!("this machine has one node; `numa: {node}` has no effect");
            return setting("numa", text, None);
        }
        Err(reason) => return setting("numa", "anywhere", Some(reason.clone())),
        Ok(Placed::Node(_)) => {}
    }
    match segment_placement() {
        Err(e) => {
            setting("numa", format!("node {node} asked for"), Some(format!("move_pages: {e}")))
        }
        Ok(found) => {
            let here = found.pages.get(&node).copied().unwrap_or(0);
            let all = found.pages.values().sum::<u64>() + found.unknown;
            let in_force = format!("node {node}: {here} of {all} pages of topics are there");
            let refused = (here < all).then(|| {
                format!("node {node} has no memory for the rest; free some, or use another node")
            });
            setting("numa", in_force, refused)
        }
    }
}

fn request_latency(asked: u32) -> (Option<File>, SettingAccount) {
    const NAME: &str = "cpu_dma_latency_us";
    let asked = i32::try_from(asked).unwrap_or(i32::MAX);
    let request = || {
        let mut file = File::options().read(true).write(true).open(LATENCY_FILE)?;
        file.write_all(&asked.to_ne_bytes())?;
        let mut in_force = [0; 4];
        file.read_exact(&mut in_force)?;
        Ok((file, i32::from_ne_bytes(in_force)))
    };
    match request() {
        Ok((file, in_force)) => {
            let refused = (in_force > asked)
                .then(|| format!("the kernel has {in_force} µs instead of {asked} µs"));
            (Some(file), setting(NAME, format!("{in_force} µs"), refused))
        }
        Err(e) => {
            let e: std::io::Error = e;
            let refused = Some(format!("{LATENCY_FILE}: {e}; {LATENCY_REMEDY}"));
            (None, setting(NAME, "as the machine has it", refused))
        }
    }
}

/// CPUs on which the kernel runs only processes that request them.
struct Isolated(Vec<usize>);

impl Isolated {
    fn here() -> Self {
        let read = std::fs::read_to_string("/sys/devices/system/cpu/isolated");
        Self(cpus_of(read.unwrap_or_default().trim()))
    }
}

/// Parses a list of CPUs in the kernel's format: `0-3,8`.
fn cpus_of(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    text.split(',').filter_map(range).flatten().take(4096).collect()
}

/// Cores of this machine that are switched on; empty if the kernel does not list them.
fn online() -> Vec<usize> {
    let read = std::fs::read_to_string("/sys/devices/system/cpu/online");
    cpus_of(read.unwrap_or_default().trim())
}

fn cores(executor: &ResolvedExecutor, isolated: &Isolated, online: &[usize]) -> SettingAccount {
    let name = format!("exclusive {}", executor.name);
    let cpus = &executor.schedule.cpus;
    let missing: Vec<_> = cpus.iter().filter(|c| !online.contains(c)).copied().collect();
    if !online.is_empty() && !missing.is_empty() {
        let refused = format!("this machine has no core {}, only {}", list(&missing), list(online));
        return setting(&name, "no exclusive cores", Some(refused));
    }
    let open: Vec<_> = cpus.iter().filter(|c| !isolated.0.contains(c)).copied().collect();
    let kept = "no other thread of the graph runs there";
    let in_force = if open.is_empty() {
        format!("cores {}: {kept}, and no other process (isolated)", list(cpus))
    } else {
        let open = list(&open);
        format!(
            "cores {}: {kept}; other processes can use {open}: boot with `isolcpus={open}`, or \
             keep them off with AllowedCPUs= of systemd slices",
            list(cpus)
        )
    };
    setting(&name, in_force, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolated_cores_need_no_advice() {
        let schedule = Schedule { cpus: vec![2, 3], exclusive: true, ..Schedule::default() };
        let executor = ResolvedExecutor { name: "main".into(), threads: 1, spin_us: 0, schedule };
        let text =
            |isolated: &str| cores(&executor, &Isolated(cpus_of(isolated)), &[0, 1, 2, 3]).in_force;
        assert!(text("1-3").ends_with("no other process (isolated)"), "{}", text("1-3"));
        assert!(text("3").contains("can use 2: boot with `isolcpus=2`"), "{}", text("3"));
        assert!(text("").contains("isolcpus=2-3"), "{}", text(""));
        let without = cores(&executor, &Isolated(Vec::new()), &[0, 1, 2]);
        assert_eq!(without.in_force, "no exclusive cores");
        assert_eq!(without.refused.as_deref(), Some("this machine has no core 3, only 0-2"));
    }

    #[test]
    fn the_memlock_limit_holds_without_cap_ipc_lock() {
        let all = "         0          0 4294967295\n";
        let with = "Name:\tx\nCapEff:\t0000000000004000\n";
        assert!(ignores_memlock_limit(with, all));
        assert!(!ignores_memlock_limit("CapEff:\t0000000000000000\n", all));
        assert!(!ignores_memlock_limit(with, "0 1000 1\n"), "in another user namespace");
        assert!(!ignores_memlock_limit("", ""));
    }

    #[test]
    fn a_node_without_effect_or_that_does_not_exist_is_reported() {
        let one = placement(3, &Ok(Placed::OneNode));
        assert_eq!(one.in_force, "this machine has one node; `numa: 3` has no effect");
        assert_eq!(one.refused, None);
        let none = placement(3, &Err("there is no node 3; this machine has 0-1".into()));
        assert!(none.refused.is_some_and(|r| r.contains("0-1")));
        // Every page of this test's segments, if it has any, is on a node below 1000.
        let off = placement(1000, &Ok(Placed::Node(1000)));
        assert!(off.in_force.contains("0 of ") || off.refused.is_some(), "{off:?}");
    }

    #[test]
    fn idle_states_are_bounded_or_the_refusal_has_a_remedy() {
        let (file, setting) = request_latency(0);
        match file {
            Some(_) => assert_eq!((&*setting.in_force, setting.refused), ("0 µs", None)),
            None => assert!(setting.refused.is_some_and(|r| r.contains("udev"))),
        }
    }

    #[test]
    fn what_was_refused_is_a_line() {
        let settings = [
            setting("numa", "anywhere", Some("no node".into())),
            setting("lock_memory", "5 MiB", None),
            setting("thread main/0", "x", Some("said by the executor".into())),
        ];
        assert_eq!(RealTime::refusals(&settings), ["numa: refused: no node"]);
    }
}
