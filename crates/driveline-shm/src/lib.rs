// SPDX-License-Identifier: Apache-2.0
//! The host transport of Driveline: samples between the processes of one machine, written once and
//! read in place.
//!
//! One sealed memory segment per publisher, handed to each matched subscription over a Unix socket
//! in the domain directory; readers pin what they hold in pages of their own, which the publisher
//! only reads. `docs/protocols/shm.md` describes the protocol: memory orders, deaths of processes,
//! limits.
//!
//! Also here, because it needs unsafe code or shared memory: reports of crashes, words for
//! heartbeats ([`heartbeat`]), NUMA nodes, and lower bounds of the machine for benchmarks
//! ([`floor`]).
//!
//! Not here: nodes, callbacks, typed payloads, delivery inside a process (crate `driveline`), other
//! hosts.
//!
//! ```no_run
//! use driveline_shm::{Participant, ParticipantConfig, PublisherConfig, SubscriptionConfig};
//! use driveline_types::{SampleHeader, Schema};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ParticipantConfig { name: "example".into(), ..Default::default() };
//! let participant = Participant::open(config)?;
//! let text = Schema::bytes("text", "utf-8", "");
//! let config = SubscriptionConfig::new("greeting".parse()?, "listener".parse()?, text.clone());
//! let mut subscription = participant.create_subscription(config)?;
//! let config = PublisherConfig::new("greeting".parse()?, "talker".parse()?, text, 64);
//! let mut publisher = participant.create_publisher(config)?;
//! let mut loan = publisher.loan(5)?;
//! loan.payload_mut().copy_from_slice(b"hello");
//! publisher.publish(loan, &mut SampleHeader::stamped_now())?;
//! if let Some(sample) = subscription.take_latest()? {
//!     println!("{} bytes, {} missed", sample.payload().len(), sample.missed());
//! }
//! # Ok(()) }
//! ```

#[cfg(not(loom))]
pub mod domain;
#[cfg(not(loom))]
pub mod floor;
#[cfg(not(loom))]
pub mod heartbeat;
pub mod limits;

#[cfg(not(loom))]
mod afar;
#[cfg(not(loom))]
mod afar_count;
#[cfg(not(loom))]
mod blocking;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod crash;
#[cfg(not(loom))]
mod deadline;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod event;
#[cfg(not(loom))]
mod fairness;
mod fault;
#[cfg(not(loom))]
#[allow(unreachable_pub, reason = "the models use these names from outside")]
mod held_samples;
#[cfg(not(loom))]
mod info;
#[cfg(not(loom))]
mod inlet;
#[cfg(not(loom))]
mod json;
#[cfg(not(loom))]
mod kick;
#[cfg(not(loom))]
mod layout;
#[cfg(not(loom))]
mod list;
#[cfg(not(loom))]
mod loan;
#[cfg(not(loom))]
mod participant;
#[cfg(not(loom))]
#[allow(unreachable_pub, reason = "the models use these names from outside")]
mod protocol;
#[cfg(not(loom))]
mod publication;
#[cfg(not(loom))]
mod publisher;
#[cfg(not(loom))]
mod queue;
#[cfg(not(loom))]
mod release_watch;
#[cfg(not(loom))]
mod reliable;
#[cfg(not(loom))]
mod sample;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod subscription;
#[cfg(not(loom))]
#[allow(unreachable_pub, reason = "the models use these names from outside")]
mod sync;
#[cfg(not(loom))]
mod sys;
#[cfg(not(loom))]
mod wait_threads;
#[cfg(not(loom))]
mod waitset;
#[cfg(not(loom))]
mod wire;

// The models (`tests/loom`) call these modules directly. Most others are not compiled for them.
#[cfg(loom)]
#[allow(missing_docs, reason = "public for the models only")]
pub mod held_samples;
#[cfg(loom)]
#[allow(missing_docs, reason = "public for the models only")]
pub mod protocol;
#[cfg(loom)]
pub mod sync;

/// Functions for the fuzz targets.
#[cfg(all(feature = "fuzzing", not(loom)))]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::wire::fuzz_control_frame as control_frame;
}

#[cfg(not(loom))]
pub use self::{
    afar_count::{AfarCount, AfarState},
    blocking::{Blocked, BlockingMeter, PublishingCall, a_publisher_waits},
    config::{
        Access, OwnProcess, ParticipantConfig, PublisherConfig, SchemaRequest, SubscriptionConfig,
    },
    crash::{Crash, report_crashes, reserve_signal_stack},
    deadline::{DeadlineMeter, DeadlineReports, DeadlinesMissed, InProcessPublisher},
    error::{
        CreatePublisherError, CreateSubscriptionError, ListError, LoanError, MemoryRefusal,
        OpenError, PublishError, TakeError, WaitSetError,
    },
    event::{PublisherEvent, RefusalCode, SubscriptionEvent},
    info::{
        EdgeInfo, MatchInfo, MatchedPublisher, ParticipantInfo, PublisherInfo, PublisherStats,
        SubscriptionInfo, TransportStats,
    },
    kick::Kicker,
    layout::reserved_bytes,
    list::{Survey, list, remove_dead, survey},
    loan::Loan,
    participant::{DomainNames, Participant},
    publisher::{MatchedSubscription, Progress, Publisher},
    release_watch::ReleaseWatch,
    sample::{Copied, Sample},
    subscription::{Publishers, Subscription},
    sys::admission::{MemoryAdmission, admit_memory},
    sys::descriptors::DescriptorShortage,
    sys::memory::{AvailableMemory, available_memory},
    sys::numa::{SegmentPlacement, numa_cpus, numa_nodes, prefer_numa_node, segment_placement},
    sys::peer::PeerUser,
    waitset::{WaitBackend, WaitSet, Wake},
};
