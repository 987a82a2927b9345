// SPDX-License-Identifier: Apache-2.0
//! Zenoh sessions that find each other through files, and removal of the files of killed ones.
//!
//! A link is a star: receiving ends listen, and the sending end connects to each of them, once.
//! Stages of a chain start one after the other, and each connects to the existing ones. Gossip
//! would let ends with a common neighbour connect as well, at the same time as the sending end.

use crate::describe::{Carrier, QUEUE_BATCHES, RX_BUFFER};
use crate::receiving::In;
use crate::sending::Out;
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline_bench::Middleware;
use driveline_bench::harness::{Job, Role};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};
use zenoh::{Config, Session, Wait};

/// Time in which ends must find each other.
const MATCH_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a finished end must leave.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Ending of the file with the address on which an end listens.
const ENDPOINT: &str = "endpoint";
/// Number of buffers of a pool in addition to the history: one in use at each end, and those in
/// flight.
const SPARE_BUFFERS: usize = 4;
/// Overhead of the allocator for each buffer, and for itself.
const BUFFER_OVERHEAD: usize = 4096;
const POOL_OVERHEAD: usize = 1 << 20;

/// The session of a process.
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
            Role::Publisher => Some(job.subscribers.max(1)),
            Role::Ping => Some(1),
            Role::Stage => Some(0),
            _ => None,
        };
        // Several links may share a directory.
        let link = as_file_name(&job.topic);
        let endpoints = match others {
            Some(others) => wait_for_ends(&job.domain_dir, &link, others, MATCH_TIMEOUT)?,
            None => Vec::new(),
        };
        let session = zenoh::open(config(job, carrier, &endpoints)?)
            .wait()
            .map_err(|e| anyhow!("cannot open the session: {e}"))?;
        announce(&session, job.addresses()[0], &job.domain_dir, &link, name)?;
        Ok(Self { session, carrier })
    }

    /// Segments have random numbers as names, and each is locked by all processes that have it
    /// open. This function removes segments that no process has open, as every program with Zenoh
    /// does when it starts and when it ends. Segments in use stay.
    fn remove_leftovers(job: &Job) -> Result<()> {
        // An end keeps some files open until its process ends, even if it has finished.
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        for end in announced(&job.domain_dir, "")? {
            wait_for_exit(end.pid, deadline)?;
        }
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

/// Returns the bytes of shared memory for samples that readers hold, in their history, and in
/// flight.
pub fn pool_size(job: &Job) -> usize {
    // Stages work on a message in place, each reader on its own.
    let worked_on = if job.role == Role::Stage { job.subscribers } else { 0 };
    (job.depth as usize + SPARE_BUFFERS + worked_on) * (job.size + BUFFER_OVERHEAD) + POOL_OVERHEAD
}

fn config(job: &Job, carrier: Carrier, endpoints: &[String]) -> Result<Config> {
    let mut config = Config::default();
    let mut set = |key: &str, value: &str| {
        config.insert_json5(key, value).map_err(|e| anyhow!("Zenoh refuses {key} = {value}: {e}"))
    };
    set("mode", "'peer'")?;
    let [own, _] = job.addresses();
    set("listen/endpoints", &format!("['tcp/{own}:0']"))?;
    set("connect/endpoints", &serde_json::to_string(endpoints)?)?;
    set("connect/timeout_ms", "10000")?;
    set("connect/exit_on_failure", "true")?;
    set("scouting/multicast/enabled", "false")?;
    set("scouting/gossip/enabled", "false")?;
    set("transport/shared_memory/enabled", if carrier == Carrier::Tcp { "false" } else { "true" })?;
    if carrier != Carrier::Tcp {
        // This setting makes segments even where shared memory is not enabled.
        set("transport/shared_memory/mode", "'init'")?;
    }
    set(
        "transport/shared_memory/transport_optimization/enabled",
        if carrier == Carrier::ShmImplicit { "true" } else { "false" },
    )?;
    match carrier {
        Carrier::Tcp => {
            set("transport/link/tx/queue/size/data", QUEUE_BATCHES)?;
            set("transport/link/rx/buffer_size", RX_BUFFER)?;
        }
        Carrier::Shm => {
            set("transport/unicast/qos/enabled", "false")?;
            set("transport/unicast/lowlatency", "true")?;
        }
        Carrier::ShmImplicit => {
            set(
                "transport/shared_memory/transport_optimization/pool_size",
                &pool_size(job).to_string(),
            )?;
        }
    }
    Ok(config)
}

/// Announcement of an end of this run.
struct Announced {
    pid: i32,
    endpoint: String,
}

/// Returns a topic as part of a file's name. Different topics have different names.
fn as_file_name(topic: &str) -> String {
    topic.replace('%', "%25").replace('/', "%2F").replace('@', "%40")
}

/// Returns the announced ends of this run whose files' names begin with `prefix`.
fn announced(directory: &Path, prefix: &str) -> Result<Vec<Announced>> {
    let unreadable = || format!("cannot read {}", directory.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let is_asked_for =
            path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix));
        if is_asked_for && path.extension().is_some_and(|e| e == ENDPOINT) {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let (pid, endpoint) = text
                .split_once(' ')
                .with_context(|| format!("{} is not of this program", path.display()))?;
            let pid = pid.parse().with_context(|| {
                format!("{} does not begin with a process number", path.display())
            })?;
            all.push(Announced { pid, endpoint: endpoint.to_owned() });
        }
    }
    Ok(all)
}

