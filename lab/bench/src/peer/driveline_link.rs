// SPDX-License-Identifier: Apache-2.0
//! Driveline through its public API, with only the settings that a user declares.

use super::link::{Middleware, Received, Receiver, Sender};
use super::payload::number;
use crate::harness::{Job, Reach, Reliability};
use anyhow::{Context as _, Result, anyhow, bail};
use driveline::types::{MonotonicNs, Qos};
use driveline::{
    Context, ContextOptions, Node, PublisherOptions, RawLoan, RawPublisher, RawSample,
    RawSubscription, SubscriptionOptions, WaitMode,
};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Length that marks the end: no counted sample is so short.
const END_LEN: usize = 1;
/// Minimum size of a counted sample.
pub const MIN_SIZE: usize = 2;
/// Maximum time that a reliable publisher waits for slow readers, as in all peers that have a
/// limit.
const MAX_BLOCKING_MS: u32 = 1000;
/// Pins of each publisher for the subscriptions of the gateway: the one that watches the topic, and
/// the one that sends its samples to the other host.
const GATEWAY_PINS: u32 = 8;

/// Creates the sending and receiving ends of one process or thread.
pub(crate) struct Ends {
    context: Context,
    node: Node,
}

impl Ends {
    pub(crate) fn new(job: &Job, name: &str) -> Result<Self> {
        let options = ContextOptions { name: name.to_owned(), domain_dir: Some(domain_dir(job)) };
        let context = Context::new(options).context("cannot join the measurement's domain")?;
        let node = context.node(name)?;
        Ok(Self { context, node })
    }

    pub(crate) fn sender_with(&self, job: &Job, topic: &str, qos: Qos) -> Result<DrivelineSender> {
        let options = PublisherOptions {
            reach: reach(job),
            qos: Qos {
                depth: job.depth,
                reliability: reliability(job),
                max_blocking_ms: MAX_BLOCKING_MS,
                ..qos
            },
            max_payload: job.size,
            loans: 1,
            // Each reader may hold one sample, as a graph would declare; a gateway may hold more.
            pins: job.subscribers.max(1) as u32
                + if job.reach == Reach::Network { GATEWAY_PINS } else { 0 },
            ..PublisherOptions::default()
        };
        let publisher = self.node.bytes_publisher(topic, "driveline-bench", options)?;
        Ok(DrivelineSender { publisher, carriers: usize::from(job.reach == Reach::Network) })
    }

    pub(crate) fn receiver_with(
        &self,
        job: &Job,
        topic: &str,
        qos: Qos,
    ) -> Result<DrivelineReceiver> {
        let options = SubscriptionOptions {
            reach: reach(job),
            qos: Qos { depth: job.depth, reliability: reliability(job), ..qos },
            max_held: 1,
            ..Default::default()
        };
        let subscription = self.node.bytes_subscription(topic, "driveline-bench", options)?;
        Ok(DrivelineReceiver { subscription, wait: job.wait.mode() })
    }
}

impl Middleware for Ends {
    type Sender = DrivelineSender;
    type Receiver = DrivelineReceiver;

    fn join(job: &Job, name: &str) -> Result<Self> {
        Self::new(job, name)
    }

    fn for_thread(&self, name: &str) -> Result<Self> {
        Ok(Self { context: self.context.clone(), node: self.context.node(name)? })
    }

    fn sender(&self, job: &Job, topic: &str) -> Result<DrivelineSender> {
        self.sender_with(job, topic, Qos::default())
    }

    fn receiver(&self, job: &Job, topic: &str) -> Result<DrivelineReceiver> {
        self.receiver_with(job, topic, Qos::default())
    }
}

/// Returns the domain directory of an end: two hosts have different ones.
pub(crate) fn domain_dir(job: &Job) -> PathBuf {
    if job.reach == Reach::Network {
        job.domain_dir.join(format!("host-{}", job.side()))
    } else {
        job.domain_dir.clone()
    }
}

