// SPDX-License-Identifier: Apache-2.0
//! Heartbeats of a module: words in shared memory that its process writes and the launcher reads,
//! never messages.
//!
//! A thread that no component can block (`host/watch.rs`) writes most of them every [`PERIOD`]. A
//! call that took too long is counted by its own thread, when it ends. Meaning of the words:
//! `docs/protocols/heartbeats.md`. The launcher judges them in `launch/judge.rs`.

use driveline_graph::ResolvedModule;
use driveline_shm::heartbeat::{HeartbeatWords, PeerHeartbeatWords};
use driveline_types::MonotonicNs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

/// Time between two beats.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);
/// Maximum number of attempts to read a beat. An attempt fails if the module writes a beat
/// meanwhile.
const ATTEMPTS: usize = 64;
/// If beats are further apart than this, the process did not run, because it was stopped or the
/// machine was busy. Such time does not count for a call.
pub(crate) const STALL: Duration = Duration::from_millis(400);

const FINGERPRINT: usize = 0;
const BEAT: usize = 1;
const STALLED: usize = 2;
/// Odd while a beat is written.
const SEQUENCE: usize = 3;
const HEADER: usize = 8;
/// Words of a component, in front of those of its ports.
const SINCE: usize = 0;
const OVERRUNS: usize = 1;
const WORST: usize = 2;
const OF_COMPONENT: usize = 3;

/// Layout of the words. If it differs between the two sides, their fingerprints differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    components: Vec<ComponentLayout>,
    words: usize,
    fingerprint: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ComponentLayout {
    first: usize,
    inputs: usize,
    outputs: usize,
}

impl Layout {
    /// Returns the layout for a module, if the graph declares anything that needs heartbeats.
    pub(crate) fn of(module: &ResolvedModule) -> Option<Self> {
        let wanted = module.watch.hang.is_some()
            || module.components.iter().any(|c| {
                c.budget.is_some()
                    || c.inputs.iter().any(|i| i.on_deadline.is_some())
                    || c.outputs.iter().any(|o| o.rate.is_some())
            });
        let (mut words, mut hasher) = (HEADER, DefaultHasher::new());
        let mut component = |c: &driveline_graph::ResolvedComponent| {
            let (first, inputs, outputs) = (words, c.inputs.len(), c.outputs.len());
            words += OF_COMPONENT + inputs + outputs;
            c.name.as_str().hash(&mut hasher);
            c.inputs.iter().for_each(|i| i.port.hash(&mut hasher));
            c.outputs.iter().for_each(|o| o.port.hash(&mut hasher));
            (inputs, outputs).hash(&mut hasher);
            ComponentLayout { first, inputs, outputs }
        };
        let components = module.components.iter().map(&mut component).collect();
        // 0 stands for memory that was never written.
        let fingerprint = hasher.finish() | 1;
        wanted.then_some(Self { components, words, fingerprint })
    }
}

/// Returns the time in which the process did not run, from its beats. A pure function of the words.
fn stalled_until(now: u64, beat: u64, stalled: u64) -> u64 {
    let gap = now.saturating_sub(beat);
    let slack = ns(STALL);
    if beat > 0 && gap > slack { stalled.saturating_add(gap - ns(PERIOD)) } else { stalled }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The module's side. Any thread may use it, except for [`Self::beat`]. Once it is created, nothing
/// here waits or allocates.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    words: HeartbeatWords,
    layout: Layout,
}

impl Heartbeats {
    pub(crate) fn new(layout: Layout) -> io::Result<Self> {
        let words = HeartbeatWords::new(layout.words)?;
        let own = Self { words, layout };
        own.word(FINGERPRINT).store(own.layout.fingerprint, Ordering::Relaxed);
        Ok(own)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.words.fd()
    }

    // Relaxed: a word is either independent of all others, or part of a beat, whose words the
    // sequence orders.
    fn word(&self, index: usize) -> &AtomicU64 {
        static NOWHERE: AtomicU64 = AtomicU64::new(0);
        self.words.words().get(index).unwrap_or(&NOWHERE)
    }

