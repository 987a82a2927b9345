// SPDX-License-Identifier: Apache-2.0
//! A delayed link, with a delay of its own in each direction: a program between two that talk over
//! TCP.

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
    /// Whatever connects is connected to the port `to`: bytes take so long there, and so long back.
    pub(crate) fn new(to: u16, there: Duration, back: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Who is not there yet is tried again by the client.
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

/// Bytes come out in the order and at the distance in which they went in, `delay` later.
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
