// SPDX-License-Identifier: Apache-2.0
//! Account of a run: JSON records, one a line, from the processes of a graph to their parent.
//!
//! A module's process [writes](Writer) the stream into a socket that the launcher gave it; the
//! launcher [reads](LineReader) the streams of all modules. The data path only fills prepared
//! records and hands them to a queue without locks; if the launcher is slow, records are dropped,
//! counted and reported in the stream ([`Record::Lost`]). Only the thread that writes waits for the
//! launcher; once the stream is to end, at most for the time that [`Writer::close`] states.

mod build_id;
mod contained;
mod reader;
mod writer;

pub use build_id::build_id;
pub(crate) use build_id::graph_digest;
pub use contained::{CONTAINED_FORMAT, ContainedRecord, OutputStream, Usage, Word};
pub use reader::{LineReader, MAX_LINE_BYTES};
pub use writer::{CLOSE_WITHIN, WRITE_WITHIN, Writer, WriterError};

use driveline::service::{ServiceCalls, ServiceEnd};
use driveline::{CallbackStats, ParameterValue, SubscriptionStats};
use driveline_types::header::Arrival;
use driveline_types::{MonotonicNs, Origin, Origins, SampleHeader, TopicId, Uncounted};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Version of the records; a reader ignores records that it does not know.
pub const FORMAT: u32 = 1;

