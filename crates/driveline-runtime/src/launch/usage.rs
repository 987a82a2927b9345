// SPDX-License-Identifier: Apache-2.0
//! Resource use of a module's process, against the limits of the graph: read from `/proc`, once a
//! second.

use super::judge::{Conditions, LastReport};
use driveline_graph::{LimitsSpec, Reaction};
use std::time::Duration;

/// Time between two readings.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// Current resource use of a process; `None` where the system does not report it. Descriptors are
/// counted only if the graph limits them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Anonymous memory in bytes, resident and swapped out.
    pub(super) memory: Option<u64>,
    pub(super) threads: Option<u64>,
    pub(super) descriptors: Option<u64>,
}

impl Usage {
    /// Reads the usage of a process from files; all `None` if the process has ended.
    pub(super) fn of(pid: u32, limits: &LimitsSpec) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let counted = limits.descriptors.is_some();
        let directory = std::fs::read_dir(format!("/proc/{pid}/fd")).ok().filter(|_| counted);
        Self { descriptors: directory.map(|d| d.count() as u64), ..Self::parse(&status) }
    }

    fn parse(status: &str) -> Self {
        let field = |name: &str| -> Option<u64> {
            let rest =
                status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let kib = field("RssAnon").map(|anon| anon.saturating_add(field("VmSwap").unwrap_or(0)));
        Self {
            memory: kib.map(|kib| kib.saturating_mul(1024)),
            threads: field("Threads"),
            descriptors: None,
        }
    }

    /// Returns the exceeded limits, each with its figure and the key.
    fn exceeding(&self, limits: &LimitsSpec) -> [Option<String>; 3] {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let memory = self.memory.zip(limits.memory).filter(|(used, limit)| *used > limit.0);
        let over = |used: Option<u64>, limit: Option<u32>| {
            used.zip(limit).filter(|(used, limit)| *used > u64::from(*limit))
        };
        [
            memory.map(|(used, limit)| {
                format!("uses {:.1} MiB of memory (`limits: memory: {limit}`)", mib(used))
            }),
            over(self.threads, limits.threads)
                .map(|(used, limit)| format!("has {used} threads (`limits: threads: {limit}`)")),
            over(self.descriptors, limits.descriptors).map(|(used, limit)| {
                format!("has {used} open descriptors (`limits: descriptors: {limit}`)")
            }),
        ]
    }
}

/// Findings and reports of each limit of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported([(u64, LastReport); 3]);

impl Reported {
    /// Returns the exceeded limits to report at `now`, with their reactions: each limit at first,
    /// and again every 10 s as long as it is exceeded. A mode can be requested earlier
    /// ([`LastReport::due`]).
    pub(super) fn due(
        &mut self,
        now: Duration,
        used: &Usage,
        limits: &LimitsSpec,
        reaction: &Reaction,
        on: Conditions<'_>,
    ) -> Vec<(String, Reaction)> {
        let mut found = Vec::new();
        for (text, (count, report)) in used.exceeding(limits).into_iter().zip(&mut self.0) {
            let Some(text) = text else { continue };
            *count += 1;
            let due = report.due(now, *count, reaction, on);
            found.extend(due.map(|(_, reaction)| (text, reaction)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_graph::ByteSize;

    const LIMITS: LimitsSpec = LimitsSpec {
        memory: Some(ByteSize(8 << 20)),
        max_held: None,
        threads: Some(4),
        descriptors: Some(100),
    };

    #[test]
    fn memory_is_what_a_process_has_of_its_own() {
        let status = "Name:\tdriveline\nVmRSS:\t99999 kB\nRssAnon:\t    6144 kB\nRssFile:\t 2000 \
                      kB\nRssShmem:\t 90000 kB\nVmSwap:\t  2049 kB\nThreads:\t5\n";
        let used = Usage { descriptors: Some(100), ..Usage::parse(status) };
        assert_eq!((used.memory, used.threads), (Some(8193 << 10), Some(5)));
        let mut reported = Reported::default();
        let mut due = |at, used: &Usage| {
            let found = reported.due(at, used, &LIMITS, &Reaction::Stop, Conditions::default());
            assert!(found.iter().all(|(_, reaction)| *reaction == Reaction::Stop));
            found.into_iter().map(|(text, _)| text).collect::<Vec<_>>()
        };
        let at = Duration::from_secs;
        assert_eq!(
            due(at(1), &used),
            [
                "uses 8.0 MiB of memory (`limits: memory: 8 MiB`)",
                "has 5 threads (`limits: threads: 4`)"
            ]
        );
        assert_eq!(due(at(10), &used), [] as [&str; 0], "reported just now");
        assert_eq!(due(at(11), &used).len(), 2);
        let below = Usage { memory: Some(8 << 20), threads: Some(4), descriptors: Some(101) };
        assert_eq!(due(at(30), &below), ["has 101 open descriptors (`limits: descriptors: 100`)"]);
        assert_eq!(Usage::parse(""), Usage::default(), "a process that is gone");
        assert_eq!(due(at(60), &Usage::default()), [] as [&str; 0]);
    }

    #[test]
    fn a_mode_is_requested_at_each_fault_once_the_graph_runs() {
        let reaction = Reaction::Mode("less".into());
        let mut reported = Reported::default();
        let mut requests = |seconds: std::ops::Range<u64>, threads, mode: &str, runs| {
            let used = Usage { threads: Some(threads), ..Usage::default() };
            let on = Conditions { mode: Some(mode), runs, ..Conditions::default() };
            let found = seconds
                .flat_map(|s| reported.due(Duration::from_secs(s), &used, &LIMITS, &reaction, on));
            found.filter(|(_, r)| *r == reaction).count()
        };
        assert_eq!(requests(1..4, 5, "start", false), 0, "modes cannot be requested yet");
        assert_eq!(requests(4..5, 5, "drive", true), 1);
        assert_eq!(requests(5..9, 5, "less", true), 0, "the mode is in force");
        assert_eq!(requests(9..13, 4, "drive", true), 0, "the fault is over");
        assert_eq!(requests(13..14, 5, "drive", true), 1, "the next one");
    }

    #[test]
    fn this_process_uses_something() {
        let used = Usage::of(std::process::id(), &LIMITS);
        assert!(used.memory > Some(0) && used.threads > Some(0) && used.descriptors > Some(2));
        assert_eq!(Usage::of(u32::MAX, &LIMITS), Usage::default());
    }
}
