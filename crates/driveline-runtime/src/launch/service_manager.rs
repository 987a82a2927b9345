// SPDX-License-Identifier: Apache-2.0
//! Messages to systemd, if it started the launcher as a service with `Type=notify`
//! (`sd_notify(3)`).

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

/// Variables by which systemd addresses the launcher alone.
pub(super) const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The service manager of this process; without one, nothing is sent.
pub(super) struct ServiceManager {
    /// Time between two signs of life, half of what the unit allows.
    period: Option<Duration>,
    next: Instant,
}

impl ServiceManager {
    pub(super) fn new() -> Self {
        Self {
            period: sd_notify::watchdog_enabled().map(|timeout| timeout / 2),
            next: Instant::now(),
        }
    }

    /// Reports that the graph runs.
    pub(super) fn running(&self) {
        send(&[NotifyState::Ready, NotifyState::Status("running")]);
    }

    /// Sets the text that systemd shows as the status of the unit, for example that a module is
    /// down while the graph runs.
    pub(super) fn status(&self, text: &str) {
        send(&[NotifyState::Status(text)]);
    }

    pub(super) fn stopping(&self) {
        send(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// Sends a sign of life when it is due. The launcher's loop calls this function: if the loop
    /// hangs, systemd kills the unit.
    pub(super) fn alive(&mut self, now: Instant) {
        let Some(period) = self.period.filter(|_| now >= self.next) else { return };
        self.next = now + period;
        send(&[NotifyState::Watchdog]);
    }
}

fn send(state: &[NotifyState<'_>]) {
    // A service manager that does not listen is no reason to stop a vehicle.
    let _ = sd_notify::notify(state);
}