/// One setting that a module requests from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingAccount {
    /// Key of the graph file, or the threads: `lock_memory`, `exclusive main`, `thread main/0`,
    /// `other threads`.
    pub setting: String,
    /// Setting in force, for people.
    pub in_force: String,
    /// Reason why it differs from the request, and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// One line of the stream. Times are on the host's `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// First record: the process exists.
    Hello {
        /// [`FORMAT`].
        format: u32,
        /// Module.
        module: String,
        /// Process id, in its own namespace.
        pid: u32,
        /// [`build_id`] of the process; empty from earlier releases, which do not report it.
        #[serde(default)]
        build: String,
        /// Offset of its `CLOCK_MONOTONIC` to that of the machine; not 0 in a time namespace of its
        /// own.
        #[serde(default)]
        clock_offset_ns: i64,
    },
    /// The graph that the process has read.
    Graph {
        /// Digest of its files and of `--set`.
        digest: String,
    },
    /// All components are initialised; the process waits for the command to start.
    Ready,
    /// The executors run.
    Started {
        /// Schedules in force: one line per thread.
        threads: Vec<String>,
        /// Method by which threads wait for samples: `futex_waitv` or `helper threads`.
        /// Older releases do not report it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits: Option<String>,
        /// Settings that the module requests from the kernel, and the results, read back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        settings: Vec<SettingAccount>,
    },
    /// A call of a callback or timer has ended.
    Callback(CallbackAccount),
    /// A call of a component failed: of its callback, a timer, `on_event`, `on_activate` or
    /// `on_deactivate`. After five failures, at most one record a second is sent.
    Failure {
        /// Component.
        component: String,
        /// Topic of the sample that triggered the call, if one did.
        topic: Option<String>,
        /// Sequence number of the sample that triggered it.
        sequence: Option<u64>,
        /// Text from the component.
        text: String,
        /// Failures of this component so far, this one included.
        count: u64,
    },
    /// A component's counters, once a second and at the end, if they changed.
    Counters {
        /// Component.
        component: String,
        /// Counts since the start.
        #[serde(flatten)]
        stats: CallbackCounters,
    },
    /// A port cannot be connected to another port on the same topic.
    Refused {
        /// Component.
        component: String,
        /// Its input or output port.
        port: String,
        /// The other end, the reason and the remedy.
        text: String,
    },
    /// A port was matched with another one on its topic.
    Matched {
        /// Component.
        component: String,
        /// Its input or output port.
        port: String,
        /// The component or node at the other end.
        peer: String,
    },
    /// An input gets no samples because its component holds as many as permitted. Sent after 0.5 s
    /// (at the end of the run also earlier), and again when samples come again.
    Held {
        /// Component.
        component: String,
        /// Input port.
        input: String,
        /// Its topic.
        topic: String,
        /// Samples held, which is the input's `max_held`.
        held: u32,
        /// True if samples of the input call the component; otherwise it reads them.
        triggers: bool,
        /// Set once the input gets samples again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<HeldEnd>,
    },
    /// A note that readers of the run's figures need.
    Fact {
        /// Component.
        component: String,
        /// Subject, such as `detector`.
        name: String,
        /// The fact, for people.
        text: String,
    },
    /// Counters of one input of a component, once a second and at the end, if they changed. Unlike
    /// records of calls, they include samples that no call has seen.
    Input {
        /// Component.
        component: String,
        /// Input port.
        input: String,
        /// Its topic.
        topic: TopicId,
        /// Counts since the start.
        #[serde(flatten)]
        stats: InputCounters,
    },
    /// Counters of one output of a component, if they changed: once a second (ten times a second if
    /// the entry condition of a mode names the topic), and at the end. They count from the start of
    /// the process.
    Output {
        /// Component.
        component: String,
        /// Output port.
        output: String,
        /// Its topic.
        topic: TopicId,
        /// Samples published.
        published: u64,
        /// Deadlines missed.
        #[serde(default, skip_serializing_if = "is_zero")]
        deadlines_missed: u64,
        /// Time when the newest sample was published; 0 before the first.
        #[serde(default, skip_serializing_if = "is_zero")]
        newest_ns: u64,
        /// Waits for reliable readers.
        #[serde(default, skip_serializing_if = "BlockedCounters::is_zero")]
        blocked: BlockedCounters,
    },
    /// Calls of one service that a component makes or answers, once a second and at the end, if
    /// they changed. They count from the start of the process.
    Service {
        /// Component.
        component: String,
        /// The service.
        service: String,
        /// Client or server end.
        end: CallEnd,
        /// Counts since the start.
        #[serde(flatten)]
        calls: CallCounters,
    },
    /// A change of a parameter or of the log that the launcher requested was made or refused.
    Changed {
        /// Number of the change.
        change: u64,
        /// Reason why it was not made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A parameter was set, or refused, for a mode or after a restart. No command waits for this
    /// record.
    ParameterSet {
        /// Component.
        component: String,
        /// Parameter.
        name: String,
        /// Value that it was to have.
        value: ParameterValue,
        /// Mode that sets it; `None` after a restart.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// Reason why the old value stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A component requests the end of the run: its work is done.
    Finished {
        /// Component.
        component: String,
    },
    /// The process knows that a component of the run has finished. The timers of the process tick
    /// once more; after that, only for new data.
    Draining {
        /// Time when it learned this.
        at_ns: u64,
    },
    /// Remaining work of the module, in response to the launcher's request.
    Work {
        /// Number of the request.
        round: u64,
        /// All components of the module.
        components: Vec<ComponentWork>,
    },
    /// Records that are missing from the stream because the reader was too slow.
    Lost {
        /// Number of lost records of callbacks, since the start.
        callbacks: u64,
        /// Number of other lost records, since the start.
        #[serde(default)]
        others: u64,
    },
    /// The start has reached a call. It is in this call until the next such record, or until the
    /// process is ready.
    Entered {
        /// The call: the loading of a library, or a component's initialisation.
        #[serde(flatten)]
        call: CallPlace,
    },
    /// A component has been in one call for long; repeated until the call ends: each second, at the
    /// end of the run five times a second.
    Busy {
        /// The call.
        #[serde(flatten)]
        call: CallPlace,
        /// Duration so far.
        for_ms: u64,
    },
    /// A component has carried out a request to become active or inactive.
    Transition {
        /// Component.
        component: String,
        /// The state that was requested.
        active: bool,
        /// Number of the switch.
        switch: u64,
        /// Duration of its call, 0 if it was in the state already.
        took_ns: u64,
        /// Reason of the failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A component requests a mode of the run.
    ModeRequest {
        /// Component.
        component: String,
        /// Name of the mode.
        mode: String,
    },
    /// A signal (SIGTERM or SIGINT) has requested the end of the process.
    Asked,
    /// The process is about to end because of a failure.
    Failed {
        /// The call that failed, if it was one.
        #[serde(flatten)]
        call: Option<CallPlace>,
        /// Reason, for people.
        text: String,
    },
    /// A signal is about to end the process.
    Crash {
        /// Number of the signal.
        signal: i32,
        /// The call that ran on the thread; `None` if none did, for example on a component's own
        /// thread.
        #[serde(flatten)]
        call: Option<CallPlace>,
    },
    /// A record of a newer release.
    #[serde(other)]
    Unknown,
}

/// Work of one component that is in progress or waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentWork {
    /// Component.
    pub component: String,
    /// Calls that have ended, timers included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// Calls in progress.
    #[serde(default)]
    pub running: u32,
    /// Inputs with samples that will be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadInput>,
    /// Time in milliseconds until the timer tick that works on these samples, or on data that calls
    /// have left to a timer of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_ms: Option<u64>,
}

/// An input with samples that will be read. If only complete sets of a trigger wait for a call: the
/// first input, and the number of these sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadInput {
    /// Input port.
    pub input: String,
    /// Number of samples, or of sets.
    pub samples: u64,
}

