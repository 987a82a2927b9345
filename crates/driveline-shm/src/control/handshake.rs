// SPDX-License-Identifier: Apache-2.0
//! The first message of a connection. A connection is undecided until this message has arrived.
//! Messages of other users are received on a separate thread for each user (see
//! `sys::blocking_tasks`), since the kernel may close descriptors during the receive, which can
//! block.

use super::{Command, Control, Source};
use crate::limits::MAX_MESSAGE_LEN;
use crate::sys::blocking_tasks::Foreign;
use crate::sys::socket::{self, MAX_FDS, Received};
use crate::wire::{Message, WireError};
use rustix::event::epoll::{self, EventFlags};
use std::io;
use std::sync::Arc;

/// Result of receiving on a connection.
pub(crate) enum Reception {
    Nothing,
    Ended,
    /// The peer has sent descriptors, and this process can open no more.
    Shortage,
    /// More bytes or descriptors than a message may have.
    Oversized,
    Said(Result<Message, WireError>, Vec<Foreign>),
}

/// Receives one message. May block unless [`Foreign::is_harmless`].
pub(crate) fn receive_message(connection: &Foreign, buffer: &mut [u8]) -> Reception {
    match socket::receive(connection, buffer) {
        Ok(Received::Nothing) => Reception::Nothing,
        Ok(Received::Message(len, fds)) => buffer
            .get(..len)
            .map_or(Reception::Ended, |packet| Reception::Said(Message::decode(packet), fds)),
        Ok(Received::Shortage) => Reception::Shortage,
        Ok(Received::Oversized) => Reception::Oversized,
        Ok(Received::Closed) | Err(_) => Reception::Ended,
    }
}

/// Text for the refusal of an oversized message.
pub(super) fn oversized() -> String {
    format!("a message has at most {MAX_MESSAGE_LEN} bytes and {MAX_FDS} descriptors")
}

impl Control {
    /// Watches an undecided connection. If another thread receives from the connection, epoll
    /// reports the connection only once.
    pub(super) fn watch_undecided(&mut self, connection: &Foreign) -> io::Result<u64> {
        let key = self.next_source;
        self.next_source += 1;
        epoll::add(
            self.blocking_tasks.epoll(),
            connection,
            epoll::EventData::new_u64(key),
            undecided(connection),
        )?;
        Ok(key)
    }

    /// Watches a decided connection only for its end.
    pub(super) fn watch_decided(&self, key: u64, connection: &Foreign) {
        socket::take_descriptors(connection, false);
        let _ = epoll::modify(
            self.blocking_tasks.epoll(),
            connection,
            epoll::EventData::new_u64(key),
            EventFlags::IN,
        );
    }

    /// Receives the message of an undecided connection, on this thread or on the thread that serves
    /// the user at the other end.
    pub(super) fn listen(&mut self, key: u64) {
        let Some(connection) = self.sources.get(&key).and_then(Source::undecided) else { return };
        if connection.is_harmless() {
            let received = receive_message(connection, &mut self.buffer);
            self.received(key, received);
        } else {
            let commands = Arc::clone(&self.commands);
            connection.apart(move |connection| {
                let received = receive_message(&connection, &mut vec![0; MAX_MESSAGE_LEN]);
                commands.send(Command::Reception { key, received });
            });
        }
    }

    /// Handles a received message. The connection may have ended.
    pub(super) fn received(&mut self, key: u64, received: Reception) {
        match (self.sources.get(&key), received) {
            (Some(source), Reception::Nothing) => {
                if let Some(connection) = source.undecided() {
                    let event = epoll::EventData::new_u64(key);
                    let _ = epoll::modify(
                        self.blocking_tasks.epoll(),
                        connection,
                        event,
                        undecided(connection),
                    );
                }
            }
            (Some(Source::Peer(_)), received) => self.peer_said(key, received),
            (Some(Source::Dial(_)), received) => self.publisher_said(key, received),
            (Some(Source::Info(_)), received) => self.tool_said(key, received),
            _ => {}
        }
    }
}

fn undecided(connection: &Foreign) -> EventFlags {
    if connection.is_harmless() { EventFlags::IN } else { EventFlags::IN | EventFlags::ONESHOT }
}
