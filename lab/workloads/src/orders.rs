// SPDX-License-Identifier: Apache-2.0
//! Assignment of a part's process, and the messages of both sides during a run, a line of JSON
//! each.

use crate::record::Window;
use anyhow::{Result, anyhow, bail};
use driveline_bench::observations::ObservationFiles;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Settings of a part's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// Name of the process.
    pub(crate) name: String,
    pub(crate) domain_dir: PathBuf,
    /// Directory for its series; made by the process that starts it.
    pub(crate) raw_dir: PathBuf,
    pub(crate) cpus: Vec<usize>,
    pub(crate) seed: u64,
}

impl Assignment {
    /// Makes a node of the part in the run's domain.
    pub(crate) fn node(&self) -> Result<driveline::Node> {
        let options = driveline::ContextOptions {
            domain_dir: Some(self.domain_dir.clone()),
            ..driveline::ContextOptions::named(&self.name)
        };
        Ok(driveline::Context::new(options)?.node(&self.name.replace(' ', "_"))?)
    }
}

/// Later orders to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(crate) enum Order {
    /// Begins, and counts events in the window.
    Begin { window: Window },
    /// Fills its own segment with random bytes.
    Scribble { epoch: u64 },
    /// Ends.
    End,
}

/// Messages of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub(crate) enum Said {
    /// It waits for the order to begin.
    Ready,
    /// Its segment was filled with random bytes at this time.
    Scribbled { epoch: u64, time_ns: u64 },
    /// The first undamaged sample of an epoch arrived.
    First { epoch: u64, time_ns: u64 },
    /// It has finished.
    Done { observations: ObservationFiles },
    /// It cannot continue.
    Failed { error: String },
}

/// A part's connection to the process that gives orders.
pub(crate) struct Superior {
    pub(crate) orders: Receiver<Order>,
}

impl Superior {
    /// Reports that this part is ready, waits for the order to begin, and returns the measured
    /// time.
    pub(crate) fn ready(&self) -> Result<Window> {
        say(&Said::Ready);
        match self.orders.recv() {
            Ok(Order::Begin { window }) => Ok(window),
            Ok(other) => bail!("{other:?} came before the order to begin"),
            Err(_) => bail!("the process that gives orders has ended"),
        }
    }

    /// Waits for the order to end, or for the end of the process that gives it.
    pub(crate) fn wait_for_end(&self) {
        while !matches!(self.orders.recv(), Ok(Order::End) | Err(_)) {}
    }

    /// Returns the next order, if one comes within this time.
    pub(crate) fn order(&self, within: Duration) -> Option<Order> {
        match self.orders.recv_timeout(within) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Order::End),
        }
    }
}

/// Sends a message to the process that gives orders. If that process has ended, this process ends,
/// too. May be called on any thread.
pub(crate) fn say(said: &Said) {
    let line = serde_json::to_string(said).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Waits until an endpoint is matched with this many others.
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
