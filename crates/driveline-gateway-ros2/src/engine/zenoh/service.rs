// SPDX-License-Identifier: Apache-2.0
//! Ends of services, as in nodes on rmw_zenoh: `docs/protocols/ros2-services.md`, section 6.

use super::endpoint::payload;
use super::{Announced, Session, text};
use crate::discovery_info::Gid;
use crate::engine::lock;
use crate::engine::service::{
    Answers, Asking, Cdr, Ended, Handed, Interface, Offered, Parts, Reply, RequestId, Requests, qos,
};
use crate::names::RosNode;
use crate::rmw_zenoh::{Attachment, Kind, TokenEndpoint, TokenQos, key_hash, topic_key};
use driveline_gateway::ros2;
use driveline_types::service::cut_refusal;
use driveline_types::{MonotonicNs, wall_offset_ns};
use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::qos::CongestionControl;
use zenoh::query::{ConsolidationMode, Query, QueryTarget, Queryable, Reply as QueryReply};
use zenoh::sample::Locality;

/// Default history depth of ROS 2 services.
const DEPTH: u32 = 10;
/// Additional time for which Zenoh keeps a query after the time-out of its call.
const GRACE: Duration = Duration::from_secs(2);

/// Key and token of a service.
fn place(
    session: &Session,
    release: ros2::Release,
    of: &Interface,
) -> Result<(String, TokenEndpoint), String> {
    let hash = key_hash(of.hash, release).ok_or_else(|| {
        format!(
            "the definition of {} is not complete, so its hash is not known; name its packages \
             under `types`",
            of.ros
        )
    })?;
    let type_name = of.ros.dds();
    let qos = TokenQos { endpoint: qos(), keep_all: false, depth: DEPTH, ..TokenQos::default() };
    let key = topic_key(session.domain, of.service.as_str(), &type_name, &hash);
    Ok((key, TokenEndpoint { topic: format!("/{}", of.service), type_name, hash, qos }))
}

fn attachment_of(bytes: Option<&ZBytes>) -> Result<Attachment, String> {
    let bytes = bytes.ok_or("it has no attachment")?;
    if bytes.len() != Attachment::LEN {
        return Err(format!("its attachment has {} bytes, not {}", bytes.len(), Attachment::LEN));
    }
    Attachment::decode(&bytes.to_bytes()).map_err(text)
}

fn stamped(sequence: i64, gid: Gid) -> [u8; Attachment::LEN] {
    let source_timestamp = MonotonicNs::now().0.cast_signed().wrapping_add(wall_offset_ns());
    Attachment { sequence, source_timestamp, gid }.encode()
}

/// Queryable and its announcement, dropped in this order. `None` after the withdrawal.
struct ZenohOffered(Mutex<Option<(Queryable<()>, Announced)>>);

impl Offered for ZenohOffered {
    fn withdraw(&self) {
        drop(lock(&self.0).take());
    }
}

/// Offers a service to nodes on rmw_zenoh, under the name of a node.
pub(in crate::engine) fn offer(
    session: &Session,
    release: ros2::Release,
    of: &Interface,
    node: &RosNode,
    requests: Arc<dyn Requests>,
) -> Result<Box<dyn Offered>, String> {
    let (key, endpoint) = place(session, release, of)?;
    let declare = || {
        let reply_key = key.clone();
        let queryable =
            session.session.declare_queryable(&key).complete(true).allowed_origin(Locality::Remote);
        queryable.callback(move |query| heard(query, &reply_key, &*requests)).wait().map_err(text)
    };
    let declared = session.announce(node, Kind::Service, endpoint, declare)?;
    Ok(Box::new(ZenohOffered(Mutex::new(Some(declared)))))
}

/// Handles a query. Called on Zenoh's thread.
fn heard(query: Query, key: &str, requests: &dyn Requests) {
    let attachment = match attachment_of(query.attachment()) {
        Ok(attachment) => attachment,
        Err(e) => {
            requests.dropped("attachment", &e);
            // The sender may be gone.
            let _ = query.reply_err(format!("the request cannot be read: {e}")).wait();
            return;
        }
    };
    let id = RequestId { client: attachment.gid, sequence: attachment.sequence };
    let payload = query.payload().cloned().unwrap_or_default();
    let bytes = payload.to_bytes();
    requests.request(
        id,
        Cdr([&bytes, &[]]),
        Box::new(ZenohReply { query, key: key.to_owned(), id }),
    );
}

struct ZenohReply {
    query: Query,
    key: String,
    id: RequestId,
}

impl Reply for ZenohReply {
    fn answer(self: Box<Self>, response: Parts<'_>) -> Result<Handed, Ended> {
        let attachment = stamped(self.id.sequence, self.id.client);
        let not_sent = |why| ("not_sent", why);
        let reply =
            self.query.reply(&self.key, payload(&response.cdr, response.slot).map_err(not_sent)?);
        reply
            .attachment(&attachment[..])
            .wait()
            .map(|()| Handed::Over)
            .map_err(|e| not_sent(text(e)))
    }

