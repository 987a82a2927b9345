// SPDX-License-Identifier: Apache-2.0
//! Heartbeats of a module's process: their values, and their transfer to the launcher.

use crate::activity::{Seen, oldest_calls};
use crate::heartbeats::Heartbeats;
use driveline::{DeadlineCounter, PublishedCounter};
use driveline_types::MonotonicNs;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time that each call of a component may take (`budget_ms` of the graph). Counts the calls that
/// take longer.
pub(crate) struct Budget {
    time: Duration,
    beats: Arc<Heartbeats>,
    component: usize,
}

impl Budget {
    pub(super) fn new(time: Duration, beats: Arc<Heartbeats>, component: usize) -> Self {
        Self { time, beats, component }
    }

    /// Notes that a call began at `start`; it ends when the guard is dropped.
    pub(super) fn begin(&self, start: MonotonicNs) -> Within<'_> {
        Within { budget: self, start, stalled: self.beats.stalled(start) }
    }

    /// Counts a call if it took too long. Time in which the process did not run does not count.
    fn end(&self, start: MonotonicNs, stalled_before: u64, now: MonotonicNs) {
        let stalled = self.beats.stalled(now).saturating_sub(stalled_before);
        let took = now.since(start).saturating_sub(Duration::from_nanos(stalled));
        if took > self.time {
            self.beats.overrun(self.component, took);
        }
    }
}

/// Guard of a call; dropped when the call has ended.
pub(super) struct Within<'a> {
    budget: &'a Budget,
    start: MonotonicNs,
    stalled: u64,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.budget.end(self.start, self.stalled, MonotonicNs::now());
    }
}

/// Sources of the words of one component.
pub(super) struct Words {
    pub(super) calls: Seen,
    /// One for each input; `None` without `on_deadline`.
    pub(super) deadlines: Vec<Option<DeadlineCounter>>,
    pub(super) published: Vec<PublishedCounter>,
}

/// Values that the watching thread writes at each beat.
pub(super) struct Pulse {
    beats: Arc<Heartbeats>,
    calls: Vec<Seen>,
    components: Vec<Words>,
    oldest: Mutex<Vec<Option<MonotonicNs>>>,
}

impl Pulse {
    pub(super) fn new(beats: Arc<Heartbeats>, components: Vec<Words>) -> Self {
        let calls = components.iter().map(|c| c.calls).collect();
        let oldest = Mutex::new(vec![None; components.len()]);
        Self { beats, calls, components, oldest }
    }

    /// Makes one beat.
    pub(super) fn beat(&self, now: MonotonicNs) {
        for (component, words) in self.components.iter().enumerate() {
            for (input, counter) in words.deadlines.iter().enumerate() {
                let Some(counter) = counter else { continue };
                self.beats.missed_deadlines(component, input, counter.missed());
            }
        }
        // Only this thread takes the lock.
        let mut oldest = self.oldest.lock().unwrap_or_else(PoisonError::into_inner);
        self.beats.beat(now, |beats| {
            oldest_calls(&self.calls, &mut oldest);
            for (component, (since, words)) in oldest.iter().zip(&self.components).enumerate() {
                beats.running(component, *since);
                for (output, counter) in words.published.iter().enumerate() {
                    beats.published(component, output, counter.get());
                }
            }
        });
    }
}

/// The socket of the account. If a descriptor (that of the heartbeats) waits, it is sent to the
/// launcher together with the next write.
pub(super) struct AccountSocket {
    stream: UnixStream,
    next: Arc<Mutex<Option<OwnedFd>>>,
}

impl AccountSocket {
    /// Returns the socket, and the place for the descriptor.
    pub(super) fn new(stream: UnixStream) -> (Self, Arc<Mutex<Option<OwnedFd>>>) {
        let next: Arc<Mutex<Option<OwnedFd>>> = Arc::default();
        (Self { stream, next: next.clone() }, next)
    }
}

impl Write for AccountSocket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(fd) = next.take_if(|_| !bytes.is_empty()) else {
            drop(next);
            return self.stream.write(bytes);
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [fd.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let sent = sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
        // A descriptor that was not sent goes with the next write.
        sent.map_err(|e| {
            *next = Some(fd);
            e.into()
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeats::PeerHeartbeats;
    use crate::launch::judge_module;

    const MS: u64 = 1_000_000;

    /// SIGSTOP or a debugger for a minute, in the middle of a call.
    #[test]
    fn time_in_which_the_process_is_stopped_is_no_time_of_a_call() {
        let module = judge_module();
        let layout = crate::heartbeats::Layout::of(&module).unwrap();
        let beats = Arc::new(Heartbeats::new(layout.clone()).unwrap());
        let peer = PeerHeartbeats::open(&beats.fd().try_clone_to_owned().unwrap(), layout).unwrap();
        let overruns = || peer.read().unwrap().components[0].overruns;
        let budget = Budget::new(Duration::from_millis(500), beats.clone(), 0);
        let at = |ms: u64| MonotonicNs(ms * MS);
        let call = |start: u64, end: u64| budget.end(at(start), beats.stalled(at(start)), at(end));
        beats.beat(at(1_000), |_| {});
        call(1_000, 1_300);
        assert_eq!(overruns(), 0);
        call(1_050, 61_100);
        assert_eq!(overruns(), 0, "it ends before the next beat");
        let within = (at(61_200), beats.stalled(at(61_200)));
        beats.beat(at(61_200), |_| {});
        beats.beat(at(121_300), |_| {});
        budget.end(within.0, within.1, at(121_350));
        assert_eq!(overruns(), 0, "it ends after the next beat");
        for beat in 1..=6 {
            beats.beat(at(121_300 + 100 * beat), |_| {});
        }
        call(121_350, 121_900);
        assert_eq!(overruns(), 1, "it worked for 550 ms");
    }
}
