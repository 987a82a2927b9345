// SPDX-License-Identifier: Apache-2.0
//! The measured process: gets a job, does it, and tells.

mod closed_loop;
mod driveline_link;
mod floor_link;
mod link;
mod open_loop;
mod payload;
mod recorder;
mod special;

pub(crate) use driveline_link::MIN_SIZE;
pub(crate) use payload::MIN_FILLED;
pub(crate) use special::{MEMCPY_KINDS, MemcpyKind};

use crate::harness::{End, Event, Job, PROTOCOL, Pace, Reach, Role, System};
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline::types::Qos;
use driveline_link::Ends;
use driveline_shm::floor::SharedWords;
use floor_link::{BACK, FORTH, FloorEnds};
use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;

/// Descriptor under which a measured process finds the words of a floor.
pub(crate) const WORDS_FD: i32 = 3;

/// Publishers number their samples from one.
const FIRST: u64 = 1;

/// Entry of a measured process: reads its job from standard input and tells on standard output what becomes of it.
///
/// For the program that hosts the benchmark: it must end up here when it is called with `bench-peer`.
#[must_use]
pub fn peer_main() -> ExitCode {
    match serve() {
        Ok(ends) => {
            emit(&Event::Done { ends });
            ExitCode::SUCCESS
        }
        Err(e) => {
            emit(&Event::Failed { error: format!("{e:#}") });
            ExitCode::FAILURE
        }
    }
}

