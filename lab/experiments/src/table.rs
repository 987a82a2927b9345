// SPDX-License-Identifier: Apache-2.0
//! Format of figures in all outputs, and remarks for readers.

use crate::analysis::{Analysis, CaseResult, ExperimentResult, Ratio, equal_goodput};
use crate::archive::{Manifest, Role};
use crate::figure_text::TOO_SMALL;
use driveline_bench::deployment::ENGINE_MEMORY;
use driveline_bench::observations::Quantity;
use driveline_bench::stats::{ENOUGH_ROUNDS, Interval};
use driveline_terminal::figures::{bytes, digits, duration_ns};
use std::path::Path;

/// Returns remarks on rows that are not confirmed: the latency tool contradicts a variant with
/// other settings.
pub(crate) fn not_confirmed(e: &ExperimentResult) -> impl Iterator<Item = String> {
    e.cases.iter().filter(|c| c.doubt() == Some("not confirmed")).map(|c| {
        let variants: Vec<String> =
            c.contradicted_variants.iter().map(ToString::to_string).collect();
        format!(
            "{}: the latency tool of the system contradicts {}, which differs only in settings",
            c.case.id,
            variants.join(", ")
        )
    })
}

/// Formats a time of RFC 3339, to the second.
pub(crate) fn date(time: &str) -> String {
    let whole = time.split('.').next().unwrap_or(time).trim_end_matches('Z');
    format!("{} UTC", whole.replace('T', " "))
}

/// Formats a duration, roughly; only a duration of zero is 0 s.
pub(crate) fn minutes(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{:.0} s", if s > 0.0 { s.max(1.0) } else { 0.0 }),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

pub(crate) fn ratio(x: f64) -> String {
    if x < 0.0995 { format!("{x:.3}") } else { digits(x) }
}

/// Formats a mean and its standard deviation, in nanoseconds: `159 ± 164 µs`; only the mean for a
/// single sample.
pub(crate) fn spread(mean_ns: f64, deviation_ns: Option<f64>) -> String {
    let mean = duration_ns(mean_ns);
    let Some(deviation) = deviation_ns.map(duration_ns) else { return mean };
    match (mean.split_once(' '), deviation.split_once(' ')) {
        (Some((value, unit)), Some((off, same))) if unit == same => {
            format!("{value} ± {off} {unit}")
        }
        _ => format!("{mean} ± {deviation}"),
    }
}

/// Returns the explanation of goodput, for readers of a table.
pub(crate) fn about_goodput() -> String {
    format!(
        "goodput: the payload's size divided by the mean time from one sample in hand to the next. \
         Greater is better: a system with more than 1 in goodput ÷ Driveline has more throughput. \
         A difference counts only if the whole interval lies more than {} from 1; smaller ones \
         mean nothing, because all systems keep the sender's rate. Samples that were lost, \
         passed over or not sent are not in it: where there are any, their number stands in the \
         same row",
        equal_goodput()
    )
}

/// Formats a value of an observed quantity, with its unit.
pub(crate) fn quantity(q: Quantity, value: f64) -> String {
    match q {
        Quantity::ResidentMemory => format!("{} MiB", digits(value / f64::from(1 << 20))),
        Quantity::Switches | Quantity::Drops if value.fract() == 0.0 => format!("{value:.0}"),
        Quantity::Switches | Quantity::Drops => digits(value),
        _ => duration_ns(value),
    }
}

/// Returns the readable name of a quantity.
pub(crate) fn label(q: Quantity) -> &'static str {
    match q {
        Quantity::Latency => "latency",
        Quantity::Idle => "idle",
        Quantity::Communication => "communication",
        Quantity::Computation => "computation",
        Quantity::PeriodDeviation => "deviation from the period",
        Quantity::Age => "age",
        Quantity::Recovery => "recovery",
        Quantity::StartUp => "start-up",
        Quantity::Cpu => "processor time",
        Quantity::ResidentMemory => "resident memory",
        Quantity::Switches => "context switches",
        Quantity::Drops => "drops",
    }
}

/// Beginning of the name of a counter that is a rate. The rate is in thousandths of a hertz,
/// because counters are whole numbers.
const RATE: &str = driveline_bench::chain::OUTPUT_RATE_MHZ;

