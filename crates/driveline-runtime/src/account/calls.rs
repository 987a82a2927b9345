// SPDX-License-Identifier: Apache-2.0
//! Calls in records: what was called, and with which samples.

use super::counters::is_zero;
use driveline_types::header::Arrival;
use driveline_types::{MonotonicNs, Origin, Origins, SampleHeader, TopicId};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

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