/// End of the stall that [`Record::Held`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldEnd {
    /// Duration, in milliseconds.
    pub lasted_ms: u64,
    /// Samples replaced by newer ones meanwhile.
    pub missed: u64,
}

/// Maximum length of the text of a [shortened](Record::shortened) record, in bytes. In JSON, each
/// byte of a text takes at most six bytes.
const LONGEST_TEXT: usize = 8 * 1024;

/// Formats a note of a component for people. The subject is left out if it is the component itself.
#[must_use]
pub fn note_line(component: &str, subject: &str, text: &str) -> String {
    if component == subject {
        format!("{component}: {text}")
    } else {
        format!("{component}: {subject}: {text}")
    }
}

impl Record {
    /// Cuts a text longer than [`LONGEST_TEXT`], and appends its original length.
    pub(crate) fn shortened(mut self) -> Self {
        if let Self::Failure { text, .. }
        | Self::Failed { text, .. }
        | Self::Refused { text, .. }
        | Self::Fact { text, .. }
        | Self::Transition { error: Some(text), .. }
        | Self::ParameterSet { error: Some(text), .. }
        | Self::Changed { error: Some(text), .. } = &mut self
            && text.len() > LONGEST_TEXT
        {
            let whole = text.len();
            let end = (0..=LONGEST_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push_str(&format!("… (cut; {whole} bytes in all)"));
        }
        self
    }
}

/// Function of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Its library is being loaded. [`CallPlace::component`] is then the library's path.
    Load,
    /// Its initialisation.
    Init,
    /// Its callback.
    OnTrigger,
    /// A timer of its own.
    Timer,
    /// Its shutdown.
    Shutdown,
    /// Its callback for events of its ports.
    OnEvent,
    /// Its callback for a changed parameter.
    OnParameter,
    /// It becomes active.
    OnActivate,
    /// It becomes inactive.
    OnDeactivate,
}

impl Call {
    /// Returns the name of the component's function in the SDK. A library's loading is `load`, and
    /// a call of a timer is `timer`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Init => "init",
            Self::OnTrigger => "on_trigger",
            Self::Timer => "timer",
            Self::Shutdown => "shutdown",
            Self::OnEvent => "on_event",
            Self::OnParameter => "on_parameter",
            Self::OnActivate => "on_activate",
            Self::OnDeactivate => "on_deactivate",
        }
    }
}

/// A call of a component, and what it was made for. Displays for people:
/// `component 'lane' in on_trigger on sample 7 of 'camera/image'`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPlace {
    /// Component.
    pub component: String,
    /// Function that was called.
    pub call: Call,
    /// Topic of the sample that triggered it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The sample's sequence number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

