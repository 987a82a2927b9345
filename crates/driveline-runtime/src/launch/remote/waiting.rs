// SPDX-License-Identifier: Apache-2.0
//! A connection that has not identified itself yet.

use crate::account::{ContainedRecord, MAX_LINE_BYTES, Record};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Time for the first line.
const WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Waiting {
    socket: UnixStream,
    bytes: Vec<u8>,
    since: Instant,
}

/// First line of a connection, with all received bytes.
pub(super) enum FirstLine {
    NotYet(Waiting),
    Account {
        socket: UnixStream,
        bytes: Vec<u8>,
        /// Its module.
        module: String,
    },
    Contained {
        socket: UnixStream,
        bytes: Vec<u8>,
        /// Format of its records.
        format: u32,
        /// The module that it starts.
        module: String,
    },
    /// Not a line of this protocol, or no line.
    Useless,
}

impl Waiting {
    /// Creates the entry of a non-blocking socket.
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, bytes: Vec::new(), since: Instant::now() }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WITHIN
    }

    pub(super) fn read(mut self) -> FirstLine {
        let mut buffer = [0; 4096];
        while self.bytes.len() <= MAX_LINE_BYTES {
            match self.socket.read(&mut buffer) {
                Ok(0) => return FirstLine::Useless,
                Ok(n) => {
                    self.bytes.extend_from_slice(&buffer[..n]);
                    if let Some(end) = self.bytes.iter().position(|b| *b == b'\n') {
                        return self.said(end);
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return FirstLine::NotYet(self),
                Err(_) => return FirstLine::Useless,
            }
        }
        FirstLine::Useless
    }

    fn said(self, end: usize) -> FirstLine {
        let Self { socket, bytes, .. } = self;
        let line = &bytes[..end];
        if let Ok(ContainedRecord::Contained { format, module }) = serde_json::from_slice(line) {
            return FirstLine::Contained { socket, bytes, format, module };
        }
        match serde_json::from_slice(line) {
            Ok(Record::Hello { module, .. }) => FirstLine::Account { socket, bytes, module },
            _ => FirstLine::Useless,
        }
    }
}
