// SPDX-License-Identifier: Apache-2.0
//! Inputs that deliver no samples, because their callback holds as many as it may.

use driveline_types::{MonotonicNs, TopicName};
use std::fmt;
use std::time::Duration;

/// Time that an input is blocked before it is reported. Shorter waits are ordinary: another thread
/// still works with a sample. Samples that are lost during them are in the input's counters.
pub(crate) const STALL_AFTER: Duration = Duration::from_millis(500);

/// An input that gets no samples because its callback keeps as many as it may hold. `Display`
/// writes a text for people, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputStall {
    /// Topic of the input.
    pub topic: TopicName,
    /// Number of samples held, which is the input's `max_held`.
    pub held: u32,
    /// True if samples of the input call the callback. Otherwise the callback's reads of it fail.
    pub triggers: bool,
    /// Set once a sample was taken again.
    pub end: Option<StallEnd>,
}

/// End of an [`InputStall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallEnd {
    /// Duration of the stall.
    pub lasted: Duration,
    /// Samples replaced by newer ones meanwhile.
    pub missed: u64,
}

impl fmt::Display for InputStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, held, triggers, end } = self;
        match end {
            Some(StallEnd { lasted, missed }) => write!(
                f,
                "topic '{topic}': the input goes on after {:.1} s; {missed} samples were missed \
                 meanwhile",
                lasted.as_secs_f64()
            ),
            None => {
                let what = if *triggers { "does not trigger any more" } else { "cannot be read" };
                let are = if *held == 1 { "is" } else { "are" };
                write!(
                    f,
                    "topic '{topic}' {what}: {held} of its samples {are} held, which is max_held; \
                     drop one first, or write `max_held: {}` at this input in the graph (one \
                     more than the component keeps)",
                    held.saturating_add(1)
                )
            }
        }
    }
}

/// State of a blocked input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocked {
    since: MonotonicNs,
    /// Last time that a sample could not be taken.
    latest: MonotonicNs,
    held: u32,
    /// Number of samples that newer ones had replaced when the stall began.
    replaced: u64,
    reported: bool,
}

/// Watches one input for stalls. Costs nothing while samples can be taken.
#[derive(Debug, Default)]
pub(crate) struct StallWatch {
    blocked: Option<Blocked>,
    /// Reported stall that is over, and its duration.
    over: Option<(Blocked, Duration)>,
}

impl StallWatch {
    /// Notes that a sample could not be taken because the callback holds `held` samples of the
    /// input. `replaced`: counter of samples that newer ones have replaced.
    pub(crate) fn blocked(&mut self, held: u32, replaced: impl FnOnce() -> u64) {
        let now = MonotonicNs::now();
        let blocked = self.blocked.get_or_insert_with(|| Blocked {
            since: now,
            latest: now,
            held,
            replaced: replaced(),
            reported: false,
        });
        (blocked.latest, blocked.held) = (now, held);
    }

    /// Notes that a sample was taken.
    #[inline]
    pub(crate) fn taken(&mut self) {
        if let Some(b) = self.blocked.take()
            && b.reported
        {
            self.over = Some((b, MonotonicNs::now().since(b.since)));
        }
    }

    /// Notes that there is nothing to take: a stall that was not reported yet is forgotten.
    #[inline]
    pub(crate) fn nothing_unread(&mut self) {
        if self.blocked.is_some_and(|b| !b.reported) {
            self.blocked = None;
        }
    }

    /// Returns true if the input has been blocked for so long that its samples are not expected to
    /// be taken any more.
    pub(crate) fn is_stall(&self) -> bool {
        self.blocked.is_some_and(|b| MonotonicNs::now() >= b.since + STALL_AFTER)
    }

    /// Returns when [`Self::report`] has something to report. An input that does not trigger counts
    /// as blocked only while reads of it fail.
    pub(crate) fn due(&self, triggers: bool) -> Option<MonotonicNs> {
        let begins = self.blocked.filter(|b| !b.reported).and_then(|b| {
            let at = b.since + STALL_AFTER;
            (triggers || b.latest >= at).then_some(at)
        });
        if self.over.is_some() { Some(MonotonicNs(0)) } else { begins }
    }

    /// The next report, if one is due. `early`: the stall of an input that triggers need not have
    /// lasted for [`STALL_AFTER`]. `replaced`: as in [`Self::blocked`].
    pub(crate) fn report(
        &mut self,
        topic: &TopicName,
        triggers: bool,
        early: bool,
        replaced: impl Fn() -> u64,
    ) -> Option<InputStall> {
        let stall = |held, end| Some(InputStall { topic: topic.clone(), held, triggers, end });
        if let Some((b, lasted)) = self.over.take() {
            let missed = replaced().saturating_sub(b.replaced);
            return stall(b.held, Some(StallEnd { lasted, missed }));
        }
        let due = self.due(triggers).is_some_and(|at| MonotonicNs::now() >= at);
        let b = self.blocked.as_mut().filter(|b| !b.reported && (due || early && triggers))?;
        b.reported = true;
        stall(b.held, None)
    }
}
