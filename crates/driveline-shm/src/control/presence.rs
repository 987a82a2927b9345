// SPDX-License-Identifier: Apache-2.0
//! Restores this participant's names, or the whole directory, after their removal by a clean-up of
//! /dev/shm, systemd's RemoveIPC, or a hasty `rm`. Running matches do not need them, so otherwise
//! only new processes would notice.

use super::{Control, Source, rescan_socket};
use crate::event::{PublisherEvent, RefusalCode, SubscriptionEvent};
use crate::sys::directory::Name;
use crate::sys::fork::GuardedFd;
use crate::sys::socket;
use rustix::event::epoll::{self, EventFlags};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

impl Control {
    /// After a change of the directory: if it was removed, continues in the directory that is at
    /// its path now; then creates this participant's missing names again.
    pub(super) fn see_to_presence(&mut self) {
        let directory = &self.identity.directory;
        if directory.is_removed() {
            let path = directory.path().display();
            match directory.reopen() {
                Ok(()) => {
                    let text = format!(
                        "the domain directory {path} was removed while this process ran; \
                         all endpoints were announced again; exclude the directory from \
                         clean-ups (systemd's RemoveIPC, a clean-up of /dev/shm)"
                    );
                    self.lost = false;
                    self.notify_all_ends(&text);
                }
                Err(e) => {
                    let text = format!(
                        "the domain directory {path} was removed and cannot be used again: {e}; \
                         new processes and this one do not find each other until the directory is \
                         restored with its old mode (checked each second)"
                    );
                    if !std::mem::replace(&mut self.lost, true) {
                        self.notify_all_ends(&text);
                    }
                    return;
                }
            }
        }
        match self.make_names_again() {
            Ok(()) => self.lost = false,
            // The directory was removed meanwhile. Its link count shows that at the next check,
            // within a second.
            Err(_) if self.identity.directory.is_removed() => {}
            Err(e) => {
                let text = format!(
                    "names of this process in the domain directory were removed and cannot be made \
                     again: {e}"
                );
                if !std::mem::replace(&mut self.lost, true) {
                    self.notify_all_ends(&text);
                }
            }
        }
    }

    fn make_names_again(&mut self) -> io::Result<()> {
        let identity = Arc::clone(&self.identity);
        let directory = &identity.directory;
        let missing = |name: &str| Name::parse(name).filter(|_| !directory.has(name));
        let mode = if directory.is_shared() { 0o666 } else { 0o600 };
        if let Some(name) = missing(&self.rescan_name) {
            let socket = rescan_socket(directory, &name, mode, &self.blocking_tasks)?;
            self.watch_anew(&socket, |s| matches!(s, Source::Rescan))?;
            self.rescan = socket;
        }
        if let Some(name) = missing(&self.info_name) {
            let socket = socket::listen_at(directory, &name, mode)?;
            self.watch_anew(&socket, |s| matches!(s, Source::InfoListener))?;
            socket::turn_away(&self.info_listener, &self.blocking_tasks);
            self.info_listener = socket;
        }
        let lost: Vec<_> = self
            .outlets
            .iter()
            .filter_map(|(id, o)| missing(&o.name).map(|name| (*id, name)))
            .collect();
        for (id, name) in lost {
            let Some(mode) = self.outlets.get(&id).map(|o| o.publication.socket_mode()) else {
                continue;
            };
            let socket: GuardedFd = socket::listen_at(directory, &name, mode)?;
            self.watch_anew(&socket, |s| matches!(s, Source::Listener(other) if *other == id))?;
            if let Some(outlet) = self.outlets.get_mut(&id) {
                socket::turn_away(outlet.listener(), &self.blocking_tasks);
                outlet.replace_listener(socket);
            }
            // Uses the same name, so that matched subscriptions see no other publisher.
            self.announce(&name.text);
        }
        Ok(())
    }

    fn watch_anew(&self, socket: impl AsFd, which: impl Fn(&Source) -> bool) -> io::Result<()> {
        let Some(key) = self.sources.iter().find_map(|(key, s)| which(s).then_some(*key)) else {
            return Ok(());
        };
        Ok(epoll::add(
            self.blocking_tasks.epoll(),
            socket,
            epoll::EventData::new_u64(key),
            EventFlags::IN,
        )?)
    }

    pub(super) fn notify_all_ends(&self, text: &str) {
        for o in self.outlets.values() {
            let text = format!("topic '{}': {text}", o.publication.topic);
            o.publication.events.push(PublisherEvent::Refused { code: RefusalCode::System, text });
        }
        for s in self.inlets.values() {
            let text = format!("topic '{}': {text}", s.inlet.topic);
            s.inlet.event(SubscriptionEvent::Refused { code: RefusalCode::System, text });
        }
    }
}
