// SPDX-License-Identifier: Apache-2.0
//! An analysis as CSV, with fields in quotes as in RFC 4180: one row for each distribution, each
//! count, and each part that is not measured (`docs/protocols/archive.md`).

use crate::analysis::{Analysis, CaseResult, Figure};
use crate::table::counter_unit;
use crate::words::word;
use std::fmt::Write as _;

const HEAD: &str = "experiment,case,role,cell,system,what,subject,unit,n,min,mean,sd,\
                    p25,p50,p75,p95,p99,p99_9,p99_99,max,skewness,excess_kurtosis,value\n";

/// Returns the table. A field is empty if there are too few samples, or if it does not apply.
#[must_use]
pub fn csv(a: &Analysis) -> String {
    let mut text = String::from(HEAD);
    for e in &a.experiments {
        for c in &e.cases {
            let start = [
                e.id.as_str(),
                &c.case.id,
                &word(&c.case.role),
                &c.case.cell,
                &c.case.system.to_string(),
            ]
            .map(quoted)
            .join(",");
            case(&mut text, &start, c);
        }
        for left in &e.left_out {
            let start = [e.id.as_str(), &left.what, "left_out", "", ""].map(quoted).join(",");
            single(&mut text, &start, "left_out", &left.rendered(), "", "");
        }
    }
    text
}

fn case(text: &mut String, start: &str, c: &CaseResult) {
    for (metric, f) in &c.figures {
        distribution(
            text,
            start,
            &word(metric),
            "all",
            if metric.is_per_second() { "ns/s" } else { "ns" },
            f,
        );
    }
    // The subscribers of a workload are among its observations.
    for s in c.subscribers.iter().filter(|_| c.case.workload.is_none()) {
        distribution(text, start, "transport", &s.name, "ns", &s.transport);
    }
    for o in &c.observed {
        distribution(text, start, &word(&o.quantity), &o.subject, o.quantity.unit(), &o.figure);
    }
    if c.has_deliveries() {
        let t = &c.totals;
        let mut count = |what: &str, subject: &str, unit: &str, value: String| {
            single(text, start, what, subject, unit, &value)
        };
        let counts = [
            ("scheduled", t.scheduled),
            ("sent", t.sent),
            ("received", t.received),
            ("late", t.late),
            ("missed", t.missed),
            ("torn", t.torn),
            ("verified", t.verified),
        ];
        for (what, n) in counts {
            count(what, "all", "count", n.to_string());
        }
        for (reason, n) in &t.not_sent {
            count("not_sent", reason, "count", n.to_string());
        }
        let some = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.3}"));
        count("cpu_per_message", "all", "ns", some(t.cpu_ns_per_sample));
        count("publisher_cpu_per_message", "all", "ns", some(t.publisher_cpu_ns_per_sample));
        count("wake_calls_per_publish", "all", "count", some(t.wake_calls_per_publish));
        if let Some(bytes_per_s) = c.goodput_bytes_per_s {
            count("goodput", "all", "bytes/s", format!("{bytes_per_s:.0}"));
        }
    }
    if let Some(per_s) = c.totals.idle_wakeups_per_s {
        single(text, start, "idle_wakeups", "all", "count/s", &format!("{per_s:.3}"));
    }
    for (name, counts) in &c.counters {
        let (name, unit) = counter_unit(name);
        for (run, n) in counts.iter().enumerate() {
            single(
                text,
                start,
                "counter",
                &format!("{name} (valid run {})", run + 1),
                unit,
                &n.to_string(),
            );
        }
    }
    let valid = c.valid_runs();
    single(text, start, "valid_runs", "all", "count", &valid.to_string());
    single(text, start, "invalid_runs", "all", "count", &(c.runs.len() - valid).to_string());
}

fn distribution(text: &mut String, start: &str, what: &str, subject: &str, unit: &str, f: &Figure) {
    let p = &f.percentiles;
    let whole = |x: Option<u64>| x.map_or_else(String::new, |x| x.to_string());
    let real = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.3}"));
    let cells = [
        p.n.to_string(),
        whole(p.min),
        real(p.mean),
        real(p.standard_deviation),
        whole(f.shape.map(|s| s.p25)),
        whole(p.p50),
        whole(f.shape.map(|s| s.p75)),
        whole(p.p95),
        whole(p.p99),
        whole(p.p999),
        whole(p.p9999),
        whole(p.max),
        real(f.shape.and_then(|s| s.skewness)),
        real(f.shape.and_then(|s| s.excess_kurtosis)),
    ];
    let _ = writeln!(text, "{start},{what},{},{unit},{},", quoted(subject), cells.join(","));
}

fn single(text: &mut String, start: &str, what: &str, subject: &str, unit: &str, value: &str) {
    let _ = writeln!(text, "{start},{what},{},{unit},{}{value}", quoted(subject), ",".repeat(14));
}

/// Returns a field, in quotes if necessary.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}
