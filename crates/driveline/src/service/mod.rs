// SPDX-License-Identifier: Apache-2.0
//! Services: a client sends a request to the one server of a name and receives one answer.
//!
//! Built of topics alone (`docs/protocols/services.md`): requests go to the server's subscription,
//! and each client has its own response topic, so that an answer wakes only its client and is held
//! by it alone. This module has
//! - [`RawClient`] and [`RawCaller`]: calls that wait, and calls whose outcome comes as a callback;
//! - [`RawService`], [`RawRequest`] and [`RawResponder`]: requests one by one, and answers, now or
//!   later, from any thread;
//! - the same with types: [`Client`], [`Caller`], [`Service`], [`Responder`].
//!
//! Not here: types of ROS 2, other hosts.
//!
//! A server of map tiles, which writes each tile where its client reads it:
//!
//! ```
//! use driveline::{
//!     ClientOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind,
//!     ServiceCallback, ServiceOptions, plain_type,
//! };
//! use std::time::Duration;
//!
//! #[plain_type(name = "map/TileRequest", crate = driveline::types)]
//! struct TileRequest {
//!     x: i32,
//!     y: i32,
//! }
//!
//! #[plain_type(name = "map/Tile", tail(heights: f32), crate = driveline::types)]
//! struct Tile {
//!     x: i32,
//!     y: i32,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let context = Context::new(ContextOptions {
//!     domain_dir: Some(dir.path().join("domain")),
//!     ..ContextOptions::named("map")
//! })?;
//! let node = context.node("map")?;
//! let executor = Executor::new(ExecutorOptions::default())?;
//! let options = ServiceOptions { max_response: 4 << 20, ..Default::default() };
//! let service = node.service::<TileRequest, Tile>("map/tile", options)?;
//! let group = executor.group(GroupKind::MutuallyExclusive);
//! let callback = ServiceCallback { name: "tiles".into(), group };
//! executor.add_service_with(service, callback, |request, responder| {
//!     let Some(TileRequest { x, y }) = request.view().map(|r| *r.head()) else { return };
//!     if x < 0 || y < 0 {
//!         return responder.refuse("the map begins at (0, 0)");
//!     }
//!     // The client has received the error; there is no more to do here.
//!     let Ok(mut tile) = responder.loan(256 * 256) else { return };
//!     if let Some(mut view) = tile.view_mut() {
//!         (view.x, view.y) = (x, y);
//!         view.tail_mut().fill(412.5);
//!     }
//!     let _ = tile.send();
//! })?;
//! executor.start()?;
//!
//! let mut client = node.client::<TileRequest, Tile>("map/tile", ClientOptions::default())?;
//! assert!(client.wait_for_server(Duration::from_secs(1)));
//! let tile = client.call(TileRequest { x: 3, y: 4 }, Duration::from_secs(1))?;
//! assert_eq!(tile.view().map(|t| (t.x, t.tail().len())), Some((3, 256 * 256)));
//! drop(tile);
//! let outside = client.call(TileRequest { x: -1, y: 0 }, Duration::from_secs(1));
//! let refused = outside.map(drop).unwrap_err();
//! assert!(refused.to_string().contains("the map begins at (0, 0)"));
//! # Ok(()) }
//! ```

mod caller;
mod client;
mod clients;
mod error;
mod objects;
mod options;
mod pending;
mod requester;
mod responder;
mod server;
mod serving;
mod tally;
mod typed;

pub use caller::RawCaller;
pub use client::RawClient;
pub use error::{AnswerError, CallError, Refusal};
pub use options::{
    ClientOptions, ClientStats, ServiceCallback, ServiceError, ServiceOptions, ServiceStats,
};
pub use responder::RawResponder;
pub use server::{Outbox, RawRequest, RawService};
pub(crate) use tally::Tallies;
pub use tally::{ServiceCalls, ServiceEnd};
pub use typed::{AnswerLoan, Caller, Client, Payload, Request, Responder, Service};

use options::{check_client, check_service, pins_for};
