// SPDX-License-Identifier: Apache-2.0
//! Ends of edges, for any middleware.

use crate::message::{HEAD, Head, Tally};
use crate::work::Input;
use crate::{StageReceiver, StageSender};
use anyhow::{Result, anyhow, ensure};
use driveline::types::MonotonicNs;
use driveline_bench::Received;
use driveline_bench::chain::InputAccount;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// Edge of a job.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Edge {
    pub(crate) topic: String,
    pub(crate) system: String,
    pub(crate) size: usize,
    #[serde(default)]
    pub(crate) index: usize,
    #[serde(default = "one")]
    pub(crate) readers: usize,
}

fn one() -> usize {
    1
}

/// Returns the current time on `CLOCK_MONOTONIC`, in nanoseconds.
pub(crate) fn now() -> u64 {
    MonotonicNs::now().0
}

/// Operations of a sending end.
pub(crate) trait Sending {
    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()>;
    /// Returns the memory of a whole message: the same until it is sent.
    fn place(&mut self) -> Result<&mut [u8], String>;
    /// Sends the first `len` bytes of this memory.
    fn send(&mut self, len: usize) -> Result<(), String>;
    /// Sends the end mark.
    fn send_last(&mut self, message: &[u8]) -> Result<(), String>;
}

/// Handler of a message. Its arguments are the time just after the message was taken, and the
/// bytes of the message.
pub(crate) type Handle<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<()>;

/// Operations of a receiving end.
pub(crate) trait Receiving {
    fn wait(&mut self, limit: Duration) -> Result<()>;
    /// Passes the oldest unread message to `handle` and then releases it. Returns true if there was
    /// one.
    fn take(&mut self, handle: Handle<'_>) -> Result<bool>;
}

/// A peer's sending end.
pub(crate) struct PeerSender<S: StageSender> {
    sender: S,
    size: usize,
    loan: Option<S::Loan>,
    published: u64,
}

impl<S: StageSender> PeerSender<S> {
    pub(crate) fn new(sender: S, size: usize) -> Self {
        Self { sender, size, loan: None, published: 0 }
    }

    /// Compares the middleware's number of a message with this end's: readers detect losses by the
    /// numbers.
    fn note(&mut self, number: u64) -> Result<(), String> {
        self.published += 1;
        if number == self.published {
            Ok(())
        } else {
            Err(format!("message {} got the number {number}", self.published))
        }
    }
}

impl<S: StageSender> Sending for PeerSender<S> {
    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()> {
        self.sender.wait_matched(receivers, timeout)
    }

    fn place(&mut self) -> Result<&mut [u8], String> {
        let loan = match self.loan.take() {
            Some(loan) => loan,
            None => self.sender.loan(self.size)?,
        };
        Ok(S::payload(self.loan.insert(loan)))
    }

    fn send(&mut self, len: usize) -> Result<(), String> {
        let mut loan = self.loan.take().ok_or("there is no message to send")?;
        S::shorten(&mut loan, len);
        let number = self.sender.publish(loan)?;
        self.note(number)
    }

    fn send_last(&mut self, message: &[u8]) -> Result<(), String> {
        // Releases a loan that the work did not use: the middleware may grant only one at a time.
        self.loan = None;
        let number = self.sender.publish_last(message)?;
        self.note(number)
    }
}

/// A peer's receiving end.
pub(crate) struct PeerReceiver<R>(pub(crate) R);

impl<R: StageReceiver> Receiving for PeerReceiver<R> {
    fn wait(&mut self, limit: Duration) -> Result<()> {
        self.0.wait_at_most(limit)
    }

    fn take(&mut self, handle: Handle<'_>) -> Result<bool> {
        let Some(sample) = self.0.take()? else { return Ok(false) };
        let in_hand = now();
        handle(in_hand, sample.payload())?;
        Ok(true)
    }
}

/// Writes messages directly into the middleware's memory.
pub(crate) struct Output {
    sender: Box<dyn Sending>,
    next: u64,
}

impl Output {
    /// Waits until all readers are connected.
    pub(crate) fn new(
        mut sender: Box<dyn Sending>,
        edge: &Edge,
        timeout: Duration,
    ) -> Result<Self> {
        sender.wait_matched(edge.readers, timeout)?;
        Ok(Self { sender, next: 1 })
    }

