// SPDX-License-Identifier: Apache-2.0
//! Comparison of two measurements: finds real differences of times, and of the goodput of streams.
//!
//! The rounds of the two measurements were made at different times, so they are not paired: the
//! interval of a ratio draws the rounds of each measurement independently (bootstrap, expanded
//! percentiles). Among many comparisons, some find differences by chance. A difference is therefore
//! real only if both conditions hold: the 95 % interval excludes 1 (for goodputs, the range that
//! counts as equal), and the probability of Welch's t test of the rounds' percentiles (logarithms,
//! because latencies differ by factors) is below 5 % after Holm's correction (1979) over all
//! comparisons.

mod chance;
mod costs;
mod text;
mod uncompared;

pub use chance::SIGNIFICANCE;
pub use costs::{Cost, CostVerdict, What};

use crate::analysis::{Compared, Criterion, Measure, contradiction, goodput, pooled_headline};
use crate::archive::{Archive, Case, Experiment, Role};
use crate::table;
use anyhow::{Context, Result, anyhow, bail, ensure};
use chance::{holm, is_real, welch};
use driveline_bench::stats::{
    ENOUGH_ROUNDS, Goodput, Interval, Rank, Runs, goodput_interval_unpaired,
    ratio_interval_unpaired,
};
use driveline_bench::{MAX_OTHERS, UsageError};
use driveline_terminal::paragraphs;
use serde::Serialize;
use std::cmp::Ordering;
use std::path::PathBuf;
use uncompared::{Uncompared, Why};

const EXAMPLES: &str = "\
Examples:
  driveline bench compare results/before results/after
      shows whether a change made anything slower
  driveline bench compare results/before results/after --json |
      jq '.rows[] | select(.verdict == \"slower\")'

Measure both with the same experiments on the same quiet machine, at least five rounds each.";

/// Show the significant differences between two measurements.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Directory of the measurement before the change
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Directory of the measurement after the change
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Print JSON instead of a table
    #[arg(skip)]
    pub json: bool,
}

/// Comparison of two measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Differences {
    /// Method for the verdicts.
    pub method: String,
    /// Circumstances that make the comparison impossible or less reliable.
    pub warnings: Vec<String>,
    /// Figures that both have.
    pub rows: Vec<Difference>,
    /// Processor time per message, and deliveries that did not arrive.
    pub costs: Vec<Cost>,
}

/// A figure in both measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Experiment.
    pub experiment: String,
    /// Cell.
    pub cell: String,
    /// System.
    pub system: String,
    /// Role: a changed floor means that the machine changed.
    pub role: Role,
    /// Figure.
    pub of: Compared,
    /// `p50` or `p99`; for streams `goodput` in place of `p50`.
    pub rank: &'static str,
    #[serde(skip)]
    by: Criterion,
    /// Value in A, in nanoseconds.
    pub a_ns: Option<u64>,
    /// Value in B, in nanoseconds.
    pub b_ns: Option<u64>,
    /// Goodput in A.
    pub a_bytes_per_s: Option<f64>,
    /// Goodput in B.
    pub b_bytes_per_s: Option<f64>,
    /// B ÷ A with its 95 % interval by rounds; none if n is too small.
    pub ratio: Option<Interval>,
    /// Probability of such a difference by chance, corrected for the number of comparisons.
    pub p_corrected: Option<f64>,
    /// Conclusion.
    pub verdict: Verdict,
}

/// B compared with A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B takes less time, or carries more.
    Faster,
    /// B takes longer, or carries less.
    Slower,
    /// The difference is real, but the row's own floor changed by as much in the same direction, so
    /// the machine has changed.
    MachineChanged,
    /// A difference is not shown; that does not prove that there is none.
    NoDifferenceShown,
    /// A or B has fewer than five rounds with samples.
    TooFewRounds,
    /// Rounds have too few samples for this percentile, and their numbers of samples differ. This
    /// alone causes a difference.
    UnequalRounds,
    /// Too few samples for this percentile.
    TooFewSamples,
}

