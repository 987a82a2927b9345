// SPDX-License-Identifier: Apache-2.0
//! A measurement as a table, and its stamps as CSV.

use super::result::{Measurement, Outcome, Pass, Ratio};
use crate::metric::Metric;
use crate::runner::Kind;
use crate::stats::{ENOUGH_ROUNDS, Interval, Percentiles};
use crate::validity::MAX_OTHERS;
use driveline_terminal::figures::microseconds;
use driveline_terminal::table::Columns;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Returns the table.
#[must_use]
pub(super) fn table(m: &Measurement) -> String {
    let mut text = head(m);
    let of =
        |keep: &dyn Fn(&Outcome) -> bool| m.cases.iter().filter(|o| keep(o)).collect::<Vec<_>>();
    latencies(
        &mut text,
        &of(&|o| matches!(o.entry.kind, Kind::Floor | Kind::Link | Kind::SameThread)),
    );
    own_tools(&mut text, m);
    handling(&mut text, &of(&|o| o.entry.kind == Kind::Link));
    lost_rounds(&mut text, &m.cases);
    costs(&mut text, &of(&|o| matches!(o.entry.kind, Kind::Floor | Kind::Link | Kind::SameThread)));
    bandwidth(&mut text, &of(&|o| matches!(o.entry.kind, Kind::Memcpy(_))));
    rest(&mut text, &of(&|o| matches!(o.entry.kind, Kind::Idle | Kind::StartUp)));
    notes(&mut text, m);
    settings(&mut text, m);
    text
}

/// Writes the configuration of each peer that took part, and the reasons for it.
fn settings(text: &mut String, m: &Measurement) {
    for d in &m.peers {
        let _ = write!(text, "\n{} {}\n{}", d.title, d.version, crate::peers::settings(d));
    }
}

fn head(m: &Measurement) -> String {
    let k = &m.machine;
    let cpu = |c: Option<usize>| c.map_or_else(|| "any CPU".to_owned(), |c| format!("CPU {c}"));
    let subscribers = match m.placement.subscriber_cpus.as_slice() {
        [] => "any CPU".to_owned(),
        [one] => format!("CPU {one}"),
        some => format!("CPUs {some:?} in turn"),
    };
    let mut text = String::new();
    let virtual_machine = if k.virtual_machine { " (virtual machine)" } else { "" };
    let real_time = if k.real_time_kernel { ", real-time" } else { "" };
    let _ = writeln!(
        text,
        "driveline {} ({}) · {} · {} CPUs{virtual_machine}",
        m.version,
        m.commit,
        k.cpu,
        k.usable_cpus.len()
    );
    let _ = writeln!(
        text,
        "kernel {}{real_time} · clock {} ({} ns a stamp) · governor {} · CPU limit {}",
        k.kernel, k.clock_source, k.clock_cost_ns, k.governor, k.cgroup_cpu_limit
    );
    let class = if m.placement.priority > 0 {
        format!("SCHED_FIFO {}", m.placement.priority)
    } else {
        "time sharing".to_owned()
    };
    let _ = writeln!(
        text,
        "publisher on {}, subscribers on {subscribers}, {class} · {} rounds in random order, seed \
         {}",
        cpu(m.placement.publisher_cpu),
        m.rounds,
        m.seed
    );
    let _ = writeln!(
        text,
        "load before {} · during the measurement others used {:.1} % of the machine, the \
         hypervisor took {:.1} %",
        k.load_before.map_or_else(|| "unknown".to_owned(), |l| format!("{l:.2}")),
        m.disturbance.other_processes * 100.0,
        m.disturbance.stolen * 100.0
    );
    text
}

/// Appends rows after an empty line; nothing for a table without rows.
fn append(text: &mut String, rows: &Columns) {
    if !rows.is_empty() {
        text.push('\n');
        rows.write(text);
    }
}

