// SPDX-License-Identifier: Apache-2.0
//! Calls a server on CycloneDDS.

use super::{WITHIN, Wire, text, unable};
use crate::dds;
use crate::discovery_info::{Gid, is_gateway};
use crate::engine::service::{Answers, Asking, Cdr, Interface, OwnEnds, Parts, ServiceEndpoint};
use crate::names::RosNode;
use crate::rmw_cyclonedds::{CallId, Role};
use driveline_gateway::ros2::Release;
use driveline_types::EndpointId;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Shared {
    wire: Wire,
    answers: Arc<dyn Answers>,
    /// Id of the server's reader of requests.
    server: Gid,
    /// Client number in this end's requests. The server returns it, and this end recognises its
    /// responses by it: every client of a service receives all responses.
    number: u64,
}

/// Request that waits to be written.
struct Kept {
    call: i64,
    request: Vec<u8>,
    /// Time at which the client stops waiting for the response.
    until: Instant,
}

struct DdsAsking {
    shared: Arc<Shared>,
    /// Queue of the writing thread. Callers do not write themselves: a caller may be the thread
    /// that receives everything from nodes on rmw_zenoh. `None` when the end stops.
    queue: Option<SyncSender<Kept>>,
    threads: Vec<JoinHandle<()>>,
}

/// Calls a server over DDS, under the name of a node.
pub(in crate::engine) fn ask(
    dds: &dds::Participant,
    release: Release,
    of: &Interface,
    node: &RosNode,
    server: &ServiceEndpoint,
    answers: Arc<dyn Answers>,
) -> Result<Arc<dyn Asking>, String> {
    let wire = Wire::open(dds, release, of, node, Role::Client)?;
    let number = EndpointId::random().map_err(text)?.0 as u64;
    let shared = Arc::new(Shared { wire, answers, server: server.gid, number });
    let of_thread = shared.clone();
    let run = move || {
        let trouble = |text: &str| of_thread.answers.stray("not_read", text);
        of_thread.wire.run(|| {}, |sample| of_thread.heard(sample), trouble);
    };
    let start = |name: &str| std::thread::Builder::new().name(name.into());
    // Dropping `asking` stops all threads started below.
    let mut asking = DdsAsking { shared: shared.clone(), queue: None, threads: Vec::new() };
    asking.threads.push(start("dl-asks-dds").spawn(run).map_err(text)?);
    let (queue, kept) = sync_channel(of.pending as usize);
    asking.queue = Some(queue);
    asking.threads.push(
        start("dl-sends-dds")
            .spawn(move || kept.iter().for_each(|kept| shared.send(&kept)))
            .map_err(text)?,
    );
    Ok(Arc::new(asking))
}

impl Asking for DdsAsking {
    fn ask(&self, call: i64, request: Parts<'_>, timeout: Duration) -> Result<(), String> {
        let kept = Kept { call, request: request.cdr.concat(), until: Instant::now() + timeout };
        let queue = self.queue.as_ref().ok_or("the gateway does not ask this server any more")?;
        enqueue(queue, kept)
    }

    fn withdraw(&self) {
        self.shared.wire.stop();
        // Threads that wait for space return, and servers do not see a client any more.
        self.shared.wire.writer.close();
        self.shared.wire.reader.close();
    }

    fn broken(&self) -> Option<String> {
        self.shared.wire.broken(&self.threads)
    }

    fn own(&self) -> OwnEnds {
        self.shared.wire.own.clone()
    }
}

impl Drop for DdsAsking {
    fn drop(&mut self) {
        self.queue = None;
        self.withdraw();
        Wire::join(self.threads.drain(..));
    }
}

/// Queues a request for the writing thread.
fn enqueue<T>(queue: &SyncSender<T>, what: T) -> Result<(), String> {
    let why = |e| match e {
        TrySendError::Full(_) => {
            "the maximum number of requests waits to be written: the server in ROS 2 does not read"
        }
        TrySendError::Disconnected(_) => {
            "the gateway's thread that writes requests has ended, and the server in ROS 2 is asked \
             again by a new one: try again in some seconds"
        }
    };
    queue.try_send(what).map_err(|e| why(e).to_owned())
}

impl Shared {
    /// Writes a queued request. Called on the writing thread.
    fn send(&self, kept: &Kept) {
        let now = Instant::now();
        // The caller has already timed out.
        if kept.until <= now {
            return;
        }
        let id = CallId { client: self.number, sequence: kept.call };
        let matched = self.wire.wait_until(kept.until.min(now + WITHIN), || self.ready());
        if let Err(e) = matched.and_then(|()| self.wire.write(id, [&kept.request, &[], &[]])) {
            self.answers.not_sent(kept.call, &e);
        }
    }

    /// Returns true if a request would reach this server and no other. The check is needed because
    /// DDS sends a request to every matched reader. An error means that the request must not be
    /// sent.
    fn ready(&self) -> Result<bool, String> {
        let readers = self.wire.writer.readers().map_err(text)?;
        // Readers of gateways are no servers: gateways recognise and drop requests of other
        // gateways.
        if let Some(other) =
            readers.iter().find(|r| r.gid != self.server && !is_gateway(&r.user_data))
        {
            let why = unable(other, false).unwrap_or_else(|| "stop one of the two".into());
            return Err(format!(
                "another node serves it as well, and DDS would send the request to both: {why}"
            ));
        }
        let Some(reader) = readers.iter().find(|r| r.gid == self.server) else { return Ok(false) };
        // As in rmw_cyclonedds: both endpoints of a server have one id.
        let writers = self.wire.reader.writers().map_err(text)?;
        Ok(match Role::Server.id(&reader.user_data) {
            Some(id) => writers.iter().any(|w| Role::Server.id(&w.user_data) == Some(id)),
            None => writers.iter().any(|w| !is_gateway(&w.user_data)),
        })
    }

    fn heard(&self, sample: &dds::Taken) {
        let Some(writer) = self.wire.reader.writer(sample.writer) else {
            // A response that the server wrote before it ended is still valid.
            return self.split(sample);
        };
        match unable(&writer, true) {
            None => self.split(sample),
            Some(why) => self.answers.stray("other_vendor", &why),
        }
    }

    fn split(&self, sample: &dds::Taken) {
        match CallId::split(sample.bytes()) {
            Ok((call, encapsulation, body)) if call.client == self.number => {
                self.answers.answered(call.sequence, Cdr([&encapsulation, body]));
            }
            // It is for another client.
            Ok(_) => {}
            Err(e) => self.answers.stray("header", &e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_read_is_not_blamed_for_a_thread_that_has_ended() {
        let (queue, kept) = sync_channel(1);
        assert_eq!(enqueue(&queue, 1), Ok(()));
        let full = enqueue(&queue, 2).unwrap_err();
        assert!(
            full.contains("maximum number of requests")
                && full.contains("the server in ROS 2 does not read"),
            "{full}"
        );
        drop(kept);
        let ended = enqueue(&queue, 3).unwrap_err();
        assert!(
            ended.contains("the gateway's thread") && !ended.contains("does not read"),
            "{ended}"
        );
    }
}
