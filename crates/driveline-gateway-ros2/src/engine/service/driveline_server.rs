// SPDX-License-Identifier: Apache-2.0
//! A server in Driveline, for clients in ROS 2: `docs/protocols/ros2-services.md`, section 4.
//!
//! Requests arrive on threads of the profiles and are sent on the same thread. Outcomes arrive on
//! the thread of the service's executor, and are passed on there.

use super::clients::{Present, Seen};
use super::counts::Counts;
use super::payload::{Ended, Held, bounded, busy, encapsulated, fitting};
use super::problem::Problem;
use super::retry::{Retry, Wake};
use super::{Cdr, Handed, Interface, Offered, OwnEnds, Parts, Reply, RequestId, Requests};
use crate::engine::endpoint::Profile;
use crate::engine::gateway_state::GatewayState;
use crate::engine::lock;
use crate::names::ros_node;
use bytes::Bytes;
use driveline::service::RawCaller;
use driveline::{
    CallError, ClientOptions, Executor, ExecutorOptions, GroupKind, Node, RawSample, Reach,
    ServiceCallback,
};
use driveline_gateway::Ros2Server;
use driveline_types::NodeName;
use driveline_types::service::Outcome;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Reason if no server exists. It is not logged, because the server may start later.
const NO_SERVER: &str = "no server on this host offers it at host reach";

/// Request in flight.
struct Asked {
    client: Seen,
    /// Reply to the newest of repeated requests. The older ones get no answer.
    reply: Box<dyn Reply>,
}

/// Calls of ROS 2 clients, shared by the ends and the control thread.
pub(super) struct CallsToDriveline {
    /// For callbacks of calls in flight. Weak, so that they do not keep the gateway alive.
    this: Weak<Self>,
    of: Interface,
    timeout: Duration,
    caller: RawCaller,
    pub(super) counts: Counts,
    pub(super) present: Present,
    asked: Mutex<HashMap<RequestId, Asked>>,
    /// Lock so that one request is loaned and sent at a time, because the client has few loans.
    sending: Mutex<()>,
}

/// A service whose server is in Driveline.
pub(super) struct DrivelineServer {
    ends: BTreeMap<Profile, Retry<Box<dyn Offered>>>,
    /// Node of the server, while the service is offered.
    server: Option<String>,
    /// Reasons why it is not offered with some or all profiles, and the remark that nodes in ROS 2
    /// offer it as well.
    problems: Vec<Problem>,
    /// ROS 2 nodes that offer the same service.
    pub(super) others: Vec<String>,
    pub(super) calls: Arc<CallsToDriveline>,
    /// Dropped after the ends: calls in flight end with it.
    _executor: Executor,
}

impl DrivelineServer {
    pub(super) fn start(
        common: &Arc<GatewayState>,
        node: &Node,
        of: &Interface,
        timeout: Duration,
        wake: &Wake,
    ) -> Result<Self, String> {
        let text = |e: &dyn std::error::Error| e.to_string();
        let options = ClientOptions {
            reach: Reach::Host,
            max_request: of.max_request,
            pending: of.pending,
            ..ClientOptions::default()
        };
        let client = node
            .raw_client(of.service.as_str(), of.request.clone(), of.response.clone(), options)
            .map_err(|e| text(&e))?;
        let executor = Executor::new(ExecutorOptions {
            name: "dl-service".into(),
            ..ExecutorOptions::default()
        })
        .map_err(|e| text(&e))?;
        let callback = ServiceCallback {
            name: of.service.to_string(),
            group: executor.group(GroupKind::MutuallyExclusive),
        };
        let (caller, _) = executor.add_raw_client(client, callback).map_err(|e| text(&e))?;
        let control_thread = wake.clone();
        caller.watch_servers(move || control_thread());
        executor.start().map_err(|e| text(&e))?;
        let people = common.clone();
        let counts = Counts::new(move |line| people.log(line), of.service.to_string());
        let (present, asked, sending) = (Present::default(), Mutex::default(), Mutex::default());
        let of = of.clone();
        let calls = Arc::new_cyclic(|this| CallsToDriveline {
            this: this.clone(),
            of,
            timeout,
            caller,
            counts,
            present,
            asked,
            sending,
        });
        let ends = common.profiles().map(|profile| (profile, Retry::new(wake))).collect();
        Ok(Self {
            ends,
            server: None,
            problems: Vec::new(),
            others: Vec::new(),
            calls,
            _executor: executor,
        })
    }