/// Returns true if the sum of a counter over runs has a meaning. Rates and peaks have no meaningful
/// sum.
pub(crate) fn has_sum(counter: &str) -> bool {
    !counter.starts_with(RATE) && counter != ENGINE_MEMORY
}

/// Returns readable name and value of a counter.
pub(crate) fn counter(name: &str, count: u64) -> (String, String) {
    match name.strip_prefix(RATE) {
        Some(place) => (format!("output, Hz{place}"), hertz(count as f64 / 1000.0)),
        None => {
            let (name, unit) = counter_unit(name);
            let value = match unit {
                "ns" => duration_ns(count as f64),
                "byte" => bytes(count),
                _ => count.to_string(),
            };
            (name.to_owned(), value)
        }
    }
}

/// Returns the name of a counter without its unit, and the unit: `ns`, `byte` or `count`.
pub(crate) fn counter_unit(name: &str) -> (&str, &str) {
    match name.rsplit_once(", ") {
        Some((name, unit @ ("ns" | "byte"))) => (name, unit),
        _ => (name, "count"),
    }
}

/// Returns the output rate of a chain with one sink, in hertz: the mean of valid runs.
pub(crate) fn output_hz(c: &CaseResult) -> Option<String> {
    let runs = c.counters.get(RATE).filter(|runs| !runs.is_empty())?;
    Some(hertz(runs.iter().map(|n| *n as f64).sum::<f64>() / runs.len() as f64 / 1000.0))
}

fn hertz(hz: f64) -> String {
    format!("{hz:.2}")
}

/// Formats a ratio with its interval, and with the number of rounds if it is small.
pub(crate) fn interval(i: Option<&Interval>) -> String {
    i.map_or_else(String::new, |i| match i.rounds {
        // One round has no bounds.
        1 => format!("{}{}", ratio(i.estimate), few_rounds(i)),
        _ => {
            format!("{} [{}, {}]{}", ratio(i.estimate), ratio(i.low), ratio(i.high), few_rounds(i))
        }
    })
}

/// Formats the bounds of an interval, with its number of rounds if it is small.
pub(crate) fn bounds(i: &Interval) -> String {
    match i.rounds {
        1 => few_rounds(i).trim_start().to_owned(),
        _ => format!("{} to {}{}", ratio(i.low), ratio(i.high), few_rounds(i)),
    }
}

pub(crate) fn few_rounds(i: &Interval) -> String {
    match i.rounds {
        n if n >= ENOUGH_ROUNDS => String::new(),
        1 => " of 1 round".into(),
        n => format!(" of {n} rounds"),
    }
}

/// Formats a percentile, or a note that there are too few samples.
pub(crate) fn percentile(p: Option<u64>) -> String {
    p.map_or_else(|| TOO_SMALL.to_owned(), |ns| duration_ns(ns as f64))
}

/// Returns the controls, each with its ratio to the equal case, by the headline figure.
pub(crate) fn controls(e: &ExperimentResult) -> impl Iterator<Item = (&CaseResult, &Ratio)> {
    let of_headline = |c: &'_ CaseResult, r: &Ratio| c.headline().is_some_and(|(of, _)| of == r.of);
    let controls = e.cases.iter().filter(|c| c.case.role == Role::Control);
    controls
        .flat_map(move |c| c.ratios.iter().filter(move |r| of_headline(c, r)).map(move |r| (c, r)))
}

/// Returns the floors, and the cases that are measured twice because they have no floor.
pub(crate) fn floors_and_doubles(e: &ExperimentResult) -> impl Iterator<Item = &CaseResult> {
    let is_double = |c: &CaseResult| controls(e).any(|(_, r)| r.to == c.case.id);
    e.cases.iter().filter(move |c| c.case.role == Role::Floor || is_double(c))
}

/// Returns true if a control is a second measurement of Driveline, not of a floor.
pub(crate) fn is_driveline_again(c: &CaseResult) -> bool {
    c.case.role == Role::Control && c.is_driveline()
}