/// Text in a table for a change that the machine caused.
const MACHINE_CHANGED: &str = "as the floor did";

impl Verdict {
    /// Returns the text for the table; `None` if no verdict was possible. One remark covers all
    /// such rows.
    fn label(self) -> Option<&'static str> {
        match self {
            Self::Faster => Some("faster"),
            Self::Slower => Some("SLOWER"),
            Self::MachineChanged => Some(MACHINE_CHANGED),
            Self::NoDifferenceShown => Some("no difference shown"),
            Self::TooFewRounds | Self::UnequalRounds | Self::TooFewSamples => None,
        }
    }
}

/// Compares two archives and returns the text to print.
///
/// # Errors
/// If one of the directories is not an archive or is damaged, both are the same, or the archives
/// have nothing in common.
pub fn compare(args: &CompareArgs) -> Result<String> {
    let (a, b) = (Archive::open(&args.a)?, Archive::open(&args.b)?);
    let place = |archive: &Archive| archive.directory().canonicalize().ok();
    if place(&a).is_some() && place(&a) == place(&b) {
        let (a, b) = (args.a.display(), args.b.display());
        bail!(UsageError::new(anyhow!(
            "{a} and {b} are the same measurement, which does not differ from itself: name two"
        )));
    }
    let comparison = archives(&a, &b)?;
    ensure!(
        !comparison.rows.is_empty(),
        "{} and {} have no case in common (same experiment, cell and system) that can be compared: \
         measure the same experiments{}",
        args.a.display(),
        args.b.display(),
        comparison.warnings.iter().map(|w| format!("\n  {w}")).collect::<String>()
    );
    if args.json {
        Ok(format!("{}\n", serde_json::to_string_pretty(&comparison)?))
    } else {
        Ok(text::text(&comparison, paragraphs::width()))
    }
}