pub(crate) fn reliability(job: &Job) -> driveline::types::Reliability {
    match job.reliability {
        Reliability::BestEffort => driveline::types::Reliability::BestEffort,
        Reliability::Reliable => driveline::types::Reliability::Reliable,
    }
}

fn reach(job: &Job) -> driveline::Reach {
    match job.reach {
        Reach::Process => driveline::Reach::Process,
        Reach::Host => driveline::Reach::Host,
        Reach::Network => driveline::Reach::Network,
    }
}

pub(crate) struct DrivelineSender {
    pub(crate) publisher: RawPublisher,
    /// Number of subscriptions that only watch the topic: 1 between hosts, for the gateway. The
    /// gateway reads samples through another subscription for each host that wants them.
    carriers: usize,
}

impl Sender for DrivelineSender {
    type Loan = RawLoan;

    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        // All receivers are on the other host, so one subscription of the gateway serves them.
        let receivers =
            if self.carriers > 0 { self.carriers + receivers.min(1) } else { receivers };
        while self.publisher.matched() < receivers {
            if start.elapsed() > timeout {
                let event = std::iter::from_fn(|| self.publisher.poll_event())
                    .last()
                    .map_or_else(String::new, |e| format!("; last event: {e:?}"));
                bail!(
                    "only {} of {receivers} subscriptions were matched within {timeout:?}{event}",
                    self.publisher.matched()
                );
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    #[inline]
    fn loan(&mut self, len: usize) -> Result<RawLoan, String> {
        self.publisher.loan(len).map_err(|e| e.to_string())
    }

    #[inline]
    fn payload(loan: &mut RawLoan) -> &mut [u8] {
        loan.payload_mut()
    }

    #[inline]
    fn publish(&mut self, loan: RawLoan) -> Result<u64, String> {
        self.publisher.publish(loan).map_err(|e| e.to_string())
    }

    /// Publishers number their samples themselves, so the source time of an answer carries the
    /// number of the question. No real time is as small as such a number.
    #[inline]
    fn answer(&mut self, mut loan: RawLoan, question: u64) -> Result<u64, String> {
        loan.set_source_time(MonotonicNs(question));
        self.publish(loan)
    }

    fn publish_end(&mut self) -> Result<u64, String> {
        let loan = self.loan(END_LEN)?;
        self.publish(loan)
    }

    fn wake_calls(&self) -> Option<u64> {
        self.publisher.host_stats().map(|s| s.wake_calls)
    }
}

pub(crate) struct DrivelineReceiver {
    pub(crate) subscription: RawSubscription,
    wait: WaitMode,
}

impl Receiver for DrivelineReceiver {
    type Sample = RawSample;

    fn wait_matched(&mut self, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        while self.subscription.matched() == 0 {
            if start.elapsed() > timeout {
                let event = std::iter::from_fn(|| self.subscription.poll_event())
                    .last()
                    .map_or_else(String::new, |e| format!("; last event: {e:?}"));
                bail!("no publisher was matched within {timeout:?}{event}");
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        self.subscription
            .wait(limit, self.wait)
            .map(|_| ())
            .map_err(|e| anyhow!("waiting failed: {e}"))
    }

    #[inline]
    fn take(&mut self) -> Result<Option<RawSample>> {
        self.subscription.take().map_err(|e| anyhow!("reading failed: {e}"))
    }
}

impl Received for RawSample {
    #[inline]
    fn sequence(&self) -> u64 {
        self.header().sequence
    }

    #[inline]
    fn answers(&self) -> u64 {
        if self.header().remote.is_some() {
            // Gateways convert source times to this host's clock, so the number is read from the
            // payload.
            return number(RawSample::payload(self).unwrap_or_default())
                .map_or(0, |n| n.saturating_sub(1));
        }
        self.header().origins.as_slice().first().map_or(0, |o| o.source_newest.0)
    }

    #[inline]
    fn missed(&self) -> u64 {
        RawSample::missed(self)
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        RawSample::payload(self).unwrap_or_default()
    }

    #[inline]
    fn is_end(&self) -> bool {
        self.header().payload_len == END_LEN as u64
    }
}
