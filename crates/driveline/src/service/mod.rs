// SPDX-License-Identifier: Apache-2.0
//! Services: a request to the one server of a name, and one answer to the one who asked.
//!
//! Made of topics alone (`docs/protocols/services.md`): requests go to the server's subscription, and each client has a
//! response topic of its own, so that an answer wakes and is held by nobody else. This module has
//! - [`RawClient`] and [`RawCaller`]: calls that wait, and calls whose outcome comes as a callback;
//! - [`RawService`], [`RawRequest`] and [`RawResponder`]: requests one by one, and answers, now or later, from any thread;
//! - the same with types: [`Client`], [`Caller`], [`Service`], [`Responder`].
//!
//! Not here: types of ROS 2, other hosts.

mod caller;
mod client;
mod desk;
mod error;
mod objects;
mod options;
mod pending;
mod requester;
mod responder;
mod server;
mod typed;
mod whereabouts;

pub use caller::RawCaller;
pub use client::RawClient;
pub use error::{AnswerError, CallError, Refusal};
pub use options::{ClientOptions, ClientStats, ServiceCallback, ServiceError, ServiceOptions, ServiceStats};
pub use responder::RawResponder;
pub use server::{RawRequest, RawService};
pub use typed::{AnswerLoan, Caller, Client, Payload, Request, Responder, Service};

use options::{check_client, check_service, pins_for};
