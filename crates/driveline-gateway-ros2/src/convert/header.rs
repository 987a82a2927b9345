// SPDX-License-Identifier: Apache-2.0
//! `std_msgs/msg/Header`.

use super::error::{ConvertError, Result};
use driveline_gateway::ros2::SourceTime;
use driveline_msgs::Header;
use driveline_rosidl::cdr::{Decoder, Encoder};
use driveline_types::MonotonicNs;

const SECOND_NS: i64 = 1_000_000_000;

/// Circumstances in which a sample from ROS 2 arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time of arrival.
    pub time: MonotonicNs,
    /// Offset of the clock of stamps to this host's `CLOCK_MONOTONIC` at that time, in nanoseconds;
    /// `None`: unknown, so stamps have no meaning.
    pub stamps_ahead_ns: Option<i64>,
    /// Number of the sample, from 0.
    pub frame_index: u64,
    /// Rule for the source time.
    pub source_time: SourceTime,
}

/// Stamp and frame as they were sent.
pub(super) struct Raw<'a> {
    pub(super) sec: i32,
    pub(super) nanosec: u32,
    pub(super) frame_id: &'a [u8],
}

pub(super) fn raw<'a>(from: &mut Decoder<'a>) -> Result<Raw<'a>> {
    Ok(Raw { sec: from.number()?, nanosec: from.number()?, frame_id: from.string()? })
}

impl Raw<'_> {
    pub(super) fn source_time_ns(&self, arrival: &Arrival) -> Result<u64> {
        if arrival.source_time == SourceTime::Arrival {
            return Ok(arrival.time.0);
        }
        let Some(ahead) = arrival.stamps_ahead_ns else { return Ok(0) };
        if (self.sec, self.nanosec) == (0, 0) {
            return Ok(0);
        }
        let beyond = || ConvertError::Stamp(format!("{}.{:09} s", self.sec, self.nanosec));
        if i64::from(self.nanosec) >= SECOND_NS {
            return Err(beyond());
        }
        // Fits: less than 2^31 * 10^9 + 10^9.
        let stamp = i64::from(self.sec) * SECOND_NS + i64::from(self.nanosec);
        let time = stamp.checked_sub(ahead).and_then(|t| u64::try_from(t).ok());
        // 0 stands for no time.
        time.filter(|t| *t != 0).ok_or_else(beyond)
    }

    pub(super) fn frame(&self) -> Result<&str> {
        std::str::from_utf8(self.frame_id).map_err(|_| {
            ConvertError::FrameId(driveline_msgs::TextError::NotText { field: "frame_id" })
        })
    }
}

pub(super) fn read(from: &mut Decoder<'_>, arrival: &Arrival) -> Result<Header> {
    let raw = raw(from)?;
    let time = raw.source_time_ns(arrival)?;
    Header::new(time, raw.frame()?, arrival.frame_index).map_err(ConvertError::FrameId)
}

/// Returns seconds and nanoseconds on the clock of stamps; zeros if the time is 0 or the offset of
/// the clock is unknown.
pub(super) fn stamp(source_time_ns: u64, stamps_ahead_ns: Option<i64>) -> Result<(i32, u32)> {
    let Some(ahead) = stamps_ahead_ns.filter(|_| source_time_ns != 0) else { return Ok((0, 0)) };
    let beyond = || ConvertError::Stamp(format!("{source_time_ns} ns after this host's start"));
    let wall =
        i64::try_from(source_time_ns).ok().and_then(|t| t.checked_add(ahead)).ok_or_else(beyond)?;
    let sec = i32::try_from(wall.div_euclid(SECOND_NS)).map_err(|_| beyond())?;
    // The remainder is less than a second.
    Ok((sec, wall.rem_euclid(SECOND_NS) as u32))
}

pub(super) fn write(to: &mut Encoder, header: &Header, stamps_ahead_ns: Option<i64>) -> Result<()> {
    let frame = header.frame_id().map_err(ConvertError::FrameId)?;
    let (sec, nanosec) = stamp(header.source_time_ns, stamps_ahead_ns)?;
    to.number(sec);
    to.number(nanosec);
    to.string(frame.as_bytes())?;
    Ok(())
}
