// SPDX-License-Identifier: Apache-2.0
//! All services of the rules, for the control thread.

use super::counts::{Counts, Figures};
use super::driveline_server::DrivelineServer;
use super::retry::Wake;
use super::ros_server::RosServer;
use super::{Interface, OwnEnds, Role, ServiceChange, ServiceEndpoint};
use crate::engine::KIND;
use crate::engine::endpoint::{Handle, Profile};
use crate::engine::error::GatewayError;
use crate::engine::gateway_state::GatewayState;
use crate::engine::transport::Nodes;
use crate::names::RosNode;
use driveline::{Context, ContextOptions};
use driveline_gateway::Ros2ServiceReport;
use driveline_gateway::ros2::{ServedBy, ServiceRule};
use driveline_types::ServiceName;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of remembered servers of other nodes, and of clients, for the services that rules
/// name. Clients cannot displace servers.
const MAX_ENDPOINTS: usize = 4096;

/// Maximum number of unserved clients in a report.
const MAX_UNSERVED: usize = 16;

/// Key of a server or a client.
pub(super) type EndpointKey = (Profile, Handle);

/// Side of the server.
enum Side {
    Driveline(Box<DrivelineServer>),
    Ros(Box<RosServer>),
    /// Skipped for this reason.
    LeftOut(String),
}

struct Service {
    rule: ServiceRule,
    name: ServiceName,
    server: Side,
}

/// See the module.
pub(in crate::engine) struct Services {
    services: Vec<Service>,
    servers: HashMap<EndpointKey, ServiceEndpoint>,
    clients: HashMap<EndpointKey, ServiceEndpoint>,
    /// True if endpoints have changed, or their nodes have become known, since the last check.
    stirred: bool,
    too_many: bool,
    common: Arc<GatewayState>,
}

/// Name of an unnamed node in `driveline gateway list`.
const UNNAMED: &str = "a node without a name";

/// Formats a node for a list.
pub(super) fn listed(node: Option<&RosNode>) -> String {
    node.map_or_else(|| UNNAMED.to_owned(), RosNode::to_string)
}

/// Formats the node after "the server" or "the client".
pub(super) fn whose(node: Option<&RosNode>) -> String {
    node.map_or_else(|| format!("of {UNNAMED}"), |node| format!("'{node}'"))
}

/// Name of a node in ROS 2's form, or `?` if it is unknown.
pub(in crate::engine) fn written(node: Option<&RosNode>) -> String {
    node.map_or_else(|| "?".to_owned(), RosNode::to_string)
}

impl Services {
    pub(in crate::engine) fn start(common: &Arc<GatewayState>) -> Result<Self, GatewayError> {
        let (servers, clients) = (HashMap::new(), HashMap::new());
        let mut this = Self {
            services: Vec::new(),
            servers,
            clients,
            stirred: true,
            too_many: false,
            common: common.clone(),
        };
        if common.spec.services.is_empty() {
            return Ok(this);
        }
        let domain_dir = Some(common.participant.domain_dir().to_owned());
        let context = Context::new(ContextOptions { name: "gateway-ros2".into(), domain_dir })?;
        context.set_description(serde_json::json!({ "gateway": KIND }).to_string());
        let node = context.node(common.node.as_str())?;
        let control_thread = Arc::downgrade(common);
        let wake: Wake = Arc::new(move || {
            if let Some(common) = control_thread.upgrade() {
                common.wake();
            }
        });
        for rule in &common.spec.services {
            // The name was checked before.
            let Some(name) = rule.name() else { continue };
            let server = Interface::of(common, rule, &name).and_then(|of| match rule.server {
                ServedBy::Driveline => {
                    DrivelineServer::start(common, &node, &of, rule.timeout(), &wake)
                        .map(|server| Side::Driveline(Box::new(server)))
                }
                ServedBy::Ros => {
                    let people = common.clone();
                    let counts = Counts::new(move |line| people.log(line), name.to_string());
                    Ok(Side::Ros(Box::new(RosServer::new(&node, of, rule, counts, &wake))))
                }
            });
            let server = server.unwrap_or_else(|reason| {
                common.log(format!("service '/{name}' is left out: {reason}"));
                Side::LeftOut(reason)
            });
            this.services.push(Service { rule: rule.clone(), name, server });
        }
        Ok(this)
    }

    pub(in crate::engine) fn changed(&mut self, profile: Profile, change: ServiceChange) {
        match change {
            ServiceChange::Gone(handle) => {
                let gone = [&mut self.servers, &mut self.clients]
                    .map(|of_role| of_role.remove(&(profile, handle)));
                self.stirred |= gone.iter().any(Option::is_some);
            }
            ServiceChange::Here(endpoint)
                if !self.services.iter().any(|s| s.name == endpoint.service) => {}
            ServiceChange::Here(endpoint) => {
                let (of_role, what) = match endpoint.role {
                    Role::Server => (&mut self.servers, "servers"),
                    Role::Client => (&mut self.clients, "clients"),
                };
                if of_role.len() < MAX_ENDPOINTS {
                    of_role.insert((profile, endpoint.handle), *endpoint);
                    self.stirred = true;
                } else if !std::mem::replace(&mut self.too_many, true) {
                    self.common.log(format!(
                        "more than {MAX_ENDPOINTS} {what} of services in ROS 2: not all are used; \
                         end the program that makes them, then restart the gateway"
                    ));
                }
            }
        }
    }