    fn refuse(self: Box<Self>, text: &str) {
        // If the error does not reach the client, the client has a time-out.
        let _ = self.query.reply_err(cut_refusal(text)).wait();
    }
}

struct ZenohAsking {
    session: zenoh::Session,
    key: String,
    answers: Arc<dyn Answers>,
    /// Id in its token.
    gid: Gid,
    /// Announcement to others. `None` after the withdrawal.
    announced: Mutex<Option<Announced>>,
}

/// Calls a server on rmw_zenoh, under the name of a node. The key alone selects the server: every
/// session that offers the service.
pub(in crate::engine) fn ask(
    session: &Session,
    release: ros2::Release,
    of: &Interface,
    node: &RosNode,
    answers: Arc<dyn Answers>,
) -> Result<Arc<dyn Asking>, String> {
    let (key, endpoint) = place(session, release, of)?;
    let ((), announced) = session.announce(node, Kind::Client, endpoint, || Ok(()))?;
    let (gid, announced) = (announced.gid, Mutex::new(Some(announced)));
    Ok(Arc::new(ZenohAsking { session: session.session.clone(), key, answers, gid, announced }))
}

impl Asking for ZenohAsking {
    fn withdraw(&self) {
        drop(lock(&self.announced).take());
    }

    fn ask(&self, call: i64, request: Parts<'_>, timeout: Duration) -> Result<(), String> {
        let gid = self.gid;
        let state = Arc::new(AtomicU8::new(ASKING));
        let begun = Instant::now();
        let asked = Asked {
            answers: self.answers.clone(),
            call,
            gid,
            state: state.clone(),
            begun,
            timeout,
        };
        // As in rmw_zenoh: if there are several servers, all answer.
        let query = self
            .session
            .get(&self.key)
            .target(QueryTarget::AllComplete)
            .consolidation(ConsolidationMode::None);
        let query = query
            .allowed_destination(Locality::Remote)
            .congestion_control(CongestionControl::Block);
        let query =
            query.payload(payload(&request.cdr, request.slot)?).attachment(&stamped(call, gid)[..]);
        query
            .timeout(timeout.saturating_add(GRACE))
            .callback(move |reply| asked.heard(&reply))
            .wait()
            .map_err(text)?;
        if state.compare_exchange(ASKING, ASKED, AcqRel, Acquire) == Err(LOST) {
            self.answers.failed(call, WENT_AWAY);
        }
        Ok(())
    }
}

/// State of a query: it is not known yet whether Zenoh has accepted it.
const ASKING: u8 = 0;
/// Zenoh has accepted it.
const ASKED: u8 = 1;
/// The outcome was reported, or an error arrived after the time-out of the call.
const ENDED: u8 = 2;
/// Zenoh has dropped the callback before it was known whether Zenoh has accepted the query, so
/// nothing was reported yet. The failure is reported if Zenoh has accepted it: if the query returns
/// an error, nothing may be reported.
const LOST: u8 = 3;

const WENT_AWAY: &str = "it, or the way to it, went away without a response";

/// Query in flight. Zenoh drops it when no more replies can arrive.
struct Asked {
    answers: Arc<dyn Answers>,
    call: i64,
    gid: Gid,
    state: Arc<AtomicU8>,
    begun: Instant,
    timeout: Duration,
}

impl Asked {
    /// Handles a reply. Called on Zenoh's thread.
    fn heard(&self, reply: &QueryReply) {
        let sample = match reply.result() {
            Ok(sample) => sample,
            // The caller has its own time-out. Zenoh reports a time-out of the query as an error
            // that looks like an error of the server.
            Err(_) if self.begun.elapsed() >= self.timeout => {
                return self.state.store(ENDED, Release);
            }
            Err(e) => {
                let said = e.payload().to_bytes();
                let said = String::from_utf8_lossy(&said);
                self.state.store(ENDED, Release);
                return self.answers.failed(
                    self.call,
                    &format!("it answered with an error: {}", cut_refusal(&said)),
                );
            }
        };
        match attachment_of(sample.attachment()) {
            Ok(a) if (a.sequence, a.gid) == (self.call, self.gid) => {
                self.state.store(ENDED, Release);
                self.answers.answered(self.call, Cdr([&sample.payload().to_bytes(), &[]]));
            }
            Ok(a) => self.answers.stray(
                "stray",
                &format!(
                    "a reply to call {} says that it answers {}, or another client",
                    self.call, a.sequence
                ),
            ),
            Err(e) => self.answers.stray("stray", &format!("a reply to call {}: {e}", self.call)),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.state.compare_exchange(ASKING, LOST, AcqRel, Acquire) == Err(ASKED) {
            self.answers.failed(self.call, WENT_AWAY);
        }
    }
}
