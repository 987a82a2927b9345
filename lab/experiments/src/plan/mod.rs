// SPDX-License-Identifier: Apache-2.0
//! Plans the cases of a scenario on this machine: every system in every cell, with their floors.

mod cells;
mod environment;
mod floors;

use crate::archive::{Case, Experiment, Link, LinkMeasure, Role, Workload};
use crate::scenario::{Extent, RunSpec, Scenario};
use anyhow::{Context, Result, ensure};
use cells::Cell;
use driveline_bench::chain::ChainJob;
use driveline_bench::deployment::Deployment;
use driveline_bench::harness::{Job, Pace, Payload, Reach, Reliability, System};
use driveline_bench::peers::{self, Peer, Selection, Variant, needs_pod};
use driveline_bench::stats::{ENOUGH_ROUNDS, Random};
use driveline_bench::{Beside, Comparison, LeftOut, MIN_FILLED, Metric, Placement};
use driveline_runtime::launch::find_gateway;
use driveline_workloads::workloads;

/// Maximum number of cases of one experiment.
const MAX_CASES: usize = 2000;

/// Plans a scenario to an extent.
///
/// # Errors
/// If the scenario cannot run on this machine. The message names the part and the remedy.
pub fn plan(
    scenario: &Scenario,
    extent: Extent,
    found: &[Peer],
    placement: &Placement,
) -> Result<Experiment> {
    let run = match extent {
        Extent::Default => scenario.run.clone(),
        Extent::Quick => scenario.run.changed(&scenario.quick),
        Extent::Paper => scenario.run.changed(&scenario.paper),
    };
    let mut scenario = scenario.clone();
    scenario.vary = scenario.vary.changed(&run.vary);
    let mut e = Experiment {
        rounds: run.rounds.unwrap_or(5),
        cases: Vec::new(),
        left_out: Vec::new(),
        scenario,
    };
    let scenario = e.scenario.clone();
    let cells = cells::cells(&scenario, &run, placement)
        .with_context(|| format!("experiment {}", scenario.id))?;
    // True if missing peers are reported: a system other than Driveline is named, or all cells are
    // workloads or have `measure`.
    let mut compares = cells.iter().all(|cell| cell.workload.is_some() || cell.measure.is_some());
    for cell in cells {
        let names = run
            .systems
            .as_ref()
            .filter(|_| cell.systems.is_none())
            .or(cell.systems.as_ref())
            .unwrap_or(&scenario.systems);
        let (with_driveline, selection) = systems(found, names)
            .with_context(|| format!("experiment {}, systems", scenario.id))?;
        for (what, reason) in &selection.unavailable {
            leave_out(&mut e, what, reason, None);
        }
        compares |= names.iter().any(|name| name != "driveline");
        if cell.chain.is_some() {
            add_chain(&mut e, &cell, with_driveline, &selection, found)?;
        } else {
            add_cell(
                &mut e,
                &cell,
                with_driveline,
                &selection,
                placement,
                figure(&scenario, &cell),
            );
        }
        ensure!(
            e.cases.len() <= MAX_CASES,
            "experiment {} has more than {MAX_CASES} cases: let less vary",
            scenario.id
        );
    }
    // Reports the missing peers too: the systems of the cells do not include them.
    if compares {
        for (peer, reason) in found.iter().filter_map(|p| Some((p, p.missing()?))) {
            leave_out(&mut e, &peer.name, &reason, None);
        }
    }
    compare_with_own_edges(&mut e);
    compare_with_bare(&mut e);
    e.scenario.run = run;
    Ok(e)
}

/// Selects all peers that the experiments need.
///
/// # Errors
/// If a name is not a peer.
pub fn selection(experiments: &[Experiment], found: &[Peer]) -> Result<Selection> {
    let mut names: Vec<String> = experiments
        .iter()
        .flat_map(|e| &e.cases)
        .filter(|c| matches!(c.system, System::Peer { .. }))
        .map(|c| c.system.to_string())
        .collect();
    names.extend(
        experiments
            .iter()
            .flat_map(|e| &e.cases)
            .filter_map(|c| c.chain.as_ref())
            .flat_map(ChainJob::peers_needed),
    );
    names.sort();
    names.dedup();
    peers::select(found, &names)
}

