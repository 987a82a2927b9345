// SPDX-License-Identifier: Apache-2.0
//! The processes of a run beside its own: what they are told to be, and what both sides say
//! meanwhile, a line of JSON each.

use crate::faults::{FaultReader, FaultWriter};
use crate::fusion::FusionPublisher;
use crate::record::Window;
use crate::topology::{TopologyPublisher, TopologySubscriber};
use anyhow::{Context, Result, anyhow, bail};
use driveline::Schedule;
use driveline_bench::child::end_with_starter;
use driveline_bench::observations::{ObservationFiles, Observations};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The word behind the command that makes a program a part of a run.
pub(crate) const PART: &str = "part";

/// And the one that makes it a host of a graph's module.
pub(crate) const HOST: &str = "host";

/// What a process is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub(crate) enum Part {
    FaultWriter(FaultWriter),
    FaultReader(FaultReader),
    FusionPublisher(FusionPublisher),
    TopologyPublisher(TopologyPublisher),
    TopologySubscriber(TopologySubscriber),
}

/// What every part is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PartJob {
    pub(crate) part: Part,
    /// Name of the process.
    pub(crate) name: String,
    pub(crate) domain_dir: PathBuf,
    /// For its series; made by whoever starts it.
    pub(crate) raw_dir: PathBuf,
    pub(crate) cpus: Vec<usize>,
    pub(crate) seed: u64,
}

/// What a part is told later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(crate) enum Order {
    /// Begin, and count what happens in the window.
    Begin { window: Window },
    /// Write nonsense over the own segment.
    Scribble { epoch: u64 },
    /// End.
    End,
}

/// What a part says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub(crate) enum Said {
    /// It waits for the order to begin.
    Ready,
    /// Its segment is full of nonsense since then.
    Scribbled { epoch: u64, time_ns: u64 },
    /// The first whole sample of an epoch came.
    First { epoch: u64, time_ns: u64 },
    /// It is done.
    Done { observations: ObservationFiles },
    /// It cannot go on.
    Failed { error: String },
}

/// A part's end of the conversation.
pub(crate) struct Superior {
    orders: Receiver<Order>,
}

impl Superior {
    /// Waits for the order to begin.
    pub(crate) fn ready(&self) -> Result<Window> {
        say(&Said::Ready);
        match self.orders.recv() {
            Ok(Order::Begin { window }) => Ok(window),
            Ok(other) => bail!("{other:?} came before the order to begin"),
            Err(_) => bail!("there is nobody left to give orders"),
        }
    }

    /// Waits for the order to end, or for the end of who gives it.
    pub(crate) fn wait_for_end(&self) {
        while !matches!(self.orders.recv(), Ok(Order::End) | Err(_)) {}
    }

    /// The next order, if one comes within this time.
    pub(crate) fn order(&self, within: Duration) -> Option<Order> {
        match self.orders.recv_timeout(within) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Order::End),
        }
    }
}

/// Says something to the superior. If that is gone, the process ends. Any thread.
pub(crate) fn say(said: &Said) {
    let line = serde_json::to_string(said).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
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
    let unset = Schedule { cpus: job.cpus.clone(), ..Schedule::default() }
        .apply_to_this_thread(&job.name)
        .refused;
    let mut observations: Observations = match &job.part {
        Part::FaultWriter(w) => w.run(&job, &superior)?,
        Part::FaultReader(r) => r.run(&job, &superior)?,
        Part::FusionPublisher(p) => p.run(&job, &superior)?,
        Part::TopologyPublisher(p) => p.run(&job, &superior)?,
        Part::TopologySubscriber(s) => s.run(&job, &superior)?,
    };
    observations.unset.extend(unset);
    observations.write(&job.raw_dir)
}

impl PartJob {
    /// A node of the part's own in the run's domain.
    pub(crate) fn node(&self) -> Result<driveline::Node> {
        let options = driveline::ContextOptions {
            domain_dir: Some(self.domain_dir.clone()),
            ..driveline::ContextOptions::named(&self.name)
        };
        Ok(driveline::Context::new(options)?.node(&self.name.replace(' ', "_"))?)
    }
}

/// Waits until an endpoint has found this many others.
pub(crate) fn wait_matched(
    what: &str,
    wanted: usize,
    within: Duration,
    mut matched: impl FnMut() -> usize,
) -> Result<()> {
    let end = std::time::Instant::now() + within;
    loop {
        let found = matched();
        if found >= wanted {
            return Ok(());
        }
        if std::time::Instant::now() > end {
            return Err(anyhow!(
                "{what} found only {found} of {wanted} other ends within {within:?}"
            ));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
