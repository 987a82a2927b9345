// SPDX-License-Identifier: Apache-2.0
//! Other changes between two measurements: processor time per message, and the share of samples
//! that did not arrive.

use super::chance::{SIGNIFICANCE, holm_verdict, welch, welch_at_least};
use crate::analysis::{Lost, RunCost, run_costs};
use crate::archive::{Archive, Case, Experiment, Role};
use crate::table;
use anyhow::Result;
use driveline_bench::stats::{ENOUGH_ROUNDS, Interval, mean_interval_unpaired};
use driveline_terminal::figures::{digits, duration_ns};
use driveline_terminal::table::Columns;
use serde::Serialize;

/// A cost in both measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Experiment.
    pub experiment: String,
    /// Cell.
    pub cell: String,
    /// System.
    pub system: String,
    /// Role.
    pub role: Role,
    /// Cost.
    pub what: What,
    /// Mean of the rounds of A, in nanoseconds, or as a share.
    pub a: f64,
    /// Mean of the rounds of B.
    pub b: f64,
    /// Change with its 95 % interval over rounds: B ÷ A for processor time, B − A for shares.
    /// `None` if it is B ÷ A and A is zero.
    pub change: Option<Interval>,
    /// Probability of such a difference by chance, corrected for the number of all comparisons.
    pub p_corrected: Option<f64>,
    /// Conclusion.
    pub verdict: CostVerdict,
}

/// Compared cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Processor time of all ends per message, in nanoseconds.
    CpuPerMessage,
    /// Scheduled deliveries that failed (lost, replaced unread, or never sent), as a share of all;
    /// only if A or B has any.
    ShareLost,
}

/// B compared with A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostVerdict {
    /// B has less.
    Less,
    /// B has more.
    More,
    /// The difference is real, but the processor time of the row's own floor changed by as much in
    /// the same direction, so the machine has changed.
    MachineChanged,
    /// A difference is not shown; that does not prove that there is none.
    NoDifferenceShown,
    /// A or B has fewer than five rounds.
    TooFewRounds,
}

impl CostVerdict {
    /// Returns the text for the table; nothing if no verdict was possible.
    fn label(self) -> Option<&'static str> {
        match self {
            Self::Less => Some("less"),
            Self::More => Some("MORE"),
            Self::MachineChanged => Some(super::MACHINE_CHANGED),
            Self::NoDifferenceShown => Some("no difference shown"),
            Self::TooFewRounds => None,
        }
    }
}

impl What {
    const ALL: [Self; 2] = [Self::CpuPerMessage, Self::ShareLost];

    fn of(self, c: &RunCost) -> Option<f64> {
        match self {
            Self::CpuPerMessage => c.cpu_ns_per_sample,
            Self::ShareLost => c.lost.map(|lost| lost.share),
        }
    }

    /// Returns the value that a change has if nothing has changed.
    fn nothing(self) -> f64 {
        match self {
            Self::CpuPerMessage => 1.0,
            Self::ShareLost => 0.0,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::CpuPerMessage => "CPU/message",
            Self::ShareLost => "lost",
        }
    }

    fn rendered(self, x: f64) -> String {
        match self {
            Self::CpuPerMessage => duration_ns(x),
            Self::ShareLost => format!("{} %", digits(x * 100.0)),
        }
    }

    fn change(self, i: &Interval) -> String {
        match self {
            Self::CpuPerMessage => table::interval(Some(i)),
            Self::ShareLost => {
                let points =
                    |x: f64| format!("{}{}", if x > 0.0 { "+" } else { "" }, digits(x * 100.0));
                format!(
                    "{} [{}, {}] points{}",
                    points(i.estimate),
                    points(i.low),
                    points(i.high),
                    table::few_rounds(i)
                )
            }
        }
    }
}

