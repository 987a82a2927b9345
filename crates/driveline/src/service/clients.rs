// SPDX-License-Identifier: Apache-2.0
//! Clients of a server: their identities, and the publishers of their responses.

use super::objects::refusal_value;
use super::options::{MAX_CLIENTS, MAX_PENDING};
use super::server::RawRequest;
use super::tally::{Fate, ServiceEnd, Tally};
use super::{RawResponder, ServiceOptions, ServiceStats, pins_for};
use crate::context::Node;
use crate::error::{EndpointError, LoanError, PublishError};
use crate::executor::Attention;
use crate::options::PublisherOptions;
use crate::raw::{DisplacedValues, Matches, Parcel, RawPublisher, RawSample, Writer};
use driveline_shm::Kicker;
use driveline_shm::limits::MAX_MATCHES;
use driveline_types::service::{Answer, MAX_REFUSAL_LEN, Outcome, ShortId, cut_refusal};
use driveline_types::{Durability, MonotonicNs, PayloadKind, Qos, Schema, ServiceName};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of response publishers, including publishers that only refuse. There is one for
/// each client of other processes that can be matched, one for each client inside the process that
/// can be served, and one more. A publisher whose refusal the client has read, or can read, is
/// removed when another client needs its place.
const MAX_PUBLISHERS: usize = MAX_MATCHES + MAX_CLIENTS as usize + 1;

/// Clients of one server. Shared by the server, its executor and its responders.
pub(super) struct Clients {
    node: Node,
    pub(super) service: ServiceName,
    /// Id of this server in requests.
    pub(super) id: ShortId,
    schema: Schema,
    options: ServiceOptions,
    matches: Matches,
    table: Mutex<Table>,
    pub(super) counters: Counters,
    pub(super) tally: Arc<Tally>,
}

#[derive(Default)]
struct Table {
    ends: BTreeMap<ShortId, Arc<ClientEnd>>,
    /// Generation of the matches at which departed clients were last removed.
    seen: u64,
    /// A log line has reported that some clients get no answer.
    is_logged: bool,
}

/// The server's end of one client.
pub(super) struct ClientEnd {
    publisher: Mutex<RawPublisher>,
    pub(super) node: String,
    /// Reason why this client gets only refusals, if it does.
    refusal: Option<String>,
    /// The client is refused until there is room for one more.
    waits_for_room: bool,
    /// Number of calls that it may have in flight.
    pending: u32,
    unanswered: AtomicU32,
    gone: AtomicBool,
}

/// Reason why the client of a request gets no answer.
enum Unheard {
    ClientGone,
    NoRoom,
}

