// SPDX-License-Identifier: Apache-2.0
//! Handle of the gateway for its owner.

use super::control_thread::{Control, ControlThread};
use super::error::GatewayError;
use super::{KIND, PANICKED, zenoh};
use driveline_gateway::ros2::Ros2GatewayConfig;
use driveline_gateway::{Report, StatusSocket};
use driveline_zenoh::sockets::break_unanswered;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Commit of the gateway's source code.
const COMMIT: &str = env!("DRIVELINE_COMMIT");

/// Report of the gateway, with its version and commit.
fn report(control: &Control) -> Report {
    Report { version: env!("CARGO_PKG_VERSION").into(), commit: COMMIT.into(), ..control.report() }
}

/// A running gateway. Dropping it ends it and removes its publishers from this host. A process can
/// have one for each DDS domain, and any number without DDS, each with its own `domain_dir`.
pub struct Gateway {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    status: Option<StatusSocket>,
    greeting: String,
}

impl Gateway {
    /// Joins the domain, and ROS 2 with the configured profiles. Returns when it has joined; nodes
    /// are found later. Blocks while it reads definitions.
    ///
    /// # Errors
    /// [`GatewayError`] if the configuration, the domain, DDS or Zenoh does not permit it.
    pub fn start(config: Ros2GatewayConfig) -> Result<Self, GatewayError> {
        config.check()?;
        let zenoh =
            config.ros2.zenoh.as_ref().map(|z| format!("rmw_zenoh at {}", z.connect.join(", ")));
        let profiles: Vec<_> =
            config.ros2.dds.then(|| "DDS".to_owned()).into_iter().chain(zenoh).collect();
        let greeting = format!(
            "exchanges topics and services with ROS 2 in domain {} over {}",
            config.ros2.domain_id,
            profiles.join(" and ")
        );
        let control_thread = ControlThread::new(config)?;
        let control = control_thread.control();
        let asked = control.clone();
        let status = StatusSocket::new(&control_thread.domain_dir(), KIND, move || report(&asked))
            .map_err(|source| GatewayError::System {
                action: "listen on gateway-ros2.status in the domain's directory",
                source,
            })?;
        let thread = std::thread::Builder::new()
            .name("dl-gateway".into())
            .spawn(move || control_thread.run())
            .map_err(|source| GatewayError::System { action: "start a thread", source })?;
        Ok(Self { control, thread: Some(thread), status: Some(status), greeting })
    }

    /// Returns the carried topics with their counters, and the topics that are not carried with the
    /// reason. Blocks until the control thread has answered, at most 2 s.
    #[must_use]
    pub fn report(&self) -> Report {
        report(&self.control)
    }

    /// Returns the reason why the gateway cannot continue and carries no new samples. Its owner
    /// drops it, and may start another one.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.control.failure().or_else(|| {
            self.thread.as_ref().filter(|thread| thread.is_finished()).map(|_| PANICKED.to_owned())
        })
    }

    /// Returns the lines for the log since the last call; at most 256 are kept.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        self.control.take_notices()
    }
}

impl driveline_gateway::Gateway for Gateway {
    type Config = Ros2GatewayConfig;
    type Error = GatewayError;
    const COMMIT: &'static str = COMMIT;
    const ABOUT: &'static str = "Exchanges topics of one domain with ROS 2 nodes, over DDS and by \
         rmw_zenoh, and has services of one side called from the other. \
`driveline run` starts it for graphs that have rules under `ros2:`; CONFIG.json has the keys \
         domain, domain_dir, ros2 (as in graph files) and topics.";

    fn environment(config: &Self::Config) -> Vec<(&'static str, &'static str)> {
        config.environment()
    }

    fn start(config: Ros2GatewayConfig) -> Result<Self, GatewayError> {
        let over_zenoh = config.ros2.zenoh.is_some();
        let gateway = Self::start(config)?;
        // All TCP connections of this program belong to Zenoh. Those of a program that embeds the
        // gateway do not.
        if over_zenoh && let Err(why) = break_unanswered(zenoh::UNANSWERED) {
            gateway.control.log(format!(
                "the connections of this gateway cannot be checked ({why}): topics may stay silent \
                 after a link to a node or router fell silent. Is /proc mounted?"
            ));
        }
        Ok(gateway)
    }

    fn greeting(&self) -> String {
        self.greeting.clone()
    }

    fn take_notices(&self) -> Vec<String> {
        self.take_notices()
    }

    fn failure(&self) -> Option<String> {
        self.failure()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Dropped while there is a control thread to answer its requests.
        drop(self.status.take());
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been reported already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig;
    use super::*;

    #[test]
    fn a_gateway_whose_dds_has_ended_reports_that_it_cannot_continue() {
        let _alone = rig::alone();
        let dir = tempfile::tempdir().unwrap();
        let rules = serde_json::json!({
            "domain_id": rig::DOMAIN, "topics": [{ "topic": "/a", "direction": "to_ros" }],
        });
        let gateway = Gateway::start(rig::config(dir.path(), rules)).unwrap();
        assert_eq!(gateway.failure(), None);
        gateway.control.close_dds();
        rig::eventually("over", || gateway.failure().is_some());
        assert!(
            gateway.failure().unwrap().contains("CycloneDDS cannot wait"),
            "{:?}",
            gateway.failure()
        );
    }
}