/// Returns the order of one round of an experiment.
#[must_use]
pub fn order(experiment: &Experiment, seed: u64, round: u64) -> Vec<usize> {
    let own = experiment
        .scenario
        .id
        .bytes()
        .fold(seed, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
    Random::order_of_round(own, round, experiment.cases.len())
}

/// Returns the expected duration of a run, in seconds. The constants come from runs on a machine
/// with two CPUs. The constants for peers are means over peers with and without daemons, and with
/// and without copies.
#[must_use]
pub fn expected_seconds(case: &Case) -> f64 {
    if case.role == Role::OwnTool {
        return OWN_TOOL_S;
    }
    let own = !matches!(case.system, System::Peer { .. });
    if let Some(LinkMeasure::AtRest { duration_ms }) = case.measure {
        return duration_ms as f64 / 1000.0 + REST_START_S;
    }
    let link = |l: &Link| {
        let samples = (l.messages + l.warm_up) as f64;
        match l.pace {
            Pace::RateHz(hz) => samples / hz + RESTS_S,
            Pace::PingPong => {
                let each = if own { 30e-6 } else { 100e-6 };
                let carried_ns = if own { 0.0 } else { 0.4 };
                let filled_ns = if l.payload == Payload::Filled { 0.3 } else { 0.0 };
                samples * (each + l.size as f64 * (carried_ns + filled_ns) * 1e-9)
            }
        }
    };
    let observed = case
        .workload
        .as_ref()
        .map_or(0.0, |w| (w.duration_ms + w.warm_up_ms) as f64 / 1000.0 + WORKLOAD_START_S);
    let chained = case.chain.as_ref().map_or(0.0, |c| {
        CHAIN_START_S + (c.messages + c.warm_up) as f64 / c.rate_hz.unwrap_or(100.0)
    });
    let ends: usize = case.links.iter().map(|l| l.subscribers + 1).sum();
    let start = if case.links.is_empty() {
        0.0
    } else if own && case.links.iter().all(|l| l.reach != Reach::Network) {
        0.02
    } else {
        // Between hosts, Driveline has to start gateways.
        0.2
    };
    case.links.iter().map(link).fold(observed.max(chained), f64::max)
        + start
        + ends as f64 * EACH_END_S
        + if case.beside.deployment.is_bare() { 0.0 } else { CONTAINERS_START_S }
}

/// Pauses of an open loop after its first sample and before its end mark, together.
const RESTS_S: f64 = 0.15;
/// Additional time for each process.
const EACH_END_S: f64 = 0.005;
/// Start of a link that is observed at rest, and time until it is at rest.
const REST_START_S: f64 = 0.6;
/// Start and end of the containers of a run, with Podman.
const CONTAINERS_START_S: f64 = 0.6;
const WORKLOAD_START_S: f64 = 0.6;
const CHAIN_START_S: f64 = 2.6;
/// A middleware's own latency tool runs for 5 to 10 s.
const OWN_TOOL_S: f64 = 8.0;

fn systems(found: &[Peer], names: &[String]) -> Result<(bool, Selection)> {
    let with_driveline = names.iter().any(|n| n == "driveline" || n == "all");
    let peers: Vec<String> = names.iter().filter(|n| *n != "driveline").cloned().collect();
    Ok((with_driveline, peers::select(found, &peers)?))
}

fn figure(scenario: &Scenario, cell: &Cell) -> Metric {
    match cell.figure.or(scenario.figure) {
        Some(figure) => figure.into(),
        None if cell.links.iter().any(|l| l.subscribers > 1 && l.pace != Pace::PingPong) => {
            Metric::LastSubscriber
        }
        None => Metric::Transport,
    }
}

/// Leaves a part out. Each reason is reported once, with all cells for which it holds. Without a
/// cell, the part is left out everywhere.
fn leave_out(e: &mut Experiment, what: &str, reason: &str, cell: Option<&Cell>) {
    let cell = cell.map(|c| c.name.clone());
    match e.left_out.iter_mut().find(|l| l.what == what && l.reason == reason) {
        Some(rendered) => rendered.cells.extend(cell.filter(|name| !rendered.cells.contains(name))),
        None => e
            .left_out
            .push(LeftOut { cells: cell.into_iter().collect(), ..LeftOut::new(what, reason) }),
    }
}

fn add_cell(
    e: &mut Experiment,
    cell: &Cell,
    with_driveline: bool,
    selection: &Selection,
    placement: &Placement,
    figure: Metric,
) {
    if let Some(reason) = cell.refused(placement) {
        return leave_out(e, &cell.name, &reason, None);
    }
    if let Some(workload) = &cell.workload {
        return add_workload(e, cell, workload, with_driveline, selection, figure);
    }
    if let Some(measure) = cell.measure {
        return add_measure(e, cell, measure, with_driveline, selection);
    }
    if cell.beside.watch_every.is_some()
        && let [link] = cell.links.as_slice()
        && (link.pace == Pace::PingPong || link.reach == Reach::Process)
    {
        let reason = "only processes with a rate are watched: add a `rate_hz`, and `reach: host`";
        leave_out(e, "processor time and memory over time", reason, Some(cell));
    }
    let own = measured(cell, System::Driveline, "Driveline".into(), figure);
    let to_floors = floors::add_floors(e, cell, &own);
    let own_id = own.id.clone();
    let between_hosts = cell.links.iter().any(|l| l.reach == Reach::Network);
    let missing = between_hosts.then(find_gateway).and_then(Result::err);
    if let Some(missing) = missing.as_ref().filter(|_| with_driveline) {
        leave_out(e, "driveline between hosts", &missing.to_string(), None);
    }
    let with_driveline = with_driveline && missing.is_none();
    if with_driveline && to_floors.is_empty() {
        add_twice(e, own);
    } else if with_driveline {
        add(e, Case { comparisons: to_floors.clone(), ..own });
    }
    for (system, variant) in selection.systems() {
        if let Some(reason) = not_in(cell.beside.deployment, &system, variant) {
            leave_out(e, &system.to_string(), reason, Some(cell));
            continue;
        }
        let refusal = cell.links.iter().find_map(|l| variant.refuses(&l.job(&system)));
        if let Some(reason) = refusal {
            leave_out(e, &system.to_string(), &reason, Some(cell));
            continue;
        }
        if variant.usual_at_a_rate && cell.links.iter().any(|l| l.pace != Pace::PingPong) {
            let reason = "at a rate it is the variant whose settings it varies, under another name";
            leave_out(e, &system.to_string(), reason, Some(cell));
            continue;
        }
        let title = selection.title(&system);
        let to_own =
            with_driveline.then(|| Comparison { metric: figure, to: own_id.clone(), of: figure });
        let comparisons = to_own.into_iter().chain(to_floors.iter().cloned()).collect();
        let case = Case { comparisons, ..measured(cell, system, title, figure) };
        if let [link] = cell.links.as_slice()
            && e.scenario.own_tools
            && is_judged(e, cell, variant, &link.job(&case.system))
            && may_judge(e, &case.system)
        {
            let id = format!("own tool {} · {}", variant.own_tool, case.id);
            add(e, Case { id, role: Role::OwnTool, comparisons: Vec::new(), ..case.clone() });
        }
        add(e, case);
    }
    compare_with_usual_settings(e, cell, selection);
}

/// Adds a measurement of a link other than that of samples: at rest, start-up or on one thread.
/// Such a measurement has no floor.
fn add_measure(
    e: &mut Experiment,
    cell: &Cell,
    measure: LinkMeasure,
    with_driveline: bool,
    selection: &Selection,
) {
    let figure = match measure {
        LinkMeasure::AtRest { .. } => Metric::IdlePublisherCpu,
        LinkMeasure::StartUp => Metric::StartPublisher,
        LinkMeasure::SameThread => Metric::Transport,
    };
    let own = measured(cell, System::Driveline, "Driveline".into(), figure);
    if with_driveline && own.is_at_rest() {
        add(e, own);
    } else if with_driveline {
        add_twice(e, own);
    }
    if selection.systems().next().is_some() {
        let reason = "at rest, at start-up and on one thread, only Driveline's links are measured";
        leave_out(e, "links of other middleware", reason, Some(cell));
    }
}

/// Returns the reason why a peer is not measured in a deployment, or `None`.
fn not_in(deployment: Deployment, system: &System, variant: &Variant) -> Option<&'static str> {
    match deployment {
        Deployment::Containers if needs_pod(system, variant) => Some(NEEDS_POD),
        Deployment::ContainersWithoutFutexWaitv => {
            Some("the row is about Driveline's use of futex_waitv: see its row in a container each")
        }
        _ => None,
    }
}

