// SPDX-License-Identifier: Apache-2.0
//! Zenoh session for nodes on rmw_zenoh: `docs/protocols/ros2-zenoh.md`.

mod config;
mod discovery;
mod endpoint;
mod feed;
mod inbox;
mod neighbours;
mod nodes;
mod reconnect;
mod routers;
mod service;
mod transport;
mod writer;

pub(super) use config::UNANSWERED;
#[cfg(test)]
pub(super) use feed::{GRACE, pieces};
pub(super) use transport::{ZenohDiscovery, ZenohTransport};

use super::endpoint::Changes;
use super::error::GatewayError;
use super::lock;
use super::waiting::Waiting;
use crate::discovery_info::Gid;
use crate::names::RosNode;
use crate::rmw_zenoh::{GATEWAY_ENCLAVE, Kind, Token, TokenEndpoint, gid_of};
use discovery::Discovery;
use driveline_gateway::ros2::Ros2ZenohSpec;
use driveline_gateway::{NetworkReport, zenoh_says};
use driveline_zenoh::{InFlight, Opened, OwnRuntime};
use nodes::{OwnNode, OwnNodes};
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;

/// Ids of this session's own endpoints, whose samples are ignored.
type OwnIds = Arc<Mutex<HashSet<Gid>>>;

/// Announcement of an endpoint of the gateway. It ends when this value is dropped.
pub(super) struct Announced {
    gid: Gid,
    ids: OwnIds,
    _token: LivelinessToken,
    /// Dropped after its endpoint.
    _node: Arc<OwnNode<LivelinessToken>>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        lock(&self.ids).remove(&self.gid);
    }
}

/// The gateway's Zenoh session.
pub(super) struct Session {
    discovery: Arc<Discovery>,
    own_ids: OwnIds,
    nodes: OwnNodes<LivelinessToken>,
    next_id: AtomicU64,
    pub(super) domain: u32,
    connects: Vec<String>,
    routers: Mutex<routers::Routers>,
    reconnect: reconnect::Reconnect,
    under_way: InFlight<()>,
    /// Dropped after everything above that belongs to it.
    session: zenoh::Session,
    /// Dropped after the session.
    _runtime: OwnRuntime,
}

fn text(e: impl ToString) -> String {
    e.to_string()
}

impl Session {
    /// Opens a session. `longest`: maximum payload, in bytes. Returns at once; routers and nodes
    /// are found later, and wake `waiting`.
    pub(super) fn open(
        spec: &Ros2ZenohSpec,
        domain: u32,
        longest: u64,
        waiting: Arc<Waiting>,
    ) -> Result<Self, GatewayError> {
        let refused = |e: zenoh::Error| GatewayError::Zenoh {
            endpoints: spec.listen.join(", "),
            reason: zenoh_says(&e),
        };
        let opened = Opened::new(config::session(spec, longest)?).map_err(refused)?;
        let under_way = InFlight::default();
        let reconnect =
            reconnect::Reconnect::new(&opened, &spec.connect, under_way.clone(), waiting.clone())
                .map_err(refused)?;
        let Opened { session, runtime } = opened;
        let discovery = Arc::new(Discovery::new(session.zid().to_string(), waiting));
        let found = discovery.clone();
        let tokens =
            session.liveliness().declare_subscriber(format!("@ros2_lv/{domain}/**")).history(true);
        tokens.callback(move |sample| found.token(&sample)).background().wait().map_err(refused)?;
        Ok(Self {
            discovery,
            own_ids: OwnIds::default(),
            nodes: OwnNodes::default(),
            next_id: AtomicU64::new(0),
            domain,
            connects: spec.connect.clone(),
            routers: Mutex::new(routers::Routers::new(Instant::now())),
            reconnect,
            under_way,
            session,
            _runtime: runtime,
        })
    }

    /// Returns the changes.
    pub(super) fn take(&self) -> Changes {
        self.discovery.take()
    }

    /// Reconnects to lost nodes. Returns the time of the next check.
    pub(super) fn connect_again(&self) -> Option<Instant> {
        self.reconnect.poll(Instant::now())
    }

    /// Gives up samples that are being passed to Zenoh, unless Zenoh accepts them soon. Called
    /// before the session is closed.
    pub(super) fn give_up(&self) {
        self.under_way.give_up(&self.session);
    }

    /// Returns lines for the log since the last call.
    pub(super) fn troubles(&self) -> Vec<String> {
        let mut troubles = self.discovery.troubles();
        let neighbours = || {
            (
                self.session.info().routers_zid().wait().count(),
                self.session.info().peers_zid().wait().count(),
            )
        };
        troubles.extend(lock(&self.routers).poll(Instant::now(), &self.connects, neighbours));
        troubles
    }

    /// Sessions of other gateways with tokens here.
    pub(super) fn gateways(&self) -> BTreeSet<String> {
        self.discovery.gateways()
    }

    /// Number of unreadable tokens so far.
    pub(super) fn malformed(&self) -> u64 {
        self.discovery.malformed()
    }

    /// Returns its Zenoh id.
    pub(super) fn id(&self) -> String {
        self.session.zid().to_string()
    }

    pub(super) fn report(&self) -> NetworkReport {
        let info = self.session.info();
        NetworkReport {
            listens: info.locators().wait().iter().map(ToString::to_string).collect(),
            connects: self.connects.clone(),
            interface: None,
            peers: info.peers_zid().wait().count(),
            routers: info.routers_zid().wait().count(),
            router_missing: lock(&self.routers).is_missing(),
            ..NetworkReport::default()
        }
    }

    fn number(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn token(
        &self,
        RosNode { namespace, name: node }: &RosNode,
        node_id: u64,
        id: u64,
        kind: Kind,
        endpoint: Option<TokenEndpoint>,
    ) -> String {
        let (enclave, session) = (GATEWAY_ENCLAVE.to_owned(), self.session.zid().to_string());
        let (namespace, node) = (namespace.clone(), node.clone());
        Token {
            domain: self.domain,
            session,
            node_id,
            id,
            kind,
            enclave,
            namespace,
            node,
            endpoint,
        }
        .to_string()
    }

    /// Returns the node of this name, which exists while it has an owner.
    fn node(&self, name: &RosNode) -> Result<Arc<OwnNode<LivelinessToken>>, String> {
        let declare = |id| {
            let token = self.token(name, id, id, Kind::Node, None);
            self.session.liveliness().declare_token(token).wait().map_err(text)
        };
        self.nodes.get(name, || self.number(), declare)
    }

    /// Makes an endpoint with `declare`, and announces it. Its id is in `own_ids` before `declare`
    /// is called, so its own samples are recognised from the start. Other nodes see it after
    /// `declare`, by its token.
    fn announce<T>(
        &self,
        node: &RosNode,
        kind: Kind,
        endpoint: TokenEndpoint,
        declare: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, Announced), String> {
        let node_token = self.node(node)?;
        let token = self.token(node, node_token.id, self.number(), kind, Some(endpoint));
        let gid = gid_of(&token);
        lock(&self.own_ids).insert(gid);
        let declared = declare().and_then(|made| {
            Ok((made, self.session.liveliness().declare_token(token).wait().map_err(text)?))
        });
        let (made, token) = declared.inspect_err(|_| {
            lock(&self.own_ids).remove(&gid);
        })?;
        Ok((made, Announced { gid, ids: self.own_ids.clone(), _token: token, _node: node_token }))
    }
}
