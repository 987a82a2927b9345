// SPDX-License-Identifier: Apache-2.0
//! A delayed link: a TAP device at each end, and threads of this process that pass each frame on
//! when it is due. For kernels without `netem`.

use super::namespace::Namespace;
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader, PipeWriter, pipe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// Size of the buffer for a frame: larger than the MTU of a TAP device plus an Ethernet header.
const LONGEST_FRAME: usize = 64 << 10;
/// Bytes of memory that a queued frame needs in addition to its content. They count towards
/// [`Direction::queue_bytes`], so that many short frames do not need more memory than that.
const FRAME_COST: usize = 64;
/// Number of frames that the kernel keeps while the relay waits for a CPU: a tenth of a second at 1
/// Gbit/s. The device drops and counts further frames ([`Namespace::dropped_at`]).
const DEVICE_QUEUE: u32 = 10_000;
/// Maximum number of frames that are read before frames that are due are sent.
const AT_ONCE: usize = 64;

/// One direction of a [`TapRelay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Minimum time from reading a frame at one device to writing it to the other. The actual time
    /// is longer by the lateness of the kernel's timers (50 µs) and by the time for which this
    /// process waits for a CPU.
    pub delay: Duration,
    /// Memory for frames in flight. A frame that arrives when it is full is dropped and counted. A
    /// rate r needs at least r × `delay`.
    pub queue_bytes: usize,
}

/// Counters of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionFigures {
    /// Frames that came out at the other end.
    pub passed: u64,
    /// Frames that found the queue full.
    pub dropped: u64,
    /// Frames that the device at the other end refused, for example because its host has switched
    /// it off.
    pub refused: u64,
    /// Reason why this direction passes no more frames, although the relay exists. For example, the
    /// device from which it reads frames was removed.
    pub ended: Option<String>,
}

/// Two TAP devices in two network namespaces, and a link between them. Each direction has its own
/// delay and keeps the order of frames.
///
/// The devices exist as long as this value, and at most as long as its process. They keep their
/// namespaces alive. The owner of a namespace gives its device an address and switches it on. When
/// one end is switched off, the other one does not notice, as behind a switch.
///
/// Each direction has a thread, which sleeps until a frame arrives or is due. On two CPUs of an AMD
/// EPYC, which the ends of the connection share, a relay with a delay of 5 ms carries 2.0 Gbit/s of
/// TCP with packets of 1500 bytes; with a delay of 1 ms, it carries 2.9 Gbit/s.
#[derive(Debug)]
pub struct TapRelay {
    shared: [Arc<Shared>; 2],
    threads: Vec<JoinHandle<()>>,
    /// Writing end of a pipe: closing it ends the threads.
    lives: Option<PipeWriter>,
}

/// State shared by the thread of a direction and its owner. Accesses are Relaxed: the fields are
/// counters, and a delay that may take effect a few frames late. No other data depends on them.
#[derive(Debug, Default)]
struct Shared {
    delay_ns: AtomicU64,
    passed: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    /// Reason, set by the thread if it ends because of an error.
    ended: OnceLock<String>,
}

impl TapRelay {
    /// Makes a device of the given name in each namespace and begins to pass on frames: with
    /// `directions[0]` from the first device to the second, with `directions[1]` back.
    ///
    /// # Errors
    /// If the system has no TAP devices (`/dev/net/tun`), or this process may not make them: it
    /// needs root.
    pub fn new(ends: [(&Namespace, &str); 2], directions: [Direction; 2]) -> Result<Self> {
        let [a, b] = ends.map(|(namespace, name)| {
            let made = thread::scope(|scope| scope.spawn(|| device(namespace, name)).join());
            made.unwrap_or_else(|_| bail!("its thread has panicked"))
                .map(Arc::new)
                .with_context(|| format!("cannot make the TAP device {name}"))
        });
        let (a, b) = (a?, b?);
        let (ends, lives) = pipe().context("cannot make a pipe")?;
        let mut relay =
            Self { shared: Default::default(), threads: Vec::new(), lives: Some(lives) };
        relay.set_delays(directions.map(|direction| direction.delay));
        for (n, (from, to)) in [(a.clone(), b.clone()), (b, a)].into_iter().enumerate() {
            let (most, shared, ends) = (
                directions[n].queue_bytes,
                relay.shared[n].clone(),
                ends.try_clone().context("cannot copy a pipe")?,
            );
            let work = move || {
                if let Err(e) = pass(&from, &to, &ends, Queue::new(most), &shared) {
                    // Cannot fail: only this thread sets it.
                    let _ = shared.ended.set(format!("{e:#}"));
                }
            };
            relay.threads.push(
                thread::Builder::new()
                    .name(format!("direction-{n}"))
                    .spawn(work)
                    .context("cannot start a thread")?,
            );
        }
        Ok(relay)
    }

