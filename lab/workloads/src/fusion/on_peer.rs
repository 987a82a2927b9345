// SPDX-License-Identifier: Apache-2.0
//! The fusion with a peer's program in each of its processes: the same schedules and the same
//! observations.

use crate::children::{Children, PATIENCE};
use crate::job::{WorkloadJob, WorkloadPeer};
use crate::orders::Order;
use crate::peer_part::{Line, part};
use crate::record::Window;
use crate::schedule::Schedule;
use crate::usage::Watcher;
use anyhow::Result;
use driveline_bench::harness::{Pace, Role};
use driveline_bench::observations::Observations;
use serde::Serialize;

/// Further fields of the fusing part's job (docs/protocols/harness.md, Workloads).
#[derive(Serialize)]
pub(super) struct Fusing<T> {
    pub(super) topics: Vec<String>,
    pub(super) trigger: T,
    pub(super) queue: u32,
}

/// Runs the fusion: a schedule for each topic, samples of `size` bytes. `window` is called when all
/// parts wait for the order to begin.
pub(super) fn run<T: Serialize>(
    fusing: Fusing<T>,
    schedules: &[Schedule],
    size: usize,
    peer: &WorkloadPeer,
    job: &WorkloadJob,
    window: impl Fn() -> Window,
) -> Result<Observations> {
    let part = |role, topic: &str, pace| part(peer, job, role, topic, size, pace);
    let program = &peer.program;
    let mut children = Children::new(job)?;
    let mut keeper = None;
    if peer.keeper {
        let job = part(Role::Keeper, "fusion", Pace::PingPong);
        let index = children.start_peer("keeper", program, &job)?;
        children.ready(index)?;
        keeper = Some(index);
    }
    let topics = fusing.topics.clone();
    let line = Line { job: part(Role::Fusion, "fusion", Pace::PingPong), more: fusing };
    let fusing = children.start_peer("fusion", program, &line)?;
    children.ready(fusing)?;
    let mut parts = vec![fusing];
    for (n, (topic, schedule)) in topics.iter().zip(schedules).enumerate() {
        let pace = Pace::RateHz(1e9 / schedule.period_ns as f64);
        let line = Line { job: part(Role::FusionPublisher, topic, pace), more: schedule };
        parts.push(children.start_peer(&format!("publisher {n}"), program, &line)?);
    }
    parts.iter().skip(1).try_for_each(|p| children.ready(*p))?;

    let window = window();
    parts.iter().for_each(|p| children.begin(*p, window));
    let watched = children.processes().skip(usize::from(peer.keeper)).collect();
    let watcher = Watcher::start(watched, window)?;
    window.sleep_until_end();
    let mut o = Observations::default();
    watcher.finish(&mut o);
    for part in parts {
        children.finish(part, PATIENCE, &mut o)?;
    }
    if let Some(keeper) = keeper {
        children.order(keeper, Order::End);
        children.finish(keeper, PATIENCE, &mut o)?;
    }
    Ok(o)
}