/// Reason why a peer is not measured in containers with few namespaces in common, and the remedy.
const NEEDS_POD: &str = "its processes need one /dev/shm, /tmp or PID namespace, and each \
     container has its own: add the deployment `containers_in_pod`, in which the containers share \
     them (as with `podman run --ipc container:NAME --pid container:NAME`)";

/// Adds a workload for Driveline, with its control, and once for each peer whose program runs it.
fn add_workload(
    e: &mut Experiment,
    cell: &Cell,
    workload: &Workload,
    with_driveline: bool,
    selection: &Selection,
    figure: Metric,
) {
    let case = |system, title| Case {
        workload: cell.workload.clone(),
        ..measured(cell, system, title, figure)
    };
    let own = case(System::Driveline, "Driveline".into());
    let to_own = Comparison { metric: figure, to: own.id.clone(), of: figure };
    let any_peer = selection.systems().any(|(_, v)| v.workload(&workload.name).is_some());
    if with_driveline {
        add_twice(e, own);
    } else if !any_peer {
        let reason = "no chosen peer runs it: name driveline as well";
        return leave_out(e, &format!("the workload {}", workload.name), reason, Some(cell));
    }
    if !any_peer {
        return leave_out(e, "other middleware", &no_other_system(&workload.name), Some(cell));
    }
    for (system, variant) in selection.systems() {
        let reason = match variant.workload(&workload.name) {
            Some(_) if !cell.beside.deployment.is_bare() => {
                Some("of this workload, only Driveline's processes run in containers".into())
            }
            Some(runs) => runs.refuses(&complete(workload)),
            None => Some(format!("does not run the workload {}", workload.name)),
        };
        if let Some(reason) = reason {
            leave_out(e, &system.to_string(), &reason, Some(cell));
            continue;
        }
        let title = selection.title(&system);
        let comparisons = with_driveline.then(|| to_own.clone()).into_iter().collect();
        add(e, Case { comparisons, ..case(system, title) });
    }
}

