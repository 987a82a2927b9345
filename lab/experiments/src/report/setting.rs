// SPDX-License-Identifier: Apache-2.0
//! Conditions of the figures: machine, settings, rules.

use super::html::{Table, escape, section, sentence};
use crate::analysis::Analysis;
use crate::archive::Manifest;
use crate::table::date;
use crate::words::word;
use driveline_bench::harness::{Reach, System, Wait};
use driveline_graph::ByteSize;
use std::fmt::Write as _;

/// Anchors and names of the sections.
pub(super) const SECTIONS: [(&str, &str); 4] = [
    ("rules", "Rules"),
    ("machine", "Machine"),
    ("settings", "Settings of peers"),
    ("measurement", "Measurement"),
];

/// Renders the first facts for a reader.
pub(super) fn lead(m: &Manifest) -> String {
    let k = &m.machine;
    format!(
        "<p>{} · kernel {} · {} usable CPUs{}</p><p>{}{} · driveline {} ({})</p>",
        escape(&k.cpu),
        escape(k.kernel.split(' ').next().unwrap_or_default()),
        k.usable_cpus.len(),
        if k.virtual_machine { " · virtual machine" } else { "" },
        escape(&date(&m.started_at)),
        m.finished_at
            .as_ref()
            .map_or_else(|| " · unfinished".to_owned(), |f| format!(" to {}", escape(&date(f)))),
        escape(&m.version),
        escape(&m.commit)
    )
}

pub(super) fn sections(m: &Manifest, a: &Analysis) -> String {
    let [rules_at, machine_at, settings_at, measurement_at] = SECTIONS;
    [
        section(rules_at.0, rules_at.1, &rules(m)),
        section(machine_at.0, machine_at.1, &machine(m, a)),
        section(settings_at.0, settings_at.1, &settings(m)),
        section(measurement_at.0, measurement_at.1, &measurement(m, a)),
    ]
    .concat()
}

fn rules(m: &Manifest) -> String {
    format!(
        "<h3>Fairness</h3><ul>\
         <li>Within a cell all systems have the same size, rate, number of subscribers, way of \
         waiting (asleep or spinning), handling of payloads, reliability, history depth, CPUs and \
         priority; reliable senders wait at most a second for slow receivers, if they have a \
         limit. A system that cannot do this is left out of the cell, and listed.</li>\
         <li>Every round measures all systems in a new random order, each in fresh processes.</li>\
         <li>Loan-only: the payload is not touched, so a middleware without copies has nothing to \
         do that grows with size. Filled and read: every byte is written and read, sequence and \
         checksum are verified outside the timed window.</li>\
         <li>Each middleware is configured as its own documentation recommends; its settings stand \
         below with why.</li>\
         <li>Rates are open loops with absolute deadlines: a slow receiver does not slow the \
         sender, and what is lost is counted.</li>\
         <li>Percentiles are exact, of all samples of all valid runs; none is an average of \
         percentiles. p95 needs 60 samples, p99 300, p99.9 3 000, p99.99 30 000.</li>\
         <li>Intervals: 95 %, bootstrap (expanded percentiles) that draws whole rounds, of both \
         systems together, of those rounds in which the runs of both count.</li></ul>\
         <h3>Validity, declared beforehand</h3><p>{}</p>\n",
        sentence(&m.validity_rule)
    )
}

