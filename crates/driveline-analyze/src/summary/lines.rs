// SPDX-License-Identifier: Apache-2.0
//! Lines of a summary, as text for people.

use super::Summary;
use crate::backpressure::BlockedOutput;
use crate::deadlines::{DeadlineSummary, PortEnd};
use driveline_terminal::figures::duration_us;

/// Maximum number of entries of a list that a line names.
const MAX_NAMED: usize = 4;

/// Returns the first few entries of a list, and the number of the others.
fn few(all: &[String]) -> String {
    let named = all.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        Some(more) => format!("{named}, and {more} more"),
        None => named,
    }
}

impl Summary {
    /// Returns a line that begins `blocked in publish: fast 4.1 s on 'x/tick' (41 waits for slow, 1
    /// timed out)`, the output that waited longest first; `None` if no output waited.
    #[must_use]
    pub fn blocked_in_publish(&self) -> Option<String> {
        let mut outputs: Vec<_> = self.backpressure.iter().collect();
        outputs.sort_by(|a, b| b.blocked_ms.total_cmp(&a.blocked_ms));
        let one = |b: &&BlockedOutput| {
            let time = duration_us(b.blocked_ms * 1e3);
            let waits = if b.waits == 1 { "wait" } else { "waits" };
            let one_of = if b.readers.len() > 1 { "one of " } else { "" };
            let readers = match (b.readers.is_empty(), b.external) {
                (true, _) => "readers outside of the graph".to_owned(),
                (false, false) => format!("{one_of}{}", few(&b.readers)),
                (false, true) => {
                    format!("{one_of}{} or a reader outside of the graph", few(&b.readers))
                }
            };
            let timed_out = match b.timeouts {
                0 => String::new(),
                n => format!(", {n} timed out"),
            };
            format!(
                "{} {time} on '{}' ({} {waits} for {readers}{timed_out})",
                b.stage, b.topic, b.waits
            )
        };
        let outputs: Vec<_> = outputs.iter().map(one).collect();
        (!outputs.is_empty()).then(|| {
            format!(
                "blocked in publish: {}; this time is part of the publisher's processing and of \
                 the readers' communication",
                few(&outputs)
            )
        })
    }

    /// Returns a line that begins `timer ticks without a call (overruns): camera 12 (400 calls
    /// made)`; `None` if there were none. Calls that samples triggered are among the 400.
    #[must_use]
    pub fn overruns(&self) -> Option<String> {
        let of = |s: &crate::StageSummary| {
            let c = s.counters.as_ref().filter(|c| c.overruns > 0)?;
            Some(format!("{} {} ({} calls made)", s.stage, c.overruns, c.invocations))
        };
        let stages: Vec<_> = self.stages.iter().filter_map(of).collect();
        (!stages.is_empty()).then(|| {
            format!(
                "timer ticks without a call (overruns): {}; the call before them was still \
                 running, or the thread got no processor in time",
                few(&stages)
            )
        })
    }

    /// Returns `deadlines missed: 1208 by output fast.out (topic 'x/tick')`, with the few ports
    /// that missed most deadlines; `None` if no port missed any.
    #[must_use]
    pub fn missed_deadlines(&self) -> Option<String> {
        let port = |d: &DeadlineSummary| {
            let end = if d.end == PortEnd::Output { "output" } else { "input" };
            format!("{} by {end} {}.{} (topic '{}')", d.missed, d.stage, d.port, d.topic)
        };
        let mut worst: Vec<_> = self.deadlines.iter().collect();
        worst.sort_by_key(|d| std::cmp::Reverse(d.missed));
        let ports: Vec<_> = worst.into_iter().map(port).collect();
        (!ports.is_empty()).then(|| format!("deadlines missed: {}", few(&ports)))
    }
}