/// Returns the parameters of a workload, including defaults.
fn complete(workload: &Workload) -> serde_json::Value {
    let known = workloads().into_iter().find(|w| w.name == workload.name);
    let mut all = known.map_or_else(Default::default, |w| w.defaults);
    if let (Some(all), Some(given)) = (all.as_object_mut(), workload.parameters.as_object()) {
        all.extend(given.clone());
    }
    all
}

/// Returns true if the latency tool of a variant measures such a link. If the tool does not measure
/// it because the link may lose samples, the report says so.
fn is_judged(e: &mut Experiment, cell: &Cell, variant: &Variant, job: &Job) -> bool {
    let is_judged = variant.has_own_tool_for(job);
    if !is_judged
        && variant.has_own_tool_for(&Job { reliability: Reliability::Reliable, ..job.clone() })
    {
        let reason = format!("{} cannot measure links that may lose something", variant.own_tool);
        leave_out(e, &format!("own latency tool of {}", job.system), &reason, Some(cell));
    }
    is_judged
}

/// Returns true if there are enough rounds for an own tool's verdict. With fewer, the tool is left
/// out, and the report says so.
fn may_judge(e: &mut Experiment, system: &System) -> bool {
    let enough = e.rounds >= ENOUGH_ROUNDS as u64;
    if !enough {
        let reason = format!(
            "it takes {ENOUGH_ROUNDS} rounds to say whether it agrees, and there are {}",
            e.rounds
        );
        leave_out(e, &format!("own latency tool of {system}"), &reason, None);
    }
    enough
}

