// SPDX-License-Identifier: Apache-2.0
//! Edges over Driveline between stages of another middleware.

use crate::edge::{Edge, Handle, Receiving, Sending, now};
use anyhow::{Context as _, Result, anyhow, bail};
use driveline::types::{Qos, Reliability};
use driveline::{
    Context, ContextOptions, Node, PublisherOptions, RawLoan, RawPublisher, RawSubscription, Reach,
    SubscriptionOptions, WaitMode,
};
use driveline_bench::harness::{self, Job};
use std::time::{Duration, Instant};

const TYPE: &str = "driveline-bench";

pub(crate) struct DrivelineEnds {
    node: Node,
    _context: Context,
}

impl DrivelineEnds {
    pub(crate) fn join(job: &Job, name: &str) -> Result<Self> {
        // A directory of its own, so that ends of the middleware and of Driveline do not find each
        // other's files.
        let options = ContextOptions {
            name: name.to_owned(),
            domain_dir: Some(job.domain_dir.join("driveline")),
        };
        let context = Context::new(options).context("cannot join the measurement's domain")?;
        Ok(Self { node: context.node(name)?, _context: context })
    }

    pub(crate) fn sender(&self, job: &Job, edge: &Edge) -> Result<DrivelineSender> {
        let options = PublisherOptions {
            reach: Reach::Host,
            qos: qos(job),
            max_payload: edge.size,
            loans: 1,
            pins: edge.readers.max(1) as u32,
            ..PublisherOptions::default()
        };
        Ok(DrivelineSender {
            publisher: self.node.bytes_publisher(&edge.topic, TYPE, options)?,
            size: edge.size,
            loan: None,
        })
    }

    pub(crate) fn receiver(&self, job: &Job, edge: &Edge) -> Result<DrivelineReceiver> {
        let options = SubscriptionOptions {
            reach: Reach::Host,
            qos: qos(job),
            max_held: 1,
            ..Default::default()
        };
        Ok(DrivelineReceiver {
            subscription: self.node.bytes_subscription(&edge.topic, TYPE, options)?,
            wait: job.wait.mode(),
        })
    }
}

fn qos(job: &Job) -> Qos {
    let reliability = match job.reliability {
        harness::Reliability::BestEffort => Reliability::BestEffort,
        harness::Reliability::Reliable => Reliability::Reliable,
    };
    Qos { depth: job.depth, reliability, ..Qos::default() }
}

pub(crate) struct DrivelineSender {
    publisher: RawPublisher,
    size: usize,
    loan: Option<RawLoan>,
}

impl Sending for DrivelineSender {
    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        while self.publisher.matched() < receivers {
            if start.elapsed() > timeout {
                bail!(
                    "only {} of {receivers} subscriptions were matched within {timeout:?}",
                    self.publisher.matched()
                );
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    fn place(&mut self) -> Result<&mut [u8], String> {
        let loan = match self.loan.take() {
            Some(loan) => loan,
            None => self.publisher.loan(self.size).map_err(|e| e.to_string())?,
        };
        Ok(self.loan.insert(loan).payload_mut())
    }

    fn send(&mut self, len: usize) -> Result<(), String> {
        let mut loan = self.loan.take().ok_or("there is no message to send")?;
        loan.shrink(len);
        self.publisher.publish(loan).map(|_| ()).map_err(|e| e.to_string())
    }

    fn send_last(&mut self, message: &[u8]) -> Result<(), String> {
        self.place()?
            .get_mut(..message.len())
            .ok_or("a message is shorter than its head")?
            .copy_from_slice(message);
        self.send(message.len())
    }
}

pub(crate) struct DrivelineReceiver {
    subscription: RawSubscription,
    wait: WaitMode,
}

impl Receiving for DrivelineReceiver {
    fn wait(&mut self, limit: Duration) -> Result<()> {
        if limit.is_zero() {
            return Ok(());
        }
        self.subscription
            .wait(Some(limit), self.wait)
            .map(|_| ())
            .map_err(|e| anyhow!("waiting failed: {e}"))
    }

    fn take(&mut self, handle: Handle<'_>) -> Result<bool> {
        let Some(sample) = self.subscription.take().map_err(|e| anyhow!("reading failed: {e}"))?
        else {
            return Ok(false);
        };
        let in_hand = now();
        handle(in_hand, sample.payload().unwrap_or_default())?;
        Ok(true)
    }
}
