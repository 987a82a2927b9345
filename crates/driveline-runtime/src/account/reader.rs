// SPDX-License-Identifier: Apache-2.0
//! Splits a stream of bytes into records.

use super::Record;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// Maximum length of a line; longer ones are counted as unreadable.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// Turns received bytes into records. Memory is bounded by [`MAX_LINE_BYTES`].
#[derive(Debug)]
pub struct LineReader<T = Record> {
    line: Vec<u8>,
    /// True while the rest of a line that was too long is skipped.
    skipping: bool,
    unreadable: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Default for LineReader<T> {
    fn default() -> Self {
        Self { line: Vec::new(), skipping: false, unreadable: 0, of: PhantomData }
    }
}

impl<T: DeserializeOwned> LineReader<T> {
    /// Takes bytes and passes every record that they complete to `take`.
    pub fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(T)) {
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            let (head, tail) = bytes.split_at(end);
            bytes = &tail[1..];
            self.extend(head);
            if !std::mem::take(&mut self.skipping) && !self.line.is_empty() {
                match serde_json::from_slice(&self.line) {
                    Ok(record) => take(record),
                    Err(_) => self.unreadable += 1,
                }
            }
            self.line.clear();
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.line.len() + bytes.len() > MAX_LINE_BYTES {
            self.skipping = true;
            self.unreadable += 1;
            self.line.clear();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    /// Lines that were not records.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}
