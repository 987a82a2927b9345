// SPDX-License-Identifier: Apache-2.0
//! Asks hosts for the hosts that they hear, answers such requests, and connects to hosts that this
//! host does not hear: see [`crate::peer_discovery`].

use super::GatewayError;
use super::events::Event;
use super::gateway_state::GatewayState;
use super::reconnect::{Reconnect, start_of};
use crate::peer_discovery::{Attempt, PeerDiscovery};
use crate::wire::{HostId, KnownHosts, MAX_KNOWN_HOSTS_LEN, Parsed};
use driveline_gateway::zenoh_says;
use driveline_types::MonotonicNs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use zenoh::Wait;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::query::{ConsolidationMode, Query, QueryTarget};

/// Time-out of an answer.
const WITHIN: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct DiscoveryQueries {
    peer_discovery: PeerDiscovery,
    /// Current answer.
    answer: Arc<RwLock<Vec<u8>>>,
}

impl DiscoveryQueries {
    /// Starts to answer requests.
    pub(super) fn start(
        common: &GatewayState,
        peer_discovery: PeerDiscovery,
    ) -> Result<Self, GatewayError> {
        let answer = Arc::new(RwLock::new(peer_discovery.answer().encode()));
        let current = answer.clone();
        let reply = move |query: Query| {
            let answer = current.read().unwrap_or_else(PoisonError::into_inner).clone();
            // The answer is short, and a sender without an answer repeats the request.
            let _ = query.reply(query.key_expr().clone(), answer).wait();
        };
        let key = common.keys.key(&Parsed::Met(common.me.clone()));
        let declared =
            common.session.declare_queryable(key.clone()).callback(reply).background().wait();
        declared.map_err(|e| GatewayError::Declare { what: key, reason: zenoh_says(&e) })?;
        Ok(Self { peer_discovery, answer })
    }

    /// Asks the present hosts that are due, and makes the attempts that are due. Returns the time
    /// of the next check.
    pub(super) fn poll<'a>(
        &mut self,
        common: &GatewayState,
        reconnect: &Reconnect,
        here: impl Iterator<Item = &'a HostId>,
        now: MonotonicNs,
    ) -> Option<MonotonicNs> {
        let (due, ask) = self.peer_discovery.due(here, now);
        due.into_iter().for_each(|host| ask_for_known_hosts(common, host));
        let (attempt, next) =
            self.peer_discovery.attempt(now, |host| reconnect.may_meet(host.incarnation(), now));
        if let Some(Attempt { host, at, events }) = attempt {
            if let Some((by, tried)) = events {
                common.log(format!(
                    "host '{}' is heard by host '{}' and not reached from here, at {}: this \
                     gateway goes on trying; is the connection between the two down, or must one \
                     of them name the other under `connect`?",
                    host.name(),
                    by.name(),
                    tried.join(", ")
                ));
            }
            reconnect.connect(host.incarnation(), &[at]);
        }
        [ask, next].into_iter().flatten().min()
    }

    /// Handles an answer.
    pub(super) fn answered(&mut self, host: &HostId, bytes: &[u8], now: MonotonicNs) {
        let Some(answer) = KnownHosts::decode(bytes) else { return };
        self.peer_discovery.answered(host, answer, now);
        *self.answer.write().unwrap_or_else(PoisonError::into_inner) =
            self.peer_discovery.answer().encode();
    }
}

/// Asks a host for the hosts that it hears. Any session may answer; only the first answer of that
/// host's session counts.
fn ask_for_known_hosts(common: &GatewayState, host: HostId) {
    let (key, inbox) = (common.keys.key(&Parsed::Met(host.clone())), common.inbox.clone());
    let get = common
        .session
        .get(key)
        .timeout(WITHIN)
        .congestion_control(CongestionControl::Drop)
        .priority(Priority::DataHigh);
    // Without consolidation: answers of other sessions are not stored. All queryables are asked,
    // including incomplete ones.
    let get = get.consolidation(ConsolidationMode::None).target(QueryTarget::All);
    let is_answered = AtomicBool::new(false);
    let asked = get.callback(move |reply| {
        let replier = reply.replier_id().and_then(|id| start_of(&id.zid().to_string()));
        if let Ok(sample) = reply.result()
            && sample.payload().len() <= MAX_KNOWN_HOSTS_LEN
            && replier == Some(host.incarnation())
            && !is_answered.swap(true, Relaxed)
        {
            inbox.push(Event::Met {
                host: host.clone(),
                bytes: sample.payload().to_bytes().into_owned(),
            });
        }
    });
    // A failed request is repeated soon.
    let _ = asked.wait();
}