/// Returns the costs of two cases, each with its probability by chance.
pub(super) fn of(
    (a, e, case): (&Archive, &Experiment, &Case),
    (b, other, theirs): (&Archive, &Experiment, &Case),
    seed: u64,
) -> Result<Vec<(Cost, Option<f64>)>> {
    let (ours, others) = (run_costs(a, e, case)?, run_costs(b, other, theirs)?);
    let compared = |what: What| {
        let values = |of: &[RunCost]| of.iter().filter_map(|c| what.of(c)).collect::<Vec<f64>>();
        let (x, y) = (values(&ours), values(&others));
        // Two zero costs need no row.
        if x.is_empty()
            || y.is_empty()
            || (what == What::ShareLost && x.iter().chain(&y).all(|share| *share == 0.0))
        {
            return None;
        }
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let change: fn(f64, f64) -> Option<f64> = match what {
            What::CpuPerMessage => |b, a| (a > 0.0).then(|| b / a),
            What::ShareLost => |b, a| Some(b - a),
        };
        let enough = x.len().min(y.len()) >= ENOUGH_ROUNDS;
        let chance = || match what {
            What::CpuPerMessage => {
                // Processor times differ by factors, as latencies do, so their logarithms are
                // compared.
                let logarithms =
                    |v: &[f64]| v.iter().map(|ns| ns.max(1.0).ln()).collect::<Vec<_>>();
                welch(&logarithms(&x), &logarithms(&y))
            }
            What::ShareLost => {
                let lost = |of: &[RunCost]| of.iter().filter_map(|c| c.lost).collect::<Vec<_>>();
                chance_of_losses(&lost(&ours), &lost(&others))
            }
        };
        let cost = Cost {
            experiment: e.scenario.id.clone(),
            cell: case.cell.clone(),
            system: case.system.to_string(),
            role: case.role,
            what,
            a: mean(&x),
            b: mean(&y),
            change: mean_interval_unpaired(&y, &x, change, seed),
            p_corrected: None,
            verdict: if enough {
                CostVerdict::NoDifferenceShown
            } else {
                CostVerdict::TooFewRounds
            },
        };
        Some((cost, if enough { chance() } else { None }))
    };
    Ok(What::ALL.into_iter().filter_map(compared).collect())
}

/// Returns the probability of such a difference between shares of lost messages by chance. Rounds
/// may happen to lose equal numbers of messages, which hides how much a share of few messages
/// varies. The test therefore assumes a minimum variance for each side: that of as many random
/// draws as the side has messages, with the loss probability of both sides together. A message that
/// several subscribers miss counts as one draw, because the losses may have one cause.
fn chance_of_losses(a: &[Lost], b: &[Lost]) -> Option<f64> {
    let messages = |of: &[Lost]| of.iter().map(|lost| lost.messages as f64).sum::<f64>();
    let (of_a, of_b) = (messages(a), messages(b));
    let together = a.iter().chain(b).map(|lost| lost.share * lost.messages as f64).sum::<f64>()
        / (of_a + of_b);
    let of_draws = |n: f64| together * (1.0 - together) / n;
    let shares = |of: &[Lost]| of.iter().map(|lost| lost.share).collect::<Vec<_>>();
    welch_at_least(&shares(a), &shares(b), (of_draws(of_a), of_draws(of_b)))
}

/// Sets the verdicts by corrected probabilities. `cases` has the case of each cost.
pub(super) fn judge(costs: &mut [Cost], corrected: &[Option<f64>], cases: &[&Case]) {
    for (cost, p) in costs.iter_mut().zip(corrected) {
        cost.p_corrected = *p;
        if let Some(greater) = holm_verdict(cost.change.as_ref(), *p, cost.what.nothing()) {
            cost.verdict = if greater { CostVerdict::More } else { CostVerdict::Less };
        }
    }
    let changed = |c: &Cost| {
        c.role == Role::Floor
            && c.what == What::CpuPerMessage
            && matches!(c.verdict, CostVerdict::Less | CostVerdict::More)
    };
    let floors: Vec<(Cost, &Case)> = costs
        .iter()
        .zip(cases)
        .filter(|(c, _)| changed(c))
        .map(|(c, case)| (c.clone(), *case))
        .collect();
    for (cost, case) in costs
        .iter_mut()
        .zip(cases)
        .filter(|(c, _)| c.role != Role::Floor && c.what == What::CpuPerMessage)
    {
        let Some(i) = cost.change else { continue };
        let same = |(f, floor): &(Cost, &Case)| {
            (&f.experiment, f.verdict) == (&cost.experiment, cost.verdict)
                && case.comparisons.iter().any(|c| c.to == floor.id)
                && f.change.is_some_and(|r| (i.low..=i.high).contains(&r.estimate))
        };
        if floors.iter().any(same) {
            cost.verdict = CostVerdict::MachineChanged;
        }
    }
}