/// Returns the caveats of a report. They do not include a low number of rounds, which is reported
/// with each interval and with the answer. `directory` is the measurement's directory, for readers
/// on this machine.
pub(crate) fn remarks(m: &Manifest, a: &Analysis, directory: Option<&Path>) -> Vec<String> {
    let mut lines = Vec::new();
    if !a.complete {
        let how = match directory {
            Some(directory) => format!("`driveline bench run --resume {}`", for_shell(directory)),
            None => "`driveline bench run --resume DIR` with this directory".to_owned(),
        };
        lines
            .push(format!("PARTIAL: {} of {} runs were made; {how} continues.", a.made, a.planned));
    }
    if !m.optimised {
        lines.push(
            "NOT OPTIMISED: this is a debug build, its figures say nothing about speed.".into(),
        );
    }
    if a.valid < a.made {
        let reasons = if a.made - a.valid == 1 { "its reason is" } else { "their reasons are" };
        lines.push(format!("{}; {reasons} listed.", do_not_count(a.made - a.valid, a.made)));
    }
    if a.disturbed > 0 {
        lines.push(format!(
            "DISTURBED: during {} of {} runs other processes used more than {:.0} % of the machine \
             ({:.0} % in the worst). Measure on a quiet machine.",
            a.disturbed,
            a.made,
            driveline_bench::MAX_OTHERS * 100.0,
            a.worst_others * 100.0
        ));
    }
    lines
}

/// Returns text such as `1 of 20 runs does not count`.
pub(crate) fn do_not_count(invalid: u64, made: u64) -> String {
    format!("{invalid} of {made} runs {} not count", if invalid == 1 { "does" } else { "do" })
}

/// Returns a path as one word of a command line.
fn for_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_copy_is_one_word_and_dates_go_to_the_second() {
        assert_eq!(
            ["a/b-1", "my car", "it's"].map(|p| for_shell(Path::new(p))),
            ["a/b-1", "'my car'", "'it'\\''s'"]
        );
        assert_eq!(
            ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.123456789Z"].map(date),
            ["2020-01-01 00:00:00 UTC"; 2]
        );
    }

    #[test]
    fn one_run_does_not_count_and_two_do_not() {
        assert_eq!(
            [1, 2].map(|n| do_not_count(n, 20)),
            ["1 of 20 runs does not count", "2 of 20 runs do not count"]
        );
    }

    #[test]
    fn rates_are_printed_in_hertz_and_counts_unchanged() {
        let words = |name, count| counter(name, count);
        assert_eq!(words("output mHz", 9_987), ("output, Hz".into(), "9.99".into()));
        assert_eq!(
            words("output mHz at planning", 10_000),
            ("output, Hz at planning".into(), "10.00".into())
        );
        assert_eq!(words("completed", 300), ("completed".into(), "300".into()));
    }

    #[test]
    fn a_spread_has_its_unit_once_where_it_is_the_same() {
        assert_eq!(spread(159e3, Some(164e3)), "159 ± 164 µs");
        assert_eq!(spread(5.0e6, Some(200.0)), "5.00 ms ± 200 ns");
        assert_eq!(spread(159e3, None), "159 µs");
    }

    #[test]
    fn only_what_takes_no_time_takes_0_s() {
        assert_eq!(
            [0.0, 0.2, 1.4, 89.0, 600.0, 7200.0].map(minutes),
            ["0 s", "1 s", "1 s", "89 s", "10 min", "2.0 h"]
        );
    }

    #[test]
    fn ratios_have_their_interval_and_quantities_their_unit() {
        assert_eq!(
            [0.0123, 0.987, 1.0, 12.345, 123.4].map(ratio),
            ["0.012", "0.99", "1.00", "12.3", "123"]
        );
        assert_eq!(quantity(Quantity::ResidentMemory, 3.0 * 1048576.0), "3.00 MiB");
        let of = |rounds| Interval { estimate: 2.0, low: 1.5, high: 2.5, rounds };
        assert_eq!(
            [5, 4, 1].map(|n| interval(Some(&of(n)))),
            ["2.00 [1.50, 2.50]", "2.00 [1.50, 2.50] of 4 rounds", "2.00 of 1 round"]
        );
    }
}
