// SPDX-License-Identifier: Apache-2.0
//! Tests that need several processes: deaths at every protocol step, stops, restarts, many
//! endpoints, liars, namespaces.
//!
//! The peers are this same program, started again and commanded line by line (`support::peer`).
//! Each test has its own domain directory. No peer outlives its test: the kernel ends it with the
//! thread that started it.
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
mod kill_campaign;
mod leftovers;
mod memory;
mod namespaces;
mod restart;
mod stopped;
mod support;
mod torn;
mod users;
mod waking;