/// Compares the figures that both archives have.
///
/// # Errors
/// If one of the archives is damaged.
pub fn archives(a: &Archive, b: &Archive) -> Result<Differences> {
    let mut warnings = warnings(a, b);
    for (which, archive) in [("A", a), ("B", b)] {
        warnings.extend(doubts(which, archive)?);
    }
    let (mut rows, mut chances, mut cases) = (Vec::new(), Vec::new(), Vec::new());
    let (mut all_costs, mut chances_of_costs, mut cases_of_costs) =
        (Vec::new(), Vec::new(), Vec::new());
    let mut uncompared = Uncompared::default();
    let seed = a.manifest.seed ^ b.manifest.seed;
    for e in &a.manifest.experiments {
        let Some(other) = b.manifest.experiments.iter().find(|o| o.scenario.id == e.scenario.id)
        else {
            continue;
        };
        for theirs in other
            .cases
            .iter()
            .filter(|c| is_compared(c) && e.cases.iter().all(|own| !are_twins(own, c)))
        {
            uncompared.add(Why::OnlyInB, format!("{} · {}", e.scenario.id, theirs.id));
        }
        for case in e.cases.iter().filter(|c| is_compared(c)) {
            let at = || format!("{} · {}", e.scenario.id, case.id);
            let Some(theirs) = other.cases.iter().find(|c| are_twins(case, c)) else {
                uncompared.add(Why::OnlyInA, at());
                continue;
            };
            differing(case, theirs, &e.scenario.id, &mut warnings);
            let mut contradicted = false;
            for (which, archive, of, case) in [("A", a, e, case), ("B", b, other, theirs)] {
                if let Some(tool) = contradiction(archive, of, case).with_context(at)? {
                    warnings.push(format!("{which}: {} is not compared: {tool}", at()));
                    contradicted = true;
                }
            }
            if contradicted {
                continue;
            }
            for (cost, chance) in
                costs::of((a, e, case), (b, other, theirs), seed).with_context(at)?
            {
                all_costs.push(cost);
                chances_of_costs.push(chance);
                cases_of_costs.push(case);
            }
            let figures = (
                pooled_headline(a, e, case).with_context(at)?,
                pooled_headline(b, other, theirs).with_context(at)?,
            );
            let ((of, ours), (same, runs)) = match figures {
                (Some(ours), Some(theirs)) => (ours, theirs),
                (ours, theirs) => {
                    let why = if case.is_at_rest() {
                        Why::AtRest
                    } else {
                        Why::without_samples(ours.is_none(), theirs.is_none())
                    };
                    uncompared.add(why, at());
                    continue;
                }
            };
            if of != same {
                uncompared.add(
                    Why::OtherFigure,
                    format!("{} ({} and {})", at(), of.label(), same.label()),
                );
                continue;
            }
            let decides = match (goodput(case, &ours), goodput(theirs, &runs)) {
                (Some(a), Some(b)) => Figures::Goodput(a, b),
                _ => Figures::Times(Measure::P50, Rank::P50, &ours, &runs),
            };
            for figures in [decides, Figures::Times(Measure::P99, Rank::P99, &ours, &runs)] {
                let (row, chance) = row(e, case, &of, figures, seed);
                rows.push(row);
                cases.push(case);
                chances.push(chance);
            }
        }
    }
    warnings.extend(uncompared.warnings());
    // Corrects the probabilities of rows and costs together, because each further comparison may
    // differ by chance.
    let corrected = holm(&[chances.as_slice(), &chances_of_costs].concat());
    let (of_rows, of_costs) = corrected.split_at_checked(rows.len()).unwrap_or_default();
    for (row, p) in rows.iter_mut().zip(of_rows) {
        row.p_corrected = *p;
        row.verdict = verdict(row, *p);
    }
    costs::judge(&mut all_costs, of_costs, &cases_of_costs);
    let changed = |r: &Difference| {
        r.role == Role::Floor && matches!(r.verdict, Verdict::Faster | Verdict::Slower)
    };
    let floors: Vec<(Difference, &Case)> = rows
        .iter()
        .zip(&cases)
        .filter(|(r, _)| changed(r))
        .map(|(r, case)| (r.clone(), *case))
        .collect();
    for (row, case) in rows.iter_mut().zip(&cases).filter(|(r, _)| r.role != Role::Floor) {
        row.verdict = beside_floors(row, case, &floors);
    }
    let method = text::method(&rows, corrected.iter().flatten().count());
    Ok(Differences { method, warnings, rows, costs: all_costs })
}

/// Returns false for cases that serve the measurement itself (controls, tools of middleware).
fn is_compared(c: &Case) -> bool {
    !matches!(c.role, Role::Control | Role::OwnTool)
}

/// Returns true if the two cases are the same case in two measurements.
fn are_twins(a: &Case, b: &Case) -> bool {
    (&a.system, &a.cell, a.role) == (&b.system, &b.cell, b.role)
}

/// Compared values of A and of B.
enum Figures<'a> {
    Goodput(Goodput<'a>, Goodput<'a>),
    Times(Measure, Rank, &'a Runs, &'a Runs),
}

fn row(
    e: &Experiment,
    case: &Case,
    of: &Compared,
    figures: Figures<'_>,
    seed: u64,
) -> (Difference, Option<f64>) {
    let (measure, ratio, is_alike, [ours, theirs], [a_ns, b_ns], [a_bytes_per_s, b_bytes_per_s]) =
        match figures {
            Figures::Goodput(a, b) => {
                let ratio = goodput_interval_unpaired(b, a, seed);
                let logarithms =
                    [a, b].map(|of| of.each().into_iter().map(f64::ln).collect::<Vec<_>>());
                (
                    Measure::Goodput,
                    ratio,
                    true,
                    logarithms,
                    [None; 2],
                    [a, b].map(|of| of.bytes_per_s()),
                )
            }
            Figures::Times(column, rank, a, b) => {
                let enough = |r: &Runs| (r.samples() >= rank.needs).then(|| r.at(rank)).flatten();
                let (ratio, is_alike) =
                    (ratio_interval_unpaired(b, a, rank, seed), are_alike(a, b, rank));
                (
                    column,
                    ratio,
                    is_alike,
                    [a, b].map(|r| logarithms(r, rank)),
                    [a, b].map(enough),
                    [None; 2],
                )
            }
        };
    let verdict = match ratio {
        None => Verdict::TooFewSamples,
        Some(i) if i.rounds < ENOUGH_ROUNDS => Verdict::TooFewRounds,
        Some(_) if !is_alike => Verdict::UnequalRounds,
        Some(_) => Verdict::NoDifferenceShown,
    };
    let testable = verdict == Verdict::NoDifferenceShown;
    let chance = if testable { welch(&ours, &theirs) } else { None };
    let row = Difference {
        experiment: e.scenario.id.clone(),
        cell: case.cell.clone(),
        system: case.system.to_string(),
        role: case.role,
        of: of.clone(),
        rank: measure.label(),
        by: measure.criterion(),
        a_ns,
        b_ns,
        a_bytes_per_s,
        b_bytes_per_s,
        ratio,
        p_corrected: None,
        verdict,
    };
    (row, chance)
}

