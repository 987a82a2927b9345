// SPDX-License-Identifier: Apache-2.0
//! Offers a service to nodes on CycloneDDS.

use super::{WITHIN, Wire, text, unable};
use crate::dds;
use crate::discovery_info::is_gateway;
use crate::engine::lock;
use crate::engine::service::{
    Cdr, Ended, Handed, Interface, Offered, OwnEnds, Parts, Reply, RequestId, Requests,
};
use crate::names::RosNode;
use crate::rmw_cyclonedds::{CallId, Role};
use driveline_gateway::ros2::Release;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// Response whose client's reader is not matched yet.
struct Parked {
    until: Instant,
    /// Id of the client.
    client: String,
    call: CallId,
    response: Vec<u8>,
}

/// Reason why a response is dropped.
const NO_READER: &str = "no client reads the response";

struct Shared {
    wire: Wire,
    requests: Arc<dyn Requests>,
    parked: Mutex<Vec<Parked>>,
    /// Maximum number of parked responses.
    pending: usize,
}

struct DdsOffered {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Offers a service to nodes over DDS, under the name of a node.
pub(in crate::engine) fn offer(
    dds: &dds::Participant,
    release: Release,
    of: &Interface,
    node: &RosNode,
    requests: Arc<dyn Requests>,
) -> Result<Box<dyn Offered>, String> {
    let wire = Wire::open(dds, release, of, node, Role::Server)?;
    let shared =
        Arc::new(Shared { wire, requests, parked: Mutex::default(), pending: of.pending as usize });
    let of_thread = shared.clone();
    let run = move || {
        let trouble = |text: &str| of_thread.requests.stray("not_read", text);
        of_thread.wire.run(
            || of_thread.unpark(),
            |sample| of_thread.heard(&of_thread, sample),
            trouble,
        );
    };
    let thread =
        std::thread::Builder::new().name("dl-offers-dds".into()).spawn(run).map_err(text)?;
    Ok(Box::new(DdsOffered { shared, threads: vec![thread] }))
}

impl Offered for DdsOffered {
    fn withdraw(&self) {
        self.shared.wire.stop();
        // Calls in flight still need the writer; without a reader, clients do not see a server.
        self.shared.wire.reader.close();
    }

    fn broken(&self) -> Option<String> {
        self.shared.wire.broken(&self.threads)
    }

    fn own(&self) -> OwnEnds {
        self.shared.wire.own.clone()
    }
}

impl Drop for DdsOffered {
    fn drop(&mut self) {
        self.withdraw();
        Wire::join(self.threads.drain(..));
        // The receiving thread, which would notice that the clients of parked responses arrive, has
        // ended.
        let parked = std::mem::take(&mut *lock(&self.shared.parked));
        parked.iter().for_each(|_| {
            self.shared
                .requests
                .settled(Err(("client_gone", "the service ended before its client could read")))
        });
    }
}

/// Presence of the client of a response.
enum Presence {
    There,
    /// The writer of its requests is matched, its reader of responses not yet.
    Coming,
    Gone,
}

impl Shared {
    /// Handles a request. `this` is the same object, for replies.
    fn heard(&self, this: &Arc<Self>, sample: &dds::Taken) {
        let dropped = |reason, text: &str| self.requests.dropped(reason, text);
        let Some(writer) = self.wire.reader.writer(sample.writer) else {
            return dropped("client_gone", "its client has gone already");
        };
        if is_gateway(&writer.user_data) {
            return self.requests.stray(
                "gateway",
                "another gateway of Driveline sends it: requests would go in circles",
            );
        }
        if let Some(why) = unable(&writer, true) {
            return dropped("other_vendor", &why);
        }
        match CallId::split(sample.bytes()) {
            Ok((call, encapsulation, body)) => {
                let from = RequestId { client: writer.gid, sequence: call.sequence };
                let id = Role::Client.id(&writer.user_data).map(str::to_owned);
                let reply = DdsReply {
                    shared: this.clone(),
                    client: Client { writer: sample.writer, id },
                    call,
                };
                self.requests.request(from, Cdr([&encapsulation, body]), Box::new(reply));
            }
            Err(e) => dropped("header", &e.to_string()),
        }
    }

    /// Returns the presence of a client. As in rmw_cyclonedds, both endpoints of a client have one
    /// id.
    fn presence(&self, client: &Client) -> Result<Presence, String> {
        // After the withdrawal no writer of requests is matched.
        if self.wire.reader.writer(client.writer).is_none() && !self.wire.stopped() {
            return Ok(Presence::Gone);
        }
        // A client without an id cannot be found among the readers. It sent a request, so it counts
        // as present.
        let Some(id) = client.id.as_deref() else { return Ok(Presence::There) };
        let readers = self.wire.writer.readers().map_err(text)?;
        Ok(if readers.iter().any(|r| Role::Client.id(&r.user_data) == Some(id)) {
            Presence::There
        } else {
            Presence::Coming
        })
    }

    /// Sends responses whose clients have arrived, and drops those whose clients do not arrive.
    fn unpark(&self) {
        let mut parked = lock(&self.parked);
        if parked.is_empty() {
            return;
        }
        let (readers, unknown) = match self.wire.writer.readers() {
            Ok(readers) => (readers, None),
            Err(e) => (Vec::new(), Some(e.to_string())),
        };
        let ids: Vec<_> = readers.iter().filter_map(|r| Role::Client.id(&r.user_data)).collect();
        let now = Instant::now();
        let (due, rest): (Vec<_>, Vec<_>) =
            parked.drain(..).partition(|p| p.until <= now || ids.contains(&p.client.as_str()));
        *parked = rest;
        drop(parked);
        for p in due {
            if !ids.contains(&p.client.as_str()) {
                let ended =
                    unknown.as_deref().map_or(("client_gone", NO_READER), |why| ("not_sent", why));
                self.requests.settled(Err(ended));
                continue;
            }
            match self.wire.write(p.call, [&p.response, &[], &[]]) {
                Ok(()) => self.requests.settled(Ok(())),
                Err(e) => self.requests.settled(Err(("not_sent", &e))),
            }
        }
    }
}

/// Client that sent a request.
struct Client {
    /// Handle of its writer of requests.
    writer: u64,
    id: Option<String>,
}

struct DdsReply {
    shared: Arc<Shared>,
    client: Client,
    call: CallId,
}

impl Reply for DdsReply {
    fn answer(self: Box<Self>, response: Parts<'_>) -> Result<Handed, Ended> {
        let Self { shared, client, call } = *self;
        let not_sent = |why| ("not_sent", why);
        match shared.presence(&client).map_err(not_sent)? {
            Presence::There => {
                return shared
                    .wire
                    .write(call, response.cdr)
                    .map(|()| Handed::Over)
                    .map_err(not_sent);
            }
            Presence::Gone => return Err(("client_gone", "its client has gone".into())),
            Presence::Coming => {}
        }
        let id = client.id.unwrap_or_default();
        let mut parked = lock(&shared.parked);
        if shared.wire.stopped() || parked.len() >= shared.pending {
            return Err(("client_gone", NO_READER.into()));
        }
        shared.requests.keep();
        parked.push(Parked {
            until: Instant::now() + WITHIN,
            client: id,
            call,
            response: response.cdr.concat(),
        });
        drop(parked);
        // The client may have arrived meanwhile.
        shared.wire.waiting.wake();
        Ok(Handed::Kept)
    }

    /// DDS services have no error responses: the client waits until its own time-out.
    fn refuse(self: Box<Self>, _text: &str) {}
}
