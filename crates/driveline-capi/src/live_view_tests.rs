// SPDX-License-Identifier: Apache-2.0
//! A hostile publisher changes its payload while Rust reads it: views stay inside it, text stays
//! text, nothing panics.
//!
//! The tests are in this crate because only it and the host transport may have the `unsafe` code
//! that changes memory while other code has a reference to it.

use driveline_msgs::{
    CloudView, Encoding, Header, Image, ImageView, PointCloud, PointField, PointXyzi,
};
use driveline_types::{Plain, PlainRef};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use zerocopy::IntoBytes;

/// Payload memory as if it were mapped twice: `bytes` is the reader's mapping, and `overwrite`
/// writes through the publisher's mapping.
struct Payload {
    memory: *mut u8,
    layout: std::alloc::Layout,
}

// SAFETY: the memory is only written through atomics.
unsafe impl Sync for Payload {}

impl Payload {
    fn new<T: Plain>(head: &T, tail_len: usize) -> Self {
        let len = size_of::<T>().next_multiple_of(64) + tail_len;
        let layout = std::alloc::Layout::from_size_align(len, 64).unwrap();
        // SAFETY: the layout is not of size zero.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        let payload = Self { memory, layout };
        payload.overwrite(head);
        payload
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: allocated with this length, and freed only in `drop`. The memory changes while it
        // is borrowed, as a mapping of another process's segment does. The tests check that this is
        // harmless.
        unsafe { std::slice::from_raw_parts(self.memory, self.layout.size()) }
    }

    fn overwrite<T: Plain>(&self, head: &T) {
        for (i, word) in head.as_bytes().chunks_exact(4).enumerate() {
            let word = u32::from_ne_bytes(word.try_into().unwrap());
            // SAFETY: inside the head, aligned, and written only through atomics.
            unsafe { AtomicU32::from_ptr(self.memory.cast::<u32>().add(i)) }.store(word, Relaxed);
        }
    }

    fn contains(&self, part: &[u8]) -> bool {
        let all = self.bytes().as_ptr_range();
        let part = part.as_ptr_range();
        all.start <= part.start && part.end <= all.end
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { std::alloc::dealloc(self.memory, self.layout) };
    }
}

/// Calls `look` repeatedly while another thread replaces the head of the payload by one of two
/// values in turn.
fn look_while_heads_change<T: Plain>(payload: &Payload, one: &T, other: &T, look: impl Fn()) {
    let (done, changes) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                payload.overwrite(other);
                payload.overwrite(one);
                changes.fetch_add(1, Relaxed);
            }
        });
        let end = End(&done);
        let mut rounds = 0;
        while rounds < 20_000 || changes.load(Relaxed) < 1000 {
            look();
            rounds += 1;
        }
        drop(end);
    });
}

/// Ends the other thread, even if this thread panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn images_that_change_are_looked_at_inside_their_payload() {
    let good = Image::new(Header::new(7, "camera", 3).unwrap(), 16, 8, Encoding::Mono8).unwrap();
    let huge =
        Image::new(Header::new(8, &"e".repeat(40), 4).unwrap(), 64, 32, Encoding::Bgr8).unwrap();
    let payload = Payload::new(&good, 128);
    let kept = ImageView::new(PlainRef::new(payload.bytes()).unwrap()).unwrap();
    payload.overwrite(&huge);
    assert_eq!(
        (kept.width(), kept.height(), kept.step(), kept.encoding()),
        (16, 8, 16, Encoding::Mono8)
    );
    assert_eq!(kept.header().frame_id().unwrap().as_str(), "camera");
    assert_eq!(kept.row(7).len(), 16);
    look_while_heads_change(&payload, &good, &huge, || {
        let Ok(view) = ImageView::new(PlainRef::new(payload.bytes()).unwrap()) else { return };
        for y in 0..view.height() {
            let row = view.row(y);
            assert_eq!(
                row.len(),
                view.width() as usize * view.encoding().bytes_per_pixel() as usize
            );
            assert!(payload.contains(row));
        }
    });
}

#[test]
fn clouds_that_change_are_looked_at_inside_their_payload() {
    let good = PointCloud::new::<PointXyzi>(Header::new(7, "lidar", 3).unwrap(), 3, 2).unwrap();
    let mut huge =
        PointCloud { width: 300, row_step: 300 * 16, height: 200, field_count: u32::MAX, ..good };
    huge.fields =
        [PointField { name: [b'x'; 20], offset: u32::MAX, datatype: 7, count: u32::MAX }; 16];
    let payload = Payload::new(&good, 96);
    let kept = CloudView::new(PlainRef::new(payload.bytes()).unwrap()).unwrap();
    payload.overwrite(&huge);
    assert_eq!((kept.len(), kept.fields().count()), (6, 4));
    assert_eq!(kept.points::<PointXyzi>().unwrap().len(), 6);
    look_while_heads_change(&payload, &good, &huge, || {
        let Ok(view) = CloudView::new(PlainRef::new(payload.bytes()).unwrap()) else { return };
        assert_eq!(view.fields().count(), view.head().field_count as usize);
        // A head that mixes both values may describe no points.
        let Ok(points) = view.points::<PointXyzi>() else { return };
        assert_eq!(points.len(), view.len());
        assert!(payload.contains(points.as_bytes()));
    });
}

#[test]
fn text_that_changes_is_text_or_an_error() {
    let one = Header::new(1, "ä€𝄞", 1).unwrap();
    let other = Header { frame_id: [0xf0; 48], ..one };
    let payload = Payload::new(&one, 0);
    look_while_heads_change(&payload, &one, &other, || {
        let header = PlainRef::<Header>::new(payload.bytes()).unwrap();
        let Ok(frame) = header.head().frame_id() else { return };
        assert!(
            std::str::from_utf8(frame.as_bytes())
                .is_ok_and(|t| t.chars().all(|c| "ä€𝄞".contains(c))),
            "{frame:?}"
        );
    });
}
