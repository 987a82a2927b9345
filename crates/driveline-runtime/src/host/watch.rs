// SPDX-License-Identifier: Apache-2.0
//! A thread that no component can block.
//!
//! It receives signals and detects the end of the launcher, passes both on to the main thread, and
//! ends the process itself if the main thread takes too long: a hanging component must not outlive
//! its run. It also reports calls that take long, and writes the heartbeats.

use super::pulse::Pulse;
use super::{crash, exit};
use crate::account::{Record, Writer};
use crate::activity::{Running, running_since};
use crate::component::StopSwitch;
use crate::heartbeats::PERIOD;
use crate::launch::control::remove_dead;
use driveline_shm::DomainNames;
use driveline_types::MonotonicNs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Interrupts within this time count as one. `timeout`, and scripts that repeat the terminal's
/// signal to all processes, interrupt twice within milliseconds. A user presses Ctrl-C again later
/// than that.
pub(crate) const ONE_INTERRUPT: std::time::Duration = std::time::Duration::from_millis(500);

/// A call that has run for longer than this is reported.
const LONG: Duration = Duration::from_secs(3);
/// The same at the end of the run, which waits for the call.
const LONG_AT_THE_END: Duration = Duration::from_millis(500);
/// Time between two checks.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AT_THE_END: Duration = Duration::from_millis(200);

/// Bytes from the main thread to the watch: the heartbeats begin; the module ends.
const BEAT: u8 = 0;
const END: u8 = 1;

/// Objects that the thread watches.
pub(super) struct Subject {
    pub(super) module: String,
    pub(super) signals: UnixStream,
    /// Socket to the launcher.
    pub(super) socket: Option<UnixStream>,
    pub(super) account: Option<Arc<Writer>>,
    pub(super) stop: StopSwitch,
    /// Time for the module to end after the request.
    pub(super) stop_within: Duration,
    /// The launcher's control socket.
    pub(super) control: Option<PathBuf>,
}

/// The main thread's handle of the watch.
pub(super) struct Watch {
    /// Readable once the module is to end.
    pub(super) word: UnixStream,
    launcher_gone: Arc<AtomicBool>,
    /// True if the module continues without its launcher.
    goes_on: Arc<AtomicBool>,
    pulse: Arc<OnceLock<Pulse>>,
    names: Arc<OnceLock<DomainNames>>,
}

impl Watch {
    pub(super) fn start(subject: Subject) -> std::io::Result<Self> {
        let (word, thread_word) = UnixStream::pair()?;
        word.set_nonblocking(true)?;
        thread_word.set_nonblocking(true)?;
        let launcher_gone = Arc::new(AtomicBool::new(false));
        let goes_on: Arc<AtomicBool> = Arc::default();
        let pulse: Arc<OnceLock<Pulse>> = Arc::default();
        let names: Arc<OnceLock<DomainNames>> = Arc::default();
        let thread = Thread {
            subject,
            names: names.clone(),
            pulse: pulse.clone(),
            beat_at: Instant::now(),
            word: thread_word,
            launcher_gone: launcher_gone.clone(),
            goes_on: goes_on.clone(),
            main_listens: true,
            asked: None,
            impatient: false,
            ending: None,
            reported: HashMap::new(),
            look_at: Instant::now() + LOOK,
        };
        std::thread::Builder::new().name("watch".into()).spawn(move || thread.run())?;
        Ok(Self { word, launcher_gone, goes_on, pulse, names })
    }

    /// Makes the module continue if its launcher is lost.
    pub(super) fn go_on_without_launcher(&self) {
        self.goes_on.store(true, Ordering::Release);
    }

