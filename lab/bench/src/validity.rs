// SPDX-License-Identifier: Apache-2.0
//! Conditions under which a run does not count; declared before anything is measured.

use crate::machine::Disturbance;
use crate::own_tool::TOLERANCE;
use crate::stats::ENOUGH_ROUNDS;

/// Share of a run's processor time taken by the hypervisor from which the run is invalid. Declared
/// before measuring.
const MAX_STOLEN: f64 = 0.05;
/// Clock ticks below which that share is only the resolution of the kernel's account.
const MIN_STOLEN_TICKS: u64 = 5;
/// Share of the machine used by other processes from which a run is called disturbed; it still
/// counts.
pub const MAX_OTHERS: f64 = 0.05;

/// Returns why a run with so much taken from it does not count; nothing if it counts.
#[must_use]
pub fn taken_away(d: &Disturbance) -> Option<String> {
    (d.stolen > MAX_STOLEN && d.stolen_ticks >= MIN_STOLEN_TICKS)
        .then(|| format!("the hypervisor took {:.0} % of the processor time", d.stolen * 100.0))
}

/// The rule, in words.
#[must_use]
pub fn validity_rule() -> String {
    format!(
        "A run is invalid, shown, and left out of the percentiles if a process of it or the relay \
         between its hosts fails, its account does not close \
         (scheduled = sent + not sent; sent = received + lost), a payload does not verify, or the \
         hypervisor takes more than \
         {:.0} % of its processor time (and at least {MIN_STOLEN_TICKS} clock ticks). A row of a \
         peer is invalid if the latency tool that the \
         middleware brings was run beside it and the 95 % interval of their ratio lies beyond \
         {:.0} % off; of fewer than \
         {ENOUGH_ROUNDS} rounds that is not said. A run during which other processes used more \
         than {:.0} % of the machine is called disturbed, \
         and counts.",
        MAX_STOLEN * 100.0,
        TOLERANCE * 100.0,
        MAX_OTHERS * 100.0
    )
}