/// Returns true if a percentile is comparable: all rounds of both sides have enough samples for it,
/// or about equally many samples.
fn are_alike(a: &Runs, b: &Runs, rank: Rank) -> bool {
    let of = |r: &Runs| {
        (0..r.count()).map(|i| r.samples_of(&[i])).filter(|n| *n > 0).collect::<Vec<_>>()
    };
    let all = [of(a), of(b)].concat();
    let (least, most) =
        (all.iter().min().copied().unwrap_or(0), all.iter().max().copied().unwrap_or(0));
    least >= rank.needs || most as f64 <= 1.1 * least as f64
}

fn logarithms(runs: &Runs, rank: Rank) -> Vec<f64> {
    // A latency of 0 ns is below the clock's resolution.
    runs.each(rank).into_iter().flatten().map(|ns| (ns.max(1) as f64).ln()).collect()
}

/// Changes a verdict to [`Verdict::MachineChanged`] if the row's own floor, which has no
/// middleware, changed by as much in the same direction. Other floors do not matter: an experiment
/// has many, and a floor may change by chance, or for another reason (a CPU, a rate).
fn beside_floors(row: &Difference, case: &Case, floors: &[(Difference, &Case)]) -> Verdict {
    let Some(i) = &row.ratio else { return row.verdict };
    let same = |(f, floor): &(Difference, &Case)| {
        (&f.experiment, f.rank, f.verdict) == (&row.experiment, row.rank, row.verdict)
            && case.comparisons.iter().any(|c| c.to == floor.id)
            && f.ratio.is_some_and(|r| (i.low..=i.high).contains(&r.estimate))
    };
    if floors.iter().any(same) { Verdict::MachineChanged } else { row.verdict }
}

fn verdict(row: &Difference, p: Option<f64>) -> Verdict {
    match row.ratio.filter(|_| is_real(p)).map(|i| row.by.side(&i)) {
        Some(Ordering::Less) => Verdict::Faster,
        Some(Ordering::Greater) => Verdict::Slower,
        Some(Ordering::Equal) | None => row.verdict,
    }
}