    /// Returns true if the module continues without its launcher.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Acquire)
    }

    /// Removes these names if the process has to end while a call hangs.
    pub(super) fn names(&self, names: DomainNames) {
        let _ = self.names.set(names);
    }

    /// Starts the heartbeats.
    pub(super) fn pulse(&self, pulse: Pulse) {
        let _ = self.pulse.set(pulse);
        let _ = (&self.word).write(&[BEAT]);
    }

    /// Notes that the main thread ends the module, by itself or on request: the time-out begins.
    pub(super) fn ending(&self) {
        let _ = (&self.word).write(&[END]);
    }

    /// Ends the processes that components have started and not ended, if the launcher is gone.
    /// Otherwise the launcher does this.
    pub(super) fn end_the_rest(&self) {
        if self.launcher_gone.load(Ordering::Acquire) {
            signal_own_group(Signal::TERM);
        }
    }
}

/// Sends a signal to the process group, if this process leads it. A process that a launcher or the
/// first process of a container has started does; others may share their group with unknown
/// processes.
fn signal_own_group(signal: Signal) {
    let own = rustix::process::getpid();
    if rustix::process::getpgrp() == own {
        let _ = rustix::process::kill_process_group(own, signal);
    }
}

struct Thread {
    subject: Subject,
    word: UnixStream,
    launcher_gone: Arc<AtomicBool>,
    /// True if the module continues without its launcher.
    goes_on: Arc<AtomicBool>,
    /// True until the main thread has ended the module.
    main_listens: bool,
    /// Time of the first request to end.
    asked: Option<Instant>,
    /// True if the user does not want to wait any longer.
    impatient: bool,
    /// Time when the end of the module began.
    ending: Option<Instant>,
    /// Duration of a call at its last report.
    reported: HashMap<(usize, u64), Duration>,
    look_at: Instant,
    /// Values written at each beat, once all components are initialised.
    pulse: Arc<OnceLock<Pulse>>,
    names: Arc<OnceLock<DomainNames>>,
    beat_at: Instant,
}