    /// Offers the service while there is exactly one matching server, and logs changes.
    pub(super) fn poll(&mut self, common: &Arc<GatewayState>) {
        let server = self.calls.caller.server();
        if self.server.as_ref() != server.as_ref().ok() {
            self.ends.values_mut().for_each(Retry::let_go);
            self.server = None;
        }
        let problems = match server {
            Ok(server) => self.offer(common, server),
            Err(CallError::NoServer { .. }) => vec![Problem::quiet(NO_SERVER)],
            Err(e @ CallError::Mismatch { .. }) => {
                let of = &self.calls.of.ros;
                vec![
                    format!(
                        "{e}; a service for ROS 2 has CDR bytes, with the schemas of \
                         {of}_Request and {of}_Response"
                    )
                    .into(),
                ]
            }
            Err(e) => vec![e.to_string().into()],
        };
        let problems: Vec<_> =
            problems.into_iter().chain(self.doubled().map(Problem::from)).collect();
        Problem::log_new(&problems, &self.problems, |p| {
            common.log(format!("service '/{}' for ROS 2: {p}", self.calls.of.service))
        });
        self.problems = problems;
    }

    /// Problem that ROS 2 nodes offer the same service.
    fn doubled(&self) -> Option<String> {
        let others = Some(self.others.join(", ")).filter(|others| !others.is_empty())?;
        Some(if self.own().next().is_some() {
            format!(
                "nodes in ROS 2 offer it as well ({others}), and more than one would execute \
                 requests: stop one, or rename it"
            )
        } else if self.server.is_none() {
            format!(
                "nodes in ROS 2 offer it ({others}): write `server: ros` in its rule, for clients \
                 here to call them"
            )
        } else {
            return None;
        })
    }

    pub(super) fn problems(&self) -> Vec<String> {
        Problem::texts(&self.problems)
    }

    fn offer(&mut self, common: &Arc<GatewayState>, server: String) -> Vec<Problem> {
        let node: Result<NodeName, _> = server.parse();
        let node = node.map_or_else(|_| ros_node(&common.node), |node| ros_node(&node));
        let (mut problems, calls, now) = (Vec::new(), &self.calls, Instant::now());
        for (profile, end) in &mut self.ends {
            end.broke(now);
            let kept = end.keep(now, || {
                let requests = Arc::new(Arc::downgrade(calls));
                common.transport(*profile)?.offer(&calls.of, &node, requests)
            });
            problems.extend(kept.err().map(|why| Problem::missing(&format!("by {profile}"), why)));
        }
        self.server = Some(server);
        problems
    }

    pub(super) fn own(&self) -> impl Iterator<Item = OwnEnds> {
        self.ends.values().filter_map(Retry::get).map(|end| end.own())
    }

    /// Servers with their profiles, if the service is offered.
    pub(super) fn servers(&self) -> Vec<Ros2Server> {
        let node = || self.server.clone().unwrap_or_default();
        let of = |profile: &Profile| Ros2Server {
            node: node(),
            profile: profile.to_string(),
            problem: None,
        };
        self.ends
            .iter()
            .filter(|(_, end)| end.get().is_some())
            .map(|(profile, _)| of(profile))
            .collect()
    }
}

impl CallsToDriveline {
    pub(super) fn under_way(&self) -> usize {
        lock(&self.asked).len() + self.counts.kept()
    }

