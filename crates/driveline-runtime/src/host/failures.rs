// SPDX-License-Identifier: Apache-2.0
//! Reports the failures of one component, at a limited rate.

use super::injected_faults;
use super::output;
use super::pulse::Budget;
use crate::account::{Call, Record, Writer};
use crate::activity::Seen;
use crate::component::ComponentFailure;
use driveline::Invocation;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use driveline_types::MonotonicNs;

/// Number of failures that are reported one by one; then at most one each [`PAUSE`].
const ONE_BY_ONE: u64 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Takes the text of each failure.
pub(crate) type FailureSink = Arc<dyn Fn(String) + Send + Sync>;

pub(crate) struct Failures {
    component: String,
    /// Topic of each input.
    topics: Vec<String>,
    seen: Seen,
    account: Option<Arc<Writer>>,
    sink: Option<FailureSink>,
    count: AtomicU64,
    /// Time of the last report, in nanoseconds.
    reported: AtomicU64,
    /// Time that each call may take, if the graph declares one and a launcher watches.
    budget: Option<Budget>,
}

impl Failures {
    pub(crate) fn new(
        component: &str,
        topics: Vec<String>,
        seen: Seen,
        account: Option<Arc<Writer>>,
        budget: Option<Budget>,
        sink: Option<FailureSink>,
    ) -> Self {
        Self {
            component: component.to_owned(),
            topics,
            seen,
            account,
            sink,
            count: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            budget,
        }
    }

    /// Makes a call that other threads can observe. A failure or panic fails the invocation, and is
    /// reported.
    pub(crate) fn watch(
        &self,
        invocation: &Invocation<'_>,
        what: Call,
        call: impl FnOnce() -> Result<(), ComponentFailure>,
    ) -> Result<(), ComponentFailure> {
        let trigger = invocation.trigger();
        let sample = trigger.and_then(|t| Some((t, invocation.sample(t)?.header().sequence)));
        let _inside = self.seen.enter(what, invocation.start(), sample);
        let _within = self.budget.as_ref().map(|b| b.begin(invocation.start()));
        let call = || injected_faults::commit().and_then(|()| call());
        let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err(ComponentFailure {
                text: format!("panicked: {}", text.unwrap_or("without a message")),
            })
        });
        if let Err(failure) = &outcome {
            invocation.fail();
            self.report(invocation, failure);
        }
        outcome
    }

    /// Counts a failure and, unless there are too many, reports it with the sample that triggered
    /// the call.
    fn report(&self, invocation: &Invocation<'_>, failure: &ComponentFailure) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(sink) = &self.sink {
            let (topic, sequence) = self.trigger(invocation);
            return sink(message(&self.component, topic.as_deref(), sequence, &failure.text, 0));
        }
        let now = MonotonicNs::now().0;
        let last = self.reported.load(Ordering::Relaxed);
        let due = count <= ONE_BY_ONE || now.saturating_sub(last) >= PAUSE.as_nanos() as u64;
        // If several threads have a failure at once, one reports.
        if !due
            || self
                .reported
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        let (topic, sequence) = self.trigger(invocation);
        output::log(message(&self.component, topic.as_deref(), sequence, &failure.text, count));
        if let Some(account) = &self.account {
            account.send(Record::Failure {
                component: self.component.clone(),
                topic,
                sequence,
                text: failure.text.clone(),
                count,
            });
        }
    }

    /// Topic and sequence number of the sample that triggered a call.
    fn trigger(&self, invocation: &Invocation<'_>) -> (Option<String>, Option<u64>) {
        let trigger = invocation.trigger();
        let topic = trigger.and_then(|t| self.topics.get(t).cloned());
        let sequence = trigger.and_then(|t| invocation.sample(t)).map(|s| s.header().sequence);
        (topic, sequence)
    }
}

fn message(
    component: &str,
    topic: Option<&str>,
    sequence: Option<u64>,
    text: &str,
    count: u64,
) -> String {
    let on = match (topic, sequence) {
        (Some(topic), Some(sequence)) => format!(" on sample {sequence} of '{topic}'"),
        _ => String::new(),
    };
    let nth =
        if count > ONE_BY_ONE { format!(" ({count} failures so far)") } else { String::new() };
    format!("error: component '{component}' failed{on}: {text}{nth}")
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn a_failure_names_component_topic_and_sequence() {
        assert_eq!(
            message("lane", Some("camera/image"), Some(7), "bad step", 1),
            "error: component 'lane' failed on sample 7 of 'camera/image': bad step"
        );
        assert_eq!(
            message("lane", None, None, "x", 900),
            "error: component 'lane' failed: x (900 failures so far)"
        );
    }
}