/// Returns a table, and the number of differences.
pub(super) fn text(costs: &[Cost]) -> Option<(String, String)> {
    let mut table = Columns::new(&[
        "processor time, and what did not arrive",
        "A",
        "B",
        "B ÷ A, or B − A",
        "p, corrected",
        "verdict",
    ]);
    let mut last = String::new();
    for (c, verdict) in costs.iter().filter_map(|c| Some((c, c.verdict.label()?))) {
        let place = format!("{} · {}", c.experiment, c.cell);
        if place != last {
            table.heading(place.clone());
            last = place;
        }
        table.row(vec![
            format!("  {} {}", c.system, c.what.label()),
            c.what.rendered(c.a),
            c.what.rendered(c.b),
            c.change.as_ref().map_or_else(String::new, |i| c.what.change(i)),
            c.p_corrected.map_or_else(String::new, |p| format!("{p:.3}")),
            verdict.into(),
        ]);
    }
    let of = |what: What, v: CostVerdict| {
        costs
            .iter()
            .filter(|c| c.what == what && c.verdict == v && c.role == Role::Measured)
            .count()
    };
    let said = |what: What, name: &str| {
        let [less, more, same] =
            [CostVerdict::Less, CostVerdict::More, CostVerdict::NoDifferenceShown]
                .map(|v| of(what, v));
        format!("{name}: {less} less, {more} more, {same} without a difference shown.")
    };
    let line = format!(
        "{} {}",
        said(What::CpuPerMessage, "Processor time per message"),
        said(What::ShareLost, "Samples that did not arrive")
    );
    let mut text = String::new();
    table.write(&mut text);
    (!table.is_empty()).then_some((text, line))
}

/// Returns the description of the method for costs, to be added to the one for percentiles.
pub(super) fn method() -> String {
    format!(
        "Processor time per message (B ÷ A) and the share of samples that did not arrive (B − A) \
         are compared by the means of rounds in the same way, below \
         the same {:.0} % over all comparisons together; what a daemon of the middleware uses is \
         not in them. A share varies by at least what so few messages \
         make it vary, however alike the rounds are.",
        SIGNIFICANCE * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(lost_of_a_hundred: [u64; 5]) -> Vec<Lost> {
        lost_of_a_hundred.map(|n| Lost { share: n as f64 / 100.0, messages: 100 }).to_vec()
    }

    #[test]
    fn rounds_that_lose_equally_few_prove_nothing() {
        let chance = |a, b| chance_of_losses(&rounds(a), &rounds(b)).unwrap();
        // A loses no message of 500, B five of 500: Fisher's exact test gives 0.062.
        let few = chance([0; 5], [1; 5]);
        assert!((0.03..0.1).contains(&few), "{few}");
        assert!(chance([0; 5], [20; 5]) < 1e-4);
        assert_eq!(chance([3; 5], [3; 5]), 1.0);
        assert_eq!(chance([100; 5], [100; 5]), 1.0);
        // A loses nothing and B everything. If rounds vary more than random draws, the plain test
        // decides.
        assert!(chance([0; 5], [100; 5]) < 1e-6);
        let (a, b) = ([0, 0, 40, 0, 0], [10, 0, 0, 80, 0]);
        let shares = |n: [u64; 5]| n.map(|n| n as f64 / 100.0);
        assert!((chance(a, b) - welch(&shares(a), &shares(b)).unwrap()).abs() < 1e-12);
    }

    #[test]
    fn losses_of_the_same_rarity_are_called_different_as_rarely_as_promised() {
        // Two messages in a thousand are lost, in rounds of a hundred each: most rounds lose none
        // or one.
        let mut random = driveline_bench::stats::Random::new(5);
        let mut measured = || {
            let mut round = || (0..100).filter(|_| random.below(1000) < 2).count() as u64;
            rounds([round(), round(), round(), round(), round()])
        };
        let wrong = (0..2000)
            .filter(|_| {
                chance_of_losses(&measured(), &measured()).is_some_and(|p| p < SIGNIFICANCE)
            })
            .count();
        assert!(wrong <= 100, "{wrong} of 2000");
    }
}
