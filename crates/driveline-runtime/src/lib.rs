// SPDX-License-Identifier: Apache-2.0
//! Graph files and the processes that run them.
//!
//! - [`graph`]: from a YAML file to a graph whose every reference is resolved, with all mistakes explained;
//! - [`component`] and [`host`]: one module of it in this process;
//! - [`launch`]: one process for each module, started, watched and stopped;
//! - [`testing`]: a component by itself, on a clock that the test moves;
//! - [`account`]: what these processes tell about every callback;
//! - [`network`] and [`ros2`]: what goes to other hosts and to ROS 2, and by which way; [`gateway`]: what the programs that carry it have in common;
//!   [`interfaces`]: those of this computer, for all of them.
//!
//! Not here: how components of one language or another are loaded (whoever calls [`host::main`] brings a
//! [`component::ComponentLoader`]), and what is made of the account (crate `driveline-analyze` and the command-line tool).

pub mod account;
mod activity;
pub mod component;
pub mod descriptor;
pub mod domain;
mod endpoint;
pub mod gateway;
pub mod graph;
pub mod host;
pub mod interfaces;
pub mod launch;
pub mod network;
pub mod ros2;
mod socket_clients;
pub mod testing;