    /// Returns the buffer that a work writes to.
    pub(crate) fn content(&mut self) -> Result<&mut [u8], String> {
        self.sender
            .place()?
            .get_mut(HEAD..)
            .ok_or_else(|| "a message is shorter than its head".into())
    }

    /// Publishes the written message, and returns the times before and after. Without a source
    /// time, this stage is the source, and the time before is the source time.
    pub(crate) fn publish(
        &mut self,
        origin: u64,
        source_time_ns: Option<u64>,
        written: usize,
    ) -> Result<(u64, u64), String> {
        let length = HEAD + written;
        let number = self.next;
        let place = self.sender.place()?;
        let before = now();
        let source_time_ns = source_time_ns.unwrap_or(before);
        Head {
            is_end: false,
            number,
            origin,
            source_time_ns,
            publish_time_ns: before,
            length: length as u64,
        }
        .write(place);
        self.sender.send(length)?;
        self.next += 1;
        Ok((before, now()))
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        let head = Head {
            is_end: true,
            number: self.next,
            origin: 0,
            source_time_ns: 0,
            publish_time_ns: now(),
            length: HEAD as u64,
        };
        let mut message = [0; HEAD];
        head.write(&mut message);
        self.sender
            .send_last(&message)
            .map_err(|e| anyhow!("the end mark could not be published: {e}"))?;
        self.next += 1;
        Ok(())
    }

    /// Returns the number of published messages, with the end mark.
    pub(crate) fn published(&self) -> u64 {
        self.next - 1
    }
}

/// An input that contributes its newest message.
pub(crate) struct OtherInput {
    receiver: Box<dyn Receiving>,
    topic: String,
    tally: Tally,
    newest: Vec<u8>,
    head: Option<Head>,
}

impl OtherInput {
    pub(crate) fn new(receiver: Box<dyn Receiving>, edge: &Edge) -> Self {
        Self {
            receiver,
            topic: edge.topic.clone(),
            tally: Tally::new(),
            newest: Vec::with_capacity(edge.size),
            head: None,
        }
    }

    /// Copies the newest message, if there is a new one.
    pub(crate) fn poll(&mut self) -> Result<()> {
        let (tally, newest, newest_head) = (&mut self.tally, &mut self.newest, &mut self.head);
        self.receiver.wait(Duration::ZERO)?;
        while self.receiver.take(&mut |_, payload| {
            if let Some(head) = tally.note(payload).filter(|h| !h.is_end) {
                newest.clear();
                newest.extend_from_slice(content(payload, &head));
                *newest_head = Some(head);
            }
            Ok(())
        })? {}
        Ok(())
    }

    /// Returns the last copy of [`Self::poll`].
    pub(crate) fn input(&self) -> Option<Input<'_>> {
        self.head.map(|h| Input {
            content: &self.newest,
            origin: h.origin,
            source_time_ns: h.source_time_ns,
        })
    }

    /// Reads until the end mark, at most for `limit`.
    pub(crate) fn read_to_end(&mut self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.tally.has_ended && start.elapsed() < limit {
            self.receiver.wait(Duration::from_millis(50))?;
            self.poll()?;
        }
        Ok(())
    }

    pub(crate) fn account(&self) -> InputAccount {
        account(&self.topic, &self.tally)
    }
}

/// Returns a message without its head.
pub(crate) fn content<'a>(payload: &'a [u8], head: &Head) -> &'a [u8] {
    payload.get(HEAD..head.length as usize).unwrap_or_default()
}

pub(crate) fn account(topic: &str, tally: &Tally) -> InputAccount {
    InputAccount {
        topic: topic.to_owned(),
        received: tally.received,
        missed: tally.missed,
        damaged: tally.damaged,
    }
}

pub(crate) fn check(edge: &Edge) -> Result<()> {
    ensure!(
        edge.size > HEAD,
        "the edge '{}' carries {} bytes; the head of a message alone has {HEAD}",
        edge.topic,
        edge.size
    );
    Ok(())
}
