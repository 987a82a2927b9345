// SPDX-License-Identifier: Apache-2.0
//! Table of latencies: the compared figures of all cases, with ratios, costs and losses. Terminal,
//! page and Markdown write the same columns and values.

use crate::analysis::{
    CaseResult, Criterion, ExperimentResult, LinkResult, Measure, Ratio, Totals, compared_columns,
    ratio_columns, too_few,
};
use crate::archive::Role;
use crate::figure_text::{TOO_SMALL, goodput};
use crate::table;
use driveline_bench::stats::{Interval, Percentiles};
use driveline_terminal::figures::{digits, duration_ns};

/// Rows of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Measured cases.
    Cases,
    /// Measured cases, and each link of cases with several links.
    Links,
    /// Floors and all controls, then measured cases. Has a column of lost samples even if none were
    /// lost.
    Floors,
}

/// Column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// Number of samples.
    Samples,
    Measure(Measure),
    /// Ratio to the reference.
    Ratio(Measure),
    /// Ratio to one copy of the payload.
    Copy(Measure),
    /// Processor time per message.
    Cpu,
    /// Context switches per message.
    Switches,
    Problem(Problem),
    /// Number of samples that the source of a chain sent. A chain does not count deliveries.
    Due,
    /// Number of these samples that did not reach the chain's only sink.
    NotCome,
    /// Valid runs.
    Runs,
}

/// Problem of samples.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    Late,
    Lost,
    NotSent,
    Torn,
}

/// Value in a cell. Each output has its own units and marks.
pub(crate) enum Value<'a> {
    /// Not applicable.
    Empty,
    /// The same in all outputs.
    Text(String),
    /// Reason why a case has no figures.
    Without(String),
    /// Time in nanoseconds; `None` if there are too few samples.
    Time(Option<f64>),
    Ratio(RatioTo<'a>),
    /// Driveline in a column of ratios to Driveline.
    Itself,
    /// Processor time in nanoseconds, `None` if it is unknown, and a note on what it does not
    /// include.
    Cpu(Option<f64>, &'static str),
    /// Number of samples with a problem; `None` if payloads were not verified.
    Problems(Option<u64>),
}

/// Ratio in a cell.
pub(crate) struct RatioTo<'a> {
    /// `None` if there are too few samples.
    pub(crate) interval: Option<&'a Interval>,
    /// Divisor of the ratio, if it is not the one in the column's name.
    pub(crate) other: Option<&'static str>,
    /// For ratios to Driveline: criterion by which the case is compared.
    pub(crate) judged_by: Option<Criterion>,
}

pub(crate) struct Latencies<'a> {
    e: &'a ExperimentResult,
    extent: Extent,
    /// True if ratios are to the floor, because no other system is compared with Driveline.
    pub(crate) is_to_floor: bool,
    pub(crate) columns: Vec<Column>,
}

impl Problem {
    const ALL: [Self; 4] = [Self::Late, Self::Lost, Self::NotSent, Self::Torn];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Lost => "lost",
            Self::NotSent => "not sent",
            Self::Torn => "torn",
        }
    }

    /// Returns the number of samples with this problem; `None` if payloads were not verified.
    pub(crate) fn count(self, t: &Totals) -> Option<u64> {
        match self {
            Self::Late => Some(t.late),
            Self::Lost => Some(t.missed),
            Self::NotSent => Some(t.all_not_sent()),
            Self::Torn => (t.torn > 0 || t.verified > 0).then_some(t.torn),
        }
    }

    fn occurs(self, t: &Totals) -> bool {
        self.count(t).is_some_and(|n| n > 0)
    }
}

impl<'a> Value<'a> {
    /// Returns a measure of a case; empty if the case is compared by another measure.
    pub(crate) fn measure(c: &CaseResult, measure: Measure) -> Self {
        match measure.criterion() {
            criterion if criterion != c.criterion() => Self::Empty,
            Criterion::Goodput => {
                c.goodput_bytes_per_s.map_or(Self::Time(None), |bytes| Self::Text(goodput(bytes)))
            }
            Criterion::Latency => {
                c.latencies().map_or(Self::Empty, |p| Self::percentile(p, measure))
            }
        }
    }

    /// Returns a percentile.
    pub(crate) fn percentile(p: &Percentiles, measure: Measure) -> Self {
        Self::Time(measure.of(p).map(|ns| ns as f64))
    }

