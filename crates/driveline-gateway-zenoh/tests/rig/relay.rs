// SPDX-License-Identifier: Apache-2.0
//! A delayed link, with one delay for each direction: a relay between two programs that use TCP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Passes connections on until the test's process ends.
pub(crate) struct Relay {
    /// Port at which it listens, on the loopback device.
    pub(crate) port: u16,
}

impl Relay {
    /// Connects each client to the port `to`, with a delay for each direction.
    pub(crate) fn new(to: u16, there: Duration, back: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // If the server does not exist yet, the client tries again.
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).expect("no delay of its own");
                }
                let other = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                pass(other(&client), other(&server), there);
                pass(server, client, back);
            }
        });
        Self { port }
    }
}

/// Passes bytes on, each `delay` later, in the same order and at the same intervals.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (enter, leave) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if enter.send((Instant::now() + delay, buffer[..n].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in leave {
            // time: the delay of the link
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
