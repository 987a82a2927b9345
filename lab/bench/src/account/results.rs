// SPDX-License-Identifier: Apache-2.0
//! Results of an accounted run.

use crate::harness::{OwnTool, ReceivedRow, SentRow};
use crate::metric::Metric;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Account of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Reasons why the run is invalid; empty if it is valid.
    pub invalid: Vec<String>,
    /// Number of *counted* samples: those that were due after the warm-up.
    pub scheduled: u64,
    /// Number of counted samples that were published.
    pub sent: u64,
    /// Number of samples that were due but not published, by reason; includes the warm-up.
    pub not_sent: BTreeMap<String, u64>,
    /// Number of counted samples that were received, per subscriber. In a closed loop: number of
    /// counted questions that were answered in time.
    pub received: Vec<u64>,
    /// [`Self::sent`] minus [`Self::received`], per subscriber.
    pub missed: Vec<u64>,
    /// Kinds of losses of a closed loop, if it had any. `missed` is the number of its counted
    /// rounds without an answer in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_rounds: Option<LostRounds>,
    /// Payloads that were checked, right or wrong, at all ends, warm-up included. In a closed loop,
    /// both ends check payloads.
    pub verified: u64,
    /// Payloads that were wrong, at all ends.
    pub torn: u64,
    /// Processor time of the sending end for each counted sample that was sent, in nanoseconds.
    pub publisher_cpu_ns_per_sample: Option<f64>,
    /// Processor time of a receiving end for each counted sample that was sent, received or not, in
    /// nanoseconds; the mean of all.
    pub subscriber_cpu_ns_per_sample: Option<f64>,
    /// System calls by which the sending end woke readers, for each counted sample that was sent.
    /// `None` if the system does not count them.
    pub wake_calls_per_publish: Option<f64>,
    /// Time from the start of the publisher's process until every subscriber has received its first
    /// sample, in nanoseconds.
    pub start_up_ns: Option<u64>,
    /// Times per second that the threads of a blocked subscriber at rest were scheduled.
    pub idle_wakeups_per_s: Option<f64>,
    /// Figures with one value in a run: start-up times, processor time at rest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub once: BTreeMap<Metric, u64>,
    /// Settings that the machine refused.
    pub unset: Vec<String>,
    /// Result of the middleware's own latency tool, if the run was a run of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_tool: Option<OwnTool>,
    /// Samples of each figure.
    #[serde(skip)]
    pub samples: BTreeMap<Metric, Vec<u64>>,
    /// Stamps of every counted sample, for each subscriber.
    #[serde(skip)]
    pub stamps: Vec<Sample>,
}

/// Rounds that a closed loop lost, warm-up included. In every round without an answer in time, the
/// question or the answer was lost, or the answer was not sent or came late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRounds {
    /// Questions that the answering end did not get.
    pub questions: u64,
    /// Answers that the asking end did not get.
    pub answers: u64,
    /// Answers that the answering end could not send, by reason.
    pub unsent_answers: BTreeMap<String, u64>,
    /// Answers that came after their time.
    pub late: u64,
}

/// One counted sample at one subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Index of the subscriber.
    pub subscriber: usize,
    /// Stamps of the sending end.
    pub sent: SentRow,
    /// Stamps of the receiving end; `None` if the sample was not received. In a ping-pong, they are
    /// those of the answer.
    pub received: Option<ReceivedRow>,
    /// [`Metric::Transport`]; 0 if the sample was not received. In a ping-pong the other end's
    /// filling is subtracted, so it does not follow from these stamps alone.
    pub transport_ns: u64,
    /// [`Metric::FillAndTransport`]; 0 if the sample was not received or not filled.
    pub fill_and_transport_ns: u64,
}

impl Sample {
    /// Returns the stamps that were taken; 0 for the others.
    pub(super) fn stamps(&self) -> [u64; 8] {
        let (s, r) = (self.sent, self.received.unwrap_or_default());
        [
            s.scheduled,
            s.before_fill,
            s.before_publish,
            s.returned,
            r.woken,
            r.in_hand,
            r.copied,
            r.read,
        ]
    }
}

impl Account {
    /// Adds the samples of a figure, unless there are none.
    pub(crate) fn put(&mut self, metric: Metric, samples: Vec<u64>) {
        if !samples.is_empty() {
            self.samples.entry(metric).or_default().extend(samples);
        }
    }
}