fn latencies(text: &mut String, outcomes: &[&Outcome]) {
    let mut rows = Columns::new(&[
        "latency in µs",
        "n",
        "p50",
        "p99",
        "p99.9",
        "max",
        "p50 ÷ floor",
        "p99 ÷ floor",
    ]);
    for o in outcomes {
        let figures = [
            Metric::Transport,
            Metric::LastSubscriber,
            Metric::FillAndTransport,
            Metric::ScheduleRelative,
        ];
        for (metric, p) in figures.iter().filter_map(|f| o.figures.get(f).map(|p| (*f, p))) {
            let name = if metric == Metric::Transport {
                o.entry.id.clone()
            } else {
                format!("  {}", metric.label())
            };
            let ratio = o.ratios.iter().find(|r| r.comparison.metric == metric && is_floor(r));
            rows.named(name, latency_cells(p, ratio));
            for other in o.ratios.iter().filter(|r| r.comparison.metric == metric && !is_floor(r)) {
                let blank = || String::new();
                rows.named(
                    format!("  ÷ {}", other.comparison.to),
                    vec![
                        blank(),
                        blank(),
                        blank(),
                        blank(),
                        blank(),
                        interval(other.p50),
                        interval(other.p99),
                    ],
                );
            }
        }
        if o.figures.is_empty() {
            rows.named(o.entry.id.clone(), vec!["no valid run".into()]);
        }
    }
    append(text, &rows);
}

/// Writes the results of the middleware's own tools for the same links.
fn own_tools(text: &mut String, m: &Measurement) {
    let beside: Vec<_> =
        m.cases.iter().filter_map(|o| o.own_tool.as_ref().map(|a| (o, a))).collect();
    if !beside.is_empty() {
        let _ = writeln!(text);
    }
    for (o, agreement) in beside {
        let _ = writeln!(text, "{}: {agreement}", o.entry.id);
    }
}

fn is_floor(r: &Ratio) -> bool {
    r.comparison.to.starts_with("floor")
}

fn latency_cells(p: &Percentiles, ratio: Option<&Ratio>) -> Vec<String> {
    vec![
        p.n.to_string(),
        us(p.p50),
        us(p.p99),
        us(p.p999),
        p.max.map_or_else(String::new, |x| microseconds(x as f64)),
        ratio.map_or_else(String::new, |r| interval(r.p50)),
        ratio.map_or_else(String::new, |r| interval(r.p99)),
    ]
}

/// Writes the cost of filling, copying and reading, compared with memcpy.
fn handling(text: &mut String, outcomes: &[&Outcome]) {
    let mut rows = Columns::new(&["payload handling", "p50 µs", "p99 µs", "GB/s", "of memcpy"]);
    for o in outcomes {
        for metric in [Metric::Fill, Metric::Copy, Metric::Read] {
            let Some(p) = o.figures.get(&metric) else { continue };
            let ratio = o.ratios.iter().find(|r| r.comparison.metric == metric).and_then(|r| r.p50);
            // Converts a ratio of durations into one of bandwidths.
            let share = ratio.map_or_else(String::new, |i| {
                format!("{:.0} % ({:.0}–{:.0})", 100.0 / i.estimate, 100.0 / i.high, 100.0 / i.low)
            });
            rows.named(
                format!("{} · {}", metric.label(), o.entry.id),
                vec![us(p.p50), us(p.p99), gigabytes(o.entry.job.size, p.p50), share],
            );
        }
    }
    append(text, &rows);
}

