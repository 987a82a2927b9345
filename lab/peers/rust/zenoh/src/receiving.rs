// SPDX-License-Identifier: Apache-2.0
//! The receiving end, and how it waits.

use crate::describe::Carrier;
use crate::link::{
    Alive, END, HEAD, SAMPLE, check_transports, data_key, receiver_key, sender_key, token,
    wait_until,
};
use anyhow::{Context, Result, anyhow, ensure};
use driveline_bench::harness::{Job, Pace, Reliability, Wait as Waiting};
use driveline_bench::{Received, Receiver};
use driveline_peer_stage::StageReceiver;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::Read;
use std::time::{Duration, Instant};
use zenoh::handlers::{FifoChannel, FifoChannelHandler, RingChannel, RingChannelHandler};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

/// Maximum time without a sample in a ping-pong. At a rate, twice the schedule is added.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

enum Samples {
    /// When the ring is full, the newest sample replaces the oldest.
    Ring(Subscriber<RingChannelHandler<Sample>>),
    /// Senders wait when it is full.
    Fifo(Subscriber<FifoChannelHandler<Sample>>),
}

impl Samples {
    #[inline]
    fn now(&self) -> Result<Option<Sample>> {
        match self {
            Self::Ring(s) => s.try_recv(),
            Self::Fifo(s) => s.try_recv(),
        }
        .map_err(|e| anyhow!("cannot receive: {e}"))
    }

    #[inline]
    fn within(&self, timeout: Duration) -> Result<Option<Sample>> {
        match self {
            Self::Ring(s) => s.recv_timeout(timeout),
            Self::Fifo(s) => s.recv_timeout(timeout),
        }
        .map_err(|e| anyhow!("cannot receive: {e}"))
    }
}

pub struct In {
    session: Session,
    samples: Samples,
    /// Sample found by [`Receiver::wait`].
    found: Option<Sample>,
    wait: Waiting,
    longest_wait: Duration,
    last: u64,
    carrier: Carrier,
    senders: Alive,
    _token: LivelinessToken,
}

impl In {
    pub fn new(session: &Session, carrier: Carrier, job: &Job, topic: &str) -> Result<Self> {
        let subscriber = session.declare_subscriber(data_key(topic));
        let refused = |e| anyhow!("cannot make the subscriber: {e}");
        let depth = job.depth.max(1) as usize;
        let samples = match job.reliability {
            Reliability::BestEffort => {
                Samples::Ring(subscriber.with(RingChannel::new(depth)).wait().map_err(refused)?)
            }
            Reliability::Reliable => {
                Samples::Fifo(subscriber.with(FifoChannel::new(depth)).wait().map_err(refused)?)
            }
        };
        let longest_wait = match job.pace {
            Pace::PingPong => LONGEST_WAIT,
            Pace::RateHz(hz) => {
                LONGEST_WAIT
                    + Duration::try_from_secs_f64(2.0 * (job.warm_up + job.messages) as f64 / hz)
                        .context("the rate is no rate")?
            }
        };
        let senders = Alive::watch(session, sender_key(topic))?;
        // After the subscriber: an end that sees this token also knows the subscriber.
        let token = token(session, receiver_key(topic, &job.index.to_string()))?;
        Ok(Self {
            session: session.clone(),
            samples,
            found: None,
            wait: job.wait,
            longest_wait,
            last: 0,
            carrier,
            senders,
            _token: token,
        })
    }

    /// Polls without sleeping.
    #[inline]
    fn spin(&self, at_most: Duration) -> Result<Option<Sample>> {
        let start = Instant::now();
        loop {
            if let Some(sample) = self.samples.now()? {
                return Ok(Some(sample));
            }
            if start.elapsed() > at_most {
                return Ok(None);
            }
            std::hint::spin_loop();
        }
    }
}

impl Receiver for In {
    type Sample = Taken;

    fn wait_matched(&mut self, timeout: Duration) -> Result<()> {
        wait_until(timeout, || Ok(self.senders.count() > 0))
            .context("the publisher did not come")?;
        check_transports(&self.session, self.carrier)
    }

    #[inline]
    fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        let longest = limit.unwrap_or(self.longest_wait);
        self.wait_at_most(longest)?;
        ensure!(
            self.found.is_some() || limit.is_some(),
            "nothing came for {longest:?}: it was lost, or the other end is gone"
        );
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> Result<Option<Taken>> {
        let sample = match self.found.take() {
            Some(sample) => sample,
            None => match self.samples.now()? {
                Some(sample) => sample,
                None => return Ok(None),
            },
        };
        let mut head = [0; HEAD];
        sample
            .payload()
            .reader()
            .read_exact(&mut head)
            .context("a payload is shorter than its head")?;
        let (mark, number) = head.split_at(SAMPLE.len());
        let number = u64::from_le_bytes(number.try_into()?);
        let missed = number.saturating_sub(self.last + 1);
        self.last = number;
        let end = mark == END;
        if self.carrier == Carrier::Shm && !end {
            ensure!(
                sample.payload().as_shm().is_some(),
                "a sample did not come through shared memory"
            );
        }
        Ok(Some(Taken { number, missed, end, sample, joined: OnceCell::new() }))
    }
}

impl StageReceiver for In {
    #[inline]
    fn wait_at_most(&mut self, limit: Duration) -> Result<()> {
        if self.found.is_none() {
            self.found = match self.wait {
                Waiting::Block => self.samples.within(limit)?,
                Waiting::Spin => self.spin(limit)?,
                Waiting::SpinThenBlock(us) => {
                    match self.spin(Duration::from_micros(us).min(limit))? {
                        Some(sample) => Some(sample),
                        None => self.samples.within(limit)?,
                    }
                }
            };
        }
        Ok(())
    }
}

pub struct Taken {
    number: u64,
    missed: u64,
    end: bool,
    sample: Sample,
    /// Pieces of a large sample that came over TCP, joined at the first request.
    joined: OnceCell<Vec<u8>>,
}

impl Received for Taken {
    #[inline]
    fn sequence(&self) -> u64 {
        self.number
    }

    #[inline]
    fn missed(&self) -> u64 {
        self.missed
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        if let Some(joined) = self.joined.get() {
            return joined;
        }
        match self.sample.payload().to_bytes() {
            Cow::Borrowed(whole) => whole,
            Cow::Owned(joined) => self.joined.get_or_init(|| joined),
        }
    }

    #[inline]
    fn size(&self) -> usize {
        self.sample.payload().len()
    }

    #[inline]
    fn copy_to(&self, target: &mut [u8]) {
        let mut rest = target;
        for piece in self.sample.payload().slices() {
            let (place, after) = std::mem::take(&mut rest).split_at_mut(piece.len());
            place.copy_from_slice(piece);
            rest = after;
        }
    }

    #[inline]
    fn is_end(&self) -> bool {
        self.end
    }
}
