// SPDX-License-Identifier: Apache-2.0
//! Options of a run: programs, time-outs.

use super::control::ControlSocket;
use super::gateway::GatewayOptions;
use super::remote::Placement;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// The program that runs a module; see [`super::find_host`].
    pub host: PathBuf,
    /// Arguments between that program and the usual arguments of a host ([`crate::host`]). They are
    /// for a program that does more than run a module, or that starts a host elsewhere.
    pub host_arguments: Vec<String>,
    /// Places of the modules, if they are not processes of this launcher.
    pub placement: Option<Placement>,
    /// Gateways to start with the graph, if any of its topics leave this host or Driveline.
    pub gateways: Vec<GatewayOptions>,
    /// Directory of the domain, for all modules.
    pub domain_dir: PathBuf,
    /// Socket on which the run responds to tools, such as `driveline status`; none if `None`. Its
    /// name stays until the last reference is dropped, which shows tools that the run has ended.
    pub control: Option<Arc<ControlSocket>>,
    /// Modules to start; all if `None`.
    pub modules: Option<Vec<String>>,
    /// Assignments `component.parameter=value` to pass on.
    pub set: Vec<String>,
    /// Time for a module or a gateway to become ready after its start, unless the graph declares
    /// another (`ready_within_ms`).
    pub ready_within: Duration,
    /// Time for a module to stop before it is killed.
    pub grace: Duration,
    /// Time to wait, after all modules are ready, until their host topics are matched, so that no
    /// first samples are lost. Unmatched topics are then reported, and the graph runs without them.
    /// Also the time for a restarted module to restore its connections before they are reported.
    pub matched_within: Duration,
    /// After a component has finished, the run ends when no call runs, no sample that descends from
    /// the component waits, and no call on such a sample has ended for some time. That time is
    /// `quiet` plus the longest period of the timers that trigger components with inputs, or plus
    /// `settle` if that is shorter.
    pub quiet: Duration,
    /// This time counts instead of `quiet`, if it is longer, when other sources keep the readers
    /// busy. Ticks of timers that are due later than this are not waited for.
    pub settle: Duration,
    /// The remaining work is cut off, and the run ends, if no call of this work has ended for this
    /// long plus the duration of the slowest call so far.
    pub stuck: Duration,
    /// Time between two calls of `Sink::tick`, and between two checks of the modules: heartbeats,
    /// use of resources, suspensions.
    pub tick: Duration,
}

impl LaunchOptions {
    /// Defaults: 60 s to become ready, 3 s to be matched, 5 s grace, 0.3 s quiet, 3 s to settle, 30
    /// s without progress.
    #[must_use]
    pub fn new(host: PathBuf, domain_dir: PathBuf) -> Self {
        Self {
            host,
            host_arguments: Vec::new(),
            placement: None,
            gateways: Vec::new(),
            domain_dir,
            control: None,
            modules: None,
            set: Vec::new(),
            ready_within: Duration::from_secs(60),
            matched_within: Duration::from_secs(3),
            grace: Duration::from_secs(5),
            quiet: Duration::from_millis(300),
            settle: Duration::from_secs(3),
            stuck: Duration::from_secs(30),
            tick: Duration::from_millis(100),
        }
    }
}
