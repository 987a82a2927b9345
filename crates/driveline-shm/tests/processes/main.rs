// SPDX-License-Identifier: Apache-2.0
//! What only several processes can show: deaths at every protocol step, stops, restarts, crowds,
//! liars, namespaces.
//!
//! The peers are this very program, started anew and told line by line what to do
//! (`support::peer`). Each test has a domain directory of its own; nothing outlives it, for the
//! kernel ends the peers with the thread that started them.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise, in its wait_threads too"
)]

mod crowd;
mod descriptors;
mod faults;
mod fork;
mod growth;
mod hanging;
mod hostile_memory;
mod hostile_sockets;
mod idle;
mod leftovers;
mod memory;
mod namespaces;
mod restart;
mod stopped;
mod support;
mod torn;
mod users;
mod waking;
