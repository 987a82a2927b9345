// SPDX-License-Identifier: Apache-2.0
//! Graph files and the processes that run them.
pub mod descriptor;
pub mod graph;
