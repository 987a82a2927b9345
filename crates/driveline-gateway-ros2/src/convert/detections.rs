// SPDX-License-Identifier: Apache-2.0
//! `vision_msgs/msg/Detection2DArray` of version 4.

use super::{Arrival, ConvertError, Result, ToRos, header};
use driveline_msgs::proto::{BoundingBox2D, Detection2D, Detections2D, Header};
use driveline_msgs::{TextError, header::to_fixed_text};
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use prost::Message;

const COVARIANCE: usize = 36;
/// Minimum size of a detection in CDR, in bytes: header, hypotheses, box, id.
const LEAST: u64 = 12 + 4 + 40 + 4;

pub(super) fn read(mut from: Decoder<'_>, arrival: &Arrival) -> Result<Detections2D> {
    let raw = header::raw(&mut from)?;
    // The same limit as for plain types.
    to_fixed_text::<48>("frame_id", raw.frame()?).map_err(ConvertError::FrameId)?;
    let own = Header {
        source_time_ns: raw.source_time_ns(arrival)?,
        frame_id: raw.frame()?.to_owned(),
        frame_index: arrival.frame_index,
    };
    let count = from.length(LEAST)?;
    let mut detections = Vec::new();
    for index in 0..count as usize {
        let fault = |reason, what| ConvertError::Detection { index, reason, what };
        let of = header::raw(&mut from)?;
        let stamped =
            (of.sec, of.nanosec) != (0, 0) && (of.sec, of.nanosec) != (raw.sec, raw.nanosec);
        if stamped || !(of.frame_id.is_empty() || of.frame_id == raw.frame_id) {
            return Err(fault("detection_header", "a header of its own"));
        }
        let hypotheses: u32 = from.number()?;
        if hypotheses != 1 {
            return Err(ConvertError::Hypotheses { index, count: hypotheses });
        }
        let class_label = text(from.string()?, "class_id")?;
        let score = single(from.number()?).ok_or(fault("range", "a score that no float holds"))?;
        posed(&mut from)?.then_some(()).ok_or(fault("pose", "a pose"))?;
        let [x, y, theta, width, height] = numbers(&mut from)?;
        if theta != 0.0 {
            return Err(fault("rotated", "a rotated box"));
        }
        let edges = [x - width / 2.0, y - height / 2.0, width, height].map(single);
        let [Some(x), Some(y), Some(width), Some(height)] = edges else {
            return Err(fault("range", "a box that no float holds"));
        };
        if !from.string()?.is_empty() {
            return Err(fault("track_id", "a track id"));
        }
        let class_id = class_label.parse().unwrap_or(0);
        detections.push(Detection2D {
            r#box: Some(BoundingBox2D { x, y, width, height }),
            class_id,
            class_label,
            score,
        });
    }
    from.finish()?;
    Ok(Detections2D { header: Some(own), detections, ..Detections2D::default() })
}

fn numbers<const N: usize>(from: &mut Decoder<'_>) -> Result<[f64; N]> {
    let mut out = [0.0; N];
    for number in &mut out {
        *number = from.number()?;
    }
    Ok(out)
}

fn text(bytes: &[u8], field: &'static str) -> Result<String> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| ConvertError::Text(TextError::NotText { field }))?;
    Ok(text.to_owned())
}

/// Rounds to `f32`; `None` if a finite number becomes infinite.
fn single(double: f64) -> Option<f32> {
    let rounded = double as f32;
    (rounded.is_finite() == double.is_finite()).then_some(rounded)
}

/// Reads a pose. Returns true if it is empty, as from a detector without poses.
fn posed(from: &mut Decoder<'_>) -> Result<bool> {
    let [x, y, z, qx, qy, qz, qw] = numbers(from)?;
    let covariance: [f64; COVARIANCE] = numbers(from)?;
    let zeros = [x, y, z, qx, qy, qz].iter().chain(&covariance).all(|n| *n == 0.0);
    Ok(zeros && (qw == 0.0 || qw == 1.0))
}

pub(super) fn sample(
    payload: &[u8],
    stamps_ahead_ns: Option<i64>,
    max_len: usize,
) -> Result<ToRos<'static>> {
    let message =
        Detections2D::decode(payload).map_err(|e| ConvertError::Payload(e.to_string()))?;
    let own = message.header.unwrap_or_default();
    let (sec, nanosec) = header::stamp(own.source_time_ns, stamps_ahead_ns)?;
    let mut to = Encoder::new(ByteOrder::Little);
    let header = |to: &mut Encoder| {
        to.number(sec);
        to.number(nanosec);
        to.string(own.frame_id.as_bytes())
    };
    if own.frame_id.contains('\0') {
        return Err(ConvertError::FrameId(TextError::ZeroByte { field: "frame_id" }));
    }
    header(&mut to)?;
    to.length(message.detections.len())?;
    let mut len = 0_usize;
    for detection in &message.detections {
        // Checked before allocating: a detection takes more bytes in CDR than in the payload.
        len = len.saturating_add(
            LEAST as usize + COVARIANCE * 8 + own.frame_id.len() + detection.class_label.len(),
        );
        if len > max_len {
            return Err(ConvertError::TooLong { len, max: max_len });
        }
        header(&mut to)?;
        to.length(1)?;
        let label = match detection.class_label.as_str() {
            "" => detection.class_id.to_string(),
            label if label.contains('\0') => {
                return Err(ConvertError::Text(TextError::ZeroByte { field: "class_label" }));
            }
            label => label.to_owned(),
        };
        to.string(label.as_bytes())?;
        to.number(f64::from(detection.score));
        to.numbers(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        to.numbers(&[0.0; COVARIANCE]);
        let b = detection.r#box.unwrap_or_default();
        let [x, y, width, height] = [b.x, b.y, b.width, b.height].map(f64::from);
        to.numbers(&[x + width / 2.0, y + height / 2.0, 0.0, width, height]);
        to.string(b"")?;
    }
    Ok(ToRos::of(to.finish(), &[], &[]))
}