    fn refuse(&self, from: RequestId, reason: &'static str, text: &str) {
        self.counts.ended(reason, text);
        let asked = lock(&self.asked).remove(&from);
        if let Some(asked) = asked {
            asked.reply.refuse(text);
        }
    }

    /// Copies a request into a loan, and sends it.
    fn send(&self, from: RequestId, request: Cdr<'_>) -> Result<(), Ended> {
        bounded(request.len(), "request", self.of.max_request)?;
        let _one = lock(&self.sending);
        let mut loan = self.caller.loan(request.len()).map_err(|e| ("not_sent", e.to_string()))?;
        request.copy_to(loan.payload_mut());
        encapsulated(loan.payload(), "request")?;
        let calls = self.this.clone();
        let then = move |outcome| {
            if let Some(calls) = calls.upgrade() {
                calls.outcome(from, outcome);
            }
        };
        self.caller.call_then(loan, self.timeout, then).map_err(|e| (name_of(&e), e.to_string()))
    }

    /// Handles an outcome. Called on the executor's thread.
    fn outcome(&self, from: RequestId, outcome: Result<RawSample, CallError>) {
        let sample = match outcome {
            Ok(sample) => sample,
            Err(e) => return self.refuse(from, name_of(&e), &e.to_string()),
        };
        let slot = Bytes::from_owner(Held(sample));
        let response = match fitting(&slot, "response", self.of.max_response) {
            Ok(response) => response,
            Err((reason, text)) => return self.refuse(from, reason, &text),
        };
        let Some(Asked { client, reply }) = lock(&self.asked).remove(&from) else { return };
        let gone = self.present.has_gone(client);
        match reply.answer(Parts { cdr: response.parts(), slot: Some(&slot) }) {
            Ok(Handed::Kept) => {}
            _ if gone => self
                .counts
                .ended("client_gone", "the client in ROS 2 has gone before its answer came"),
            Ok(Handed::Over) => self.counts.answered(),
            Err((reason, text)) => self.counts.ended(reason, &text),
        }
    }
}

impl Requests for CallsToDriveline {
    fn request(&self, from: RequestId, request: Cdr<'_>, reply: Box<dyn Reply>) {
        self.counts.call();
        let asked = Asked { client: self.present.see(from.client), reply };
        let before = {
            let mut under_way = lock(&self.asked);
            if under_way.len() >= self.of.pending as usize && !under_way.contains_key(&from) {
                drop(under_way);
                let text = busy(self.of.pending);
                self.counts.ended("busy", &text);
                return asked.reply.refuse(&text);
            }
            under_way.insert(from, asked)
        };
        if before.is_some() {
            return self.counts.ended(
                "duplicate",
                "a client has repeated a request that is in flight: it is not executed twice",
            );
        }
        if let Err((reason, text)) = self.send(from, request) {
            self.refuse(from, reason, &text);
        }
    }

    fn dropped(&self, reason: &'static str, text: &str) {
        self.counts.call();
        self.counts.ended(reason, text);
    }

    fn stray(&self, reason: &'static str, text: &str) {
        self.counts.stray(reason, text);
    }

    fn keep(&self) {
        self.counts.keep();
    }

    fn settled(&self, outcome: Result<(), (&'static str, &str)>) {
        self.counts.settled(outcome);
    }
}

/// Counter name of a call without a response.
fn name_of(e: &CallError) -> &'static str {
    match e {
        CallError::TimedOut { .. } => "timed_out",
        CallError::ServerGone { .. } => "server_gone",
        CallError::NoServer { .. }
        | CallError::Mismatch { .. }
        | CallError::SeveralServers { .. } => "no_server",
        CallError::Busy { .. }
        | CallError::QueueFull { .. }
        | CallError::Refused { outcome: Outcome::NoRoom, .. } => "busy",
        CallError::Refused { .. } => "refused",
        _ => "not_sent",
    }
}
