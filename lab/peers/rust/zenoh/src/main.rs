// SPDX-License-Identifier: Apache-2.0
//! Eclipse Zenoh, peer to peer: over TCP, on the loopback interface or between two hosts; with
//! samples that are written in shared memory; and with large samples that Zenoh itself copies into
//! shared memory.

mod describe;
mod link;
mod receiving;
mod sending;
mod session;

use std::process::ExitCode;

fn main() -> ExitCode {
    driveline_peer_stage::program::<session::Ends>(describe::describe)
}
