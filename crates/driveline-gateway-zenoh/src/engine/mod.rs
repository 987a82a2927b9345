// SPDX-License-Identifier: Apache-2.0
//! The gateway itself: local publishers to other hosts, publishers of other hosts to local
//! subscriptions.
//!
//! One thread, the *control thread*, decides what exists: tokens, offers, routes, remote publishers. It is woken by
//! the host transport and by Zenoh's callbacks, and sleeps otherwise. Samples do not pass through
//! it: each route has a thread of its own, what arrives is published on Zenoh's, and
//! acknowledgements to each host have a thread. Lists of publishers have some of their own.

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

/// The commit that it was built from.
const COMMIT: &str = env!("DRIVELINE_COMMIT");

/// The pause after a gateway that has to start could not: what it listens on may not be there, or
/// not be free yet.
const AGAIN: Duration = Duration::from_secs(1);

/// Report of the gateway, with its version and commit.
fn report(control: &Control) -> Report {
    Report { version: env!("CARGO_PKG_VERSION").into(), commit: COMMIT.into(), ..control.report() }
}

/// A running gateway. Dropping it ends it, and with it what it has brought to this host.
///
/// Any process can hold one: where one process owns all the traffic, it needs no other. Its own
/// endpoints do not count as local then: a gateway does not carry what the same
/// [`driveline_shm::Participant`] publishes, but it makes one of its own.
pub struct Gateway {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    status: Option<StatusSocket>,
}

impl Gateway {
    /// Joins the domain and the network. Returns when both are joined; other hosts are found later.
    /// If this host lacks an address or an interface, as at boot, it returns as well, and retries
    /// the network each second. Zenoh reads the interfaces of a host once in a process: if it was
    /// used before, later ones are not used. Blocks for at most a few seconds.
    ///
    /// # Errors
    /// [`GatewayError`] if the configuration, the domain or the network does not permit it.
    pub fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        config.check()?;
        let control = Control::new();
        let first = match ControlThread::new(config.clone(), control.clone(), BTreeSet::new()) {
            Err(e) if e.may_pass() => {
                let mut told = BTreeSet::new();
                control.kept_out(&config, &e, &mut told);
                Err(told)
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

    /// This host as the others see it: its name and the number of this start, which is another
    /// after the gateway had to start anew. Empty as long as it does not take part in the network.
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

    /// Reason why this process cannot use the network any more: a named interface has other
    /// addresses than Zenoh has read. The gateway continues, but other hosts do not find it there;
    /// the gateway's program then ends with this reason.
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

/// Has one control thread after the other, until it is stopped. `first`: or what has kept this host out
/// of the network.
fn run(
    first: Result<ControlThread, BTreeSet<String>>,
    config: &GatewayConfig,
    control: &Arc<Control>,
) {
    let (mut told, mut next) = match first {
        Ok(first) => (BTreeSet::new(), Ok(first.run())),
        Err(told) => (told, Err(BTreeSet::new())),
    };
    loop {
        // For which hosts it starts anew, if it does.
        let tried = match next {
            Ok(Some(tried)) => tried,
            Ok(None) => return,
            Err(tried) => {
                std::thread::park_timeout(AGAIN);
                tried
            }
        };
        control.is_away();
        // It may have been stopped while the one before took its leave, which a connection that is
        // broken makes long.
        if control.is_stopped() {
            return;
        }
        next = match ControlThread::new(config.clone(), control.clone(), tried.clone()) {
            Ok(control_thread) => {
                control.tell(format!(
                    "in the network now: this host is '{}' for others",
                    control.host()
                ));
                told.clear();
                Ok(control_thread.run())
            }
            Err(e) => {
                control.kept_out(config, &e, &mut told);
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
`driveline run` starts it for graphs whose topics have `reach: network`; CONFIG.json has the keys domain, domain_dir, network and topics.";

    fn environment(config: &Self::Config) -> Vec<(&'static str, &'static str)> {
        config.environment()
    }

    fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let of_sockets = config.clone();
        // First: it reports all mistakes in the configuration.
        let gateway = Self::start(config)?;
        // All sockets of this program are its own, which those of a program that it is embedded in
        // are not.
        gateway.control.owns_sockets();
        if let Err(why) = break_unanswered(session::unanswered(&of_sockets)?) {
            gateway.control.tell(format!(
                "what this gateway has open cannot be looked at ({why}): that a host is gone may be found late. Is /proc mounted?"
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
        // While there is a control thread to answer for it.
        drop(self.status.take());
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in it has been reported already.
            let _ = thread.join();
        }
        self.control.let_others_serve();
    }
}
