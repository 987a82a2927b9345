// SPDX-License-Identifier: Apache-2.0
//! Transport for tests, without a network: the test takes the part of the nodes of ROS 2.

use super::endpoint::Endpoint;
use super::feed::{Came, Feed};
use super::waiting::Signal;
use crate::qos::ReaderClass;
use crate::types::Crossing;
use std::time::Duration;

/// Feed of a topic on which no samples arrive.
#[derive(Default)]
pub(super) struct FakeFeed {
    signal: Signal,
}

impl Feed for FakeFeed {
    fn kept(&self) -> u64 {
        32
    }

    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn same_clock(&self) -> bool {
        false
    }

    fn read(&self, _: &Endpoint, _: ReaderClass, _: &Crossing) -> Result<(), String> {
        Ok(())
    }

    fn take(&self, _: &mut dyn FnMut(&Came<'_>)) -> Result<bool, String> {
        Ok(false)
    }

    fn losses(&self) -> [(&'static str, u64); 2] {
        [("lost", 0), ("rejected", 0)]
    }

    fn wait(&self, longest: Duration) -> Result<(), String> {
        self.signal.wait(longest);
        Ok(())
    }

    fn wake(&self) {
        self.signal.raise();
    }
}
