// SPDX-License-Identifier: Apache-2.0
//! Clients of a Unix socket in a domain's directory: each sends at most one request and reads one
//! response, and none waits for another. States: `docs/protocols/control.md` and
//! `docs/protocols/gateway-status.md`.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of clients at once.
pub const MAX_CLIENTS: usize = 16;
/// Longest request, without the end of its line.
pub const MAX_REQUEST_LEN: usize = 64 * 1024;
/// Longest response that a tool reads, in bytes.
pub const MAX_RESPONSE_LEN: u64 = 8 << 20;
/// Time for a client to send its request, and again to read the response.
pub const CLIENT_WITHIN: Duration = Duration::from_secs(2);
/// Pause after a connection could not be accepted, so that a lasting cause costs no CPU.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Maximum number of bytes read from a client before the others get their turn.
const PIECE: usize = 16 * 1024;

/// Opens a directory for [`address`].
pub fn open_directory(directory: &Path) -> io::Result<OwnedFd> {
    Ok(open(directory, OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the address of a socket by its name in a directory. The directory's own path can be too
/// long for a socket address.
pub fn address(directory: &OwnedFd, name: &str) -> PathBuf {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()).into()
}

/// Accepts all waiting connections, up to [`MAX_CLIENTS`]. Returns true if one was not accepted,
/// for a temporary reason such as a lack of descriptors.
pub fn accept_waiting(
    mut accept: impl FnMut() -> io::Result<UnixStream>,
) -> (Vec<UnixStream>, bool) {
    let mut newcomers = Vec::new();
    while newcomers.len() < MAX_CLIENTS {
        match accept().and_then(|client| client.set_nonblocking(true).map(|()| client)) {
            Ok(client) => newcomers.push(client),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return (newcomers, e.kind() != io::ErrorKind::WouldBlock),
        }
    }
    (newcomers, false)
}

/// Request of a client, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A line, without its end.
    Line(&'a [u8]),
    /// The client closed its writing side before the end of the line.
    Incomplete,
    /// More than [`MAX_REQUEST_LEN`] bytes came without an end of line.
    TooLong,
    /// No whole line came within [`CLIENT_WITHIN`].
    Late,
    /// Other clients took its place.
    Crowded,
}

/// Makes the response to a request.
pub type Respond<'a> = &'a mut dyn FnMut(Received<'_>) -> Arc<[u8]>;

enum Side {
    /// Sends its request; contains the bytes received so far.
    Asks(Vec<u8>),
    /// Reads the response.
    Reads { text: Arc<[u8]>, sent: usize },
}

struct Client {
    stream: UnixStream,
    side: Side,
    /// Time of its last read or write, or of its arrival.
    active: Instant,
    until: Instant,
}

impl Client {
    /// Reads and writes without waiting. Returns true if the client is finished, has ended, or has
    /// timed out.
    fn is_over(&mut self, now: Instant, respond: Respond<'_>) -> bool {
        if let Side::Asks(request) = &mut self.side {
            let before = request.len();
            let received = match read_request(&mut self.stream, request) {
                Ok(None) if now >= self.until => Some(Received::Late),
                Ok(received) => received,
                Err(_) => return true,
            };
            let text = received.map(respond);
            if request.len() > before {
                self.active = now;
            }
            let Some(text) = text else { return false };
            (self.side, self.active, self.until) =
                (Side::Reads { text, sent: 0 }, now, now + CLIENT_WITHIN);
        }
        let Side::Reads { text, sent } = &mut self.side else { return false };
        while let Some(rest) = text.get(*sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return true,
                Ok(n) => (*sent, self.active) = (sent.saturating_add(n), now),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return e.kind() != io::ErrorKind::WouldBlock || now >= self.until,
            }
        }
        true
    }
}

/// Reads one piece of a request. `None`: there is more to come.
fn read_request<'a>(
    stream: &mut UnixStream,
    request: &'a mut Vec<u8>,
) -> io::Result<Option<Received<'a>>> {
    let mut piece = [0; PIECE];
    let n = match stream.read(&mut piece) {
        Ok(0) => return Ok(Some(Received::Incomplete)),
        Ok(n) => n,
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    let piece = piece.get(..n).unwrap_or_default();
    let end = piece.iter().position(|b| *b == b'\n');
    request.extend_from_slice(piece.get(..end.unwrap_or(n)).unwrap_or_default());
    Ok(match end {
        _ if request.len() > MAX_REQUEST_LEN => Some(Received::TooLong),
        Some(_) => Some(Received::Line(request)),
        None => None,
    })
}

/// Clients that are not finished.
#[derive(Default)]
pub struct Clients(Vec<Client>);

impl Clients {
    /// Waits until a connection waits at the listener (if given), a client can continue or has
    /// timed out, or `at`. Returns true if a connection waits.
    pub fn wait(&self, listener: Option<&UnixListener>, at: Option<Instant>) -> bool {
        let end = self.next().into_iter().chain(at).min();
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut polled: Vec<_> = self
            .polled()
            .chain(listener.map(|listener| PollFd::new(listener, PollFlags::IN)))
            .collect();
        // An error is a signal, or a lack of memory: all clients are tried.
        let _ = poll(&mut polled, left.as_ref());
        listener.is_some() && polled.last().is_some_and(|listener| !listener.revents().is_empty())
    }

    /// Descriptors to wait for.
    pub fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let flags = |side: &Side| {
            if matches!(side, Side::Asks(_)) { PollFlags::IN } else { PollFlags::OUT }
        };
        self.0.iter().map(move |client| PollFd::new(&client.stream, flags(&client.side)))
    }

    /// Returns the time when a client times out.
    pub fn next(&self) -> Option<Instant> {
        self.0.iter().map(|client| client.until).min()
    }

    /// Extends the time-outs of all clients by a time in which this process did not serve them.
    pub fn grant(&mut self, time: Duration) {
        self.0.iter_mut().for_each(|client| client.until += time);
    }

    /// Adds a client that sends a request. If there are too many, the client that was inactive for
    /// longest is closed.
    pub fn add(&mut self, stream: UnixStream, now: Instant, respond: Respond<'_>) {
        self.push(stream, Side::Asks(Vec::new()), now, respond);
    }

    /// Adds a client that gets a response without a request. If there are too many clients, one is
    /// closed, as by [`Self::add`].
    pub fn add_reader(&mut self, stream: UnixStream, text: &Arc<[u8]>, now: Instant) {
        self.push(stream, Side::Reads { text: text.clone(), sent: 0 }, now, &mut |_| [].into());
    }

    fn push(&mut self, stream: UnixStream, side: Side, now: Instant, respond: Respond<'_>) {
        self.go_on(now, respond);
        if self.0.len() >= MAX_CLIENTS
            && let Some((oldest, _)) =
                self.0.iter().enumerate().min_by_key(|(_, client)| client.active)
        {
            let client = self.0.remove(oldest);
            if matches!(client.side, Side::Asks(_)) {
                // The client does not get bytes that do not fit at once.
                let _ = (&client.stream).write(&respond(Received::Crowded));
            }
        }
        self.0.push(Client { stream, side, active: now, until: now + CLIENT_WITHIN });
    }

    /// Reads and writes as much as is possible without waiting.
    pub fn go_on(&mut self, now: Instant, respond: Respond<'_>) {
        self.0.retain_mut(|client| !client.is_over(now, respond));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn go_on(clients: &mut Clients, now: Instant) {
        clients.go_on(now, &mut |_| panic!("no request was sent"));
    }

    /// More than a socket holds.
    const LONG: usize = 4 << 20;

    fn come(clients: &mut Clients, text: &Arc<[u8]>, now: Instant) -> UnixStream {
        let (client, asks) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        asks.set_nonblocking(true).unwrap();
        clients.add_reader(client, text, now);
        go_on(clients, now);
        asks
    }

    /// Reads the available bytes. Returns their number, and true at the end of the stream.
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
    fn a_client_that_reads_gets_everything_and_one_that_does_not_has_a_time_limit() {
        let (mut clients, start) = (Clients::default(), Instant::now());
        let (short, long): (Arc<[u8]>, Arc<[u8]>) = (b"short"[..].into(), vec![b'x'; LONG].into());
        let (silent, reads) = (come(&mut clients, &long, start), come(&mut clients, &long, start));
        assert_eq!(read(&come(&mut clients, &short, start)), (5, true));
        let mut got = 0;
        for _ in 0..LONG {
            let (part, end) = read(&reads);
            got += part;
            if end {
                break;
            }
            go_on(&mut clients, start);
        }
        assert_eq!((got, clients.0.len()), (LONG, 1));
        go_on(&mut clients, start + CLIENT_WITHIN - Duration::from_nanos(1));
        clients.grant(Duration::from_secs(1));
        go_on(&mut clients, start + CLIENT_WITHIN);
        assert_eq!(clients.0.len(), 1, "time without service does not count");
        go_on(&mut clients, start + CLIENT_WITHIN + Duration::from_secs(1));
        assert_eq!((clients.0.len(), read(&silent).1), (0, true));
    }

    #[test]
    fn of_too_many_the_one_who_has_read_nothing_for_longest_goes() {
        let (mut clients, start) = (Clients::default(), Instant::now());
        let long: Arc<[u8]> = vec![b'x'; LONG].into();
        let at = |ms: usize| start + Duration::from_millis(ms as u64);
        let all: Vec<_> = (0..MAX_CLIENTS).map(|n| come(&mut clients, &long, at(n))).collect();
        // The first client continues to read.
        assert!(!read(&all[0]).1);
        go_on(&mut clients, at(100));
        let late = come(&mut clients, &long, at(101));
        assert_eq!(clients.0.len(), MAX_CLIENTS);
        let ended: Vec<bool> = all.iter().map(|asks| read(asks).1).collect();
        assert!(
            !ended[0] && ended[1] && ended[2..].iter().all(|ended| !ended) && !read(&late).1,
            "{ended:?}"
        );
        // A client that has gone frees its place.
        drop(all);
        go_on(&mut clients, at(102));
        assert_eq!(clients.0.len(), 1);
    }

    #[test]
    fn a_client_that_cannot_be_accepted_keeps_no_other_out_for_good() {
        use rustix::io::Errno;
        for refused in [Errno::MFILE, Errno::CONNABORTED] {
            let (client, _asks) = UnixStream::pair().unwrap();
            let mut come = [
                Ok(client),
                Err(Errno::INTR.into()),
                Err(refused.into()),
                Err(Errno::AGAIN.into()),
            ]
            .into_iter();
            let (first, again) = accept_waiting(|| come.next().unwrap());
            assert_eq!((first.len(), again), (1, true));
            let (none, again) = accept_waiting(|| come.next().unwrap());
            assert_eq!((none.len(), again), (0, false));
        }
        let mut pairs = Vec::new();
        let many = accept_waiting(|| {
            let (client, asks) = UnixStream::pair().unwrap();
            pairs.push(asks);
            Ok(client)
        });
        assert_eq!(
            (many.0.len(), many.1),
            (MAX_CLIENTS, false),
            "the rest wait until these are answered"
        );
    }
}
