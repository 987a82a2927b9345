// SPDX-License-Identifier: Apache-2.0
//! Modes of a run: named sets of active components (`docs/protocols/modes.md`).

#![allow(dead_code, reason = "wired in the next step")]

mod machine;
