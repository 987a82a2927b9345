// SPDX-License-Identifier: Apache-2.0
//! The processes that run a graph.
//!
//! - [`component`] and [`host`]: one module of a graph in this process;
//! - [`launch`]: one process for each module, started, watched and stopped;
//! - [`testing`]: a component by itself, on a clock that the test moves;
//! - [`account`]: what these processes report about every callback;
//! - [`socket_clients`]: tools that ask a run, or a gateway, by a socket of the domain.
//!
//! Not here: how a graph file is read (crate `driveline-graph`), how components of one language or
//! another are loaded (a program that calls [`host::main`] brings a
//! [`component::ComponentLoader`]), and what is made of the account (crate `driveline-analyze` and
//! the command-line tool).

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
