// SPDX-License-Identifier: Apache-2.0
//! Peers that lie: the protocol made by hand from `docs/protocols/shm.md`, with any bytes and
//! descriptors. This module uses nothing of the library, so no check of the library prevents wrong
//! messages.
#![allow(unsafe_code, reason = "memory that a hostile peer writes as it likes")]

use super::PATIENCE;
use super::peer::schema;
use driveline_types::{Qos, TopicName};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::*;
use serde_json::{Value, json};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64};

pub(crate) const PAGE: usize = 4096;
pub(crate) const HELLO: u16 = 1;
pub(crate) const ACCEPT: u16 = 2;
pub(crate) const REFUSE: u16 = 3;
pub(crate) const LIST: u16 = 4;
pub(crate) const LISTING: u16 = 5;
pub(crate) const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Memory for peers, into which the test continues to write.
pub(crate) struct Area {
    pub(crate) fd: OwnedFd,
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory is only reached through atomics.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Creates memory that is sealed and reserved, as the protocol requires.
    pub(crate) fn new(len: usize) -> Self {
        Self::with(len, SEALS, true)
    }

    pub(crate) fn with(len: usize, seals: SealFlags, reserved: bool) -> Self {
        let fd = memfd_create("driveline-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .unwrap();
        if reserved {
            fallocate(&fd, FallocateFlags::empty(), 0, len as u64).unwrap();
        } else {
            ftruncate(&fd, len as u64).unwrap();
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )
        }
        .unwrap();
        fcntl_add_seals(&fd, seals).unwrap();
        Self { fd, start: start.cast(), len }
    }

    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len);
        // SAFETY: in bounds and aligned, by the line above; mapped as long as `self`.
        unsafe { &*self.start.add(offset).cast() }
    }

    pub(crate) fn half_word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len);
        // SAFETY: as for `word`.
        unsafe { &*self.start.add(offset).cast() }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: mapped in `with` with this length.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

/// A frame of any kind around any body.
pub(crate) fn packet(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut p = b"DRVL".to_vec();
    p.extend(1u16.to_le_bytes());
    p.extend(kind.to_le_bytes());
    p.extend((body.len() as u32).to_le_bytes());
    p.extend(body);
    p
}

pub(crate) fn hello(topic: &str, pins: u32, qos: &Qos) -> Value {
    json!({"topic": topic, "node": "liar", "schema": schema(), "qos": qos, "pins": pins,
        "observer": false, "subscription": format!("{:032x}", 1),
        "participant": format!("{:032x}", 2), "pid": 1})
}

/// Numbers of a segment, from which the offsets in it follow.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) slots: usize,
    pub(crate) ring: usize,
    pub(crate) payload: usize,
}

pub(crate) const LATEST: usize = 64;
pub(crate) const RING: usize = 192;
const META: usize = 512;

/// Names of the control fields of a segment.
pub(crate) const SEGMENT_FIELDS: &[&str] = &[
    "magic",
    "version",
    "latest",
    "heartbeat",
    "longest interval",
    "waiting",
    "afar publisher",
    "afar before",
    "afar count",
    "ring",
    "header: version and flags",
    "header: sequence",
    "header: publish time",
    "header: wall offset",
    "header: trace id",
    "header: payload length",
    "header: origins dropped",
    "header: checksum",
    "header: origins",
    "header: clock error",
    "header: remote",
    "header: service",
    "header: remote publisher",
    "header: reserved",
    "unused",
];

/// Name of a word of the sample header, as in `docs/protocols/sample-header.md`.
pub(crate) fn header_field(word: usize) -> &'static str {
    match word {
        0 => "header: version and flags",
        1 => "header: sequence",
        2 => "header: publish time",
        3 => "header: wall offset",
        4 => "header: trace id",
        5 => "header: payload length",
        6 => "header: origins dropped",
        7 => "header: checksum",
        8..=55 => "header: origins",
        56 => "header: clock error",
        57..=60 => "header: remote",
        61 => "header: service",
        62 => "header: remote publisher",
        _ => "header: reserved",
    }
}

