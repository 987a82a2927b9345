// SPDX-License-Identifier: Apache-2.0
//! Those who have asked a gateway and have not read all of its answer yet; none of them waits for another. States: `docs/protocols/gateway-status.md`.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most who are answered at once.
pub(super) const MAX_ASKERS: usize = 16;
/// How long one may take to read.
const READ_WITHIN: Duration = Duration::from_secs(2);

struct Asker {
    client: UnixStream,
    text: Arc<[u8]>,
    sent: usize,
    /// When he has read something last, or has come.
    active: Instant,
    until: Instant,
}

impl Asker {
    /// Whether he is answered, or gone, or his time is over.
    fn is_over(&mut self, now: Instant) -> bool {
        while let Some(rest) = self.text.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.client.write(rest) {
                Ok(0) => return true,
                Ok(n) => (self.sent, self.active) = (self.sent.saturating_add(n), now),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return e.kind() != io::ErrorKind::WouldBlock || now >= self.until,
            }
        }
        true
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Askers(Vec<Asker>);

impl Askers {
    /// Waits until somebody comes by the door, which may be closed, somebody's time is over or he can be told more, or `at` is there; whether somebody comes.
    pub(super) fn wait(&self, door: Option<&UnixListener>, at: Option<Instant>) -> bool {
        let end = self.0.iter().map(|asker| asker.until).chain(at).min();
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left =
            left.map(|left| Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() });
        let askers = self.0.iter().map(|asker| PollFd::new(&asker.client, PollFlags::OUT));
        let mut polled: Vec<_> = askers.chain(door.map(|door| PollFd::new(door, PollFlags::IN))).collect();
        // An error is a signal, or a want of memory: whoever is there is looked at.
        let _ = poll(&mut polled, left.as_ref());
        door.is_some() && polled.last().is_some_and(|door| !door.revents().is_empty())
    }

    /// The time that those who are there have waited for something else than themselves.
    pub(super) fn grant(&mut self, time: Duration) {
        self.0.iter_mut().for_each(|asker| asker.until += time);
    }

    /// One more. If there are too many, the one who has read nothing for the longest time has his answer cut off.
    pub(super) fn add(&mut self, client: UnixStream, text: &Arc<[u8]>, now: Instant) {
        self.go_on(now);
        if self.0.len() >= MAX_ASKERS
            && let Some((oldest, _)) = self.0.iter().enumerate().min_by_key(|(_, asker)| asker.active)
        {
            self.0.remove(oldest);
        }
        self.0.push(Asker { client, text: text.clone(), sent: 0, active: now, until: now + READ_WITHIN });
    }

    /// Tells everybody as much as he has room for.
    pub(super) fn go_on(&mut self, now: Instant) {
        self.0.retain_mut(|asker| !asker.is_over(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// More than a socket holds.
    const LONG: usize = 4 << 20;

    fn come(askers: &mut Askers, text: &Arc<[u8]>, now: Instant) -> UnixStream {
        let (client, asks) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        asks.set_nonblocking(true).unwrap();
        askers.add(client, text, now);
        askers.go_on(now);
        asks
    }

    /// What can be read now, and whether that was the end.
    fn read(mut asks: &UnixStream) -> (usize, bool) {
        let mut part = Vec::new();
        match asks.read_to_end(&mut part) {
            Ok(_) => (part.len(), true),
            Err(e) => {
                assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
                (part.len(), false)
            }
        }
    }

    #[test]
    fn who_reads_is_told_everything_and_who_does_not_has_his_time() {
        let (mut askers, start) = (Askers::default(), Instant::now());
        let (short, long): (Arc<[u8]>, Arc<[u8]>) = (b"short"[..].into(), vec![b'x'; LONG].into());
        let (silent, reads) = (come(&mut askers, &long, start), come(&mut askers, &long, start));
        assert_eq!(read(&come(&mut askers, &short, start)), (5, true));
        let mut got = 0;
        for _ in 0..LONG {
            let (part, end) = read(&reads);
            got += part;
            if end {
                break;
            }
            askers.go_on(start);
        }
        assert_eq!((got, askers.0.len()), (LONG, 1));
        askers.go_on(start + READ_WITHIN - Duration::from_nanos(1));
        askers.grant(Duration::from_secs(1));
        askers.go_on(start + READ_WITHIN);
        assert_eq!(askers.0.len(), 1, "it was not he who took the time");
        askers.go_on(start + READ_WITHIN + Duration::from_secs(1));
        assert_eq!((askers.0.len(), read(&silent).1), (0, true));
    }

    #[test]
    fn of_too_many_the_one_who_has_read_nothing_for_longest_goes() {
        let (mut askers, start) = (Askers::default(), Instant::now());
        let long: Arc<[u8]> = vec![b'x'; LONG].into();
        let at = |ms: usize| start + Duration::from_millis(ms as u64);
        let all: Vec<_> = (0..MAX_ASKERS).map(|n| come(&mut askers, &long, at(n))).collect();
        // The first one goes on.
        assert!(!read(&all[0]).1);
        askers.go_on(at(100));
        let late = come(&mut askers, &long, at(101));
        assert_eq!(askers.0.len(), MAX_ASKERS);
        let ended: Vec<bool> = all.iter().map(|asks| read(asks).1).collect();
        assert!(!ended[0] && ended[1] && ended[2..].iter().all(|ended| !ended) && !read(&late).1, "{ended:?}");
        // Who has gone makes room.
        drop(all);
        askers.go_on(at(102));
        assert_eq!(askers.0.len(), 1);
    }
}
