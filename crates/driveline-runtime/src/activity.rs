// SPDX-License-Identifier: Apache-2.0
//! Table of the component calls that run now, with their start times.
//!
//! Each thread that calls components has a slot of its own in a table and writes into it before and
//! after each call: a few stores, no lock, no clock, no allocation. Other code reads the table: the
//! thread that reports long calls and writes heartbeats (`host/watch.rs`), and the handler of fatal
//! signals (`host/crash.rs`), which may do nothing but read.

use crate::account::{Call, CallPlace};
use driveline_types::MonotonicNs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering, fence};

/// Maximum number of threads in components at once; further threads are not seen.
const SLOTS: usize = 1024;
/// Maximum number of components and libraries of a process; further ones are not seen.
const COMPONENTS: usize = 1024;
/// Maximum length of the signal handler's text: a component, a topic, and some words. The stack of
/// the handler is small.
const TEXT: usize = 1024;
/// Stands for no component or no input.
const NONE: usize = usize::MAX;

static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
static KNOWN: [OnceLock<Known>; COMPONENTS] = [const { OnceLock::new() }; COMPONENTS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// State of one thread. An odd generation means that a call runs. A slot has its own cache line,
/// because its thread writes it at each call.
#[repr(align(64))]
struct Slot {
    thread: AtomicI32,
    generation: AtomicU64,
    component: AtomicUsize,
    call: AtomicUsize,
    input: AtomicUsize,
    sequence: AtomicU64,
    since: AtomicU64,
}

impl Slot {
    const fn new() -> Self {
        Self {
            thread: AtomicI32::new(0),
            generation: AtomicU64::new(0),
            component: AtomicUsize::new(NONE),
            call: AtomicUsize::new(0),
            input: AtomicUsize::new(NONE),
            sequence: AtomicU64::new(0),
            since: AtomicU64::new(0),
        }
    }

    fn now(&self) -> Now {
        Now {
            component: self.component.load(Ordering::Relaxed),
            call: self.call.load(Ordering::Relaxed),
            input: self.input.load(Ordering::Relaxed),
            sequence: self.sequence.load(Ordering::Relaxed),
            since: self.since.load(Ordering::Relaxed),
        }
    }

    fn set(&self, now: Now) {
        self.component.store(now.component, Ordering::Relaxed);
        self.call.store(now.call, Ordering::Relaxed);
        self.input.store(now.input, Ordering::Relaxed);
        self.sequence.store(now.sequence, Ordering::Relaxed);
        self.since.store(now.since, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
struct Now {
    component: usize,
    call: usize,
    input: usize,
    sequence: u64,
    since: u64,
}

const CALLS: [Call; 9] = [
    Call::Load,
    Call::Init,
    Call::OnTrigger,
    Call::Timer,
    Call::Shutdown,
    Call::OnEvent,
    Call::OnParameter,
    Call::OnActivate,
    Call::OnDeactivate,
];

/// A component in the table, with everything that the signal handler writes about it.
struct Known {
    name: Texts,
    topics: Vec<Texts>,
}

/// A text for people, and as a JSON string.
struct Texts {
    plain: String,
    json: String,
}

impl Texts {
    fn of(text: &str) -> Self {
        Self { plain: text.to_owned(), json: serde_json::Value::from(text).to_string() }
    }
}

/// A component (or library) in the table. Copies refer to the same entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(usize);

impl Seen {
    /// Registers a component with the topic of each of its inputs. It stays registered as long as
    /// the process runs.
    pub(crate) fn new(component: &str, topics: &[String]) -> Self {
        let at = NEXT.fetch_add(1, Ordering::Relaxed);
        let Some(place) = KNOWN.get(at) else { return Self(NONE) };
        let known = Known {
            name: Texts::of(component),
            topics: topics.iter().map(|t| Texts::of(t)).collect(),
        };
        Self(if place.set(known).is_ok() { at } else { NONE })
    }

    /// Notes that a call begins on this thread; it ends when the guard is dropped. `sample` is the
    /// input that triggered it and the sequence number. A nested call hides the outer one.
    pub(crate) fn enter(
        self,
        call: Call,
        since: MonotonicNs,
        sample: Option<(usize, u64)>,
    ) -> Inside {
        let Some(slot) = own_slot() else { return Inside { slot: None, before: None } };
        let (input, sequence) = sample.unwrap_or((NONE, 0));
        let call = CALLS.iter().position(|c| *c == call).unwrap_or(0);
        let generation = slot.generation.load(Ordering::Relaxed);
        let before = (generation % 2 == 1).then(|| slot.now());
        write(slot, Some(Now { component: self.0, call, input, sequence, since: since.0 }));
        Inside { slot: Some(slot), before }
    }
}

/// Guard of a call; dropped when the call has ended.
pub(crate) struct Inside {
    slot: Option<&'static Slot>,
    before: Option<Now>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            write(slot, self.before);
        }
    }
}

/// Writes a slot. Only the slot's own thread calls this, so two writes never overlap. Readers use
/// the generation to detect a slot that changes while they read it.
fn write(slot: &Slot, now: Option<Now>) {
    let idle = slot.generation.load(Ordering::Relaxed).next_multiple_of(2);
    slot.generation.store(idle, Ordering::Relaxed);
    if let Some(now) = now {
        // A reader that sees one of the new values also sees that the old call has ended.
        fence(Ordering::Release);
        slot.set(now);
        // Each call gets a new number; so does an outer call that continues after a nested one.
        slot.generation.store(idle + 1, Ordering::Release);
    }
}

thread_local! {
    static OWN: Own = Own::claim();
}

struct Own(Option<&'static Slot>);

impl Own {
    fn claim() -> Self {
        driveline_shm::reserve_signal_stack();
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let free = |s: &&Slot| {
            s.thread.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        Self(TABLE.iter().find(free))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            write(slot, None);
            slot.thread.store(0, Ordering::Release);
        }
    }
}

fn own_slot() -> Option<&'static Slot> {
    OWN.try_with(|own| own.0).ok().flatten()
}

/// A running call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    /// Identifies this call among all calls.
    pub(crate) id: (usize, u64),
    pub(crate) place: CallPlace,
    pub(crate) since: MonotonicNs,
}

/// Returns all running calls that began at `until` or before.
pub(crate) fn running_since(until: MonotonicNs) -> Vec<Running> {
    let mut found = Vec::new();
    for (i, slot) in TABLE.iter().enumerate() {
        let generation = slot.generation.load(Ordering::Acquire);
        if generation % 2 == 0 {
            continue;
        }
        let now = slot.now();
        fence(Ordering::Acquire);
        if slot.generation.load(Ordering::Relaxed) != generation || now.since > until.0 {
            continue;
        }
        let Some(known) = KNOWN.get(now.component).and_then(OnceLock::get) else { continue };
        let topic = known.topics.get(now.input).map(|t| t.plain.clone());
        let sequence = topic.as_ref().map(|_| now.sequence);
        let place = CallPlace {
            component: known.name.plain.clone(),
            call: CALLS[now.call % CALLS.len()],
            topic,
            sequence,
        };
        found.push(Running { id: (i, generation), place, since: MonotonicNs(now.since) });
    }
    found
}

/// Returns the start of the oldest running call of each component; only calls of callbacks, timers
/// and callbacks for events or changed parameters count. Neither locks nor allocates.
pub(crate) fn oldest_calls(components: &[Seen], oldest: &mut [Option<MonotonicNs>]) {
    oldest.fill(None);
    for slot in &TABLE {
        let generation = slot.generation.load(Ordering::Acquire);
        if generation % 2 == 0 {
            continue;
        }
        let now = slot.now();
        fence(Ordering::Acquire);
        let by_executor = matches!(
            CALLS[now.call % CALLS.len()],
            Call::OnTrigger | Call::Timer | Call::OnEvent | Call::OnParameter
        );
        if slot.generation.load(Ordering::Relaxed) != generation || !by_executor {
            continue;
        }
        let component = components.iter().position(|c| c.0 == now.component);
        if let Some(place) = component.and_then(|c| oldest.get_mut(c)) {
            *place = Some(place.map_or(MonotonicNs(now.since), |p| p.min(MonotonicNs(now.since))));
        }
    }
}

/// Texts about the call that runs on this thread: for people, and as the keys of a JSON record,
/// each beginning with a separator. Empty if there is none. Async-signal-safe.
pub(crate) fn describe_own(text: &mut Text, json: &mut Text) {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    // A thread-local variable would not do: its first use could allocate.
    let Some(slot) = TABLE.iter().find(|s| s.thread.load(Ordering::Relaxed) == thread) else {
        return;
    };
    if slot.generation.load(Ordering::Relaxed) % 2 == 0 {
        return;
    }
    let now = slot.now();
    let Some(known) = KNOWN.get(now.component).and_then(OnceLock::get) else { return };
    let call = CALLS[now.call % CALLS.len()].name();
    text.push(" component '").push(&known.name.plain).push("' in ").push(call);
    json.push(",\"component\":").push(&known.name.json).push(",\"call\":\"").push(call).push("\"");
    if let Some(topic) = known.topics.get(now.input) {
        text.push(" on sample ").number(now.sequence).push(" of '").push(&topic.plain).push("'");
        json.push(",\"topic\":").push(&topic.json).push(",\"sequence\":").number(now.sequence);
    }
}

/// Text of bounded length that never allocates; the rest is cut.
pub(crate) struct Text {
    bytes: [u8; TEXT],
    len: usize,
}

impl Text {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; TEXT], len: 0 }
    }

    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.push_bytes(text.as_bytes())
    }

    pub(crate) fn append(&mut self, other: &Self) -> &mut Self {
        self.push_bytes(other.bytes())
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let taken = bytes.get(..bytes.len().min(self.bytes.len() - self.len)).unwrap_or_default();
        if let Some(to) = self.bytes.get_mut(self.len..self.len + taken.len()) {
            to.copy_from_slice(taken);
            self.len += taken.len();
        }
        self
    }

    pub(crate) fn number(&mut self, n: u64) -> &mut Self {
        if n >= 10 {
            self.number(n / 10);
        }
        let digit = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        self.push(digit.get((n % 10) as usize).copied().unwrap_or_default())
    }

    pub(crate) fn hex(&mut self, n: usize) -> &mut Self {
        if n >= 16 {
            self.hex(n / 16);
        }
        let digit =
            ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"];
        self.push(digit.get(n % 16).copied().unwrap_or_default())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the running calls of one component; other tests may run calls too.
    fn of(component: &str) -> Vec<Running> {
        running_since(MonotonicNs(u64::MAX))
            .into_iter()
            .filter(|r| r.place.component == component)
            .collect()
    }

    #[test]
    fn a_call_is_seen_from_outside_while_it_runs() {
        let seen = Seen::new("lane", &["camera/image".into()]);
        let inside = seen.enter(Call::OnTrigger, MonotonicNs(5), Some((0, 7)));
        let calls = of("lane");
        assert_eq!(
            calls[0].place.to_string(),
            "component 'lane' in on_trigger on sample 7 of 'camera/image'"
        );
        assert_eq!(calls[0].since, MonotonicNs(5));
        assert!(
            running_since(MonotonicNs(4)).iter().all(|r| r.place.component != "lane"),
            "not yet long enough"
        );
        {
            let _within = seen.enter(Call::Timer, MonotonicNs(6), None);
            assert_eq!(of("lane")[0].place.to_string(), "component 'lane' in timer");
        }
        let again = of("lane");
        assert_eq!(again[0].place, calls[0].place);
        drop(inside);
        assert_eq!(of("lane"), []);
        let _next = seen.enter(Call::OnTrigger, MonotonicNs(5), Some((0, 7)));
        assert_ne!(of("lane")[0].id, calls[0].id, "another call, although its place is the same");
    }

    #[test]
    fn the_oldest_call_of_each_component_is_found() {
        let [a, b, c] = ["oldest a", "oldest b", "oldest c"].map(|name| Seen::new(name, &[]));
        let _a = a.enter(Call::OnTrigger, MonotonicNs(5), None);
        let mut oldest = [Some(MonotonicNs(9)); 3];
        std::thread::scope(|s| {
            s.spawn(|| {
                let _a = a.enter(Call::Timer, MonotonicNs(3), None);
                s.spawn(|| {
                    let _init = b.enter(Call::Init, MonotonicNs(1), None);
                    oldest_calls(&[a, b, c], &mut oldest);
                })
                .join()
                .unwrap();
            });
        });
        assert_eq!(oldest, [Some(MonotonicNs(3)), None, None]);
    }

    #[test]
    fn a_changed_parameter_is_a_call_of_its_own_name() {
        let limit = Seen::new("limit", &[]);
        let _inside = limit.enter(Call::OnParameter, MonotonicNs(5), None);
        assert_eq!(of("limit")[0].place.to_string(), "component 'limit' in on_parameter");
        let mut oldest = [None];
        oldest_calls(&[limit], &mut oldest);
        assert_eq!(oldest, [Some(MonotonicNs(5))], "it can hang, like a callback");
    }

    #[test]
    fn the_handler_of_a_signal_can_describe_its_thread() {
        let (mut text, mut json) = (Text::new(), Text::new());
        std::thread::scope(|s| {
            s.spawn(|| describe_own(&mut text, &mut json));
        });
        assert_eq!(
            (text.bytes(), json.bytes()),
            (&b""[..], &b""[..]),
            "a thread that calls no components"
        );
        let seen = Seen::new("la\"ne", &["a".into(), "camera/image".into()]);
        let _inside = seen.enter(Call::OnTrigger, MonotonicNs(5), Some((1, 1203)));
        describe_own(&mut text, &mut json);
        assert_eq!(
            String::from_utf8_lossy(text.bytes()),
            " component 'la\"ne' in on_trigger on sample 1203 of 'camera/image'"
        );
        let line = format!(
            "{{\"record\":\"crash\",\"signal\":11{}}}",
            String::from_utf8_lossy(json.bytes())
        );
        let record: crate::account::Record = serde_json::from_str(&line).unwrap();
        let place = CallPlace {
            component: "la\"ne".into(),
            call: Call::OnTrigger,
            topic: Some("camera/image".into()),
            sequence: Some(1203),
        };
        assert_eq!(record, crate::account::Record::Crash { signal: 11, call: Some(place) });
    }

    #[test]
    fn numbers_are_written_and_what_does_not_fit_is_left_out() {
        let mut text = Text::new();
        text.number(0).push(" ").number(u64::MAX).push(" 0x").hex(0xbeef);
        assert_eq!(text.bytes(), format!("0 {} 0xbeef", u64::MAX).as_bytes());
        for _ in 0..100 {
            text.push(&"x".repeat(100));
        }
        assert_eq!(text.bytes().len(), TEXT);
    }
}
