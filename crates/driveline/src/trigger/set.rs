// SPDX-License-Identifier: Apache-2.0
//! Turning unread samples into the inputs of one call.

use super::Trigger;
use super::stall::{InputStall, StallWatch};
use super::synchronize::{ApproximateOptions, ApproximateTime, ExactTime, Synchronizer};
use crate::error::TakeError;
use crate::raw::{Order, RawSample, RawSubscription};
use driveline_types::MonotonicNs;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use driveline_types::limits::MAX_INPUTS;

/// One input of a callback.
pub(crate) struct InputPort {
    pub(crate) name: String,
    pub(crate) subscription: RawSubscription,
    /// Newest sample seen, for `AllLatest` and for reading in the callback.
    pub(crate) newest: Option<RawSample>,
    /// No call has had `newest` yet.
    pub(crate) unseen: bool,
    /// True if its samples may start a call.
    pub(crate) triggers: bool,
    pub(crate) stall: StallWatch,
    /// The component holds as many samples of the input as permitted: it gets no further sample
    /// before one is released.
    pub(crate) limited: bool,
    /// Newest sample of a transient-local topic, kept while the component is inactive.
    kept: Option<RawSample>,
    /// `kept` is counted as inactive.
    kept_counts_as_inactive: bool,
}

impl InputPort {
    pub(crate) fn new(name: String, subscription: RawSubscription) -> Self {
        Self {
            name,
            subscription,
            newest: None,
            unseen: false,
            triggers: false,
            stall: StallWatch::default(),
            limited: false,
            kept: None,
            kept_counts_as_inactive: false,
        }
    }

    /// Returns the time to report a stall of the input.
    pub(crate) fn stall_due(&self) -> Option<MonotonicNs> {
        self.stall.due(self.triggers)
    }

    /// Returns the next report about the input's stalls. `early`: includes a stall that has just
    /// begun.
    pub(crate) fn report_stall(&mut self, early: bool) -> Option<InputStall> {
        let subscription = &self.subscription;
        let replaced = || replaced(subscription);
        self.stall.report(subscription.topic(), self.triggers, early, replaced)
    }

    /// Replaces the newest sample by a newer one, if there is any. Returns true if it did.
    pub(crate) fn refresh(&mut self, skips: &Skips) -> bool {
        if !self.subscription.has_unread() {
            return self.kept.take().is_some_and(|kept| {
                self.newest = Some(kept);
                true
            });
        }
        self.kept = None;
        let mut taken = self.subscription.next_sample(Order::Newest);
        if taken.as_ref().is_err_and(|e| held_limit(e).is_some()) && self.newest.take().is_some() {
            // The released old sample may have occupied the last place that may be held.
            taken = self.subscription.next_sample(Order::Newest);
        }
        match counted(taken, self, skips) {
            Taken::Sample(sample) => {
                self.newest = Some(sample);
                true
            }
            Taken::Nothing => false,
            Taken::HeldLimit => {
                count(&skips.held_limit);
                false
            }
        }
    }

    /// Takes all unread samples of an inactive component; the newest stays if the topic is
    /// transient-local. Returns `false` if samples stay unread because the component holds as many
    /// as it may.
    pub(crate) fn discard(&mut self) -> bool {
        self.stall.nothing_unread();
        if self.subscription.is_transient_local()
            && let Some(newest) = self.newest.take()
        {
            (self.kept, self.kept_counts_as_inactive) = (Some(newest), false);
        }
        (self.newest, self.unseen) = (None, false);
        let room = loop {
            if !self.subscription.has_unread() {
                break true;
            }
            match self.subscription.next_sample(Order::Newest) {
                Ok(Some(sample)) if self.subscription.is_transient_local() => {
                    (self.kept, self.kept_counts_as_inactive) = (Some(sample), true);
                }
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(e) if held_limit(&e).is_some() && self.kept.take().is_some() => {}
                Err(e) => break held_limit(&e).is_none(),
            }
        };
        if room {
            self.stall.nothing_unread();
        }
        room
    }

    /// Resumes the input of an active component.
    pub(crate) fn resume(&mut self) {
        let counted = self.kept.is_some() && std::mem::take(&mut self.kept_counts_as_inactive);
        self.subscription.set_active(counted);
    }

    fn keep(&mut self, sample: RawSample) {
        self.newest = Some(sample);
        self.unseen = true;
    }
}

