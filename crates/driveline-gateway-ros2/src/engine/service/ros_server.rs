// SPDX-License-Identifier: Apache-2.0
//! Server in ROS 2, and its offer to Driveline and to the other profile:
//! `docs/protocols/ros2-services.md`, section 5. `calls_to_ros` passes the calls.

use super::calls_to_ros::{CallsToRos, NO_SERVER, WENT_AWAY};
use super::counts::Counts;
use super::problem::Problem;
use super::retry::{Retry, Upheld, Wake};
use super::services::{EndpointKey, listed, whose, written};
use super::{Asking, Interface, Offered, OwnEnds, ServiceEndpoint};
use crate::engine::endpoint::Profile;
use crate::engine::gateway_state::GatewayState;
use crate::names::{RosNode, ros_name_of};
use driveline::service::Outbox;
use driveline::{
    Executor, ExecutorOptions, GroupKind, Node, Reach, ServiceCallback, ServiceOptions,
};
use driveline_gateway::Ros2Server;
use driveline_gateway::ros2::ServiceRule;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of Driveline clients served at a time.
const MAX_CLIENTS: u32 = 8;
/// Maximum number of requests of one client that are held while they are sent.
const MAX_HELD: u32 = 2;

/// Maximum time that a dropped offer waits for Driveline clients to connect to the publisher of
/// their responses.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// Pause between two checks in this wait.
const READ_CHECK_EVERY: Duration = Duration::from_millis(2);

/// A service whose server is in ROS 2.
pub(super) struct RosServer {
    /// Dropped first: nodes see the service leave before calls fail.
    across: Retry<Box<dyn Offered>>,
    /// Local offer, while a server exists.
    offered: Retry<OfferedHere>,
    asking: Retry<Arc<dyn Asking>>,
    /// The server that is called, or that would be called if there were no problem.
    current: Option<EndpointKey>,
    /// All servers of the name.
    pub(super) servers: Vec<(EndpointKey, ServiceEndpoint)>,
    /// Reasons why no server is called, or why it may not work correctly.
    problems: Vec<Problem>,
    blocked: bool,
    passes_across: bool,
    node: Node,
    pub(super) calls: Arc<CallsToRos>,
}

impl RosServer {
    pub(super) fn new(
        node: &Node,
        of: Interface,
        rule: &ServiceRule,
        counts: Counts,
        wake: &Wake,
    ) -> Self {
        let calls = Arc::new(CallsToRos::new(of, rule.timeout(), counts));
        Self {
            across: Retry::new(wake),
            offered: Retry::new(wake),
            asking: Retry::new(wake),
            current: None,
            servers: Vec::new(),
            problems: Vec::new(),
            blocked: true,
            passes_across: rule.across,
            node: node.clone(),
            calls,
        }
    }

    pub(super) fn poll(&mut self, common: &Arc<GatewayState>) {
        let now = Instant::now();
        if self.current.is_some_and(|current| !self.servers.iter().any(|(key, _)| *key == current))
        {
            self.leave(WENT_AWAY, NO_SERVER);
            self.asking.let_go();
            self.current = None;
        } else if let Some(reason) = self.asking.get().and_then(|asking| asking.broken()) {
            let what = format!("the server in ROS 2 cannot be reached any more: {reason}");
            self.leave(&what, &what);
            self.asking.broke(now);
        }
        let mut problems = Vec::new();
        let blocked = self.direct(common, now).err();
        self.calls.block(blocked.as_ref().map_or("", |p| &p.text));
        self.blocked = blocked.is_some();
        let passes = blocked.as_ref().is_some_and(Problem::ends_by_itself);
        problems.extend(blocked);
        // The service is offered here while a server exists, even if no server can be called: so
        // clients get the reason. But an offer does not begin during a temporary problem, because
        // it would refuse the call of a client that has waited for a server.
        if self.servers.is_empty() {
            self.offered.let_go();
        } else if self.offered.get().is_some() || !passes {
            let (node, calls) = (&self.node, &self.calls);
            let kept = self.offered.keep(now, || offer_here(node, calls));
            problems
                .extend(kept.err().map(|why| Problem::missing("it cannot be offered here", why)));
        }
        problems.extend(self.pass_across(common, now).err());
        Problem::log_new(&problems, &self.problems, |p| {
            common.log(format!("service '/{}' of ROS 2: {p}", self.calls.of.service))
        });
        self.problems = problems;
    }

