// SPDX-License-Identifier: Apache-2.0
//! Converts samples of ROS 2 types to Driveline's own messages and back: section 3 of
//! `docs/protocols/ros2-dds.md`.
//!
//! In both directions pixels, points and radar returns are copied once, to their destination. A
//! value that does not fit is an error with a name under which it is counted; nothing is cut.
//! Towards ROS 2, values for which the ROS 2 message has no field are omitted.

mod cloud;
mod compressed_image;
mod detections;
mod error;
mod header;
mod health;
mod image;
mod imu;
mod pieces;
mod radar;
mod to_ros;

pub use error::ConvertError;
pub use header::Arrival;
pub use pieces::{PassedOn, Pieces};
pub use to_ros::ToRos;

use crate::types::Kind;
use error::Result;

/// Checked sample from ROS 2, to be written into a slot.
#[derive(Debug)]
pub struct FromRos<'a> {
    content: Content<'a>,
    source_time_ns: u64,
}

#[derive(Debug)]
enum Content<'a> {
    Image(image::Image<'a>),
    CompressedImage(Box<compressed_image::Compressed<'a>>),
    PointCloud(Box<cloud::Cloud<'a>>),
    Imu(Box<driveline_msgs::Imu>),
    RadarScan(radar::Scan<'a>),
    Detections2D(driveline_msgs::proto::Detections2D),
}

impl<'a> FromRos<'a> {
    /// Checks a sample with its encapsulation. Copies no pixels, points or radar returns.
    ///
    /// # Errors
    /// [`ConvertError`]: the sample is broken, or a value in it does not fit.
    pub fn new(kind: Kind, sample: &'a [u8], arrival: &Arrival) -> Result<Self> {
        Self::of_pieces(kind, sample.into(), arrival)
    }

    /// As [`new`](Self::new), for a sample in pieces.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_pieces(kind: Kind, sample: Pieces<'a>, arrival: &Arrival) -> Result<Self> {
        let (content, source_time_ns) = match kind {
            Kind::Image => image::read(sample, arrival)
                .map(|i| (i.head.header.source_time_ns, Content::Image(i))),
            Kind::CompressedImage => compressed_image::read(sample, arrival)
                .map(|i| (i.head.header.source_time_ns, Content::CompressedImage(Box::new(i)))),
            Kind::PointCloud => cloud::read(sample, arrival)
                .map(|c| (c.head.header.source_time_ns, Content::PointCloud(Box::new(c)))),
            Kind::Imu => sample
                .read(|from| imu::read(from, arrival))
                .map(|i| (i.header.source_time_ns, Content::Imu(Box::new(i)))),
            Kind::RadarScan => radar::read(sample, arrival)
                .map(|r| (r.head.header.source_time_ns, Content::RadarScan(r))),
            Kind::Detections2D => sample.read(|from| detections::read(from, arrival)).map(|d| {
                (d.header.as_ref().map_or(0, |h| h.source_time_ns), Content::Detections2D(d))
            }),
            Kind::RunHealth => Err(ConvertError::Payload("health goes to ROS 2 only".into())),
        }
        .map(|(time, content)| (content, time))?;
        Ok(Self { content, source_time_ns })
    }

    /// Source time on this host's `CLOCK_MONOTONIC`, in nanoseconds; 0 if the sample has none.
    #[must_use]
    pub fn source_time_ns(&self) -> u64 {
        self.source_time_ns
    }

    /// Returns the length of the payload to loan, in bytes.
    ///
    /// # Errors
    /// [`ConvertError`] if it exceeds the address space.
    pub fn payload_len(&self) -> Result<usize> {
        match &self.content {
            Content::Image(i) => i.payload_len(),
            Content::CompressedImage(i) => i.payload_len(),
            Content::PointCloud(c) => c.payload_len(),
            Content::Imu(_) => Ok(size_of::<driveline_msgs::Imu>()),
            Content::RadarScan(r) => r.payload_len(),
            Content::Detections2D(d) => Ok(prost::Message::encoded_len(d)),
        }
    }

    /// Writes the payload into a buffer of [`payload_len`](Self::payload_len) bytes. This is the
    /// only copy.
    ///
    /// # Errors
    /// [`ConvertError`] if it has another length or is not aligned.
    pub fn write(&self, payload: &mut [u8]) -> Result<()> {
        match &self.content {
            Content::Image(i) => i.write(payload),
            Content::CompressedImage(i) => i.write(payload),
            Content::PointCloud(c) => c.write(payload),
            Content::Imu(i) => imu::write(i, payload),
            Content::RadarScan(r) => r.write(payload),
            Content::Detections2D(d) => {
                let mut to = payload;
                prost::Message::encode(d, &mut to)
                    .map_err(|_| ConvertError::Payload("too short for the detections".into()))
            }
        }
    }
}

impl<'a> ToRos<'a> {
    /// Converts a Driveline payload to ROS 2. `stamps_ahead_ns`: see [`Arrival`]; a sample may have
    /// at most `max_len` bytes. Allocates for everything except pixels, compressed files, points
    /// and radar returns.
    ///
    /// # Errors
    /// [`ConvertError`]: the payload is not such a message, or a value in it does not fit.
    pub fn new(
        kind: Kind,
        payload: &'a [u8],
        stamps_ahead_ns: Option<i64>,
        max_len: usize,
    ) -> Result<Self> {
        match kind {
            Kind::Image => image::sample(payload, stamps_ahead_ns),
            Kind::CompressedImage => compressed_image::sample(payload, stamps_ahead_ns),
            Kind::PointCloud => cloud::sample(payload, stamps_ahead_ns),
            Kind::Imu => imu::sample(payload, stamps_ahead_ns),
            Kind::RadarScan => radar::sample(payload, stamps_ahead_ns),
            Kind::Detections2D => detections::sample(payload, stamps_ahead_ns, max_len),
            Kind::RunHealth => health::sample(payload, stamps_ahead_ns, max_len),
        }?
        .bounded(max_len)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