/// Inputs of a call with a sample that no earlier call has had, as bits.
pub(crate) type Fresh = u16;
const _: () = assert!(MAX_INPUTS <= Fresh::BITS as usize);

/// The samples of one call, by input. Up to 6 need no allocation: most components have no more
/// inputs.
pub(crate) type Samples = SmallVec<[Option<RawSample>; 6]>;

/// Result of checking the inputs.
#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would allocate on the data path"
)]
pub(crate) enum Polled {
    /// Run with these samples.
    Run { samples: Samples, trigger: Option<usize>, fresh: Fresh },
    /// Nothing to run now.
    Nothing,
    /// An input has unread samples, but the maximum number of its samples is held.
    HeldLimit,
}

/// Counters of skipped calls, failed reads, and samples that no call received. Their meanings are
/// in [`CallbackStats`](crate::CallbackStats).
#[derive(Debug, Default)]
pub(crate) struct Skips {
    /// Skipped calls.
    pub(crate) missing: AtomicU64,
    /// Skipped calls and failed reads.
    pub(crate) stale: AtomicU64,
    /// Samples.
    pub(crate) unsynchronised: AtomicU64,
    /// Waits of an input, and failed reads.
    pub(crate) held_limit: AtomicU64,
    /// Samples that could not be read.
    pub(crate) take_errors: AtomicU64,
}

pub(crate) struct TriggerState {
    trigger: Trigger,
    inputs: usize,
    /// First input that `Any` checks, so that one fast input does not starve the others.
    next: usize,
    sync: Option<Box<dyn Synchronizer<RawSample> + Send>>,
    /// Completed sets that wait for their call, flattened.
    ready: VecDeque<RawSample>,
    fresh: Vec<RawSample>,
}

/// Returns the time by which samples are matched: the measurement time of the data that triggered
/// their creation, or the publish time of a sample without origins.
pub(crate) fn source_time(sample: &RawSample) -> MonotonicNs {
    let header = sample.header();
    header.origins.as_slice().first().map_or(header.publish_time, |o| o.source_newest)
}

