// SPDX-License-Identifier: Apache-2.0
//! Floors of this machine for a cell's only link: passing a bare word from one end to the other,
//! and copying the payload.

use super::{Cell, add, again, leave_out};
use crate::archive::{Case, Experiment, Link, Role};
use driveline_bench::harness::{
    MEMCPY_FROM, MemcpyKind, Pace, Payload, Reach, Reliability, System, Take,
};
use driveline_bench::{Beside, Comparison, Metric};
use driveline_graph::ByteSize;

/// Adds the floors of a cell. Returns the comparisons with these floors, for all cases of the cell.
/// `own` is Driveline's case.
pub(super) fn add_floors(e: &mut Experiment, cell: &Cell, own: &Case) -> Vec<Comparison> {
    if cell.links.iter().any(|l| l.reach == Reach::Network) {
        leave_out(
            e,
            "floor",
            "between hosts the bare sockets of the peer baseline are the floor",
            Some(cell),
        );
        return Vec::new();
    }
    let [link] = cell.links.as_slice() else {
        leave_out(
            e,
            "floor",
            "it is that of one link alone: several at the same time have no floor",
            Some(cell),
        );
        return Vec::new();
    };
    // The deployment does not matter: a floor has no middleware to deploy.
    let alone = Beside {
        watch_every: cell.beside.watch_every,
        deployment: cell.beside.deployment,
        ..Beside::default()
    };
    if cell.beside != alone {
        leave_out(
            e,
            "floor",
            "it is measured alone: links next to hogs, under a limit or with a preference have no \
             floor",
            Some(cell),
        );
        return Vec::new();
    }
    let mut comparisons = vec![add_word(e, link, own.figure)];
    comparisons.extend(add_memcpy(e, link, own.headline_metric()));
    comparisons
}

/// Adds the floor of a bare word, and the same once more as its control.
fn add_word(e: &mut Experiment, link: &Link, figure: Metric) -> Comparison {
    let system = link.job(&System::Driveline).floor();
    let (title, name) = if system == System::Futex {
        ("bare futex", "futex")
    } else {
        ("bare spinning word", "spinning word")
    };
    let reach = if link.reach == Reach::Process { "threads" } else { "processes" };
    let pace = match link.pace {
        Pace::PingPong => "ping-pong".to_owned(),
        Pace::RateHz(hz) => format!("1→{} at {hz} Hz", link.subscribers),
    };
    let cell = format!("{reach} · {pace}{}", place(link));
    let id = format!("floor: {name} · {cell}");
    let own = if figure == Metric::FillAndTransport { Metric::Transport } else { figure };
    let link = Link {
        size: 0,
        take: Take::Borrow,
        payload: Payload::Untouched,
        reliability: Reliability::BestEffort,
        depth: 1,
        processing_us: 0,
        ..link.clone()
    };
    let mut case = Case { id: id.clone(), cell, figure: own, ..floor(system, title, link) };
    add(e, case.clone());
    case.id = again(&id);
    case.role = Role::Control;
    case.comparisons = vec![Comparison { metric: own, to: id.clone(), of: own }];
    add(e, case);
    Comparison { metric: figure, to: id, of: figure }
}

/// Adds the floor that copies the payload once for each sample, for any number of subscribers and
/// any wait mode. Figures that include writing or copying payloads are compared with this floor,
/// from the size at which a copy measures memory rather than the clock.
fn add_memcpy(e: &mut Experiment, link: &Link, headline: Metric) -> Option<Comparison> {
    let copied_out = link.take == Take::Copy && link.payload == Payload::Untouched;
    let (take, payload) =
        if copied_out { (Take::Copy, Payload::Untouched) } else { (Take::Borrow, Payload::Filled) };
    let kind = MemcpyKind::of(take);
    let pace = match link.pace {
        Pace::PingPong => "one after the other".to_owned(),
        Pace::RateHz(hz) => format!("at {hz} Hz"),
    };
    let cell = format!("{} · {} · {pace}{}", kind.label(), ByteSize(link.size as u64), place(link));
    let id = format!("floor: memcpy {cell}");
    let job = link.job(&System::Memcpy).memcpy(kind);
    let copies = Link {
        subscribers: job.subscribers,
        messages: job.messages,
        warm_up: job.warm_up,
        take,
        payload,
        reliability: Reliability::BestEffort,
        depth: 1,
        processing_us: 0,
        ..link.clone()
    };
    add(
        e,
        Case {
            id: id.clone(),
            cell,
            figure: Metric::Copy,
            ..floor(System::Memcpy, "memcpy", copies)
        },
    );
    let has_copy =
        link.take == Take::Copy && matches!(headline, Metric::Transport | Metric::LastSubscriber);
    let says_something =
        link.size >= MEMCPY_FROM && (has_copy || headline == Metric::FillAndTransport);
    says_something.then_some(Comparison { metric: headline, to: id, of: Metric::Copy })
}

/// Returns CPUs and priority of a link if they are unusual: a case with its own placement has its
/// own floor.
fn place(link: &Link) -> String {
    let fifo =
        if link.priority > 0 { format!(" · FIFO {}", link.priority) } else { String::new() };
    let cpus = match (link.publisher_cpu, link.subscriber_cpus.as_slice()) {
        (None, []) => " · any CPU",
        (Some(one), [other]) if one == *other => " · one CPU",
        _ => "",
    };
    format!("{fifo}{cpus}")
}

/// Returns a floor without a name.
fn floor(system: System, title: &str, link: Link) -> Case {
    Case {
        id: String::new(),
        directory: String::new(),
        role: Role::Floor,
        system,
        system_title: title.into(),
        cell: String::new(),
        scenario_case: String::new(),
        figure: Metric::Transport,
        figure_is_named: false,
        links: vec![link],
        measure: None,
        beside: Beside::default(),
        workload: None,
        chain: None,
        comparisons: Vec::new(),
    }
}
