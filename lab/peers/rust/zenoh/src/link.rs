// SPDX-License-Identifier: Apache-2.0
//! Shared parts of both ends of a link: names, marks, and the ends that are alive.

use crate::describe::Carrier;
use anyhow::{Result, anyhow, ensure};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::sample::SampleKind;
use zenoh::{Session, Wait};

pub const SAMPLE: [u8; 8] = *b"drvbench";
pub const END: [u8; 8] = *b"drvbend!";
/// Size of mark and number.
pub const HEAD: usize = 16;

pub fn data_key(topic: &str) -> String {
    format!("driveline/data/{topic}")
}

pub fn sender_key(topic: &str) -> String {
    format!("driveline/senders/{topic}")
}

pub fn receiver_key(topic: &str, index: &str) -> String {
    format!("driveline/receivers/{topic}/{index}")
}

/// Ends that are alive, by their tokens.
pub struct Alive {
    keys: Arc<Mutex<HashSet<String>>>,
    _subscriber: Subscriber<()>,
}

impl Alive {
    pub fn watch(session: &Session, key: String) -> Result<Self> {
        let keys = Arc::new(Mutex::new(HashSet::new()));
        let noted = keys.clone();
        let subscriber = session
            .liveliness()
            .declare_subscriber(key)
            .history(true)
            .callback(move |sample| {
                let mut keys = noted.lock().unwrap_or_else(PoisonError::into_inner);
                match sample.kind() {
                    SampleKind::Put => keys.insert(sample.key_expr().to_string()),
                    SampleKind::Delete => keys.remove(sample.key_expr().as_str()),
                };
            })
            .wait()
            .map_err(|e| anyhow!("cannot watch who is alive: {e}"))?;
        Ok(Self { keys, _subscriber: subscriber })
    }

    pub fn count(&self) -> usize {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

pub fn token(session: &Session, key: String) -> Result<LivelinessToken> {
    session
        .liveliness()
        .declare_token(key)
        .wait()
        .map_err(|e| anyhow!("cannot say that this end is alive: {e}"))
}

/// Fails if Zenoh has fallen back to TCP where shared memory is to be measured, or uses shared
/// memory where TCP is to be measured. A low-latency transport cannot be queried (version 1.10.2
/// panics); there, every sample is checked.
pub fn check_transports(session: &Session, carrier: Carrier) -> Result<()> {
    if carrier == Carrier::Shm {
        return Ok(());
    }
    for transport in session.info().transports().wait() {
        ensure!(
            transport.is_shm() == (carrier != Carrier::Tcp),
            "the session to {} {} shared memory, against what was asked for: are both ends built \
             alike, and is /dev/shm writable?",
            transport.zid(),
            if transport.is_shm() { "uses" } else { "does not use" }
        );
    }
    Ok(())
}

pub fn wait_until(timeout: Duration, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        ensure!(start.elapsed() <= timeout, "not within {timeout:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
