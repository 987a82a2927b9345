// SPDX-License-Identifier: Apache-2.0
//! Additional processes of a run, its *parts*: their roles, and the entry of such a process.

use crate::faults::{FaultReader, FaultWriter};
use crate::fusion::FusionPublisher;
use crate::hog::Hog;
use crate::orders::{Assignment, Said, Superior, say};
use crate::topology::{TopologyPublisher, TopologySubscriber};
use anyhow::{Context, Result};
use driveline::Schedule;
use driveline_bench::child::end_with_starter;
use driveline_bench::observations::{ObservationFiles, Observations};
use serde::{Deserialize, Serialize};
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::mpsc::channel;

/// Role of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub(crate) enum Part {
    FaultWriter(FaultWriter),
    FaultReader(FaultReader),
    FusionPublisher(FusionPublisher),
    TopologyPublisher(TopologyPublisher),
    TopologySubscriber(TopologySubscriber),
    Hog(Hog),
}

/// Job of a part's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PartJob {
    part: Part,
    #[serde(flatten)]
    assignment: Assignment,
}

/// Entry of a part's process.
pub(crate) fn part_main() -> ExitCode {
    // A part must not outlive its run.
    match end_with_starter().map_err(Into::into).and_then(|()| serve()) {
        Ok(observations) => {
            say(&Said::Done { observations });
            ExitCode::SUCCESS
        }
        Err(e) => {
            say(&Said::Failed { error: format!("{e:#}") });
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<ObservationFiles> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("no job came on standard input")?;
    let job: PartJob = serde_json::from_str(&line)
        .context("this command is only for workloads, which give it a job")?;
    let (give, orders) = channel();
    let listen = move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(order) = serde_json::from_str(&line) else { break };
            if give.send(order).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new()
        .name("orders".into())
        .spawn(listen)
        .context("cannot start a thread")?;
    let superior = Superior { orders };
    let assignment = &job.assignment;
    let unset = Schedule { cpus: assignment.cpus.clone(), ..Schedule::default() }
        .apply_to_this_thread(&assignment.name)
        .refused;
    let mut observations: Observations = match &job.part {
        Part::FaultWriter(w) => w.run(assignment, &superior)?,
        Part::FaultReader(r) => r.run(assignment, &superior)?,
        Part::FusionPublisher(p) => p.run(assignment, &superior)?,
        Part::TopologyPublisher(p) => p.run(assignment, &superior)?,
        Part::TopologySubscriber(s) => s.run(assignment, &superior)?,
        Part::Hog(h) => h.run(&superior)?,
    };
    observations.unset.extend(unset);
    observations.write(&assignment.raw_dir)
}
