// SPDX-License-Identifier: Apache-2.0
//! Conditions under which a run is invalid; declared before the measurement.

use crate::machine::Disturbance;
use crate::own_tool::TOLERANCE;
use crate::stats::ENOUGH_ROUNDS;

/// Maximum share of a run's processor time that the hypervisor may take; above it, the run is
/// invalid. Declared before measuring.
const MAX_STOLEN: f64 = 0.05;
/// Minimum number of stolen clock ticks; fewer ticks are within the resolution of the kernel's
/// account.
const MIN_STOLEN_TICKS: u64 = 5;
/// If other processes use more than this share of the machine, a run is marked as disturbed; it
/// still counts.
pub const MAX_OTHERS: f64 = 0.05;

/// Returns the reason why a run is invalid because of stolen processor time; nothing if it is
/// valid.
#[must_use]
pub fn taken_away(d: &Disturbance) -> Option<String> {
    (d.stolen > MAX_STOLEN && d.stolen_ticks >= MIN_STOLEN_TICKS)
        .then(|| format!("the hypervisor took {:.0} % of the processor time", d.stolen * 100.0))
}

/// Returns the rule as text.
#[must_use]
pub fn validity_rule() -> String {
    format!(
        "A run is invalid if one of its processes or the relay between its hosts fails, if its \
         account does not close (scheduled = sent + not sent; sent = received + lost), if a \
         payload is wrong, or if the hypervisor takes more than {:.0} % of its processor time (and \
         at least {MIN_STOLEN_TICKS} clock ticks). Invalid runs are shown, but the percentiles do \
         not contain them. If the own latency tool of a peer's middleware was run as well, the \
         peer's row is invalid if the whole 95 % interval of the ratio row ÷ tool is more than \
         {:.0} % away from 1; this needs at least {ENOUGH_ROUNDS} rounds. A run during which other \
         processes used more than {:.0} % of the machine is marked as disturbed, and counts.",
        MAX_STOLEN * 100.0,
        TOLERANCE * 100.0,
        MAX_OTHERS * 100.0
    )
}