    /// Stops calling: pending callers get the error `what`, later callers get `problem`. Call this
    /// before `asking` is dropped, because `calls` shares it.
    fn leave(&mut self, what: &str, problem: &str) {
        self.across.let_go();
        self.calls.server_gone(what, problem);
    }

    /// Directs calls to the one server, or returns the reason why that is impossible.
    fn direct(&mut self, common: &Arc<GatewayState>, now: Instant) -> Result<(), Problem> {
        let (key, server) = self.one(common)?;
        if self.current.replace(key).is_some_and(|before| before != key) {
            self.leave(WENT_AWAY, "the next requests go to another server");
            self.asking.let_go();
        }
        let (calls, is_new) = (&self.calls, self.asking.get().is_none());
        let make = || {
            let answers = Arc::new(Arc::downgrade(calls));
            common.transport(server.profile)?.ask(&calls.of, &RosNode::gateway(), &server, answers)
        };
        let kept = self.asking.keep(now, make);
        let what = || {
            format!(
                "no client can be made for the server {} by {}",
                whose(server.node.as_ref()),
                server.profile
            )
        };
        kept.map_err(|why| Problem::missing(&what(), why))?;
        if let Some(asking) = self.asking.get().filter(|_| is_new) {
            calls.direct(asking.clone());
        }
        Ok(())
    }

    /// Returns the one server that can be called.
    fn one(&self, common: &GatewayState) -> Result<(EndpointKey, ServiceEndpoint), Problem> {
        let named = |endpoints: &[&(EndpointKey, ServiceEndpoint)]| {
            let named: Vec<_> = endpoints
                .iter()
                .map(|(_, p)| format!("{} by {}", listed(p.node.as_ref()), p.profile))
                .collect();
            named.join(", ")
        };
        let (marked, unmarked): (Vec<_>, Vec<_>) =
            self.servers.iter().partition(|(_, p)| p.gateway);
        match unmarked.as_slice() {
            [] if marked.is_empty() => Err(Problem::quiet(NO_SERVER)),
            [] => {
                let who = named(&marked);
                Err(format!(
                    "{who} is another gateway of Driveline: calls would go in circles; \
                     connect domains of Driveline by `reach: network` instead"
                )
                .into())
            }
            [(key, server)] => {
                unfit(common, &self.calls.of, server)?;
                // Within a profile, a request goes to every server of the name.
                let beside: Vec<_> =
                    marked.into_iter().filter(|(_, p)| p.profile == server.profile).collect();
                if beside.is_empty() {
                    return Ok((*key, server.clone()));
                }
                Err(format!(
                    "a gateway of Driveline offers it as well ({}), and both would execute \
                     each request: stop one",
                    named(&beside)
                )
                .into())
            }
            several => Err(format!(
                "{} nodes offer it ({}), but a service has one server: stop the others",
                several.len(),
                named(several)
            )
            .into()),
        }
    }

    /// Offers it to nodes of the other profile, if requested and while a server is called.
    fn pass_across(&mut self, common: &Arc<GatewayState>, now: Instant) -> Result<(), Problem> {
        let current = self.current.filter(|_| self.passes_across && self.callable());
        let Some((_, server)) = self.servers.iter().find(|(key, _)| Some(*key) == current) else {
            self.across.let_go();
            return Ok(());
        };
        let to = server.profile.other();
        if !common.has(to) {
            return Ok(());
        }
        // The offer keeps the node name that it is made with, so wait until the server's node is
        // known.
        let named_within = common.transport(server.profile)?.named_within();
        if server.node.is_none()
            && self.asking.since().is_some_and(|since| now < since + named_within)
        {
            return Ok(());
        }
        self.across.broke(now);
        let (calls, node) = (&self.calls, ros_name_of(server.node.as_ref(), &server.gid));
        let kept = self.across.keep(now, || {
            let requests = Arc::new(Arc::downgrade(calls));
            common.transport(to)?.offer(&calls.of, &node, requests)
        });
        kept.map_err(|why| {
            Problem::missing(&format!("it does not pass from {} to {to}", server.profile), why)
        })
    }