/// Compares a tuning variant with the variant whose settings it varies.
fn compare_with_usual_settings(e: &mut Experiment, cell: &Cell, selection: &Selection) {
    let of_cell = |c: &&Case| c.role == Role::Measured && c.cell == cell.name;
    let others: Vec<(System, String)> =
        e.cases.iter().filter(of_cell).map(|c| (c.system.clone(), c.id.clone())).collect();
    let is_tuning = |system: &System| selection.variant(system).is_some_and(|v| v.tuning);
    for case in e.cases.iter_mut().filter(|c| of_cell(&&**c) && is_tuning(&c.system)) {
        if let Some((_, to)) =
            others.iter().find(|(other, _)| case.system.varies(other) && !is_tuning(other))
        {
            case.comparisons.push(Comparison {
                metric: case.figure,
                to: to.clone(),
                of: case.figure,
            });
        }
    }
}

/// Adds a chain once for each system, on its open edges. Driveline also gets a control.
fn add_chain(
    e: &mut Experiment,
    cell: &Cell,
    with_driveline: bool,
    selection: &Selection,
    found: &[Peer],
) -> Result<()> {
    let mut systems: Vec<(System, String)> =
        selection.systems().map(|(s, _)| (s.clone(), selection.title(&s))).collect();
    let everywhere = cell.chain.as_ref().is_some_and(|c| c.edges.len() == cell.open_edges.len());
    // If some edges have Driveline anyway, Driveline on the other edges would repeat the chain with
    // Driveline on all edges.
    if with_driveline && everywhere {
        systems.insert(0, (System::Driveline, "Driveline".into()));
    }
    let own = systems
        .first()
        .filter(|(s, _)| *s == System::Driveline)
        .map(|_| format!("{} · driveline", cell.name));
    for (system, title) in systems {
        let Some(mut chain) = cell.chain.clone() else { continue };
        for (topic, edge) in &mut chain.edges {
            if cell.open_edges.contains(topic) {
                edge.system = system.clone();
            }
        }
        let mut probe = Link::of_chain(&chain).job(&system);
        probe.size = chain
            .edges
            .values()
            .filter(|edge| edge.system == system)
            .map(|edge| edge.size)
            .max()
            .unwrap_or(0);
        if let Some(reason) = selection.variant(&system).and_then(|v| v.refuses(&probe)) {
            leave_out(e, &system.to_string(), &reason, Some(cell));
            continue;
        }
        let variant = selection.variant(&system);
        if let Some(reason) = variant.and_then(|v| not_in(cell.beside.deployment, &system, v)) {
            leave_out(e, &system.to_string(), reason, Some(cell));
            continue;
        }
        let needed = peers::select(found, &chain.peers_needed())?;
        if let Some((what, reason)) = needed.unavailable.first() {
            leave_out(
                e,
                &system.to_string(),
                &format!("it needs {what}, which is {reason}"),
                Some(cell),
            );
            continue;
        }
        let mut case = Case {
            links: Vec::new(),
            chain: Some(chain),
            ..measured(cell, system, title, Metric::Transport)
        };
        if case.system == System::Driveline {
            add_twice(e, case);
            continue;
        }
        case.comparisons = own
            .iter()
            .map(|to| Comparison { metric: case.figure, to: to.clone(), of: case.figure })
            .collect();
        add(e, case);
    }
    Ok(())
}

/// Returns the reason why a workload has no system but Driveline, and the remedy.
fn no_other_system(workload: &str) -> String {
    format!(
        "the workload {workload} is a graph of Driveline, and no chosen peer runs it: peers carry \
         links and chains, which can be compared with `links` or a `chain` in a scenario of your \
         own; a program that runs it announces it (docs/protocols/harness.md, Workloads)"
    )
}

fn measured(cell: &Cell, system: System, system_title: String, figure: Metric) -> Case {
    Case {
        id: format!("{} · {system}", cell.name),
        directory: String::new(),
        role: Role::Measured,
        system,
        system_title,
        cell: cell.name.clone(),
        scenario_case: cell.case.clone(),
        figure,
        figure_is_named: cell.figure_is_named,
        links: cell.links.clone(),
        measure: cell.measure,
        beside: cell.beside.clone(),
        workload: None,
        chain: None,
        comparisons: Vec::new(),
    }
}