impl Layout {
    pub(crate) fn meta(self, slot: usize) -> usize {
        (RING + self.ring * 8).next_multiple_of(64) + slot * META
    }

    pub(crate) fn payloads(self) -> usize {
        self.meta(self.slots).next_multiple_of(PAGE)
    }

    pub(crate) fn len(self) -> usize {
        let stride = self.payload.next_multiple_of(if self.payload >= PAGE { PAGE } else { 64 });
        (self.payloads() + self.slots * stride).next_multiple_of(PAGE)
    }

    /// Name of the control field at an offset before the payloads, as in `docs/protocols/shm.md`.
    pub(crate) fn field(self, offset: usize) -> &'static str {
        match offset {
            0 => "magic",
            8 => "version",
            LATEST => "latest",
            72 => "heartbeat",
            80 => "longest interval",
            128 => "waiting",
            144 => "afar publisher",
            152 => "afar before",
            160 => "afar count",
            _ if (RING..RING + self.ring * 8).contains(&offset) => "ring",
            _ if (self.meta(0)..self.meta(self.slots)).contains(&offset) => {
                header_field((offset - self.meta(0)) % META / 8)
            }
            _ => "unused",
        }
    }

    /// Creates a valid segment.
    pub(crate) fn segment(self) -> Area {
        let area = Area::new(self.len());
        area.word(0).store(u64::from_le_bytes(*b"DRVLNSEG"), std::sync::atomic::Ordering::SeqCst);
        area.word(8).store(1, std::sync::atomic::Ordering::SeqCst);
        area
    }

    pub(crate) fn accept(self, qos: &Qos) -> Value {
        json!({"publisher": format!("{:032x}", 3), "node": "liar", "pid": 1, "schema": schema(),
            "qos": qos, "layout": {
                "slots": self.slots, "ring_len": self.ring, "max_payload": self.payload
            }, "first": 1})
    }
}

fn socket(kind: SocketType) -> OwnedFd {
    socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
        .unwrap()
}

/// The first socket of a kind in a domain.
pub(crate) fn find(domain: &Path, kind: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(domain).unwrap().map(|e| e.unwrap().path());
    entries
        .into_iter()
        .find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(kind))
        .unwrap()
}

/// Connects to a listening socket; `None` if its queue is full.
pub(crate) fn connect_to(path: &Path) -> Option<OwnedFd> {
    let s = socket(SocketType::SEQPACKET);
    match connect(&s, &SocketAddrUnix::new(path).unwrap()) {
        Ok(()) => Some(s),
        Err(rustix::io::Errno::AGAIN) => None,
        Err(e) => panic!("cannot connect: {e}"),
    }
}

/// Sends a datagram with descriptors; a full queue loses it.
pub(crate) fn send_datagram(path: &Path, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let s = socket(SocketType::DGRAM);
    if connect(&s, &SocketAddrUnix::new(path).unwrap()).is_ok() {
        send_with(&s, bytes, fds);
    }
}

/// Sends a packet with any number of descriptors. Returns true if the packet was accepted.
pub(crate) fn send_with(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = vec![MaybeUninit::uninit(); 64 + 4 * fds.len()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
}

/// Bytes and descriptors.
pub(crate) type Packet = (Vec<u8>, Vec<OwnedFd>);

/// Waits for a packet; `None` if the other end closes.
pub(crate) fn receive(socket: &OwnedFd) -> Option<Packet> {
    wait_readable(socket);
    let mut bytes = vec![0; 200_000];
    let mut space = [MaybeUninit::uninit(); 256];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got =
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
            .ok()?;
    let mut fds = Vec::new();
    for m in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = m {
            fds.extend(received);
        }
    }
    if got.bytes == 0 && fds.is_empty() {
        return None;
    }
    bytes.truncate(got.bytes);
    Some((bytes, fds))
}

fn wait_readable(socket: &OwnedFd) {
    let timeout = rustix::time::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    assert_eq!(
        poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)).unwrap(),
        1,
        "no answer within {PATIENCE:?}"
    );
}

