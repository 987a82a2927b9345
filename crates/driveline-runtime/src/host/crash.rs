// SPDX-License-Identifier: Apache-2.0
//! Report of a fatal signal, just before the process ends. It names the component's call during
//! which the signal came. [`report`] runs in the signal handler, so it only makes system calls and
//! reads atomics.

use crate::account::Record;
use crate::activity::{Text, describe_own};
use driveline_shm::Crash;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, send};
use signal_hook::consts as s;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

/// Maximum time for which a full pipe may delay the report.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

static ACCOUNT: OnceLock<UnixStream> = OnceLock::new();

/// Sets up crash reports of this process, on standard error and in the account.
pub(super) fn report_crashes(account: Option<UnixStream>) -> std::io::Result<()> {
    if let Some(account) = account {
        let _ = ACCOUNT.set(account);
    }
    driveline_shm::reserve_signal_stack();
    driveline_shm::report_crashes(report)
}

/// Reports on standard error and in the account why the process ends.
pub(super) fn report_failure(text: &str) {
    let record = Record::Failed { call: None, text: text.to_owned() }.shortened();
    if let (Some(account), Ok(json)) = (ACCOUNT.get(), serde_json::to_string(&record)) {
        // On a line of its own, even if another line was being written.
        let _ = send(
            account,
            format!("\n{json}\n").as_bytes(),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        );
    }
    write(format!("error: {text}\n").as_bytes());
}

fn report(crash: &Crash) {
    let (mut text, mut json, mut place) = (Text::new(), Text::new(), Text::new());
    let signal = u64::from(crash.signal.unsigned_abs());
    // On a line of its own, even if another line was being written.
    json.push("\n{\"record\":\"crash\",\"signal\":").number(signal);
    describe_own(&mut place, &mut json);
    json.push("}\n");
    if let Some(account) = ACCOUNT.get() {
        let _ = send(account, json.bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
    let (name, meaning) = match crash.signal {
        s::SIGSEGV => ("SIGSEGV", "invalid memory access"),
        s::SIGBUS => ("SIGBUS", "invalid memory access, or a file or /dev/shm is full"),
        s::SIGFPE => ("SIGFPE", "arithmetic error"),
        s::SIGILL => ("SIGILL", "invalid instruction"),
        s::SIGABRT => ("SIGABRT", "abort, for example an uncaught exception"),
        s::SIGSYS => ("SIGSYS", "forbidden system call"),
        _ => ("a fatal signal", "unknown"),
    };
    text.push("error: ").push(name).push(" (").push(meaning);
    if let Some(address) = crash.address {
        text.push(", address 0x").hex(address);
    }
    text.push(")");
    if place.bytes().is_empty() {
        text.push(" in a thread that runs no callback (id ");
        text.number(u64::from(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()))
            .push(")");
    } else {
        text.push(" in").append(&place);
    }
    text.push("\n");
    write(text.bytes());
}

/// Writes to standard error; a missing reader is no error.
pub(super) fn write(text: &[u8]) {
    let err = std::io::stderr();
    let mut fds = [PollFd::from_borrowed_fd(err.as_fd(), PollFlags::OUT)];
    if poll(&mut fds, Some(&PIPE_WAIT)) == Ok(1) && fds[0].revents().contains(PollFlags::OUT) {
        // A writable pipe accepts up to 4096 bytes (PIPE_BUF) without blocking.
        let _ = rustix::io::write(err.as_fd(), &text[..text.len().min(4096)]);
    }
}
