// SPDX-License-Identifier: Apache-2.0
//! The process transport: a published sample is one reference-counted value, and every subscription
//! gets the pointer.
//!
//! One [`topic::LocalTopic`] per topic and process matches publishers and subscriptions. A
//! publisher pushes into a bounded queue per subscription; a full queue loses its oldest sample
//! (keep-last), or makes a reliable publisher wait for a bounded time. Payload buffers come from a
//! pool of the publisher: it is reserved when the publisher is created, and each later subscription
//! adds its buffers.

mod buffer;
mod held;
mod publisher;
mod queue;
mod reader;
mod topic;

pub(crate) use buffer::AlignedBytes;
pub(crate) use held::HeldToken;
pub(crate) use publisher::{Displaced, LocalLoan, LocalPublisher};
pub(crate) use queue::LocalQueue;
pub(crate) use reader::{LocalReader, OwnLocal};
pub(crate) use topic::{LocalEnd, LocalTopic, Peer};

use crate::error::EncodeError;
use driveline_types::SampleHeader;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Language of the value behind a pointer. Only ends of this language can use the pointer. Ends of
/// another language read the serialised bytes of a message; an object has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// Rust.
    Rust,
    /// C and C++.
    Cpp,
    /// Python.
    Python,
}

/// A value that moves inside the process as a pointer: a protobuf message or an object.
pub trait LocalObject: Send + Sync + 'static {
    /// Language of the value behind [`Self::as_any`].
    fn language(&self) -> Language;
    /// The value, for readers of the same language.
    fn as_any(&self) -> &dyn Any;
    /// Length when serialised, in bytes; `None` for objects, which cannot be.
    fn encoded_len(&self) -> Option<usize>;
    /// Serialises into exactly `encoded_len()` bytes. Called on the publisher's thread, at most
    /// once per message, for readers outside the process; and on the threads of readers inside
    /// that need the bytes, such as readers of another language.
    ///
    /// # Errors
    /// [`EncodeError`] with the serialiser's reason.
    fn encode(&self, into: &mut [u8]) -> Result<(), EncodeError>;
}

/// Payload of a sample inside the process.
pub(crate) enum Body {
    Bytes {
        buffer: AlignedBytes,
        len: usize,
    },
    Object(Arc<dyn LocalObject>),
    /// The payload was taken out, because the sample is being dropped.
    Gone,
}

/// One sample inside the process. Immutable once published: only a unique owner can change it.
pub(crate) struct LocalSample {
    pub(crate) header: SampleHeader,
    /// Publisher, to attribute gaps in sequence numbers.
    pub(crate) publisher: u64,
    /// The publisher's strength as owner of the topic.
    pub(crate) strength: u32,
    pub(crate) body: Body,
}

impl Drop for LocalSample {
    fn drop(&mut self) {
        if let Body::Object(object) = std::mem::replace(&mut self.body, Body::Gone) {
            let_go(object, self.header.sequence);
        }
    }
}

/// Drops a value. Its destructor is foreign code: a panic must not end the thread that happens to
/// drop the value.
fn let_go(object: Arc<dyn LocalObject>, sequence: u64) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(object))) {
        tracing::error!(sequence, "the destructor of a published value panicked");
        // Its own destructor might panic again.
        std::mem::forget(payload);
    }
}

/// A publisher's own handle to a value. It is the last handle if the readers finish before the
/// publish does.
pub(crate) struct OwnHandle {
    object: Option<Arc<dyn LocalObject>>,
    sequence: u64,
}

impl OwnHandle {
    pub(crate) fn new(object: Arc<dyn LocalObject>, sequence: u64) -> Self {
        Self { object: Some(object), sequence }
    }

    /// Returns the value. Never `None` before the handle is dropped.
    pub(crate) fn get(&self) -> Option<&Arc<dyn LocalObject>> {
        self.object.as_ref()
    }
}

impl Drop for OwnHandle {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            let_go(object, self.sequence);
        }
    }
}

impl LocalSample {
    pub(crate) fn payload(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Bytes { buffer, len } => buffer.as_bytes().get(..*len),
            Body::Object(_) | Body::Gone => None,
        }
    }

    pub(crate) fn object(&self) -> Option<&Arc<dyn LocalObject>> {
        match &self.body {
            Body::Object(o) => Some(o),
            Body::Bytes { .. } | Body::Gone => None,
        }
    }
}