/// Sends HELLO to the publisher in a domain. Returns the connection and the answer.
pub(crate) fn say_hello(
    domain: &Path,
    body: &Value,
    fds: &[BorrowedFd<'_>],
) -> (OwnedFd, Option<Packet>) {
    let s = connect_to(&find(domain, "p-")).unwrap();
    assert!(send_with(&s, &packet(HELLO, body.to_string().as_bytes()), fds));
    let answer = receive(&s);
    (s, answer)
}

/// Returns the kind of a message.
pub(crate) fn kind(packet: &[u8]) -> u16 {
    u16::from_le_bytes([packet[6], packet[7]])
}

/// A publisher's socket in a domain, made without the library.
pub(crate) struct Listener {
    socket: OwnedFd,
    path: std::path::PathBuf,
}

impl Listener {
    pub(crate) fn new(domain: &Path, topic: &str, number: u32) -> Self {
        let topic: TopicName = topic.parse().unwrap();
        Self::at(domain, &format!("p-{:016x}-{number:032x}", topic.id().0), number)
    }

    /// A participant's socket for tools.
    pub(crate) fn of_participant(domain: &Path, number: u32) -> Self {
        Self::at(domain, &format!("i-{number:032x}"), number)
    }

    fn at(domain: &Path, name: &str, number: u32) -> Self {
        let path = domain.join(name);
        let hidden = domain.join(format!("x-{number}"));
        let s = socket(SocketType::SEQPACKET);
        bind(&s, &SocketAddrUnix::new(&hidden).unwrap()).unwrap();
        listen(&s, 64).unwrap();
        std::fs::set_permissions(&hidden, std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .unwrap();
        std::fs::rename(&hidden, &path).unwrap();
        Self { socket: s, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if a process has connected.
    pub(crate) fn is_wanted(&self) -> bool {
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    /// Accepts the next connection.
    pub(crate) fn accept_any(&self) -> OwnedFd {
        rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None))
            .unwrap();
        accept_with(&self.socket, SocketFlags::CLOEXEC).unwrap()
    }

    /// Returns connection and HELLO of the next subscription that dials.
    pub(crate) fn accept(&self) -> (OwnedFd, Value) {
        wait_readable(&self.socket);
        let s = accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).unwrap();
        let (bytes, fds) = receive(&s).expect("HELLO");
        assert_eq!((kind(&bytes), fds.len()), (HELLO, 1));
        (s, serde_json::from_slice(&bytes[12..]).unwrap())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Descriptors that are no valid memory, with a word for each kind.
pub(crate) fn wrong_memory(len: usize) -> Vec<(&'static str, OwnedFd)> {
    let file = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
    let sealed = |seals| Area::with(len, seals, true).fd.try_clone().unwrap();
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    vec![
        ("no seals", sealed(SealFlags::empty())),
        ("it may shrink", sealed(SEALS.difference(SealFlags::SHRINK))),
        ("it may be written", sealed(SEALS.difference(SealFlags::FUTURE_WRITE))),
        ("no seal but F_SEAL_SEAL", sealed(SealFlags::SEAL)),
        ("too short", Area::new(len / 2).fd.try_clone().unwrap()),
        ("too long", Area::new(len + PAGE).fd.try_clone().unwrap()),
        ("a pipe", reader),
        ("/dev/zero", file("/dev/zero")),
        ("a file", std::env::current_exe().map(|p| file(p.to_str().unwrap())).unwrap()),
        ("a directory", file("/")),
        ("a socket", socket(SocketType::DGRAM)),
        ("a file of /proc", file("/proc/self/maps")),
    ]
}

/// Returns a descriptor whose last close blocks for minutes. The caller must keep the other
/// descriptors open, so that the close blocks.
pub(crate) fn lingering() -> (OwnedFd, Vec<OwnedFd>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    sender.set_nonblocking(true).unwrap();
    while std::io::Write::write(&mut sender, &[0; 1 << 16]).is_ok() {}
    sockopt::set_socket_linger(&sender, Some(10 * PATIENCE)).unwrap();
    (sender.into(), vec![receiver.into()])
}

/// As borrowed descriptors.
pub(crate) fn borrow<'a>(fds: &'a [&'a OwnedFd]) -> Vec<BorrowedFd<'a>> {
    fds.iter().map(|f| f.as_fd()).collect()
}