    /// Sets the delays of frames that arrive from now on, in the order of `directions`. Frames
    /// still leave in the order in which they arrived.
    pub fn set_delays(&self, delays: [Duration; 2]) {
        for (shared, delay) in self.shared.iter().zip(delays) {
            shared.delay_ns.store(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Returns the counters of each direction, in the order of `directions`.
    #[must_use]
    pub fn figures(&self) -> [DirectionFigures; 2] {
        [0, 1].map(|n| {
            let of = &self.shared[n];
            let panicked = || {
                self.threads
                    .get(n)
                    .filter(|thread| thread.is_finished())
                    .map(|_| "its thread has panicked".to_owned())
            };
            DirectionFigures {
                passed: of.passed.load(Relaxed),
                dropped: of.dropped.load(Relaxed),
                refused: of.refused.load(Relaxed),
                ended: of.ended.get().cloned().or_else(panicked),
            }
        })
    }
}

impl Drop for TapRelay {
    fn drop(&mut self) {
        drop(self.lives.take());
        for thread in self.threads.drain(..) {
            // If the thread has panicked, its panic has printed a message.
            let _ = thread.join();
        }
    }
}

/// Makes a TAP device in a namespace. The calling thread enters the namespace.
fn device(namespace: &Namespace, name: &str) -> Result<SyncDevice> {
    namespace.enter()?;
    let made = DeviceBuilder::new()
        .name(name)
        .layer(Layer::L2)
        .tx_queue_len(DEVICE_QUEUE)
        .inherit_enable_state()
        .build_sync();
    let device = made.context("/dev/net/tun")?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// Frames in flight in one direction, the oldest first.
struct Queue {
    most_bytes: usize,
    bytes: usize,
    frames: VecDeque<(Instant, Box<[u8]>)>,
}

impl Queue {
    fn new(most_bytes: usize) -> Self {
        Self { most_bytes, bytes: 0, frames: VecDeque::new() }
    }

    /// Queues a frame. Returns false and drops it if there is no room.
    fn enter(&mut self, due: Instant, frame: &[u8]) -> bool {
        let bytes = self.bytes + frame.len() + FRAME_COST;
        let has_room = bytes <= self.most_bytes;
        if has_room {
            self.bytes = bytes;
            self.frames.push_back((due, frame.into()));
        }
        has_room
    }

    /// Returns when the next frame is due.
    fn due(&self) -> Option<Instant> {
        self.frames.front().map(|(due, _)| *due)
    }

    /// Removes and returns the oldest frame if it is due.
    fn leave(&mut self, now: Instant) -> Option<Box<[u8]>> {
        self.due().filter(|due| *due <= now)?;
        let (_, frame) = self.frames.pop_front()?;
        self.bytes -= frame.len() + FRAME_COST;
        Some(frame)
    }
}

/// Passes frames on until the pipe `ends` is closed. Returns an error if it has to stop before.
fn pass(
    from: &SyncDevice,
    to: &SyncDevice,
    ends: &PipeReader,
    mut queue: Queue,
    shared: &Shared,
) -> Result<()> {
    let mut buffer = vec![0; LONGEST_FRAME];
    loop {
        let now = Instant::now();
        while let Some(frame) = queue.leave(now) {
            let passed = to.send(&frame).is_ok();
            if passed { &shared.passed } else { &shared.refused }.fetch_add(1, Relaxed);
        }
        let wait = queue.due().map(|due| timespec(due.saturating_duration_since(Instant::now())));
        let mut events = [PollFd::new(from, PollFlags::IN), PollFd::new(ends, PollFlags::IN)];
        match poll(&mut events, wait.as_ref()) {
            Ok(_) if events[1].revents().is_empty() => {}
            // The owner has closed the pipe.
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e).context("cannot wait for frames"),
        }
        if events[0].revents().is_empty() {
            continue;
        }
        for _ in 0..AT_ONCE {
            match from.recv(&mut buffer) {
                Ok(len) => {
                    let due = Instant::now() + Duration::from_nanos(shared.delay_ns.load(Relaxed));
                    if !queue.enter(due, &buffer[..len]) {
                        shared.dropped.fetch_add(1, Relaxed);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(e).context(
                        "cannot read frames from the TAP device; it may have been removed",
                    );
                }
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 98, 0, 1), Ipv4Addr::new(10, 98, 0, 2)];

    #[test]
    fn frames_leave_in_order_when_they_are_due_and_not_before() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut queue = Queue::new(10_000);
        assert_eq!((queue.due(), queue.leave(start)), (None, None));
        // The third frame has a shorter delay.
        assert!(
            queue.enter(at(10), b"first")
                && queue.enter(at(12), b"second")
                && queue.enter(at(3), b"third")
        );
        assert_eq!((queue.due(), queue.leave(at(9))), (Some(at(10)), None));
        let mut leave = |ms| queue.leave(at(ms)).map(|frame| frame.to_vec());
        assert_eq!(leave(10), Some(b"first".to_vec()));
        assert_eq!(leave(11), None);
        assert_eq!(leave(12), Some(b"second".to_vec()));
        assert_eq!(leave(12), Some(b"third".to_vec()));
        assert_eq!((queue.due(), queue.bytes), (None, 0));
    }

    #[test]
    fn a_full_queue_drops_the_newest_until_something_has_left() {
        let now = Instant::now();
        let mut queue = Queue::new(2 * (100 + FRAME_COST));
        assert!(queue.enter(now, &[1; 100]) && queue.enter(now, &[2; 100]));
        assert!(!queue.enter(now, &[3; 1]) && !queue.enter(now, &[]));
        assert_eq!(queue.leave(now).as_deref(), Some(&[1; 100][..]));
        assert!(!queue.enter(now, &[4; 101]) && queue.enter(now, &[5; 100]));
        assert_eq!(queue.leave(now).as_deref(), Some(&[2; 100][..]));
        assert_eq!(queue.leave(now).as_deref(), Some(&[5; 100][..]));
    }

    /// A socket at each end of a relay.
    fn ends(directions: [Direction; 2]) -> (TapRelay, [UdpSocket; 2], [Namespace; 2]) {
        let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap()];
        let relay = TapRelay::new([(&hosts[0], "dl0"), (&hosts[1], "there")], directions).unwrap();
        let socket = |n: usize| {
            let host: &Namespace = &hosts[n];
            host.add_address(["dl0", "there"][n], ADDRESSES[n]).unwrap();
            thread::scope(|scope| {
                let bind = || {
                    host.enter().unwrap();
                    UdpSocket::bind((ADDRESSES[n], 9000)).unwrap()
                };
                scope.spawn(bind).join().unwrap()
            })
        };
        let sockets = [socket(0), socket(1)];
        for (n, socket) in sockets.iter().enumerate() {
            // Only a failing test reaches this time-out.
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            socket.connect((ADDRESSES[1 - n], 9000)).unwrap();
        }
        (relay, sockets, hosts)
    }

    fn next(socket: &UdpSocket) -> u32 {
        let mut number = [0; 4];
        assert_eq!(socket.recv(&mut number).unwrap(), 4);
        u32::from_be_bytes(number)
    }

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn each_direction_takes_its_time_and_keeps_the_order() {
        let directions =
            [4, 11].map(|ms| Direction { delay: Duration::from_millis(ms), queue_bytes: 1 << 20 });
        let (relay, sockets, hosts) = ends(directions);
        // The first frames also wait for address resolution.
        for round in 0..4 {
            for (from, direction) in directions.iter().enumerate() {
                let numbers = round * 100..(round + 1) * 100;
                let mut began = Vec::new();
                for number in numbers.clone() {
                    began.push(Instant::now());
                    sockets[from].send(&u32::to_be_bytes(number)).unwrap();
                }
                for (number, began) in numbers.zip(began) {
                    assert_eq!(next(&sockets[1 - from]), number);
                    // The delay is a minimum: a slow machine only adds to it.
                    let took = began.elapsed();
                    assert!(took >= direction.delay, "{number} took {took:?} of {direction:?}",);
                }
            }
        }
        let [there, back] = relay.figures();
        assert!(
            there.passed >= 400 && back.passed >= 400 && there.dropped + back.dropped == 0,
            "{there:?} {back:?}"
        );
        let paths = hosts.each_ref().map(Namespace::path);
        drop((sockets, relay));
        for (host, device) in hosts.iter().zip(["dl0", "there"]) {
            let gone = host.run(&format!("ip link show {device}")).unwrap_err().to_string();
            assert!(gone.contains("does not exist"), "{gone}");
        }
        drop(hosts);
        assert!(paths.iter().all(|path| !path.exists()));
    }

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn a_direction_whose_device_has_been_removed_says_so_and_the_other_one_counts_what_is_refused()
    {
        let directions = [Direction { delay: Duration::from_millis(1), queue_bytes: 1 << 20 }; 2];
        let (relay, [_, b], [host, other]) = ends(directions);
        assert_eq!(relay.figures().map(|direction| direction.ended), [None, None]);
        other
            .run(&format!(
                "ip neigh replace {} lladdr 02:00:00:00:00:01 nud permanent dev there",
                ADDRESSES[0]
            ))
            .unwrap();
        host.run("ip link delete dl0").unwrap();
        let began = Instant::now();
        let both = || relay.figures()[0].ended.is_some() && relay.figures()[1].refused > 0;
        while !both() && began.elapsed() < Duration::from_secs(60) {
            b.send(&u32::to_be_bytes(1)).unwrap();
            // time: a pause between polls; only a time-out of 60 s ends them
            thread::sleep(Duration::from_millis(1));
        }
        let [there, back] = relay.figures();
        assert!(
            there.ended.is_some_and(|why| why.contains("may have been removed"))
                && back.refused > 0
                && back.ended.is_none(),
            "{back:?}"
        );
    }

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn what_finds_the_queue_full_is_dropped_and_counted() {
        // The delay is longer than the time that it takes to fill the queue.
        let slow = Direction { delay: Duration::from_secs(2), queue_bytes: 10 * (46 + FRAME_COST) };
        let quick = Direction { delay: Duration::ZERO, queue_bytes: 1 << 20 };
        let (relay, [a, b], [host, other]) = ends([slow, quick]);
        let card = other.hardware_address("there").unwrap();
        host.run(&format!("ip neigh replace {} lladdr {card} nud permanent dev dl0", ADDRESSES[1]))
            .unwrap();
        let began = Instant::now();
        for number in 0..50 {
            a.send(&u32::to_be_bytes(number)).unwrap();
        }
        let first = next(&b);
        let all = || relay.figures()[0].passed + relay.figures()[0].dropped >= 50;
        while !all() && began.elapsed() < Duration::from_secs(60) {
            // time: a pause between polls; only a time-out of 60 s ends them
            thread::sleep(Duration::from_millis(1));
        }
        b.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut number = [0; 4];
        let mut others = 0;
        while b.recv(&mut number).is_ok() {
            others += 1;
            assert_eq!(u32::from_be_bytes(number), others, "it is the newest that finds no room");
        }
        let [there, _] = relay.figures();
        assert!(first == 0 && others < 10, "{first}, and {others} after it");
        assert!(there.dropped >= 49 - u64::from(others), "{there:?}");
    }
}