/// Returns other differences between the two measurements.
fn warnings(a: &Archive, b: &Archive) -> Vec<String> {
    let (m, n) = (&a.manifest, &b.manifest);
    let mut warnings = Vec::new();
    let mut differs = |what: &str, one: String, other: String| {
        if one != other {
            warnings.push(format!("{what} differs: {one} and {other}"));
        }
    };
    differs("the processor", m.machine.cpu.clone(), n.machine.cpu.clone());
    differs(
        "the set of usable CPUs",
        format!("{:?}", m.machine.usable_cpus),
        format!("{:?}", n.machine.usable_cpus),
    );
    differs("the kernel", m.machine.kernel.clone(), n.machine.kernel.clone());
    differs("the clock source", m.machine.clock_source.clone(), n.machine.clock_source.clone());
    differs("the frequency governor", m.machine.governor.clone(), n.machine.governor.clone());
    let tcp = [m, n].map(|manifest| manifest.machine.tcp_congestion_control.clone());
    if tcp.iter().all(|rendered| !rendered.is_empty()) {
        let [one, other] = tcp;
        differs("TCP's congestion control", one, other);
    }
    differs(
        "the CPU limit",
        m.machine.cgroup_cpu_limit.clone(),
        n.machine.cgroup_cpu_limit.clone(),
    );
    for d in &m.peers {
        if let Some(other) = n.peers.iter().find(|p| p.name == d.name) {
            differs(
                &format!("the version of {}", d.title),
                d.version.clone(),
                other.version.clone(),
            );
        }
    }
    for (which, x) in [("A", m), ("B", n)] {
        if !x.optimised {
            warnings
                .push(format!("{which} is of a debug build: its figures say nothing about speed"));
        }
        if x.finished_at.is_none() {
            warnings.push(format!("{which} is not complete"));
        }
    }
    for e in &m.experiments {
        match n.experiments.iter().find(|o| o.scenario.id == e.scenario.id) {
            None => warnings.push(format!("{} is only in A", e.scenario.id)),
            Some(o) if o.scenario != e.scenario => {
                warnings.push(format!("the scenario {} is not the same in both", e.scenario.id))
            }
            Some(_) => {}
        }
    }
    for o in n
        .experiments
        .iter()
        .filter(|o| m.experiments.iter().all(|e| e.scenario.id != o.scenario.id))
    {
        warnings.push(format!("{} is only in B", o.scenario.id));
    }
    warnings
}

/// Returns notes about runs of an archive that were disturbed or invalid.
fn doubts(which: &str, archive: &Archive) -> Result<Vec<String>> {
    let (mut made, mut disturbed, mut worst, mut invalid) = (0, 0, 0.0, Vec::new());
    for e in &archive.manifest.experiments {
        for case in &e.cases {
            for run in archive.runs(e, case)? {
                made += 1;
                let others = run.disturbance.other_processes;
                if others > MAX_OTHERS {
                    disturbed += 1;
                    worst = f64::max(worst, others);
                }
                if !run.is_valid() {
                    let reasons: Vec<&str> = run.reasons().collect();
                    invalid.push(format!(
                        "{} · {} in round {}: {}",
                        e.scenario.id,
                        case.id,
                        run.round + 1,
                        reasons.join("; ").replace('\n', "\n    ")
                    ));
                }
            }
        }
    }
    let mut doubts = Vec::new();
    if disturbed > 0 {
        doubts.push(format!(
            "{which} was disturbed: during {disturbed} of {made} runs other processes used more \
             than {:.0} % of the machine ({:.0} % in the worst)",
            MAX_OTHERS * 100.0,
            worst * 100.0
        ));
    }
    if let Some(first) = invalid.first() {
        let more = if invalid.len() > 1 {
            format!(", and {} more", invalid.len() - 1)
        } else {
            String::new()
        };
        let left_out = if invalid.len() == 1 { "is" } else { "are" };
        doubts.push(format!(
            "{which}: {} and {left_out} left out: {first}{more}",
            table::do_not_count(invalid.len() as u64, made)
        ));
    }
    Ok(doubts)
}

/// Adds a warning for each setting in which two cases of the same name differ.
fn differing(a: &Case, b: &Case, experiment: &str, warnings: &mut Vec<String>) {
    let handling = |c: &Case| c.links.iter().map(|l| (l.payload, l.take)).collect::<Vec<_>>();
    let shape = |c: &Case| {
        c.links
            .iter()
            .map(|l| (l.size, l.subscribers, l.pace, l.wait, l.reliability, l.depth, l.priority))
            .collect::<Vec<_>>()
    };
    let mut differs = |what: &str| {
        warnings.push(format!(
            "{experiment} · {}: {what} differs, so its rows compare two things",
            a.id
        ))
    };
    if handling(a) != handling(b) {
        differs("payload handling");
    }
    if shape(a) != shape(b) {
        differs("size, rate, waiting or QoS");
    }
}
