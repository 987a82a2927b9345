// SPDX-License-Identifier: Apache-2.0
//! The gateway itself. It carries samples of local publishers to other hosts, and samples of
//! publishers of other hosts to local subscriptions.
//!
//! One thread, the *control thread*, decides which tokens, offers, routes and remote publishers
//! exist. It sleeps until the host transport or a callback of Zenoh wakes it, or until the time of
//! its next check. Samples do not pass through it. Each route has a thread. Arrived best-effort
//! samples are published on Zenoh's threads, reliable ones on a thread for each host, offer and
//! topic. Each host with remote publishers here has a thread for acknowledgements, and all other
//! hosts share one. A few threads send lists of publishers.

mod acknowledgements;
mod admission;
mod answers;
mod certificates;
mod control;
mod control_thread;
mod counters;
mod error;
mod events;
mod gateway_state;
mod incoming;
mod interfaces;
mod lane;
mod lock;
mod outgoing;
mod peer_discovery;
mod reconnect;
mod remote_publisher;
mod route;
mod session;
mod socket_file;
mod time;
mod watch;
mod worker;

pub use error::GatewayError;

use control::{Control, KIND};
use control_thread::ControlThread;
use driveline_gateway::network::GatewayConfig;
use driveline_gateway::{Report, StatusSocket};
use driveline_zenoh::sockets::break_unanswered;
use lock::lock;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Commit of the source code.
const COMMIT: &str = env!("DRIVELINE_COMMIT");

/// Pause before a failed start is retried. The address or interface to listen on may not exist yet,
/// or the address may still be in use.
const AGAIN: Duration = Duration::from_secs(1);

/// Report of the gateway, with its version and commit.
fn report(control: &Control) -> Report {
    Report { version: env!("CARGO_PKG_VERSION").into(), commit: COMMIT.into(), ..control.report() }
}

/// A running gateway. Dropping it ends it and removes its remote publishers from this host.
///
/// Any process can hold one: a process with all publishers and subscriptions of its host needs no
/// separate gateway program. A gateway opens a [`driveline_shm::Participant`] of its own, and does
/// not carry what that participant publishes. The endpoints of the process belong to another
/// participant.
pub struct Gateway {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    status: Option<StatusSocket>,
}

impl Gateway {
    /// Joins the domain and the network. Returns when both are joined; other hosts are found later.
    /// Also returns if this host lacks an address or an interface, as at boot: the gateway then
    /// retries the network each second. Zenoh reads the interfaces of the host only once in a
    /// process: if the process has used Zenoh before, the gateway does not use interfaces that have
    /// appeared since then. Blocks for at most a few seconds.
    ///
    /// # Errors
    /// [`GatewayError`] if the configuration, the domain or the network does not permit it.
    pub fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        config.check()?;
        let control = Control::new();
        let first = match ControlThread::new(config.clone(), control.clone(), BTreeSet::new()) {
            Err(e) if e.may_pass() => {
                let mut logged = BTreeSet::new();
                control.kept_out(&config, &e, &mut logged);
                Err(logged)
            }
            other => Ok(other?),
        };
        let asked = control.clone();
        let status = StatusSocket::new(&config.domain_dir, KIND, move || report(&asked)).map_err(
            |source| GatewayError::System {
                action: "listen on gateway-zenoh.status in the domain's directory",
                source,
            },
        )?;
        let of_thread = control.clone();
        let thread = std::thread::Builder::new()
            .name("dl-gateway".into())
            .spawn(move || run(first, &config, &of_thread))
            .map_err(|source| GatewayError::System { action: "start a thread", source })?;
        Ok(Self { control, thread: Some(thread), status: Some(status) })
    }

    /// Id of this host for other hosts: its name and the number of this start. Each restart has a
    /// new number. Empty while it does not take part in the network.
    #[must_use]
    pub fn host(&self) -> String {
        self.control.host()
    }

    /// Returns the carried topics with their counters, and the topics that are not carried with the
    /// reason. Blocks until the control thread has answered, at most 2 s.
    #[must_use]
    pub fn report(&self) -> Report {
        report(&self.control)
    }

    /// Returns the reason why this process cannot use the network any more: a named interface has
    /// lost all addresses that Zenoh has read, and has new ones. The gateway continues, but other
    /// hosts do not find it on that interface. The gateway's program then ends with this reason.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.control.failure()
    }

    /// Returns the lines for the log since the last call; at most 256 are kept.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        self.control.take_notices()
    }
}

/// Runs one control thread after the other, until the gateway is stopped. `first`: the first
/// thread, or the reason why this host could not join the network.
fn run(
    first: Result<ControlThread, BTreeSet<String>>,
    config: &GatewayConfig,
    control: &Arc<Control>,
) {
    let (mut logged, mut next) = match first {
        Ok(first) => (BTreeSet::new(), Ok(first.run())),
        Err(logged) => (logged, Err(BTreeSet::new())),
    };
    loop {
        // If the control thread restarts, `tried` has the silent hosts for which it has been
        // restarted.
        let tried = match next {
            Ok(Some(tried)) => tried,
            Ok(None) => return,
            Err(tried) => {
                std::thread::park_timeout(AGAIN);
                tried
            }
        };
        control.is_away();
        // The gateway may have been stopped while the previous thread ended, which takes long with
        // a broken connection.
        if control.is_stopped() {
            return;
        }
        next = match ControlThread::new(config.clone(), control.clone(), tried.clone()) {
            Ok(control_thread) => {
                control.log(format!(
                    "in the network now: this host is '{}' for others",
                    control.host()
                ));
                logged.clear();
                Ok(control_thread.run())
            }
            Err(e) => {
                control.kept_out(config, &e, &mut logged);
                Err(tried)
            }
        };
    }
}

impl driveline_gateway::Gateway for Gateway {
    type Config = GatewayConfig;
    type Error = GatewayError;
    const COMMIT: &'static str = COMMIT;
    const ABOUT: &'static str = "Carries the topics of one domain between this host and others. \
`driveline run` starts it for graphs whose topics have `reach: network`; CONFIG.json has the keys \
         domain, domain_dir, network and topics.";

    fn environment(config: &Self::Config) -> Vec<(&'static str, &'static str)> {
        config.environment()
    }

    fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let of_sockets = config.clone();
        // Called first: it reports all mistakes in the configuration.
        let gateway = Self::start(config)?;
        // All sockets of this program belong to the gateway. Those of a program that embeds it do
        // not.
        gateway.control.owns_sockets();
        if let Err(why) = break_unanswered(session::unanswered(&of_sockets)?) {
            gateway.control.log(format!(
                "cannot inspect this gateway's sockets ({why}): the departure of a host may be \
                 noticed late. Is /proc mounted?"
            ));
        }
        Ok(gateway)
    }

    fn greeting(&self) -> String {
        match self.host() {
            none if none.is_empty() => "this host is not in the network".to_owned(),
            host => format!("this host is '{host}' for others"),
        }
    }

    fn take_notices(&self) -> Vec<String> {
        self.take_notices()
    }

    fn failure(&self) -> Option<String> {
        self.failure()
    }

    fn farewell(&self) -> Vec<String> {
        self.report().losses()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Dropped while there is a control thread to answer its requests.
        drop(self.status.take());
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in the thread has been reported already.
            let _ = thread.join();
        }
        self.control.release_domain();
    }
}
