// SPDX-License-Identifier: Apache-2.0
//! Requests of a graph to the kernel.

use serde::Serialize;

/// Requests of a module's process to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResolvedRealTime {
    /// All its memory is present and locked.
    pub lock_memory: bool,
    /// NUMA node of its memory and threads.
    pub numa: Option<u32>,
    /// Longest time that a core may take to leave an idle state, in microseconds.
    pub cpu_dma_latency_us: Option<u32>,
}
