// SPDX-License-Identifier: Apache-2.0
//! Servers and clients of services on rmw_zenoh as seen on the wire. Like `rmw.rs`, this file uses
//! no code of the gateway.

use super::eventually;
use super::rmw::{Node, Qos, gid};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zenoh::liveliness::LivelinessToken;
use zenoh::query::{ConsolidationMode, Querier, Query, QueryTarget, Queryable};
use zenoh::{Session, Wait};

/// QoS of services.
const QOS: &str = "rv10";

pub(crate) fn attachment(number: i64, gid: [u8; 16]) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let mut bytes = [number.to_le_bytes(), now.to_le_bytes()].concat();
    bytes.push(16);
    bytes.extend(gid);
    bytes
}

/// Returns number and gid.
fn read(attachment: &[u8]) -> (i64, [u8; 16]) {
    assert_eq!((attachment.len(), attachment[16]), (33, 16), "anything else aborts rclcpp");
    (i64::from_le_bytes(attachment[..8].try_into().unwrap()), attachment[17..].try_into().unwrap())
}

/// Client. Dropping it withdraws its token; calls in flight continue.
pub(crate) struct Client {
    session: Session,
    key: String,
    /// Shows whether the client knows a server. A request sent before that reaches no server.
    matching: Querier<'static>,
    pub(crate) gid: [u8; 16],
    number: i64,
    _token: LivelinessToken,
}

/// Number and response, or text of an error.
type Heard = Result<(i64, Vec<u8>), String>;

#[derive(Default)]
struct Replies {
    replies: Mutex<Vec<Heard>>,
    final_came: AtomicBool,
}

/// Call in flight, and its outcome.
pub(crate) struct Call {
    replies: Arc<Replies>,
    pub(crate) number: i64,
}

struct AtEnd(Arc<Replies>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.final_came.store(true, Ordering::Release);
    }
}

impl Node {
    pub(crate) fn client(&self, service: &str, of: (&str, &str)) -> Client {
        let token = self.token("SC", service, of, Qos::of(QOS));
        let gid = gid(&token);
        let token = self.session.liveliness().declare_token(token).wait().unwrap();
        let (session, key) = (self.session.clone(), self.key(service, of));
        let matching =
            session.declare_querier(key.clone()).target(QueryTarget::AllComplete).wait().unwrap();
        Client { session, key, matching, gid, number: 0, _token: token }
    }

    pub(crate) fn server(&self, service: &str, of: (&str, &str)) -> Server {
        let key = self.key(service, of);
        let asked = Arc::<Mutex<VecDeque<Query>>>::default();
        let queue = asked.clone();
        let queryable = self.session.declare_queryable(&key).complete(true);
        let queryable =
            queryable.callback(move |query| queue.lock().unwrap().push_back(query)).wait().unwrap();
        let token = self.token("SS", service, of, Qos::of(QOS));
        let token = self.session.liveliness().declare_token(token).wait().unwrap();
        Server { asked, key, _queryable: queryable, _token: token }
    }
}

impl Client {
    #[track_caller]
    pub(crate) fn call(&mut self, request: &[u8]) -> Call {
        self.number += 1;
        self.call_as(Some(attachment(self.number, self.gid)), request)
    }

    /// Repeats the last call, as a client does if it believes that the call was lost.
    pub(crate) fn call_again(&mut self, request: &[u8]) -> Call {
        self.call_as(Some(attachment(self.number, self.gid)), request)
    }

    #[track_caller]
    pub(crate) fn call_as(&self, attachment: Option<Vec<u8>>, request: &[u8]) -> Call {
        eventually("a server is known", || self.has_server());
        self.ask(attachment, request)
    }

    pub(crate) fn has_server(&self) -> bool {
        self.matching.matching_status().wait().unwrap().matching()
    }

    fn ask(&self, attachment: Option<Vec<u8>>, request: &[u8]) -> Call {
        let replies = Arc::<Replies>::default();
        let (at_end, gid) = (AtEnd(replies.clone()), self.gid);
        let get = self
            .session
            .get(&self.key)
            .target(QueryTarget::AllComplete)
            .consolidation(ConsolidationMode::None);
        let get = get.timeout(Duration::from_secs(600)).payload(request).attachment(attachment);
        let heard = move |reply: zenoh::query::Reply| {
            let reply = match reply.result() {
                Ok(sample) => {
                    let (number, to) = read(&sample.attachment().expect("mandatory").to_bytes());
                    assert_eq!(to, gid, "it echoes the client");
                    Ok((number, sample.payload().to_bytes().into_owned()))
                }
                Err(e) => Err(String::from_utf8_lossy(&e.payload().to_bytes()).into_owned()),
            };
            at_end.0.replies.lock().unwrap().push(reply);
        };
        get.callback(heard).wait().unwrap();
        Call { replies, number: self.number }
    }
}

impl Call {
    pub(crate) fn replies(&self) -> Vec<Heard> {
        self.replies.replies.lock().unwrap().clone()
    }

    /// Waits for the only reply: the response, which is for this call, or the text of the error.
    #[track_caller]
    pub(crate) fn outcome(&self) -> Result<Vec<u8>, String> {
        eventually("a reply came", || !self.replies().is_empty());
        eventually("and no other one comes", || self.has_ended());
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1, "one call, one reply");
        replies.remove(0).map(|(number, response)| {
            assert_eq!(number, self.number, "it echoes the number");
            response
        })
    }

    /// Returns true if no more replies can come.
    pub(crate) fn has_ended(&self) -> bool {
        self.replies.final_came.load(Ordering::Acquire)
    }
}

/// Server whose requests the test answers itself.
pub(crate) struct Server {
    asked: Arc<Mutex<VecDeque<Query>>>,
    key: String,
    _queryable: Queryable<()>,
    _token: LivelinessToken,
}

/// Request. If it is dropped, its query ends without a reply.
pub(crate) struct Request {
    query: Query,
    key: String,
    pub(crate) number: i64,
    pub(crate) gid: [u8; 16],
    pub(crate) payload: Vec<u8>,
}

impl Server {
    /// Waits for the next request.
    #[track_caller]
    pub(crate) fn take(&self) -> Request {
        eventually("a request came", || !self.asked.lock().unwrap().is_empty());
        let query = self.asked.lock().unwrap().pop_front().unwrap();
        let (number, gid) = read(&query.attachment().expect("mandatory").to_bytes());
        let payload = query.payload().unwrap().to_bytes().into_owned();
        Request { query, key: self.key.clone(), number, gid, payload }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Request {
    /// Replies; may be called repeatedly, but only the first reply is a response.
    pub(crate) fn reply(&self, response: &[u8]) {
        self.reply_as(self.number, self.gid, response);
    }

    pub(crate) fn reply_as(&self, number: i64, gid: [u8; 16], response: &[u8]) {
        self.query.reply(&self.key, response).attachment(attachment(number, gid)).wait().unwrap();
    }

    pub(crate) fn reply_without_attachment(&self, response: &[u8]) {
        self.query.reply(&self.key, response).wait().unwrap();
    }
}
