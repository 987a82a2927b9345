// SPDX-License-Identifier: Apache-2.0
//! Payload memory on the heap, aligned like payloads in shared memory.

use driveline_types::plain::TAIL_ALIGN;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Line([u8; 64]);

const _: () = assert!(size_of::<Line>() == TAIL_ALIGN);

/// Bytes that start at a multiple of 64. Allocated and touched once.
pub(crate) struct AlignedBytes(Box<[Line]>);

impl AlignedBytes {
    pub(crate) fn zeroed(len: usize) -> Self {
        Self(vec![Line([0; 64]); len.div_ceil(64)].into_boxed_slice())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(crate) fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_bytes()
    }
}