fn machine(m: &Manifest, a: &Analysis) -> String {
    let k = &m.machine;
    let mut table = Table::new("", &["", ""], false);
    let mut row = |name: &str, value: String| table.row(name, &[escape(&value)]);
    row("Processor", k.cpu.clone());
    row("CPUs", format!("usable {:?}, online {}", k.usable_cpus, k.online_cpus));
    row("Virtual machine", if k.virtual_machine { "yes" } else { "no" }.into());
    row("Kernel", format!("{}{}", k.kernel, if k.real_time_kernel { " (real-time)" } else { "" }));
    row("Clock", format!("CLOCK_MONOTONIC on {}, {} ns a stamp", k.clock_source, k.clock_cost_ns));
    row("Frequency governor", k.governor.clone());
    row("Idle states", k.idle_states.clone());
    row("Memory", ByteSize(k.memory_bytes).to_string());
    if !k.tcp_congestion_control.is_empty() {
        row("TCP congestion control", k.tcp_congestion_control.clone());
    }
    row("CPU limit", k.cgroup_cpu_limit.clone());
    row("Load before", k.load_before.map_or_else(|| "unknown".into(), |l| format!("{l:.2}")));
    row(
        "Disturbance",
        format!(
            "{} of {} runs disturbed by other processes (in the worst they used {:.0} % of the \
             machine); the hypervisor took at most {:.1} %",
            a.disturbed,
            a.made,
            a.worst_others * 100.0,
            a.worst_stolen * 100.0
        ),
    );
    let cpu = |c: Option<usize>| c.map_or_else(|| "any".to_owned(), |c| c.to_string());
    row(
        "Placement",
        format!(
            "publisher on CPU {}, subscribers on {:?} in turn",
            cpu(m.placement.publisher_cpu),
            m.placement.subscriber_cpus
        ),
    );
    let mut out = table.finish();
    let mut unset: Vec<&str> = k.not_set.iter().map(String::as_str).collect();
    for text in
        a.experiments.iter().flat_map(|e| &e.cases).flat_map(|c| &c.runs).flat_map(|r| &r.unset)
    {
        if !unset.contains(&text.as_str()) {
            unset.push(text);
        }
    }
    if !unset.is_empty() {
        let items: String = unset.iter().map(|u| format!("<li>{}</li>", sentence(u))).collect();
        let _ = write!(out, "<h3>What could not be set</h3><ul>{items}</ul>");
    }
    out
}

fn settings(m: &Manifest) -> String {
    let mut out = String::new();
    for d in &m.peers {
        let _ = write!(out, "<h3>{} {}</h3>", escape(&d.title), escape(&d.version));
        for v in &d.variants {
            let name = format!("{}/{}", d.name, v.name);
            let is_used = |system: &System| {
                matches!(system, System::Peer { .. }) && system.to_string() == name
            };
            let used = m.experiments.iter().flat_map(|e| &e.cases).any(|c| is_used(&c.system));
            if !used {
                continue;
            }
            let mut table = Table::new(
                &format!("{}/{}: {}", d.name, v.name, v.title),
                &["setting", "value", "why"],
                false,
            );
            for s in &v.settings {
                table.row(&escape(&s.name), &[escape(&s.value), sentence(&s.why)]);
            }
            if !v.note.is_empty() {
                table.row("note", &[String::new(), sentence(&v.note)]);
            }
            out.push_str(&table.finish());
        }
    }
    if out.is_empty() { "<p>No peer took part.</p>".into() } else { out }
}

fn measurement(m: &Manifest, a: &Analysis) -> String {
    let mut table = Table::new("", &["", ""], false);
    let mut row = |name: &str, value: String| table.row(name, &[escape(&value)]);
    row("Command", m.command.join(" "));
    row("Extent", word(&m.extent));
    row("Seed", format!("{} (orders and intervals)", m.seed));
    row(
        "Program",
        format!(
            "driveline {}, commit {}{}",
            m.version,
            m.commit,
            if m.optimised { "" } else { ", NOT optimised" }
        ),
    );
    if let Some(commit) = &m.gateway {
        row("Gateway between hosts", format!("driveline-gateway-zenoh, commit {commit}"));
    }
    row("Runs", format!("{} of {} planned; {} count", a.made, a.planned, a.valid));
    row("Begun", date(&m.started_at));
    row("Ended", m.finished_at.as_deref().map_or_else(|| "not complete".into(), date));
    let reaches: Vec<&str> = [
        (Reach::Process, "threads of one process"),
        (Reach::Host, "processes of one host"),
        (Reach::Network, "processes of two hosts (network namespaces of this machine)"),
    ]
    .into_iter()
    .filter(|(r, _)| {
        m.experiments.iter().flat_map(|e| &e.cases).flat_map(|c| &c.links).any(|l| l.reach == *r)
    })
    .map(|(_, name)| name)
    .collect();
    row("Ends", reaches.join(", "));
    let mut waits: Vec<String> = Vec::new();
    for w in m
        .experiments
        .iter()
        .flat_map(|e| &e.cases)
        .flat_map(|c| &c.links)
        .map(|l: &crate::archive::Link| -> Wait { l.wait })
    {
        if !waits.contains(&w.to_string()) {
            waits.push(w.to_string());
        }
    }
    row("Readers wait", waits.join(", "));
    format!(
        "{}<p>Raw samples of every run are next to this page (<code>runs/</code>, Arrow files), \
         figures in <code>results.csv</code> and <code>summary.json</code>. \
         <code>driveline bench report</code> writes this page anew from them, <code>driveline \
         bench compare</code> says what changed between two measurements.</p>\n",
        table.finish()
    )
}