#[derive(Default)]
pub(super) struct Counters {
    requests: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) refused: AtomicU64,
    no_room: AtomicU64,
    client_gone: AtomicU64,
    pub(super) undelivered: AtomicU64,
    misaddressed: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Clients {
    pub(super) fn new(
        node: &Node,
        service: ServiceName,
        id: ShortId,
        schema: Schema,
        options: ServiceOptions,
        matches: Matches,
    ) -> Self {
        let tally = node.tallies().of(&service, ServiceEnd::Server);
        let (table, counters) = (Mutex::default(), Counters::default());
        Self { node: node.clone(), service, id, schema, options, matches, table, counters, tally }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kicks `kicker` when clients are matched or depart.
    pub(super) fn kick_on_change(&self, kicker: &Kicker) {
        self.matches.kick_on_change(kicker);
    }

    /// Turns a sample of the request topic into a request. Returns `None` if it is meant for
    /// another server, if its client has ended, or if the request was refused for lack of room.
    pub(super) fn accept(self: &Arc<Self>, sample: RawSample) -> Option<RawRequest> {
        self.matches.note_taken(&sample);
        let header = sample.header();
        if header.service != Some(self.id.0) {
            count(&self.counters.misaddressed);
            return None;
        }
        count(&self.counters.requests);
        self.tally.begun();
        let end = match self.end_of(sample.publisher()) {
            Ok(end) => end,
            Err(Unheard::ClientGone) => {
                count(&self.counters.client_gone);
                self.tally.ended(Fate::PeerGone, 1);
                return None;
            }
            Err(Unheard::NoRoom) => {
                count(&self.counters.no_room);
                self.tally.ended(Fate::Refused, 1);
                return None;
            }
        };
        let before = end.unanswered.fetch_add(1, Ordering::AcqRel);
        let too_many = before >= end.pending;
        let refusal = end.refusal.clone();
        let responder = RawResponder::new(self.clone(), end, header);
        let text = match (refusal, too_many) {
            (Some(text), _) => text,
            (None, true) => {
                format!(
                    "{before} earlier requests of this client are unanswered yet, which is its \
                     `pending`: the server is behind"
                )
            }
            (None, false) => return Some(RawRequest { sample, responder }),
        };
        count(&self.counters.no_room);
        self.tally.ended(Fate::Refused, 1);
        responder.end(Outcome::NoRoom, &text);
        None
    }

    /// Returns the server's end of a client. Creates it at the client's first request.
    fn end_of(&self, client: ShortId) -> Result<Arc<ClientEnd>, Unheard> {
        let mut gone;
        let found = {
            let mut table = self.table();
            gone = self.prune(&mut table);
            match table.ends.get(&client) {
                Some(end) if !(end.waits_for_room && self.has_room(&table)) => Ok(end.clone()),
                _ => {
                    gone.extend(make_room(&mut table));
                    self.make_end(&mut table, client)
                }
            }
        };
        // Unmapping takes time, and other threads may want the lock.
        drop(gone);
        found
    }

    fn has_room(&self, table: &Table) -> bool {
        table.ends.values().filter(|e| e.refusal.is_none()).count()
            < self.options.max_clients as usize
    }

    fn make_end(&self, table: &mut Table, client: ShortId) -> Result<Arc<ClientEnd>, Unheard> {
        let Some(writer) = self.matches.writers().into_iter().find(|w| w.id == client) else {
            table.ends.remove(&client);
            return Err(Unheard::ClientGone);
        };
        let o = &self.options;
        let (wanted, agreed) = (writer.depth, o.max_pending);
        let waits_for_room = wanted <= agreed && !self.has_room(table);
        let refusal = if wanted > agreed {
            let remedy = "lower its `pending`, or raise the server's max_pending";
            Some(format!(
                "the client wants {wanted} calls in flight, and {agreed} are agreed to: {remedy}"
            ))
        } else if waits_for_room {
            let remedy = match o.max_clients {
                MAX_CLIENTS => "end one of them, or offer the service under a second name, too",
                _ => "raise the server's max_clients",
            };
            Some(format!(
                "{} clients are served, and no more can be at a time: {remedy}",
                o.max_clients
            ))
        } else {
            None
        };
        let made = match refusal {
            None => self.publisher(&writer, o.max_response).map(|p| (p, None)).or_else(|e| {
                let text = format!("no memory for this client's responses: {e}");
                self.publisher(&writer, 0).map(|p| (p, Some(text)))
            }),
            Some(_) if table.ends.len() >= MAX_PUBLISHERS => {
                if !std::mem::replace(&mut table.is_logged, true) {
                    tracing::error!(
                        service = self.service.as_str(),
                        "more than {MAX_PUBLISHERS} clients call; further ones get no answer"
                    );
                }
                return Err(Unheard::NoRoom);
            }
            Some(text) => self.publisher(&writer, 0).map(|p| (p, Some(text))),
        };
        let (publisher, refusal) = match made {
            Ok(made) => made,
            Err(e) => {
                tracing::error!(
                    service = self.service.as_str(),
                    client = writer.node,
                    "the client cannot be answered: {e}"
                );
                return Err(Unheard::NoRoom);
            }
        };
        if let Some(text) = &refusal {
            tracing::warn!(
                service = self.service.as_str(),
                client = writer.node,
                "the client is refused: {text}"
            );
        }
        let end = Arc::new(ClientEnd {
            publisher: Mutex::new(publisher),
            node: writer.node,
            refusal,
            waits_for_room,
            pending: writer.depth,
            unanswered: AtomicU32::new(0),
            gone: AtomicBool::new(false),
        });
        table.ends.insert(client, end.clone());
        Ok(end)
    }

    fn publisher(
        &self,
        writer: &Writer,
        max_response: usize,
    ) -> Result<RawPublisher, EndpointError> {
        // A client that wants a greater depth gets only refusals, which need no more memory than
        // this depth.
        let depth = writer.depth.min(MAX_PENDING);
        let options = PublisherOptions {
            reach: writer.reach,
            // The client need not be matched yet when its first response is published.
            qos: Qos { depth, durability: Durability::TransientLocal, ..Qos::default() },
            max_payload: max_response.max(MAX_REFUSAL_LEN),
            // One loan for each request that is being answered, and one for a refusal text when all
            // others are out.
            loans: depth + 1,
            pins: pins_for(depth, &self.options.access),
            access: self.options.access.clone(),
        };
        let topic = self.service.responses(writer.id)?;
        RawPublisher::new(
            self.node.context(),
            self.node.node_name(),
            topic,
            self.schema.clone(),
            options,
        )
    }

    /// Removes and returns departed clients, if the matches have changed.
    fn prune(&self, table: &mut Table) -> Vec<Arc<ClientEnd>> {
        let generation = self.matches.generation();
        if generation == table.seen {
            return Vec::new();
        }
        table.seen = generation;
        let there: Vec<ShortId> = self.matches.writers().into_iter().map(|w| w.id).collect();
        let left: Vec<ShortId> =
            table.ends.keys().filter(|id| !there.contains(id)).copied().collect();
        let gone: Vec<_> = left.iter().filter_map(|id| table.ends.remove(id)).collect();
        for end in &gone {
            end.gone.store(true, Ordering::Relaxed);
        }
        gone
    }

    /// Returns true if an existing client was sent an answer and is not matched with its publisher
    /// yet. Locks and allocates.
    pub(super) fn owes(&self) -> bool {
        let (gone, ends): (_, Vec<_>) = {
            let mut table = self.table();
            (self.prune(&mut table), table.ends.values().cloned().collect())
        };
        drop(gone);
        ends.iter().any(|end| end.owes())
    }

    pub(super) fn stats(&self) -> ServiceStats {
        let c = &self.counters;
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        ServiceStats {
            requests: get(&c.requests),
            answered: get(&c.answered),
            refused: get(&c.refused),
            no_room: get(&c.no_room),
            client_gone: get(&c.client_gone),
            undelivered: get(&c.undelivered),
            misaddressed: get(&c.misaddressed),
            clients: self.table().ends.values().filter(|e| e.refusal.is_none()).count() as u64,
        }
    }
}

/// If the maximum number of ends exists, removes an end that only refuses and whose client has read
/// the refusal, or can read it.
fn make_room(table: &mut Table) -> Option<Arc<ClientEnd>> {
    if table.ends.len() < MAX_PUBLISHERS {
        return None;
    }
    let heard = |end: &ClientEnd| {
        end.refusal.is_some() && end.unanswered.load(Ordering::Acquire) == 0 && !end.owes()
    };
    let id = table.ends.iter().find(|(_, end)| heard(end)).map(|(id, _)| *id)?;
    table.ends.remove(&id)
}

impl Attention for Clients {
    /// Releases the memory for departed clients, even if no other client sends a request.
    fn is_due(&self, _: MonotonicNs) -> bool {
        let gone = self.prune(&mut self.table());
        drop(gone);
        false
    }

    fn has_taken(&self, _: &RawSample) {}

    fn deadline(&self) -> Option<MonotonicNs> {
        None
    }
}

impl ClientEnd {
    fn publisher(&self) -> MutexGuard<'_, RawPublisher> {
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an answer was published and the client is not matched with this publisher
    /// yet. Never true inside the process, where ends are matched at once.
    fn owes(&self) -> bool {
        let mut publisher = self.publisher();
        publisher.written() > 0 && publisher.readers().is_empty()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(super) fn loan(&self, len: usize) -> Result<crate::raw::RawLoan, LoanError> {
        self.publisher().loan(len)
    }

    /// Publishes the outcome of a request. The caller drops the returned replaced values.
    pub(super) fn publish(
        &self,
        parcel: Parcel,
        answer: Answer,
    ) -> Result<DisplacedValues, PublishError> {
        let mut publisher = self.publisher();
        let published = publisher.publish_for_service(parcel, answer.encode());
        let displaced = publisher.take_displaced();
        published.map(|_| displaced)
    }

    /// Returns a text to send in place of a response.
    pub(super) fn text(&self, kind: PayloadKind, text: &str) -> Result<Parcel, LoanError> {
        let text = cut_refusal(text);
        if matches!(kind, PayloadKind::Protobuf | PayloadKind::Object) {
            return Ok(Parcel::Object(refusal_value(text)));
        }
        let mut loan = self.loan(text.len())?;
        loan.payload_mut().copy_from_slice(text.as_bytes());
        Ok(Parcel::Loan(loan))
    }

    /// Notes that one request is answered or dropped. Called before the answer is published: the
    /// client may send its next request as soon as it has the answer.
    pub(super) fn settle(&self) {
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Clients {
    pub(super) fn kind(&self) -> PayloadKind {
        self.schema.kind
    }
}