/// Waits until a process of this program has closed all its files.
fn wait_for_exit(pid: i32, deadline: Instant) -> Result<()> {
    let Some(process) = Pid::from_raw(pid) else { return Ok(()) };
    let handle = match pidfd_open(process, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("cannot watch process {pid}")),
    };
    // Another program may have got the process number. While a process ends, its program cannot be
    // read any more, but its files are still open: then it is waited for as well.
    if let (Ok(its), Ok(own)) =
        (std::fs::read_link(format!("/proc/{pid}/exe")), std::fs::read_link("/proc/self/exe"))
        && its != own
    {
        return Ok(());
    }
    let left = deadline
        .saturating_duration_since(Instant::now())
        .try_into()
        .context("the time to wait is too long")?;
    let gone = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left))
        .context("cannot wait for an end to leave")?;
    ensure!(
        gone > 0,
        "process {pid} is done, but does not leave: end it, and then remove what it has in \
         /dev/shm (*.zenoh)"
    );
    Ok(())
}

/// Waits until at least this many ends of a link, or of a chain, listen, and returns the addresses
/// of all that do. Only the later end connects: two ends must not connect to each other at the same
/// time, nor twice, because a low-latency transport has one link and refuses the second.
fn wait_for_ends(
    directory: &Path,
    link: &str,
    at_least: usize,
    timeout: Duration,
) -> Result<Vec<String>> {
    let start = Instant::now();
    loop {
        let all = announced(directory, &format!("{link}@"))?;
        if all.len() >= at_least {
            return Ok(all.into_iter().map(|end| end.endpoint).collect());
        }
        if start.elapsed() > timeout {
            bail!(
                "only {} of {at_least} ends have said in {} where they listen, within {timeout:?}",
                all.len(),
                directory.display()
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Announces name and address of this end in a file that appears whole or not at all.
fn announce(
    session: &Session,
    own: Ipv4Addr,
    directory: &Path,
    link: &str,
    name: &str,
) -> Result<()> {
    let locators = session.info().locators().wait();
    let local: Vec<String> = locators
        .iter()
        .map(ToString::to_string)
        .filter(|l| l.starts_with(&format!("tcp/{own}:")))
        .collect();
    let [endpoint] = local.as_slice() else {
        bail!("the session listens on {locators:?} instead of one port of {own}")
    };
    ensure!(locators.len() == 1, "the session listens on {locators:?}, not on {own} alone");
    let unfinished = directory.join(format!("{link}@{name}.tmp"));
    let finished = directory.join(format!("{link}@{name}.{ENDPOINT}"));
    std::fs::write(&unfinished, format!("{} {endpoint}", std::process::id()))
        .with_context(|| format!("cannot write {}", unfinished.display()))?;
    std::fs::rename(&unfinished, &finished)
        .with_context(|| format!("cannot write {}", finished.display()))
}