    pub(super) fn own(&self) -> impl Iterator<Item = OwnEnds> {
        let asking = self.asking.get().map(|asking| asking.own());
        asking.into_iter().chain(self.across.get().map(|end| end.own()))
    }

    pub(super) fn problems(&self) -> Vec<String> {
        Problem::texts(&self.problems)
    }

    pub(super) fn callable(&self) -> bool {
        self.asking.get().is_some() && !self.blocked
    }

    pub(super) fn across(&self) -> Option<Profile> {
        self.across.get().and(self.current).map(|(profile, _)| profile.other())
    }

    /// All servers of the name, with the reason why each is not called.
    pub(super) fn servers_in_report(&self) -> Vec<Ros2Server> {
        let of = |(key, p): &(EndpointKey, ServiceEndpoint)| Ros2Server {
            node: written(p.node.as_ref()),
            profile: p.profile.to_string(),
            problem: match &self.current {
                Some(current) if current == key && !self.blocked => None,
                _ if p.gateway => Some("it is another gateway of Driveline".into()),
                _ => self.problems.first().map(|p| p.text.clone()),
            },
        };
        self.servers.iter().map(of).collect()
    }
}

/// Local side of the service for Driveline's clients.
struct OfferedHere {
    executor: Executor,
    outbox: Outbox,
    calls: Arc<CallsToRos>,
}

impl Upheld for OfferedHere {}

impl Drop for OfferedHere {
    /// Waits until clients can read their responses. A client that has called for the first time
    /// may not be connected to its responses yet. Without the wait it would get the error that the
    /// server went away.
    fn drop(&mut self) {
        self.executor.stop();
        let end = Instant::now() + READ_WITHIN;
        while (self.calls.hands_over() || !self.outbox.is_empty()) && Instant::now() < end {
            std::thread::sleep(READ_CHECK_EVERY);
        }
    }
}

/// Offers it to Driveline's clients.
fn offer_here(node: &Node, calls: &Arc<CallsToRos>) -> Result<OfferedHere, String> {
    let of = &calls.of;
    let options = ServiceOptions {
        reach: Reach::Host,
        max_response: of.max_response,
        max_clients: MAX_CLIENTS,
        max_pending: of.pending,
        max_held: MAX_HELD,
        ..ServiceOptions::default()
    };
    let text = |e: &dyn std::error::Error| e.to_string();
    let service = node
        .raw_service(of.service.as_str(), of.request.clone(), of.response.clone(), options)
        .map_err(|e| text(&e))?;
    let executor =
        Executor::new(ExecutorOptions { name: "dl-service".into(), ..ExecutorOptions::default() })
            .map_err(|e| text(&e))?;
    let callback = ServiceCallback {
        name: of.service.to_string(),
        group: executor.group(GroupKind::MutuallyExclusive),
    };
    let (outbox, of_callback) = (service.outbox(), calls.clone());
    executor
        .add_raw_service(service, callback, move |request| of_callback.here(request))
        .map_err(|e| text(&e))?;
    executor.start().map_err(|e| text(&e))?;
    Ok(OfferedHere { executor, outbox, calls: calls.clone() })
}

/// Returns the reason if a server cannot be called.
fn unfit(common: &GatewayState, of: &Interface, server: &ServiceEndpoint) -> Result<(), String> {
    let who = format!("the server {} by {}", whose(server.node.as_ref()), server.profile);
    if let Some(unable) = &server.unable {
        return Err(format!("{who}: {unable}"));
    }
    if server.type_name != of.ros.dds() {
        return Err(format!(
            "{who} has the type {}, and the rule {}: correct `type`",
            server.type_name,
            of.ros.dds()
        ));
    }
    match common.transport(server.profile)?.server_mismatch(of, server) {
        Some(mismatch) => Err(format!("{who} {mismatch}")),
        None => Ok(()),
    }
}