fn emit(event: &Event) {
    if let Ok(line) = serde_json::to_string(event) {
        let mut out = std::io::stdout().lock();
        // If the conductor is gone there is nobody left to tell.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

fn serve() -> Result<Vec<End>> {
    // A measured process must not outlive whoever measures it.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut commands = std::io::stdin().lock();
    let mut line = String::new();
    commands.read_line(&mut line).context("no job came on standard input")?;
    let job: Job =
        serde_json::from_str(&line).context("this command is only for the benchmark itself, which gives it a job on standard input")?;
    ensure!(job.protocol == PROTOCOL, "the job speaks version {} of the harness protocol, this program version {PROTOCOL}", job.protocol);
    if job.role == Role::Threads {
        return threads(&job);
    }
    let cpu = match job.role {
        Role::Subscriber | Role::Echo | Role::IdleSubscriber | Role::LateSubscriber => subscriber_cpu(&job),
        _ => job.publisher_cpu,
    };
    let unset = recorder::settle(&job, cpu);
    let mut end = match job.role {
        Role::Memcpy => special::memcpy(&job),
        Role::SameThread => special::same_thread(&job),
        Role::IdlePublisher => special::idle_publisher(&job, &emit, &mut commands),
        Role::KeepsLast => special::keeps_last(&job, &emit, &mut commands),
        Role::IdleSubscriber | Role::LateSubscriber => special::quiet_subscriber(&job, &emit),
        Role::Publisher | Role::Subscriber | Role::Ping | Role::Echo => {
            drop(commands);
            let place = match job.system {
                System::Driveline => Place::Driveline(Ends::new(&job, &name(&job))?),
                System::Futex | System::Spin => {
                    Place::Floor(FloorEnds { words: Arc::new(inherited_words()?), spins: job.system == System::Spin, shared: true })
                }
                System::Peer { .. } => return Err(not_mine(&job)),
            };
            one_end(&job, &place, &|| emit(&Event::Ready))
        }
        Role::Threads | Role::Keeper => bail!("{:?} is no part of this program's", job.role),
    }?;
    end.unset.extend(unset);
    Ok(vec![end])
}

fn not_mine(job: &Job) -> anyhow::Error {
    anyhow!("this program does not carry samples with {}", job.system)
}

fn name(job: &Job) -> String {
    match job.role {
        Role::Subscriber => format!("subscriber{}", job.index),
        Role::Ping => "ping".into(),
        Role::Echo => "echo".into(),
        _ => "publisher".into(),
    }
}

fn subscriber_cpu(job: &Job) -> Option<usize> {
    let turn = job.index.checked_rem(job.subscriber_cpus.len())?;
    job.subscriber_cpus.get(turn).copied()
}

fn inherited_words() -> Result<SharedWords> {
    // Opening it anew makes it this process's own without trusting a bare number.
    let path = format!("/proc/self/fd/{WORDS_FD}");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("the floor's shared words are not at {path}"))?;
    SharedWords::open(OwnedFd::from(file)).context("cannot use the floor's shared words")
}

/// Topics of a ping-pong.
fn ping(job: &Job) -> String {
    format!("{}/ping", job.topic)
}

fn pong(job: &Job) -> String {
    format!("{}/pong", job.topic)
}

/// Where an end finds its other end.
enum Place {
    Driveline(Ends),
    Floor(FloorEnds),
}

/// One of the four ends that the loops know.
fn one_end(job: &Job, place: &Place, ready: &dyn Fn()) -> Result<End> {
    let qos = Qos::default;
    match (place, job.role) {
        (Place::Driveline(ends), Role::Publisher) => {
            let mut sender = ends.sender(job, &job.topic, qos())?;
            ready();
            open_loop::publish(job, &mut sender, FIRST)
        }
        (Place::Driveline(ends), Role::Subscriber) => {
            let mut receiver = ends.receiver(job, &job.topic, qos())?;
            ready();
            open_loop::subscribe(job, &mut receiver)
        }
        (Place::Driveline(ends), Role::Ping) => {
            let mut sender = ends.sender(job, &ping(job), qos())?;
            let mut receiver = ends.receiver(job, &pong(job), qos())?;
            ready();
            closed_loop::ping(job, &mut sender, &mut receiver, FIRST)
        }
        (Place::Driveline(ends), Role::Echo) => {
            let mut sender = ends.sender(job, &pong(job), qos())?;
            let mut receiver = ends.receiver(job, &ping(job), qos())?;
            ready();
            closed_loop::echo(job, &mut sender, &mut receiver, FIRST)
        }
        (Place::Floor(ends), Role::Publisher) => {
            ready();
            open_loop::publish(job, &mut ends.sender(FORTH, job.subscribers), FIRST)
        }
        (Place::Floor(ends), Role::Subscriber) => {
            let mut receiver = ends.receiver(FORTH);
            ready();
            open_loop::subscribe(job, &mut receiver)
        }
        (Place::Floor(ends), Role::Ping) => {
            let mut receiver = ends.receiver(BACK);
            ready();
            closed_loop::ping(job, &mut ends.sender(FORTH, 1), &mut receiver, FIRST)
        }
        (Place::Floor(ends), Role::Echo) => {
            let mut receiver = ends.receiver(FORTH);
            ready();
            closed_loop::echo(job, &mut ends.sender(BACK, 1), &mut receiver, FIRST)
        }
        (_, role) => bail!("{role:?} is no end of a link"),
    }
}

/// All ends of a link in this process, a thread each.
fn threads(job: &Job) -> Result<Vec<End>> {
    let (sending, receiving) = match job.pace {
        Pace::PingPong => (Role::Ping, Role::Echo),
        Pace::RateHz(_) => (Role::Publisher, Role::Subscriber),
    };
    let part = |role, index| Job { role, index, reach: Reach::Process, ..job.clone() };
    let place = |job: &Job| -> Result<Place> {
        Ok(match job.system {
            System::Driveline => Place::Driveline(Ends::new(job, "threads")?),
            System::Futex | System::Spin => {
                let words = SharedWords::create().context("cannot make the floor's words")?;
                Place::Floor(FloorEnds { words: Arc::new(words), spins: job.system == System::Spin, shared: false })
            }
            System::Peer { .. } => return Err(not_mine(job)),
        })
    };
    let common = place(job)?;
    let mut handles = Vec::new();
    let (started, all_started) = std::sync::mpsc::channel();
    let parts = (0..job.subscribers).map(|i| part(receiving, i)).chain([part(sending, 0)]);
    for job in parts {
        if job.role == sending {
            // Receivers first, as between processes.
            for _ in 0..job.subscribers {
                all_started.recv().map_err(|_| anyhow!("a receiving thread ended before it began"))?;
            }
        }
        let place = match &common {
            Place::Driveline(ends) => Place::Driveline(ends.node(&name(&job))?),
            Place::Floor(ends) => Place::Floor(ends.clone()),
        };
        let cpu = if job.role == receiving { subscriber_cpu(&job) } else { job.publisher_cpu };
        let started = started.clone();
        let body = move || -> Result<End> {
            let unset = recorder::settle(&job, cpu);
            let mut end = one_end(&job, &place, &|| {
                let _ = started.send(());
            });
            if let Err(e) = &end {
                // The other threads wait for what will never come: tell, and end the process with all of them.
                emit(&Event::Failed { error: format!("{e:#}") });
                std::process::exit(1);
            }
            if let Ok(end) = &mut end {
                end.unset.extend(unset);
            }
            end
        };
        handles.push(std::thread::Builder::new().name("bench-end".into()).spawn(body).context("cannot start a thread")?);
    }
    handles.into_iter().map(|h| h.join().map_err(|_| anyhow!("a thread of the link panicked"))?).collect()
}
