// SPDX-License-Identifier: Apache-2.0
//! The calls of a client that have no outcome yet. Pure: no transport, no clock.

use driveline_types::MonotonicNs;
use driveline_types::service::ShortId;
use std::time::Duration;

/// Call in flight; `T` handles its outcome.
#[derive(Debug)]
pub(super) struct Call<T> {
    /// The request's number.
    pub(super) number: u64,
    pub(super) server: ShortId,
    pub(super) sent: MonotonicNs,
    pub(super) timeout: Duration,
    /// The call's server has ended: the call is lost unless a response waits.
    doomed: bool,
    /// Its response was taken, and goes to [`Pending::answered`] next.
    saved: bool,
    pub(super) then: T,
}

/// Reason why a call ends without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    TimedOut,
    ServerGone,
}

impl<T> Call<T> {
    pub(super) fn new(
        number: u64,
        server: ShortId,
        sent: MonotonicNs,
        timeout: Duration,
        then: T,
    ) -> Self {
        Self { number, server, sent, timeout, doomed: false, saved: false, then }
    }

    fn deadline(&self) -> MonotonicNs {
        let timeout = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        MonotonicNs(self.sent.0.saturating_add(timeout))
    }
}

/// Calls in flight, in their order. Bounded by the limit.
#[derive(Debug)]
pub(super) struct Pending<T> {
    calls: Vec<Call<T>>,
    limit: usize,
}

impl<T> Pending<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { calls: Vec::with_capacity(limit), limit }
    }

    pub(super) fn is_full(&self) -> bool {
        self.calls.len() >= self.limit
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn add(&mut self, call: Call<T>) {
        self.calls.push(call);
    }

    /// Removes and returns the call that a response names. `None` if the response is late or
    /// invalid.
    pub(super) fn answered(&mut self, number: u64) -> Option<Call<T>> {
        let at = self.calls.iter().position(|c| c.number == number)?;
        Some(self.calls.remove(at))
    }

    /// Notes that the response to a call was taken, so the call cannot be lost any more.
    pub(super) fn save(&mut self, number: u64) {
        for c in self.calls.iter_mut().filter(|c| c.number == number) {
            c.saved = true;
        }
    }

    /// Marks the calls whose server is gone. Responses are checked once more before [`Self::lost`]
    /// gives these calls up. Returns true if any call is marked.
    pub(super) fn doom(&mut self, is_there: impl Fn(ShortId) -> bool) -> bool {
        for c in self.calls.iter_mut().filter(|c| !c.saved && !is_there(c.server)) {
            c.doomed = true;
        }
        self.calls.iter().any(|c| c.doomed && !c.saved)
    }

    /// Removes and returns the oldest lost call.
    pub(super) fn lost(&mut self, now: MonotonicNs) -> Option<(Call<T>, Loss)> {
        let at = self.calls.iter().position(|c| !c.saved && (c.doomed || c.deadline() <= now))?;
        let call = self.calls.remove(at);
        let loss = if call.doomed { Loss::ServerGone } else { Loss::TimedOut };
        Some((call, loss))
    }

    pub(super) fn clear(&mut self) -> Vec<Call<T>> {
        std::mem::take(&mut self.calls)
    }

    /// Returns the time at which the next call is lost.
    pub(super) fn deadline(&self) -> Option<MonotonicNs> {
        self.calls
            .iter()
            .filter(|c| !c.saved)
            .map(|c| if c.doomed { MonotonicNs(0) } else { c.deadline() })
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn call(number: u64, server: u64, sent: u64, timeout: u64) -> Call<u64> {
        Call::new(number, ShortId(server), MonotonicNs(sent), Duration::from_nanos(timeout), number)
    }

    #[test]
    fn a_time_out_that_is_longer_than_time_never_comes() {
        let mut pending = Pending::new(1);
        pending.add(Call::new(1, ShortId(1), MonotonicNs(5), Duration::MAX, ()));
        assert_eq!(pending.deadline(), Some(MonotonicNs(u64::MAX)));
        assert!(pending.lost(MonotonicNs(u64::MAX - 1)).is_none());
    }

    #[test]
    fn a_call_whose_response_is_on_its_way_is_not_lost_any_more() {
        let mut pending = Pending::new(2);
        pending.add(call(1, 7, 0, 10));
        pending.add(call(2, 7, 0, 10));
        assert!(pending.doom(|_| false));
        pending.save(1);
        assert_eq!(
            pending.lost(MonotonicNs(5)).map(|(c, loss)| (c.number, loss)),
            Some((2, Loss::ServerGone))
        );
        assert!(!pending.doom(|_| false) && pending.lost(MonotonicNs(50)).is_none());
        assert_eq!(pending.deadline(), None);
        assert_eq!(pending.answered(1).map(|c| c.then), Some(1));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add { server: u64, timeout: u64 },
        Answer(u64),
        Gone(u64),
        Later(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..3u64, 0..50u64).prop_map(|(server, timeout)| Step::Add { server, timeout }),
            // Includes numbers of calls that were never made.
            (0..40u64).prop_map(Step::Answer),
            (0..3u64).prop_map(Step::Gone),
            (0..30u64).prop_map(Step::Later),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        /// For all events in all orders: each call ends once, for the right reason, and at most the
        /// limit are in flight.
        #[test]
        fn every_call_ends_exactly_once(steps in steps(), limit in 1usize..5) {
            let mut pending = Pending::new(limit);
            let (mut now, mut next) = (0, 1);
            let mut open: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Add { server, timeout } => {
                        prop_assert_eq!(pending.is_full(), open.len() == limit);
                        if !pending.is_full() {
                            pending.add(call(next, server, now, timeout));
                            open.insert(next, (server, now + timeout));
                            next += 1;
                        }
                    }
                    Step::Answer(number) => {
                        let known = open.remove(&number).map(|_| number);
                        prop_assert_eq!(pending.answered(number).map(|c| c.then), known);
                    }
                    Step::Gone(server) => {
                        let lost = open.values().any(|(s, _)| *s == server);
                        prop_assert_eq!(pending.doom(|id| id.0 != server), lost);
                        let mut gone = Vec::new();
                        while let Some((c, loss)) = pending.lost(MonotonicNs(now)) {
                            let (s, deadline) = open.remove(&c.number).unwrap();
                            prop_assert_eq!(
                                loss,
                                if s == server { Loss::ServerGone } else { Loss::TimedOut }
                            );
                            prop_assert!(s == server || deadline <= now);
                            gone.push(c.number);
                        }
                        prop_assert!(gone.is_sorted());
                    }
                    Step::Later(by) => {
                        now += by;
                        let earliest = open.values().map(|(_, d)| *d).min();
                        prop_assert_eq!(pending.deadline().map(|d| d.0), earliest);
                        while let Some((c, loss)) = pending.lost(MonotonicNs(now)) {
                            prop_assert_eq!(loss, Loss::TimedOut);
                            prop_assert!(open.remove(&c.number).unwrap().1 <= now);
                        }
                        prop_assert!(open.values().all(|(_, d)| *d > now));
                    }
                }
                prop_assert_eq!(pending.len(), open.len());
            }
        }
    }
}