    /// Returns the value as text with its unit, for terminals and for tables that all outputs have.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Empty | Self::Itself => String::new(),
            Self::Text(text) | Self::Without(text) => text.clone(),
            Self::Time(ns) => ns.map_or_else(|| TOO_SMALL.to_owned(), duration_ns),
            Self::Ratio(ratio) => table::interval(ratio.interval),
            Self::Cpu(ns, without) => {
                ns.map_or_else(String::new, |ns| format!("{}{without}", duration_ns(ns)))
            }
            Self::Problems(n) => n.map_or_else(|| "–".to_owned(), |n| n.to_string()),
        }
    }

    /// Returns a ratio that is not to Driveline.
    pub(crate) fn ratio(interval: Option<&'a Interval>) -> Self {
        Self::Ratio(RatioTo { interval, other: None, judged_by: None })
    }
}

impl<'a> Latencies<'a> {
    pub(crate) fn of(e: &'a ExperimentResult, extent: Extent) -> Self {
        let mut table = Self { e, extent, is_to_floor: false, columns: Vec::new() };
        let mut ratios = ratio_columns(e.measured().filter_map(CaseResult::to_driveline));
        if ratios.is_empty() {
            table.is_to_floor = true;
            ratios = ratio_columns(table.rows().filter_map(|c| table.ratio(c)));
        }
        let copies = e.measured().filter_map(CaseResult::to_memcpy).any(|r| r.p50.is_some());
        let problems = Problem::ALL.into_iter().filter(|problem| {
            (extent == Extent::Floors && *problem == Problem::Lost)
                || e.measured().any(|c| problem.occurs(&c.totals))
        });
        let columns = std::iter::once(Column::Samples)
            .chain(compared_columns(table.rows(), table.times()).into_iter().map(Column::Measure))
            .chain(ratios.into_iter().map(Column::Ratio))
            .chain(copies.then_some(Column::Copy(Measure::P50)))
            .chain([Column::Cpu, Column::Switches])
            .chain(problems.map(Column::Problem))
            .chain([Column::Due, Column::NotCome, Column::Runs]);
        table.columns = columns.collect();
        table
    }

