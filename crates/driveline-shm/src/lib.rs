// SPDX-License-Identifier: Apache-2.0
//! The host transport of Driveline: samples between the processes of one machine, written once and read in place.
//!
//! One sealed memory segment per publisher, handed to each matched subscription over a Unix socket in the domain
//! directory; readers pin what they hold in pages of their own, which the publisher only reads. The protocol, with
//! every memory order, death and limit: `docs/protocols/shm.md`.
//!
//! Not here: nodes, callbacks, typed payloads, delivery inside a process (crate `driveline`), other hosts.
//!
//! ```no_run
//! use driveline_shm::{Participant, ParticipantConfig, PublishMeta, PublisherConfig, SubscriptionConfig};
//! use driveline_types::Schema;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let participant = Participant::open(ParticipantConfig { name: "example".into(), ..Default::default() })?;
//! let text = Schema::bytes("text", "utf-8", "");
//! let mut subscription =
//!     participant.create_subscription(SubscriptionConfig::new("greeting".parse()?, "listener".parse()?, text.clone()))?;
//! let mut publisher = participant.create_publisher(PublisherConfig::new("greeting".parse()?, "talker".parse()?, text, 64))?;
//! let mut loan = publisher.loan(5)?;
//! loan.payload_mut().copy_from_slice(b"hello");
//! publisher.publish(loan, PublishMeta::now())?;
//! if let Some(sample) = subscription.take_latest()? {
//!     println!("{} bytes, {} missed", sample.payload().len(), sample.missed());
//! }
//! # Ok(()) }
//! ```

mod config;
mod error;
mod event;
mod info;
pub mod limits;
mod stub;

pub use config::{Access, OwnProcess, ParticipantConfig, PublishMeta, PublisherConfig, SchemaRequest, SubscriptionConfig};
pub use error::{CreatePublisherError, CreateSubscriptionError, ListError, LoanError, OpenError, PublishError, TakeError, WaitSetError};
pub use event::{PublisherEvent, RefusalCode, SubscriptionEvent};
pub use info::{EdgeInfo, MatchInfo, ParticipantInfo, PublisherInfo, PublisherStats, SubscriptionInfo, SubscriptionStats};
pub use stub::{Copied, Kicker, Loan, Participant, Publisher, Sample, Subscription, WaitBackend, WaitSet, Wake, list};