    fn of(&self, component: usize) -> Option<&ComponentLayout> {
        self.layout.components.get(component)
    }

    /// Makes one beat at `now`; `write` stores its words. From one thread only.
    pub(crate) fn beat(&self, now: MonotonicNs, write: impl FnOnce(&Self)) {
        let stalled = self.stalled(now);
        let sequence = self.word(SEQUENCE);
        let odd = sequence.load(Ordering::Relaxed) | 1;
        sequence.store(odd, Ordering::Relaxed);
        // A reader that sees a new word also sees that the beat is being written.
        fence(Ordering::Release);
        write(self);
        self.word(STALLED).store(stalled, Ordering::Relaxed);
        self.word(BEAT).store(now.0, Ordering::Relaxed);
        sequence.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// Returns the time until `now` in which the process did not run, in nanoseconds.
    pub(crate) fn stalled(&self, now: MonotonicNs) -> u64 {
        let beat = self.word(BEAT).load(Ordering::Relaxed);
        stalled_until(now.0, beat, self.word(STALLED).load(Ordering::Relaxed))
    }

    /// Stores the start of the oldest running call of a component; `None` if none runs.
    pub(crate) fn running(&self, component: usize, since: Option<MonotonicNs>) {
        if let Some(c) = self.of(component) {
            self.word(c.first + SINCE).store(since.map_or(0, |s| s.0.max(1)), Ordering::Relaxed);
        }
    }

    /// Counts a call that took longer than its component's budget.
    pub(crate) fn overrun(&self, component: usize, took: Duration) {
        if let Some(c) = self.of(component) {
            self.word(c.first + WORST).fetch_max(ns(took), Ordering::Relaxed);
            self.word(c.first + OVERRUNS).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stores the number of samples that an output has published.
    pub(crate) fn published(&self, component: usize, output: usize, samples: u64) {
        if let Some(c) = self.of(component).filter(|c| output < c.outputs) {
            self.word(c.first + OF_COMPONENT + c.inputs + output).store(samples, Ordering::Relaxed);
        }
    }

    /// Stores the number of deadlines that an input has missed.
    pub(crate) fn missed_deadlines(&self, component: usize, input: usize, total: u64) {
        if let Some(c) = self.of(component).filter(|c| input < c.inputs) {
            self.word(c.first + OF_COMPONENT + input).store(total, Ordering::Relaxed);
        }
    }
}

/// Values that the launcher has read of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Time of the last beat, on the module's clock. Only its changes matter.
    pub(crate) beat: u64,
    pub(crate) components: Vec<ComponentSnapshot>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ComponentSnapshot {
    /// Start of the oldest running call; 0 if none runs.
    pub(crate) since: u64,
    /// Calls that took longer than the budget.
    pub(crate) overruns: u64,
    /// The longest of them, in nanoseconds.
    pub(crate) worst_ns: u64,
    /// Deadlines missed, by input.
    pub(crate) inputs: Vec<u64>,
    /// Samples published, by output.
    pub(crate) outputs: Vec<u64>,
}

/// The launcher's side.
#[derive(Debug)]
pub(crate) struct PeerHeartbeats {
    words: PeerHeartbeatWords,
    layout: Layout,
}

impl PeerHeartbeats {
    /// Maps the words that a module has sent.
    ///
    /// # Errors
    /// If the memory cannot be mapped, or if the words belong to another graph: the module's graph
    /// file has changed since the run began.
    pub(crate) fn open(fd: &OwnedFd, layout: Layout) -> io::Result<Self> {
        let words = PeerHeartbeatWords::open(fd, layout.words)?;
        if words.load(FINGERPRINT) != layout.fingerprint {
            let text = "they are of another graph: has the file changed since the run began?";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Self { words, layout })
    }

    /// Reads the words of one beat. Returns `None` if the module was writing during all attempts,
    /// or has died while writing.
    pub(crate) fn read(&self) -> Option<Snapshot> {
        for _ in 0..ATTEMPTS {
            let before = self.words.load(SEQUENCE);
            fence(Ordering::Acquire);
            let seen = self.read_once();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.words.load(SEQUENCE) == before {
                return Some(seen);
            }
            std::hint::spin_loop();
        }
        None
    }

    fn read_once(&self) -> Snapshot {
        let at = |index| self.words.load(index);
        let component = |c: &ComponentLayout| {
            let ports = c.first + OF_COMPONENT;
            ComponentSnapshot {
                since: at(c.first + SINCE),
                overruns: at(c.first + OVERRUNS),
                worst_ns: at(c.first + WORST),
                inputs: (0..c.inputs).map(|i| at(ports + i)).collect(),
                outputs: (0..c.outputs).map(|i| at(ports + c.inputs + i)).collect(),
            }
        };
        Snapshot {
            beat: at(BEAT),
            components: self.layout.components.iter().map(component).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(ports: &[(usize, usize)]) -> Layout {
        let mut words = HEADER;
        let mut component = |(inputs, outputs): &(usize, usize)| {
            let first = words;
            words += OF_COMPONENT + inputs + outputs;
            ComponentLayout { first, inputs: *inputs, outputs: *outputs }
        };
        let components = ports.iter().map(&mut component).collect();
        Layout { components, words, fingerprint: 7 }
    }

    #[test]
    fn the_launcher_reads_what_the_module_writes() {
        let own = Heartbeats::new(layout(&[(1, 2), (2, 0)])).unwrap();
        let fd = own.fd().try_clone_to_owned().unwrap();
        let peer = PeerHeartbeats::open(&fd, layout(&[(1, 2), (2, 0)])).unwrap();
        own.beat(MonotonicNs(5_000), |_| {});
        own.running(0, Some(MonotonicNs(4_000)));
        own.overrun(0, Duration::from_millis(2));
        own.overrun(0, Duration::from_millis(1));
        own.published(0, 1, 30);
        own.missed_deadlines(1, 1, 4);
        // An output that does not exist changes nothing else.
        own.published(1, 0, 99);
        own.missed_deadlines(0, 1, 99);
        own.running(2, Some(MonotonicNs(1)));
        let seen = peer.read().unwrap();
        let (lane, fusion) = (&seen.components[0], &seen.components[1]);
        assert_eq!(
            (seen.beat, lane.since, lane.overruns, lane.worst_ns),
            (5_000, 4_000, 2, 2_000_000)
        );
        assert_eq!((&lane.inputs[..], &lane.outputs[..]), (&[0][..], &[0, 30][..]));
        assert_eq!((&fusion.inputs[..], fusion.since), (&[0, 4][..], 0));
        own.beat(MonotonicNs(6_000), |own| {
            own.running(0, None);
            assert_eq!(peer.read(), None, "half written");
        });
        assert_eq!(peer.read().unwrap().components[0].since, 0);
    }

    #[test]
    fn words_of_another_graph_are_refused() {
        let own = Heartbeats::new(layout(&[(1, 2)])).unwrap();
        let other = Layout { fingerprint: 9, ..layout(&[(1, 2)]) };
        let fd = own.fd().try_clone_to_owned().unwrap();
        let e = PeerHeartbeats::open(&fd, other).unwrap_err();
        assert!(e.to_string().contains("another graph"), "{e}");
    }

    /// A process that is stopped for a minute, or that a busy machine does not run, loses that time
    /// and no other.
    #[test]
    fn time_in_which_a_process_does_not_run_is_known_before_and_after_its_next_beat() {
        let own = Heartbeats::new(layout(&[])).unwrap();
        let at = |ms: u64| MonotonicNs(ms * 1_000_000);
        own.beat(at(1_000), |_| {});
        own.beat(at(1_100), |_| {});
        assert_eq!(own.stalled(at(1_400)), 0, "a late beat is no stall");
        assert_eq!(own.stalled(at(61_100)), 59_900_000_000, "before the next beat");
        own.beat(at(61_100), |_| {});
        assert_eq!(own.stalled(at(61_200)), 59_900_000_000, "and after it");
    }
}