    /// Returns the cases of its rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &'a CaseResult> + use<'a> {
        let has_floors = self.extent == Extent::Floors;
        let is_floor =
            move |c: &&CaseResult| has_floors && matches!(c.case.role, Role::Floor | Role::Control);
        self.e.cases.iter().filter(is_floor).chain(self.e.measured())
    }

    /// Returns the times in its rows.
    fn times(&self) -> impl Iterator<Item = &'a Percentiles> + use<'a> {
        let has_links = self.extent == Extent::Links;
        let links = self.e.measured().filter(move |_| has_links).flat_map(|c| &c.by_link);
        self.rows()
            .filter_map(CaseResult::latencies)
            .chain(links.map(|link| &link.figure.percentiles))
    }

    /// Returns the percentiles for which no row has enough samples: [`too_few`].
    pub(crate) fn too_few(&self) -> Option<String> {
        too_few(self.times())
    }

    pub(crate) fn has(&self, is_wanted: impl Fn(Column) -> bool) -> bool {
        self.columns.iter().any(|column| is_wanted(*column))
    }

    pub(crate) fn has_ratios(&self) -> bool {
        self.has(|column| matches!(column, Column::Ratio(_)))
    }

    pub(crate) fn has_copies(&self) -> bool {
        self.has(|column| matches!(column, Column::Copy(_)))
    }

    pub(crate) fn has_goodput(&self) -> bool {
        self.has(|column| column == Column::Measure(Measure::Goodput))
    }

    pub(crate) fn label(&self, column: Column) -> String {
        match column {
            Column::Samples => "n".into(),
            Column::Measure(measure) => measure.label().into(),
            Column::Ratio(measure) => {
                let to = if self.is_to_floor { "floor" } else { "Driveline" };
                format!("{} ÷ {to}", measure.label())
            }
            Column::Copy(measure) => format!("{} ÷ memcpy", measure.label()),
            Column::Cpu => "CPU per message".into(),
            Column::Switches => "context switches per message".into(),
            Column::Problem(problem) => problem.label().into(),
            Column::Due => "sent".into(),
            Column::NotCome => "lost".into(),
            Column::Runs => "runs that count".into(),
        }
    }

    pub(crate) fn value(&self, c: &'a CaseResult, column: Column) -> Value<'a> {
        let headline = c.headline();
        let counts = || c.lost().filter(|_| !c.has_deliveries());
        let number = |n: Option<u64>| n.map_or(Value::Empty, |n| Value::Text(n.to_string()));
        match column {
            Column::Samples => match headline {
                Some((_, figure)) => Value::Text(figure.percentiles.n.to_string()),
                None => Value::Without(c.without_figures()),
            },
            Column::Measure(_) | Column::Ratio(_) if headline.is_none() => Value::Empty,
            Column::Measure(measure) => Value::measure(c, measure),
            Column::Ratio(measure) if measure.criterion() != c.criterion() => Value::Empty,
            Column::Ratio(measure) => self.ratio_value(c, measure),
            Column::Copy(measure) => {
                c.to_memcpy().map_or(Value::Empty, |r| Value::ratio(measure.ratio(r)))
            }
            Column::Cpu if !c.case.has_samples() => Value::Empty,
            Column::Cpu => {
                let without = if c.has_gateways() { " + gateways" } else { "" };
                Value::Cpu(c.totals.cpu_ns_per_sample, without)
            }
            Column::Switches => {
                c.switches_per_sample().map_or(Value::Empty, |n| Value::Text(digits(n)))
            }
            Column::Problem(_) if !c.has_deliveries() => Value::Empty,
            Column::Problem(problem) => Value::Problems(problem.count(&c.totals)),
            Column::Due => number(counts().map(|(_, due)| due)),
            Column::NotCome => number(counts().map(|(lost, _)| lost)),
            Column::Runs => Value::Text(format!("{} of {}", c.valid_runs(), c.runs.len())),
        }
    }

    /// Returns the value of one of several links; empty where only whole cases have one.
    pub(crate) fn value_of_link(l: &'a LinkResult, column: Column) -> Value<'a> {
        let p = &l.figure.percentiles;
        match column {
            Column::Samples => Value::Text(p.n.to_string()),
            Column::Measure(Measure::Goodput) => Value::Empty,
            Column::Measure(measure) if p.n > 0 => Value::percentile(p, measure),
            Column::Cpu => Value::Cpu(l.totals.cpu_ns_per_sample, ""),
            Column::Problem(problem) => Value::Problems(problem.count(&l.totals)),
            _ => Value::Empty,
        }
    }

    /// Returns the ratio of a case to the reference, which is Driveline, or the floor if no system
    /// is compared with Driveline. In a table with floors, Driveline's own ratio is to its floor,
    /// and that of a control to the equal case.
    fn ratio(&self, c: &'a CaseResult) -> Option<&'a Ratio> {
        match c.case.role {
            Role::Measured if self.is_to_floor => c.to_floor(),
            Role::Measured => c.to_driveline().or_else(|| {
                c.to_floor().filter(|_| self.extent == Extent::Floors && c.is_driveline())
            }),
            _ => c.ratios.first(),
        }
    }

    fn ratio_value(&self, c: &'a CaseResult, measure: Measure) -> Value<'a> {
        let ratio = self.ratio(c);
        let interval = ratio.and_then(|r| measure.ratio(r));
        let is_reference = !self.is_to_floor && c.case.role == Role::Measured && c.is_driveline();
        match ratio {
            _ if is_reference && interval.is_none() => Value::Itself,
            None => Value::Empty,
            Some(r) => Value::Ratio(RatioTo {
                interval,
                other: match r.to_role {
                    Role::Floor if !self.is_to_floor => Some("floor"),
                    Role::Measured if self.is_to_floor => Some("Driveline"),
                    _ => None,
                },
                judged_by: (!self.is_to_floor).then_some(measure.criterion()),
            }),
        }
    }
}

/// Problems that no sample of an experiment has.
pub(crate) struct Nowhere {
    /// Problems that no row has.
    pub(crate) names: Vec<&'static str>,
    /// True if no verified payload was torn, and other rows were not verified.
    pub(crate) not_torn_where_verified: bool,
}

/// Finds such problems. Only verified payloads are known to be undamaged.
pub(crate) fn nowhere(e: &ExperimentResult) -> Nowhere {
    let rows = || e.measured().filter(|c| c.has_deliveries());
    let mut problems: Vec<Problem> = Problem::ALL.to_vec();
    problems.retain(|problem| !rows().any(|c| problem.occurs(&c.totals)));
    let arrived = || rows().filter(|c| c.totals.received > 0);
    let (any, all) =
        (arrived().any(|c| c.totals.verified > 0), arrived().all(|c| c.totals.verified > 0));
    let not_torn_where_verified = problems.contains(&Problem::Torn) && any && !all;
    if !(any && all) {
        problems.retain(|problem| *problem != Problem::Torn);
    }
    let names = problems.into_iter().map(Problem::label).collect();
    Nowhere { names, not_torn_where_verified }
}
