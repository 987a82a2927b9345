// SPDX-License-Identifier: Apache-2.0
//! Layout texts of plain types, and views on payloads of any bytes.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use driveline_msgs::{CloudView, Image, ImageView, PointCloud, PointXyz, PointXyzi, RadarScan};
use driveline_types::{Plain, PlainLayout, PlainRef};
use libfuzzer_sys::fuzz_target;

/// Payload, aligned to a cache line as in a slot.
#[repr(align(64))]
struct Payload([u8; 8192]);

fn view<T: Plain>(payload: &[u8]) -> Option<PlainRef<'_, T>> {
    PlainRef::new(payload).ok()
}

fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(layout) = text.parse::<PlainLayout>() {
        let written = layout.to_string();
        assert_eq!(written.parse::<PlainLayout>().as_ref(), Ok(&layout), "{written}");
        assert_eq!(layout.first_difference(&layout), None);
        let _ = layout.tail_offset();
    }
}

fn payload(bytes: &[u8]) {
    let mut memory = Payload([0; 8192]);
    let len = bytes.len().min(memory.0.len());
    memory.0[..len].copy_from_slice(&bytes[..len]);
    let payload = &memory.0[..len];
    if let Some(image) = view::<Image>(payload).and_then(|v| ImageView::new(v).ok()) {
        // All rows in range can be read to their end.
        let rows = image.rows();
        let _ = (0..rows.min(100))
            .chain(rows.checked_sub(1))
            .map(|y| image.row(y).len())
            .sum::<usize>();
    }
    if let Some(cloud) = view::<PointCloud>(payload).and_then(|v| CloudView::new(v).ok()) {
        let _ = cloud.points::<PointXyz>().map(|p| p.iter().map(|p| p.x).sum::<f32>());
        let _ = cloud.points::<PointXyzi>().map(|p| p.iter().map(|p| p.x).sum::<f32>());
    }
    if let Some(scan) = view::<RadarScan>(payload) {
        let _ = (scan.copy_head(), scan.tail().len());
    }
}

fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((b't', rest)) => text(rest),
    Some((_, rest)) => payload(rest),
    None => {}
});