fn costs(text: &mut String, outcomes: &[&Outcome]) {
    let mut rows = Columns::new(&[
        "cost per sample",
        "publish() µs",
        "CPU µs, sender",
        "CPU µs, receiver",
        "wake calls",
        "sent",
        "lost",
        "not sent",
    ]);
    for o in outcomes {
        let accounts: Vec<_> =
            o.runs.iter().filter(|r| r.is_valid()).filter_map(|r| r.account.as_ref()).collect();
        if accounts.is_empty() {
            continue;
        }
        let mean = |values: Vec<f64>| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let all = |of: &dyn Fn(&crate::account::Account) -> Option<f64>| {
            mean(accounts.iter().filter_map(|a| of(a)).collect())
        };
        let in_us = |v: Option<f64>| v.map_or_else(String::new, microseconds);
        rows.named(
            o.entry.id.clone(),
            vec![
                o.figures.get(&Metric::PublishCall).map_or_else(String::new, |p| us(p.p50)),
                in_us(all(&|a| a.publisher_cpu_ns_per_sample)),
                in_us(all(&|a| a.subscriber_cpu_ns_per_sample)),
                all(&|a| a.wake_calls_per_publish).map_or_else(String::new, |w| format!("{w:.3}")),
                accounts.iter().map(|a| a.sent).sum::<u64>().to_string(),
                accounts.iter().flat_map(|a| &a.missed).sum::<u64>().to_string(),
                accounts.iter().flat_map(|a| a.not_sent.values()).sum::<u64>().to_string(),
            ],
        );
    }
    append(text, &rows);
}

/// Writes the losses of ping-pongs, and their kinds.
fn lost_rounds(text: &mut String, outcomes: &[Outcome]) {
    for o in outcomes {
        let accounts: Vec<_> =
            o.runs.iter().filter(|r| r.is_valid()).filter_map(|r| r.account.as_ref()).collect();
        let lost: Vec<_> = accounts.iter().filter_map(|a| a.lost_rounds.as_ref()).collect();
        if lost.is_empty() {
            continue;
        }
        let missed: u64 = accounts.iter().flat_map(|a| &a.missed).sum();
        let sent: u64 = accounts.iter().map(|a| a.sent).sum();
        let of =
            |n: &dyn Fn(&crate::account::LostRounds) -> u64| lost.iter().map(|l| n(l)).sum::<u64>();
        let _ = writeln!(
            text,
            "LOST: {}: {missed} of {sent} counted rounds got no answer in time (warm-up included: \
             {} questions lost, {} answers lost, {} not sent, {} late)",
            o.entry.id,
            of(&|l| l.questions),
            of(&|l| l.answers),
            of(&|l| l.unsent_answers.values().sum()),
            of(&|l| l.late),
        );
    }
}

fn bandwidth(text: &mut String, outcomes: &[&Outcome]) {
    let mut rows = Columns::new(&["memory bandwidth", "p50 µs", "GB/s"]);
    for o in outcomes {
        if let Some(p) = o.figures.get(&Metric::Copy) {
            rows.named(o.entry.id.clone(), vec![us(p.p50), gigabytes(o.entry.job.size, p.p50)]);
        }
    }
    append(text, &rows);
}

fn rest(text: &mut String, outcomes: &[&Outcome]) {
    let mut rows = Columns::new(&["at rest, and starting", "median", "greatest", ""]);
    for o in outcomes {
        for (metric, p) in &o.figures {
            let cell = |v: Option<u64>| match (metric, v) {
                (_, None) => String::new(),
                (m, Some(v)) if m.is_per_second() => format!("{} µs", microseconds(v as f64)),
                (_, Some(v)) => format!("{:.1} ms", v as f64 / 1e6),
            };
            let wakeups: Vec<f64> =
                o.runs.iter().filter_map(|r| r.account.as_ref()?.idle_wakeups_per_s).collect();
            let most = wakeups.iter().copied().fold(f64::NAN, f64::max);
            let note = if *metric == Metric::IdleSubscriberCpu {
                format!("scheduled at most {most:.1} times a second")
            } else {
                String::new()
            };
            rows.named(
                format!("{} · {}", o.entry.id, metric.label()),
                vec![cell(p.p50), cell(p.max), note],
            );
        }
    }
    append(text, &rows);
}