/// Compares a chain that has Driveline on some edges with the same chain without Driveline.
fn compare_with_own_edges(e: &mut Experiment) {
    let own_edges = |case: &Case| {
        let mut chain = case.chain.clone()?;
        for edge in chain.edges.values_mut() {
            edge.system = case.system.clone();
        }
        Some(chain)
    };
    let plain: Vec<Case> =
        e.cases.iter().filter(|c| c.chain.is_some() && c.chain == own_edges(c)).cloned().collect();
    for case in e.cases.iter_mut().filter(|c| c.chain.is_some() && c.system != System::Driveline) {
        let without = own_edges(case);
        let same = |p: &&Case| {
            p.id != case.id
                && (&p.system, &p.chain, &p.beside) == (&case.system, &without, &case.beside)
        };
        if let Some(other) = plain.iter().find(same) {
            case.comparisons.push(Comparison {
                metric: case.figure,
                to: other.id.clone(),
                of: case.figure,
            });
        }
    }
}

/// Compares a link, chain or workload in containers with the same one outside of containers.
fn compare_with_bare(e: &mut Experiment) {
    let is_measured = |c: &&Case| c.role == Role::Measured;
    let bare: Vec<Case> = e
        .cases
        .iter()
        .filter(|c| is_measured(c) && c.beside.deployment.is_bare())
        .cloned()
        .collect();
    for case in e.cases.iter_mut().filter(|c| is_measured(&&**c) && !c.beside.deployment.is_bare())
    {
        let beside = Beside { deployment: Deployment::Bare, ..case.beside.clone() };
        let same = bare.iter().find(|b| {
            (&b.system, &b.links, &b.chain, &b.workload)
                == (&case.system, &case.links, &case.chain, &case.workload)
                && b.beside == beside
        });
        case.comparisons.extend(same.map(|b| Comparison {
            metric: case.figure,
            to: b.id.clone(),
            of: case.figure,
        }));
    }
}

/// Adds a case without a floor, and the same once more as the control. The control shows how much
/// two equal cases differ; otherwise a floor measured twice shows it.
fn add_twice(e: &mut Experiment, case: Case) {
    let comparison = Comparison { metric: case.figure, to: case.id.clone(), of: case.figure };
    let again = Case {
        id: again(&case.id),
        role: Role::Control,
        comparisons: vec![comparison],
        ..case.clone()
    };
    add(e, case);
    add(e, again);
}

/// Returns the name of a case's control.
fn again(id: &str) -> String {
    format!("{id} · again (A/A)")
}

/// Adds a case unless it exists already. Its directory is its number, with a readable part of its
/// name.
fn add(e: &mut Experiment, case: Case) {
    if e.cases.iter().any(|c| c.id == case.id) {
        return;
    }
    let mut name = String::new();
    for c in case.id.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '.' => name.push(c.to_ascii_lowercase()),
            _ if !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    let name: String = name.trim_matches('-').chars().take(80).collect();
    let directory = format!("{:03}-{}", e.cases.len(), name.trim_end_matches('-'));
    e.cases.push(Case { directory, ..case });
}

/// Returns the number of messages that a link of this rate sends in a run after the warm-up.
fn messages(run: &RunSpec, pace: Pace) -> u64 {
    match (run.messages, run.seconds, pace) {
        (Some(n), _, _) => n,
        (None, Some(seconds), Pace::RateHz(hz)) => ((seconds * hz).ceil() as u64).max(1),
        _ => 1000,
    }
}

fn too_small(link: &Link) -> Option<String> {
    (link.payload == Payload::Filled && link.size < MIN_FILLED).then(|| {
        format!(
            "a filled payload needs at least {MIN_FILLED} bytes, for its sequence number and \
             checksum; this one has {}",
            link.size
        )
    })
}

/// Returns a workload with its times.
fn workload(spec: &crate::scenario::WorkloadSpec, run: &RunSpec) -> Workload {
    let seconds = run.seconds.unwrap_or(10.0);
    Workload {
        name: spec.name.clone(),
        parameters: serde_json::Value::Object(spec.parameters.clone()),
        duration_ms: (seconds * 1000.0) as u64,
        warm_up_ms: ((seconds * 1000.0 / 5.0) as u64).min(2000),
    }
}

#[cfg(test)]
mod tests;
