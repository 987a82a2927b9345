// SPDX-License-Identifier: Apache-2.0
//! A process that uses all processor time of a CPU.

use crate::orders::Superior;
use anyhow::Result;
use driveline_bench::observations::Observations;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A process that uses all processor time of a CPU.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Hog {}

impl Hog {
    pub(crate) fn run(self, superior: &Superior) -> Result<Observations> {
        superior.ready()?;
        while superior.order(Duration::ZERO).is_none() {
            for n in 0..1_000_000_u32 {
                std::hint::black_box(n);
            }
        }
        Ok(Observations::default())
    }
}
