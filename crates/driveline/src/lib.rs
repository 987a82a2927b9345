// SPDX-License-Identifier: Apache-2.0
//! Driveline: nodes, topics and executors for automated vehicles, and an account of every
//! millisecond.
//!
//! A [`Context`] joins a process to a domain. A [`Node`] is a named part of the process that
//! creates publishers and subscriptions; an [`Executor`] runs callbacks when their [`Trigger`]
//! fires. What a callback publishes inherits the origins of what it consumed. So every sample has
//! the age of the sensor data in it, and the parts of that age: communication, computation and
//! idle. A [`Client`] sends a request to a [`Service`] and receives one response ([`service`]).
//!
//! Not here: shared memory (`driveline-shm`), graph files (`driveline-graph`), and component
//! loading (`driveline-runtime`).
//!
//! ```
//! use driveline::{Context, ContextOptions, PublisherOptions, SubscriptionOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let context = Context::new(ContextOptions {
//!     domain_dir: Some(dir.path().join("domain")),
//!     ..ContextOptions::named("example")
//! })?;
//! let node = context.node("example")?;
//! let mut publisher = node.bytes_publisher("greeting", "text", PublisherOptions::default())?;
//! let mut subscription =
//!     node.bytes_subscription("greeting", "text", SubscriptionOptions::default())?;
//! let mut loan = publisher.loan(5)?;
//! loan.payload_mut().copy_from_slice(b"hello");
//! publisher.publish(loan)?;
//! let sample = subscription.latest()?.expect("published above");
//! assert_eq!(sample.payload(), Some(&b"hello"[..]));
//! # Ok(()) }
//! ```
// The loom models (tests/loom_*.rs) include single files and need nothing else of the crate.
#![cfg(not(loom))]

mod context;
pub mod conversion;
mod error;
mod event;
mod executor;
mod local;
mod options;
mod parameters;
mod raw;
mod scope;
pub mod service;
mod trigger;
mod typed;

pub use context::{Context, ContextOptions, Node};
pub use conversion::Conversions;
pub use driveline_derive::*;
pub use driveline_shm::{Access, Blocked};
pub use driveline_types as types;
pub use driveline_types::{Durability, Liveliness, Plain, ProtobufMessage, Qos, Reliability};
pub use error::{
    EncodeError, EndpointError, ExecutorError, LoanError, NodeError, OpenError, ParameterError,
    PublishError, ReadError, ReceiveError, TakeError, WaitError,
};
pub use event::{EndpointEvent, EventLines, Severity};
pub use executor::{
    CallbackGroup, CallbackHandle, CallbackOptions, CallbackRecord, CallbackStats, EventSender,
    Executor, ExecutorOptions, GroupKind, InputRecord, InputStats, Invocation, Lifecycle, Observer,
    PendingWork, PortEvent, Schedule, ScheduleReport, SchedulingClass, StateChange, StateOutcome,
    StateRequest, TimerEnd, TimerOptions, TimerTick,
};
pub use local::{Language, LocalObject};
pub use options::{PublisherOptions, Reach, SubscriptionOptions, WaitMode};
pub use parameters::{ParameterValue, Parameters};
pub use raw::{
    DeadlineCounter, DisplacedValues, Parcel, PublishedCounter, PublisherEvents, PublisherStats,
    RawLoan, RawPublisher, RawSample, RawSubscription, SubscriptionStats,
};
pub use service::{
    AnswerError, AnswerLoan, CallError, Caller, Client, ClientOptions, Payload, Refusal, Responder,
    Service, ServiceCallback, ServiceCalls, ServiceEnd, ServiceError, ServiceOptions,
};
pub use trigger::{InputStall, StallEnd, Trigger, synchronize};
pub use typed::{
    Loan, Object, Protobuf, Publisher, Sample, Subscription, Value, ValuePublisher, ValueSample,
    ValueSubscription,
};
