// SPDX-License-Identifier: Apache-2.0
//! The processes that run a graph.
//!
//! - [`component`] and [`host`]: one module of a graph in this process;
//! - [`launch`]: one process for each module, started, watched and stopped;
//! - [`testing`]: a component by itself, on a clock that the test moves;
//! - [`account`]: the records of these processes, for example of each call, of counters and of
//!   failures;
//! - [`domain`]: the directory in which the processes of a graph find each other;
//! - [`socket_clients`]: tools that send requests to a run or a gateway over a socket of the
//!   domain.
//!
//! Not here: reading graph files (crate `driveline-graph`), loading components of a language (a
//! program that calls [`host::main`] passes a [`component::ComponentLoader`]), and evaluating the
//! account (crate `driveline-analyze` and the command-line tool).

pub mod account;
mod activity;
pub mod component;
mod cores;
pub mod domain;
mod heartbeats;
pub mod host;
pub mod launch;
mod lines;
pub mod socket_clients;
pub mod testing;
mod time_namespace;