fn notes(text: &mut String, m: &Measurement) {
    let mut lines = Vec::new();
    if !m.optimised {
        lines.push(
            "this program was compiled without optimisation: its figures say nothing".to_owned(),
        );
    }
    if m.rounds < ENOUGH_ROUNDS as u64 {
        lines.push(format!(
            "{} round(s) are too few for an interval: take at least {ENOUGH_ROUNDS}",
            m.rounds
        ));
    }
    lines.extend(m.left_out.iter().map(|l| format!("not measured: {}: {}", l.what, l.rendered())));
    if !m.complete {
        lines.push("interrupted: what was measured until then".to_owned());
    }
    let runs = || m.cases.iter().flat_map(|o| o.runs.iter().map(move |r| (o, r)));
    let disturbed = runs().filter(|(_, r)| r.disturbance.other_processes > MAX_OTHERS).count();
    if disturbed > 0 {
        lines.push(format!(
            "{disturbed} of {} runs were disturbed: other processes used more than {:.0} % of the \
             machine",
            runs().count(),
            MAX_OTHERS * 100.0
        ));
    }
    let mut unset: Vec<&String> = runs()
        .filter_map(|(_, r)| r.account.as_ref())
        .flat_map(|a| &a.unset)
        .chain(&m.machine.not_set)
        .collect();
    unset.sort();
    unset.dedup();
    lines.extend(unset.into_iter().map(|u| format!("not set: {u}")));
    for (o, r) in runs().filter(|(_, r)| !r.is_valid()) {
        let reasons = r
            .account
            .as_ref()
            .map_or_else(|| r.failure.clone().unwrap_or_default(), |a| a.invalid.join("; "));
        lines.push(format!("INVALID: {} in round {}: {reasons}", o.entry.id, r.round));
    }
    for (o, agreement) in m
        .cases
        .iter()
        .filter_map(|o| o.own_tool.as_ref().filter(|a| a.contradicts()).map(|a| (o, a)))
    {
        lines.push(format!("INVALID: {}: {agreement}", o.entry.id));
    }
    for (o, r) in runs() {
        for (reason, n) in r.account.iter().flat_map(|a| &a.not_sent) {
            lines.push(format!("{} in round {}: {n} not sent: {reason}", o.entry.id, r.round));
        }
    }
    if !lines.is_empty() {
        let _ = writeln!(text);
    }
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
}

fn interval(i: Option<Interval>) -> String {
    i.map_or_else(|| "n too small".to_owned(), |i| i.to_string())
}

fn us(v: Option<u64>) -> String {
    v.map_or_else(|| "n too small".to_owned(), |v| microseconds(v as f64))
}

fn gigabytes(size: usize, ns: Option<u64>) -> String {
    ns.filter(|n| *n > 0).map_or_else(String::new, |n| format!("{:.1}", size as f64 / n as f64))
}

/// Writes every stamp of every counted sample as CSV. An empty cell is a stamp that was not taken,
/// or a sample that was not received.
///
/// # Errors
/// The file system's.
pub(super) fn write_raw(path: &Path, m: &Measurement) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    writeln!(
        file,
        "case,size,round,valid,subscriber,sequence,scheduled_ns,before_fill_ns,before_publish_ns,\
         publish_returned_ns,woken_ns,in_hand_ns,copied_ns,read_ns"
    )?;
    let cell = |v: u64| if v > 0 { v.to_string() } else { String::new() };
    for o in &m.cases {
        for (run, account) in
            o.runs.iter().filter_map(|r: &Pass| r.account.as_ref().map(|a| (r, a)))
        {
            for sample in &account.stamps {
                let (subscriber, s, r) =
                    (sample.subscriber, sample.sent, sample.received.unwrap_or_default());
                let stamps = [
                    s.scheduled,
                    s.before_fill,
                    s.before_publish,
                    s.returned,
                    r.woken,
                    r.in_hand,
                    r.copied,
                    r.read,
                ]
                .map(cell)
                .join(",");
                writeln!(
                    file,
                    "\"{}\",{},{},{},{subscriber},{},{stamps}",
                    o.entry.id,
                    o.entry.job.size,
                    run.round,
                    run.is_valid(),
                    s.sequence
                )?;
            }
        }
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_samples_are_named() {
        assert_eq!(us(None), "n too small");
        assert_eq!(gigabytes(1 << 20, Some(1 << 20)), "1.0");
    }
}