    /// Notes that the nodes of endpoints have become known.
    pub(in crate::engine) fn named(&mut self) {
        self.stirred = true;
    }

    /// Does the work that is due. Returns the time of the next check.
    pub(in crate::engine) fn poll(&mut self, nodes: &Nodes) -> Option<Instant> {
        let stirred = std::mem::take(&mut self.stirred);
        let (servers, clients, common) = (&self.servers, &self.clients, &self.common);
        let mut next = None;
        for Service { name, server, .. } in &mut self.services {
            let name = &*name;
            let servers = || servers.iter().filter(|(_, p)| p.service == *name);
            let clients = || {
                clients
                    .values()
                    .filter(|p| p.service == *name)
                    .map(|p| p.gid)
                    .collect::<HashSet<_>>()
            };
            match server {
                Side::LeftOut(_) => {}
                Side::Driveline(server) => {
                    if stirred {
                        server.calls.present.set(clients());
                        server.others = servers()
                            .map(|(_, p)| listed(p.node.as_ref().or_else(|| nodes.get(&p.gid))))
                            .collect();
                    }
                    server.poll(common);
                }
                Side::Ros(server) => {
                    if stirred {
                        server.calls.present.set(clients());
                        let mut servers: Vec<_> =
                            servers().map(|(key, p)| (*key, p.clone())).collect();
                        servers.sort_by_key(|(_, p)| p.gid);
                        for (_, endpoint) in &mut servers {
                            endpoint.node =
                                endpoint.node.take().or_else(|| nodes.get(&endpoint.gid).cloned());
                        }
                        server.servers = servers;
                    }
                    server.poll(common);
                    let due = server.calls.end_overdue(Instant::now());
                    next = next.into_iter().chain(due).min();
                }
            }
        }
        next
    }

    /// Over DDS, endpoints for the ROS graph.
    pub(in crate::engine) fn own(&self) -> Vec<OwnEnds> {
        let mut all = Vec::new();
        for service in &self.services {
            match &service.server {
                Side::Driveline(server) => all.extend(server.own()),
                Side::Ros(server) => all.extend(server.own()),
                Side::LeftOut(_) => {}
            }
        }
        all.retain(|ends| !(ends.readers.is_empty() && ends.writers.is_empty()));
        all
    }

    pub(in crate::engine) fn report(&self, nodes: &Nodes) -> Vec<Ros2ServiceReport> {
        let of = |Service { rule, name, server }: &Service| {
            let endpoints = || self.clients.values().filter(|p| p.service == *name && !p.gateway);
            let node_of =
                |p: &ServiceEndpoint| p.node.clone().or_else(|| nodes.get(&p.gid).cloned());
            let clients: BTreeSet<_> = endpoints().map(|p| written(node_of(p).as_ref())).collect();
            let mut report = Ros2ServiceReport {
                service: name.to_string(),
                ros_type: rule.ros_type.clone(),
                from_ros: rule.server == ServedBy::Ros,
                clients: clients.into_iter().collect(),
                ..Ros2ServiceReport::default()
            };
            let mut figures = None;
            match server {
                Side::LeftOut(reason) => {
                    (report.left_out, report.problems) = (true, vec![reason.clone()])
                }
                Side::Driveline(server) => {
                    (report.problems, report.servers) = (server.problems(), server.servers());
                    figures = Some(server.calls.counts.figures());
                    report.under_way = server.calls.under_way();
                    report.callable = !report.servers.is_empty();
                }
                Side::Ros(server) => {
                    (report.problems, report.servers) =
                        (server.problems(), server.servers_in_report());
                    figures = Some(server.calls.counts.figures());
                    report.under_way = server.calls.under_way();
                    report.across = server.across().map(|profile| profile.to_string());
                    report.callable = server.callable();
                }
            }
            if let Some(Figures { calls, answered, ended, strays }) = figures {
                (report.calls, report.answered, report.ended, report.strays) =
                    (calls, answered, ended, strays);
            }
            // The gateway serves clients of a ROS 2 server only in the other profile.
            let ours = |p: &&ServiceEndpoint| {
                !report.from_ros || report.across.as_deref() == Some(p.profile.to_string().as_str())
            };
            let not_served = |p: &ServiceEndpoint| {
                Some(format!(
                    "the client {} by {} is not served: {}",
                    whose(node_of(p).as_ref()),
                    p.profile,
                    p.unable.as_ref()?
                ))
            };
            let not_served: BTreeSet<_> = endpoints().filter(ours).filter_map(not_served).collect();
            report.problems.extend(not_served.into_iter().take(MAX_UNSERVED));
            report
        };
        self.services.iter().map(of).collect()
    }
}

impl Interface {
    fn of(common: &GatewayState, rule: &ServiceRule, name: &ServiceName) -> Result<Self, String> {
        let types = common.types.service(&rule.ros_type).map_err(|e| e.to_string())?;
        let length = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(Self {
            service: name.clone(),
            ros: types.ros,
            hash: types.hash,
            request: types.request,
            response: types.response,
            max_request: length(rule.max_request.0),
            max_response: length(rule.max_response.0),
            pending: rule.pending,
        })
    }
}
