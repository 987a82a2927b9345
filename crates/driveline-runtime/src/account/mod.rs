// SPDX-License-Identifier: Apache-2.0
//! Account of a run: JSON records, one a line, from the processes of a graph to their parent.
//!
//! A module's process [writes](Writer) the stream into a socket that the launcher gave it; the
//! launcher [reads](LineReader) the streams of all modules. The data path only fills prepared
//! records and hands them to a queue without locks; if the launcher is slow, records are dropped,
//! counted and reported in the stream ([`Record::Lost`]). Only the thread that writes waits for the
//! launcher; once the stream is to end, at most for the time that [`Writer::close`] states.

mod build_id;
mod calls;
mod contained;
mod counters;
mod reader;
mod writer;

pub use build_id::build_id;
pub(crate) use build_id::graph_digest;
pub use calls::{Call, CallPlace, CallbackAccount, InputAccount, OriginAccount};
pub use contained::{CONTAINED_FORMAT, ContainedRecord, OutputStream, Usage, Word};
pub use counters::{BlockedCounters, CallCounters, CallEnd, CallbackCounters, InputCounters};
pub use reader::{LineReader, MAX_LINE_BYTES};
pub use writer::{CLOSE_WITHIN, WRITE_WITHIN, Writer, WriterError};

use counters::is_zero;
use driveline::ParameterValue;
use driveline_types::TopicId;
use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests;
