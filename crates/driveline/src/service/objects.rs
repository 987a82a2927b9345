// SPDX-License-Identifier: Apache-2.0
//! Refusals, as bytes and as values that move inside the process.

use crate::error::EncodeError;
use crate::local::{Language, LocalObject};
use crate::raw::RawSample;
use driveline_types::service::{MAX_REFUSAL_LEN, cut_refusal, refusal_text};
use std::any::Any;
use std::sync::Arc;

/// Text of a refusal, in place of a response that moves as a pointer.
struct RefusalText(String);

impl LocalObject for RefusalText {
    fn language(&self) -> Language {
        Language::Rust
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn encoded_len(&self) -> Option<usize> {
        Some(self.0.len())
    }
    fn encode(&self, into: &mut [u8]) -> Result<(), EncodeError> {
        match into.get_mut(..self.0.len()) {
            Some(into) => into.copy_from_slice(self.0.as_bytes()),
            None => {
                return Err(EncodeError { reason: "there is less room than was asked for".into() });
            }
        }
        Ok(())
    }
}

pub(super) fn refusal_value(text: &str) -> Arc<dyn LocalObject> {
    Arc::new(RefusalText(cut_refusal(text).to_owned()))
}

/// Returns the text of a refusal, which may contain any bytes.
pub(super) fn refusal_of(sample: &RawSample) -> String {
    if let Some(bytes) = sample.payload() {
        return refusal_text(bytes);
    }
    let Some(object) = sample.object() else { return String::new() };
    if let Some(RefusalText(text)) = object.as_any().downcast_ref() {
        return cut_refusal(text).to_owned();
    }
    let mut bytes =
        vec![0; object.encoded_len().filter(|len| *len <= MAX_REFUSAL_LEN).unwrap_or(0)];
    let _ = object.encode(&mut bytes);
    refusal_text(&bytes)
}