/// Returns true if the oldest data in a sample is older than a call permits. Without a limit the
/// clock is not read.
pub(crate) fn is_stale(sample: &RawSample, max_age: Option<Duration>) -> bool {
    let Some(max_age) = max_age else { return false };
    let header = sample.header();
    let oldest = header.oldest_source_time().unwrap_or(header.publish_time);
    u64::try_from(MonotonicNs::now().signed_since(oldest))
        .is_ok_and(|age| Duration::from_nanos(age) > max_age)
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl TriggerState {
    pub(crate) fn new(trigger: Trigger, inputs: usize) -> Result<Self, String> {
        if inputs > MAX_INPUTS {
            return Err(format!("{inputs} inputs are more than {MAX_INPUTS}; split the component"));
        }
        let unknown = |i: usize| {
            (i >= inputs).then(|| format!("the trigger names input {i}, but there are {inputs}"))
        };
        let sync_error = |e: &dyn std::fmt::Display| format!("the trigger cannot be set up: {e}");
        let problem = match &trigger {
            Trigger::Any { on, .. } => on.iter().find_map(|i| unknown(*i)),
            Trigger::AllLatest { on, .. } => unknown(*on),
            Trigger::Timer { period, .. } => {
                period.is_zero().then(|| "a timer's period must be longer than 0".to_owned())
            }
            Trigger::Exact { .. } | Trigger::Approximate { .. } => (inputs < 2)
                .then(|| format!("it synchronises at least 2 inputs, but there are {inputs}")),
        };
        if let Some(problem) = problem {
            return Err(problem);
        }
        let sync: Option<Box<dyn Synchronizer<RawSample> + Send>> = match &trigger {
            Trigger::Exact { queue, .. } => {
                Some(Box::new(ExactTime::new(inputs, *queue).map_err(|e| sync_error(&e))?))
            }
            Trigger::Approximate { queue, max_interval, .. } => {
                let max_interval_ns =
                    max_interval.map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
                let options = ApproximateOptions {
                    queue: *queue,
                    max_interval_ns,
                    ..ApproximateOptions::default()
                };
                Some(Box::new(ApproximateTime::new(inputs, &options).map_err(|e| sync_error(&e))?))
            }
            _ => None,
        };
        let room = sync.as_ref().map_or(0, |s| s.max_sets_per_add() * inputs);
        Ok(Self {
            trigger,
            inputs,
            next: 0,
            sync,
            ready: VecDeque::with_capacity(room),
            fresh: Vec::with_capacity(room),
        })
    }

    /// Returns true if an unread sample of this input may start a call.
    pub(crate) fn wakes(&self, input: usize) -> bool {
        match &self.trigger {
            Trigger::Any { on, .. } => on.is_empty() || on.contains(&input),
            Trigger::AllLatest { on, .. } => *on == input,
            Trigger::Timer { .. } => false,
            Trigger::Exact { .. } | Trigger::Approximate { .. } => true,
        }
    }

    /// Takes the samples of the next call, if one is due.
    pub(crate) fn poll(&mut self, ports: &mut [InputPort], skips: &Skips) -> Polled {
        match self.trigger.clone_cheap() {
            Kind::Any { max_age } => self.poll_any(ports, skips, max_age),
            Kind::Timer => Polled::Nothing,
            Kind::AllLatest { on, max_age } => self.poll_all_latest(ports, skips, on, max_age),
            Kind::Synchronised { max_age } => self.poll_synchronised(ports, skips, max_age),
        }
    }

    fn poll_any(
        &mut self,
        ports: &mut [InputPort],
        skips: &Skips,
        max_age: Option<Duration>,
    ) -> Polled {
        let mut limited = false;
        for step in 0..ports.len() {
            let i = (self.next + step) % ports.len();
            if !self.wakes(i) {
                continue;
            }
            let taken = loop {
                match take(&mut ports[i], Order::Oldest, skips) {
                    // Ends when no sample is left: each round takes one.
                    Taken::Sample(s) if is_stale(&s, max_age) => count(&skips.stale),
                    other => break other,
                }
            };
            match taken {
                Taken::Sample(s) => {
                    self.next = (i + 1) % ports.len();
                    ports[i].newest = None;
                    let mut samples = self.blank();
                    samples[i] = Some(s);
                    return Polled::Run { samples, trigger: Some(i), fresh: 1 << i };
                }
                Taken::Nothing => {}
                Taken::HeldLimit => limited = true,
            }
        }
        if limited { Polled::HeldLimit } else { Polled::Nothing }
    }

    fn poll_all_latest(
        &mut self,
        ports: &mut [InputPort],
        skips: &Skips,
        on: usize,
        max_age: Option<Duration>,
    ) -> Polled {
        match take(&mut ports[on], Order::Oldest, skips) {
            Taken::Sample(s) => ports[on].keep(s),
            Taken::Nothing => return Polled::Nothing,
            Taken::HeldLimit => return Polled::HeldLimit,
        }
        for (i, port) in ports.iter_mut().enumerate() {
            if i != on && port.refresh(skips) {
                port.unseen = true;
            }
        }
        if ports.iter().any(|p| p.newest.is_none()) {
            count(&skips.missing);
            return Polled::Nothing;
        }
        if ports.iter().filter_map(|p| p.newest.as_ref()).any(|s| is_stale(s, max_age)) {
            count(&skips.stale);
            return Polled::Nothing;
        }
        let fresh = ports
            .iter_mut()
            .enumerate()
            .fold(0, |bits, (i, p)| bits | Fresh::from(std::mem::take(&mut p.unseen)) << i);
        Polled::Run {
            samples: ports.iter().map(|p| p.newest.clone()).collect(),
            trigger: Some(on),
            fresh,
        }
    }

    fn poll_synchronised(
        &mut self,
        ports: &mut [InputPort],
        skips: &Skips,
        max_age: Option<Duration>,
    ) -> Polled {
        loop {
            while self.ready.len() >= self.inputs {
                let samples: Samples = self.ready.drain(..self.inputs).map(Some).collect();
                if samples.iter().flatten().any(|s| is_stale(s, max_age)) {
                    count(&skips.stale);
                    continue;
                }
                // The set was completed by whichever sample was published last.
                let trigger = (0..samples.len())
                    .max_by_key(|&i| samples[i].as_ref().map(|s| s.header().publish_time));
                return Polled::Run { samples, trigger, fresh: Fresh::MAX };
            }
            // One sample of each input in turn: while no queue overflows, the sets depend on the
            // stamps alone.
            let mut any = false;
            let mut limited = false;
            for (i, port) in ports.iter_mut().enumerate() {
                match take(port, Order::Oldest, skips) {
                    Taken::Sample(s) => {
                        any = true;
                        let stamp = source_time(&s).0;
                        if let Some(sync) = &mut self.sync {
                            // The only error is an input that does not exist.
                            let _ = sync.add(i, stamp, s, &mut self.fresh);
                        }
                        self.ready.extend(self.fresh.drain(..));
                    }
                    Taken::Nothing => {}
                    Taken::HeldLimit => limited = true,
                }
            }
            if !any {
                self.count_unsynchronised(skips);
                return if limited { Polled::HeldLimit } else { Polled::Nothing };
            }
        }
    }

    /// Stores the number of samples that found no partners so far. It does not count `skipped`: an
    /// input that is faster than the others always skips samples.
    fn count_unsynchronised(&self, skips: &Skips) {
        let dropped: u64 = (0..self.inputs)
            .filter_map(|i| self.sync.as_ref()?.counts(i))
            .map(|c| c.overwritten + c.unmatched)
            .sum();
        skips.unsynchronised.store(dropped, Ordering::Relaxed);
    }

    /// Number of completed sets that wait for their call, if any do.
    pub(crate) fn sets_ready(&self) -> Option<u64> {
        let sets = self.ready.len().checked_div(self.inputs).unwrap_or(0);
        (sets > 0).then_some(sets as u64)
    }

    /// Drops the completed sets that wait for their call, and the samples that wait for partners.
    pub(crate) fn clear(&mut self) {
        self.ready.clear();
        if let Some(sync) = &mut self.sync {
            sync.clear();
        }
    }

    fn blank(&self) -> Samples {
        (0..self.inputs).map(|_| None).collect()
    }
}

/// Number of samples that newer ones have replaced. Locks.
fn replaced(subscription: &RawSubscription) -> u64 {
    let stats = subscription.stats();
    stats.missed.saturating_add(stats.superseded)
}

enum Taken {
    Sample(RawSample),
    Nothing,
    HeldLimit,
}

fn take(port: &mut InputPort, order: Order, skips: &Skips) -> Taken {
    if let Some(sample) = port.kept.take() {
        return Taken::Sample(sample);
    }
    let taken = port.subscription.next_sample(order);
    counted(taken, port, skips)
}

fn counted(
    taken: Result<Option<RawSample>, TakeError>,
    port: &mut InputPort,
    skips: &Skips,
) -> Taken {
    port.limited = false;
    match taken {
        Ok(Some(s)) => {
            port.stall.taken();
            Taken::Sample(s)
        }
        Ok(None) => {
            port.stall.nothing_unread();
            Taken::Nothing
        }
        Err(error) => {
            if let Some(held) = held_limit(&error) {
                port.limited = true;
                let InputPort { stall, subscription, .. } = port;
                stall.blocked(held, || replaced(subscription));
                return Taken::HeldLimit;
            }
            let input = &*port.name;
            if skips.take_errors.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::error!(
                    input,
                    "{error}; further errors of this callback's inputs are only counted"
                );
            }
            Taken::Nothing
        }
    }
}

/// Returns the number of samples held, if that is the reason why none could be taken.
fn held_limit(error: &TakeError) -> Option<u32> {
    match error {
        TakeError::HeldLimit { held, .. } => Some(*held),
        TakeError::Host { source: driveline_shm::TakeError::AllHeld { max_held }, .. } => {
            Some(*max_held)
        }
        _ => None,
    }
}

/// A trigger without its heap data.
enum Kind {
    Any { max_age: Option<Duration> },
    Timer,
    AllLatest { on: usize, max_age: Option<Duration> },
    Synchronised { max_age: Option<Duration> },
}

impl Trigger {
    fn clone_cheap(&self) -> Kind {
        match self {
            Self::Any { max_age, .. } => Kind::Any { max_age: *max_age },
            Self::Timer { .. } => Kind::Timer,
            Self::AllLatest { on, max_age } => Kind::AllLatest { on: *on, max_age: *max_age },
            Self::Exact { max_age, .. } | Self::Approximate { max_age, .. } => {
                Kind::Synchronised { max_age: *max_age }
            }
        }
    }
}