impl CallPlace {
    /// Returns the place in the component: `on_trigger on sample 7 of 'camera/image'`.
    #[must_use]
    pub fn inside(&self) -> String {
        match (&self.topic, self.sequence) {
            (Some(topic), Some(sequence)) => {
                format!("{} on sample {sequence} of '{topic}'", self.call.name())
            }
            _ => self.call.name().to_owned(),
        }
    }
}

impl fmt::Display for CallPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Call::Load => write!(f, "library {} while it was loaded", self.component),
            _ => write!(f, "component '{}' in {}", self.component, self.inside()),
        }
    }
}

/// One call of a component's callback or of one of its timers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallbackAccount {
    /// Component.
    pub component: String,
    /// Start of the call.
    pub start_ns: u64,
    /// End of the call.
    pub end_ns: u64,
    /// Part of that time spent on decoding inputs and on the component's own conversions:
    /// communication.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conversion_ns: u64,
    /// Time spent on encoding the published samples, after the publish time: communication of the
    /// next hop.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub encoding_ns: u64,
    /// True if it failed.
    pub failed: bool,
    /// Samples it was called with, and samples it read.
    pub inputs: Vec<InputAccount>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// One sample in a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputAccount {
    /// Input port.
    pub input: String,
    /// Topic.
    pub topic: TopicId,
    /// True if the sample started the call; otherwise it was read.
    pub triggered: bool,
    /// Samples of its publisher that were missed before it.
    pub missed: u64,
    /// True if this call is the first that sees the sample.
    pub fresh: bool,
    /// Sequence number.
    pub sequence: u64,
    /// Time of publishing.
    pub publish_ns: u64,
    /// `CLOCK_REALTIME - CLOCK_MONOTONIC` at that time.
    pub wall_offset_ns: i64,
    /// Trace id, shared by all samples that descend from one source sample.
    pub trace_id: u64,
    /// Payload length in bytes.
    pub payload_len: u64,
    /// Largest error of the times of its origins, because data came from another host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_error_ns: u64,
    /// Origins of the sample.
    pub origins: Vec<OriginAccount>,
}

/// One source that a sample descends from, with the parts of its age when the sample was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginAccount {
    /// Source topic.
    pub topic: TopicId,
    /// Source time of the oldest contribution; negative if another host recorded it before the
    /// clock of this host began.
    #[serde(deserialize_with = "signed")]
    pub oldest_ns: i64,
    /// Source time of the newest contribution, likewise.
    #[serde(deserialize_with = "signed")]
    pub newest_ns: i64,
    /// See [`Origin`]; may be negative.
    #[serde(deserialize_with = "signed")]
    pub communication_ns: i64,
    /// See [`Origin`]; may be negative.
    #[serde(deserialize_with = "signed")]
    pub computation_ns: i64,
    /// See [`Origin`]; may be negative.
    #[serde(deserialize_with = "signed")]
    pub idle_ns: i64,
}

/// Reads a negative number; older releases wrote it with 2^64 added.
fn signed<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Signed(i64),
        Wrapped(u64),
    }
    Number::deserialize(from).map(|number| match number {
        Number::Signed(number) => number,
        Number::Wrapped(number) => number.cast_signed(),
    })
}

/// Counters of a component's callback and timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallbackCounters {
    /// Calls made.
    pub invocations: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls of `on_event` that failed. Neither `invocations` nor `failed` includes them.
    pub failed_events: u64,
    /// Calls skipped because an input had no sample yet.
    pub skipped_missing: u64,
    /// Calls skipped, and reads refused, because an input's sample was too old.
    pub skipped_stale: u64,
    /// Samples that found no partners.
    pub unsynchronised: u64,
    /// Number of times that an input had to wait because the maximum number of samples was held.
    pub held_limit: u64,
    /// Samples that could not be read.
    pub take_errors: u64,
    /// Timer ticks that passed without a call.
    pub overruns: u64,
}

