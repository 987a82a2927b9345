// SPDX-License-Identifier: Apache-2.0
//! Zenoh sessions that find each other through files, and what killed ones leave behind.

use crate::describe::Carrier;
use crate::link::{In, Out};
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline_bench::Middleware;
use driveline_bench::harness::{Job, Role};
use std::path::Path;
use std::time::{Duration, Instant};
use zenoh::{Config, Session, Wait};

/// How long ends may take to find each other.
const MATCH_TIMEOUT: Duration = Duration::from_secs(20);
/// An end's file says where it listens.
const ENDPOINT: &str = "endpoint";
/// A pool has so many buffers more than the history is deep: one in hand at each end, and those on their way.
const SPARE_BUFFERS: usize = 4;
/// What the allocator may need for each buffer, and for itself.
const BUFFER_OVERHEAD: usize = 4096;
const POOL_OVERHEAD: usize = 1 << 20;

/// One session for each process.
pub struct Ends {
    session: Session,
    carrier: Carrier,
}

impl Middleware for Ends {
    type Sender = Out;
    type Receiver = In;

    fn join(job: &Job, name: &str) -> Result<Self> {
        let carrier = Carrier::of(job)?;
        let others = match job.role {
            Role::Publisher => job.subscribers.max(1),
            Role::Ping => 1,
            _ => 0,
        };
        let endpoints = wait_for_endpoints(&job.domain_dir, others, MATCH_TIMEOUT)?;
        let session = zenoh::open(config(job, carrier, &endpoints)?).wait().map_err(|e| anyhow!("cannot open the session: {e}"))?;
        announce(&session, &job.domain_dir, name)?;
        Ok(Self { session, carrier })
    }

    /// Segments are called by random numbers, and each is locked by all processes that have it open. Zenoh removes those
    /// that nobody has open, as every program of it does when it starts and when it ends. What others use stays.
    fn remove_leftovers(_job: &Job) -> Result<()> {
        zenoh::shm::cleanup_orphaned_shm_segments();
        Ok(())
    }

    fn for_thread(&self, _name: &str) -> Result<Self> {
        Ok(Self { session: self.session.clone(), carrier: self.carrier })
    }

    fn sender(&self, job: &Job, topic: &str) -> Result<Out> {
        Out::new(&self.session, self.carrier, job, topic)
    }

    fn receiver(&self, job: &Job, topic: &str) -> Result<In> {
        In::new(&self.session, self.carrier, job, topic)
    }
}

/// Bytes of shared memory for what readers, their history and the way to them can hold.
pub fn pool_size(job: &Job) -> usize {
    (job.depth as usize + SPARE_BUFFERS) * (job.size + BUFFER_OVERHEAD) + POOL_OVERHEAD
}

fn config(job: &Job, carrier: Carrier, endpoints: &[String]) -> Result<Config> {
    let mut config = Config::default();
    let mut set = |key: &str, value: &str| config.insert_json5(key, value).map_err(|e| anyhow!("Zenoh refuses {key} = {value}: {e}"));
    set("mode", "'peer'")?;
    set("listen/endpoints", "['tcp/127.0.0.1:0']")?;
    set("connect/endpoints", &serde_json::to_string(endpoints)?)?;
    set("connect/timeout_ms", "10000")?;
    set("connect/exit_on_failure", "true")?;
    set("scouting/multicast/enabled", "false")?;
    set("transport/shared_memory/enabled", if carrier == Carrier::Tcp { "false" } else { "true" })?;
    set("transport/shared_memory/mode", "'init'")?;
    set("transport/shared_memory/transport_optimization/enabled", if carrier == Carrier::ShmImplicit { "true" } else { "false" })?;
    set("transport/shared_memory/transport_optimization/pool_size", &pool_size(job).to_string())?;
    Ok(config)
}

/// Where the ends of this run listen, as far as they have said so.
fn endpoints(directory: &Path) -> Result<Vec<String>> {
    let unreadable = || format!("cannot read {}", directory.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.extension().is_some_and(|e| e == ENDPOINT) {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            all.extend(text.lines().map(str::to_owned));
        }
    }
    Ok(all)
}

fn wait_for_endpoints(directory: &Path, at_least: usize, timeout: Duration) -> Result<Vec<String>> {
    let start = Instant::now();
    loop {
        let all = endpoints(directory)?;
        if all.len() >= at_least {
            return Ok(all);
        }
        if start.elapsed() > timeout {
            bail!("only {} of {at_least} ends have said in {} where they listen, within {timeout:?}", all.len(), directory.display());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Says where this session listens, in a file that is whole as soon as it is there.
fn announce(session: &Session, directory: &Path, name: &str) -> Result<()> {
    let locators = session.info().locators().wait();
    let local: Vec<String> = locators.iter().map(ToString::to_string).filter(|l| l.starts_with("tcp/127.0.0.1:")).collect();
    let [endpoint] = local.as_slice() else { bail!("the session listens on {locators:?} instead of one port of 127.0.0.1") };
    ensure!(locators.len() == 1, "the session listens on {locators:?}, not on 127.0.0.1 alone");
    let unfinished = directory.join(format!("{name}.tmp"));
    let finished = directory.join(format!("{name}.{ENDPOINT}"));
    std::fs::write(&unfinished, endpoint).with_context(|| format!("cannot write {}", unfinished.display()))?;
    std::fs::rename(&unfinished, &finished).with_context(|| format!("cannot write {}", finished.display()))
}
