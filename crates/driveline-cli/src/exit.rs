// SPDX-License-Identifier: Apache-2.0
//! Exit codes, as listed by `driveline --help`.

pub(crate) const DONE: u8 = 0;
pub(crate) const FAILED: u8 = 1;
// Code 2 means a wrong command line: clap returns it, and so do `bench` and `chaos`.
pub(crate) const GRAPH: u8 = 3;
pub(crate) const MODULE: u8 = 4;
pub(crate) const KILLED: u8 = 5;
pub(crate) const WORK_NOT_DONE: u8 = 6;