/// Waits of a reliable output for its readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockedCounters {
    /// Waits of publishes. Inside a process, a publish waits for each full reader by itself.
    pub waits: u64,
    /// Number of these waits that timed out after `max_blocking_ms`.
    pub timeouts: u64,
    /// Time spent waiting, in nanoseconds.
    pub blocked_ns: u64,
}

impl BlockedCounters {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            waits: self.waits.saturating_add(other.waits),
            timeouts: self.timeouts.saturating_add(other.timeouts),
            blocked_ns: self.blocked_ns.saturating_add(other.blocked_ns),
        }
    }

    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl From<driveline::Blocked> for BlockedCounters {
    fn from(of: driveline::Blocked) -> Self {
        Self { waits: of.waits, timeouts: of.timeouts, blocked_ns: of.blocked_ns }
    }
}

/// Counters of an input. At any time, the sum of the counters from `received` to `standby` is the
/// number of samples published since the match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputCounters {
    /// Samples taken.
    pub received: u64,
    /// Samples that newer ones replaced before they were taken, on an input that triggers.
    pub missed: u64,
    /// Samples that newer ones replaced before they were taken, on an input that does not trigger:
    /// it wants only the newest sample.
    pub superseded: u64,
    /// Samples dropped for their age (lifespan).
    pub expired: u64,
    /// Samples with an invalid header, checksum or index.
    pub corrupt: u64,
    /// Samples that broke their publisher's promise at the match.
    pub refused: u64,
    /// Samples of other hosts that did not reach this one.
    pub lost_on_the_way: u64,
    /// Samples that can be read now.
    pub not_read: u64,
    /// Samples that arrived, or were unread, while the component was inactive.
    #[serde(skip_serializing_if = "is_zero")]
    pub inactive: u64,
    /// Samples of publishers that were not the owner of the topic.
    #[serde(skip_serializing_if = "is_zero")]
    pub standby: u64,
    /// Number of publishers of other hosts that may have published more samples after the newest
    /// one that arrived. Not part of any sum.
    pub uncounted: u64,
    /// Reason, for one of them.
    pub uncounted_reason: Option<Uncounted>,
    /// Deadlines missed. Not a number of samples.
    #[serde(skip_serializing_if = "is_zero")]
    pub deadlines_missed: u64,
}

impl InputCounters {
    /// Returns the samples that newer ones replaced, on an input that triggers or not.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.missed.saturating_add(self.superseded)
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            received: self.received.saturating_add(other.received),
            missed: self.missed.saturating_add(other.missed),
            superseded: self.superseded.saturating_add(other.superseded),
            expired: self.expired.saturating_add(other.expired),
            corrupt: self.corrupt.saturating_add(other.corrupt),
            refused: self.refused.saturating_add(other.refused),
            lost_on_the_way: self.lost_on_the_way.saturating_add(other.lost_on_the_way),
            not_read: self.not_read.saturating_add(other.not_read),
            inactive: self.inactive.saturating_add(other.inactive),
            standby: self.standby.saturating_add(other.standby),
            uncounted: self.uncounted.saturating_add(other.uncounted),
            uncounted_reason: other.uncounted_reason.or(self.uncounted_reason),
            deadlines_missed: self.deadlines_missed.saturating_add(other.deadlines_missed),
        }
    }

    /// Returns the sum of the counters from `received` to `standby`.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        let parts = [
            self.received,
            self.replaced(),
            self.expired,
            self.corrupt,
            self.refused,
            self.lost_on_the_way,
            self.not_read,
            self.inactive,
            self.standby,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// End of a service: client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// Sends requests.
    Client,
    /// Answers requests.
    Server,
}

/// Calls of one service at one end. Each call is in `calls`; it is either in flight, or in exactly
/// one of the other counts as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallCounters {
    /// Calls made, or requests taken.
    pub calls: u64,
    /// Calls with a response.
    pub answered: u64,
    /// Calls refused by the server, by its callback or for lack of space.
    pub refused: u64,
    /// Calls that timed out; only clients count them.
    pub timed_out: u64,
    /// Calls whose other end had ended or could not be reached.
    pub peer_gone: u64,
    /// Calls not sent, for lack of a server or of space; only clients count them.
    pub not_sent: u64,
}