impl Thread {
    fn run(mut self) {
        loop {
            let deadline = self.ending.map(|since| since + self.subject.stop_within);
            let next = deadline.map_or(self.look_at, |d| d.min(self.look_at));
            let next = if self.pulse.get().is_some() { next.min(self.beat_at) } else { next };
            self.wait(next.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            if let Some(pulse) = self.pulse.get().filter(|_| now >= self.beat_at) {
                pulse.beat(MonotonicNs::now());
                self.beat_at = now + PERIOD;
            }
            if self.impatient
                || self.ending.is_some_and(|since| now >= since + self.subject.stop_within)
            {
                self.give_up();
            }
            if now >= self.look_at {
                self.look();
                self.look_at = now + if self.ending.is_some() { LOOK_AT_THE_END } else { LOOK };
            }
        }
    }

    fn wait(&mut self, timeout: Duration) {
        // The main thread reads the launcher's lines. Here only the closing of the socket matters,
        // which `poll` reports even if no events are requested.
        let launcher =
            self.subject.socket.as_ref().filter(|_| !self.launcher_gone.load(Ordering::Relaxed));
        let mut fds = vec![PollFd::new(&self.subject.signals, PollFlags::IN)];
        fds.extend(launcher.map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::empty())));
        fds.extend(
            self.main_listens.then(|| PollFd::from_borrowed_fd(self.word.as_fd(), PollFlags::IN)),
        );
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        if poll(&mut fds, Some(&timeout)).is_err() {
            // Interrupted, or out of memory for a moment: the sleep avoids a busy loop.
            return std::thread::sleep(Duration::from_millis(10));
        }
        let happened: Vec<bool> = fds.iter().map(|f| !f.revents().is_empty()).collect();
        let gone = launcher.is_some() && happened.get(1) == Some(&true);
        let word = self.main_listens && happened.last() == Some(&true);
        let mut bytes = [0u8; 64];
        if happened.first() == Some(&true) {
            let signals = (&self.subject.signals).read(&mut bytes).unwrap_or(0);
            self.asked_for_the_end(signals);
        }
        if gone {
            self.launcher_gone.store(true, Ordering::Release);
        }
        let read = if word { Some((&self.word).read(&mut bytes)) } else { None };
        match read {
            // The main thread has closed the socket and is about to leave the process. The time-out
            // also applies to the code that it still runs, such as exit handlers.
            Some(Ok(0)) => self.main_listens = false,
            Some(Err(ref e)) if e.kind() != std::io::ErrorKind::WouldBlock => {
                self.main_listens = false
            }
            _ => {}
        }
        let lost = gone && !self.goes_on.load(Ordering::Acquire);
        let ends = matches!(read, Some(Ok(n)) if n == 0 || bytes[..n].contains(&END));
        if lost || self.asked.is_some() || ends {
            self.begin_the_end();
        }
    }

    /// Handles a request to end. Without a launcher, the second signal means that the user does not
    /// want to wait. A launcher has its own time-out: it requests the end of each module in turn,
    /// also of modules that received a signal together with it.
    fn asked_for_the_end(&mut self, signals: usize) {
        let alone = self.subject.socket.is_none() || self.launcher_gone.load(Ordering::Relaxed);
        match self.asked {
            None if signals > 0 => {
                self.asked = Some(Instant::now());
                if let Some(account) = &self.subject.account {
                    account.send_vital(Record::Asked);
                }
            }
            Some(at) if signals > 0 && alone && at.elapsed() >= ONE_INTERRUPT => {
                self.impatient = true
            }
            _ => {}
        }
    }

    fn begin_the_end(&mut self) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(Instant::now());
        self.look_at = Instant::now() + LOOK_AT_THE_END;
        // Long callbacks check this.
        self.subject.stop.stop();
        let _ = (&self.word).write(&[1]);
    }

    fn look(&mut self) {
        let (now, long) =
            (MonotonicNs::now(), if self.ending.is_some() { LONG_AT_THE_END } else { LONG });
        let calls = running_since(MonotonicNs(now.0.saturating_sub(long.as_nanos() as u64)));
        self.reported.retain(|id, _| calls.iter().any(|c| c.id == *id));
        for Running { id, place, since } in calls {
            let age = now.since(since);
            match &self.subject.account {
                Some(account) => {
                    account.send(Record::Busy { call: place, for_ms: age.as_millis() as u64 })
                }
                // Reported again when the call has taken twice as long.
                None if self.reported.get(&id).is_none_or(|last| age >= *last * 2) => {
                    self.reported.insert(id, age);
                    let s = age.as_secs();
                    crash::write(format!("warning: {place} for {s} s\n").as_bytes());
                }
                None => {}
            }
        }
    }

    /// Ends the process: the time-out has passed, or the user does not want to wait.
    fn give_up(&self) -> ! {
        let within = self.subject.stop_within;
        let why = if self.impatient {
            "was asked twice to stop".into()
        } else {
            format!("did not stop within {within:?}")
        };
        let now = MonotonicNs::now();
        let busy = running_since(now).into_iter().min_by_key(|r| r.since);
        let place = busy.as_ref().map_or_else(String::new, |r| {
            format!(": {} for {} s", r.place, now.since(r.since).as_secs())
        });
        crash::write(
            format!("error: module '{}' {why}{place}; its process ends now\n", self.subject.module)
                .as_bytes(),
        );
        if let Some(account) = &self.subject.account {
            account.send_vital(Record::Failed { call: busy.map(|r| r.place), text: why });
            account.close();
        }
        if let Some(names) = self.names.get() {
            names.remove();
        }
        if self.launcher_gone.load(Ordering::Acquire) {
            if let Some(path) = &self.subject.control {
                remove_dead(path, Duration::ZERO);
            }
            // Ends this process as well, if it leads the group.
            signal_own_group(Signal::KILL);
        }
        // Without destructors and exit handlers, which could wait for the hanging call.
        signal_hook::low_level::exit(i32::from(exit::STUCK))
    }
}