impl CallCounters {
    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            answered: self.answered.saturating_add(other.answered),
            refused: self.refused.saturating_add(other.refused),
            timed_out: self.timed_out.saturating_add(other.timed_out),
            peer_gone: self.peer_gone.saturating_add(other.peer_gone),
            not_sent: self.not_sent.saturating_add(other.not_sent),
        }
    }
}

impl From<ServiceEnd> for CallEnd {
    fn from(end: ServiceEnd) -> Self {
        match end {
            ServiceEnd::Client => Self::Client,
            ServiceEnd::Server => Self::Server,
        }
    }
}

impl From<&ServiceCalls> for CallCounters {
    fn from(c: &ServiceCalls) -> Self {
        Self {
            calls: c.calls,
            answered: c.answered,
            refused: c.refused,
            timed_out: c.timed_out,
            peer_gone: c.peer_gone,
            not_sent: c.not_sent,
        }
    }
}

impl From<SubscriptionStats> for InputCounters {
    fn from(s: SubscriptionStats) -> Self {
        Self {
            received: s.received,
            missed: s.missed,
            superseded: s.superseded,
            expired: s.expired,
            corrupt: s.corrupt,
            refused: s.refused,
            lost_on_the_way: s.lost_on_the_way,
            not_read: s.not_read,
            inactive: s.inactive,
            standby: s.standby,
            uncounted: s.uncounted,
            uncounted_reason: s.uncounted_reason,
            deadlines_missed: s.deadlines_missed,
        }
    }
}

impl From<CallbackStats> for CallbackCounters {
    fn from(s: CallbackStats) -> Self {
        Self {
            invocations: s.invocations,
            failed: s.failed,
            failed_events: 0,
            skipped_missing: s.skipped_missing,
            skipped_stale: s.skipped_stale,
            unsynchronised: s.unsynchronised,
            held_limit: s.held_limit,
            take_errors: s.take_errors,
            overruns: s.overruns,
        }
    }
}

impl CallbackCounters {
    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            invocations: self.invocations + other.invocations,
            failed: self.failed + other.failed,
            failed_events: self.failed_events + other.failed_events,
            skipped_missing: self.skipped_missing + other.skipped_missing,
            skipped_stale: self.skipped_stale + other.skipped_stale,
            unsynchronised: self.unsynchronised + other.unsynchronised,
            held_limit: self.held_limit + other.held_limit,
            take_errors: self.take_errors + other.take_errors,
            overruns: self.overruns + other.overruns,
        }
    }
}

impl InputAccount {
    /// Returns whether the sample started the call or was only read.
    #[must_use]
    pub fn arrival(&self) -> Arrival {
        if self.triggered { Arrival::Triggered } else { Arrival::Read }
    }

    /// The sample's header as far as it was recorded: without the checksum, the records of gateways
    /// and services, and the number of dropped origins.
    #[must_use]
    pub fn header(&self) -> SampleHeader {
        let mut origins = Origins::default();
        for o in &self.origins {
            origins.merge(Origin {
                topic: o.topic,
                source_oldest: MonotonicNs(o.oldest_ns.cast_unsigned()),
                source_newest: MonotonicNs(o.newest_ns.cast_unsigned()),
                communication_ns: o.communication_ns,
                computation_ns: o.computation_ns,
                idle_ns: o.idle_ns,
            });
        }
        SampleHeader {
            sequence: self.sequence,
            publish_time: MonotonicNs(self.publish_ns),
            wall_offset_ns: self.wall_offset_ns,
            trace_id: self.trace_id,
            payload_len: self.payload_len,
            clock_error_ns: self.clock_error_ns,
            origins,
            ..SampleHeader::default()
        }
    }
}

#[cfg(test)]
mod tests;
