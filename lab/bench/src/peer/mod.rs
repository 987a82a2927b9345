// SPDX-License-Identifier: Apache-2.0
//! A measured process: gets a job, does it, and reports.

mod closed_loop;
mod driveline_link;
mod floor_link;
mod link;
mod open_loop;
mod payload;
mod recorder;
mod special;

pub use link::{Middleware, Received, Receiver, Sender};

pub use driveline_link::MIN_SIZE;
pub(crate) use driveline_link::{domain_dir, reliability};
pub use payload::MIN_FILLED;
pub use recorder::sleep_until;

use crate::child::end_with_starter;
use crate::harness::{End, Event, Job, PROTOCOL, Pace, Reach, Role, System};
use crate::peers::Description;
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline_link::Ends;
use floor_link::FloorEnds;
use std::io::{BufRead, Write};
use std::process::ExitCode;

/// First argument of a measured process. A program that gets it must call [`peer_main`].
pub const PEER_COMMAND: &str = "bench-peer";
/// Descriptor under which a measured process finds the words of a floor.
pub(crate) const WORDS_FD: i32 = 3;

/// Publishers number their samples from one.
const FIRST: u64 = 1;

/// Entry of a measured process: reads its job from standard input and reports the result on
/// standard output.
///
/// The program that hosts the benchmark must call this function when its first argument is
/// `bench-peer`.
#[must_use]
pub fn peer_main() -> ExitCode {
    finish(serve())
}

fn finish(outcome: Result<Vec<End>>) -> ExitCode {
    match outcome {
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
        // If the runner is gone, no process reads this.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// Function that does the job of a stage. Its arguments: the job, the whole line of JSON from which
/// the job was read, and the function to call when the stage is ready.
pub type RunStage = fn(&Job, &str, &dyn Fn()) -> Result<End>;

/// Entry of a program that measures another middleware: describes itself if requested, else does
/// its job.
#[must_use]
pub fn peer_program<M: Middleware + 'static>(describe: impl FnOnce() -> Description) -> ExitCode {
    program::<M>(describe, None)
}

/// Like [`peer_program`], for a program that also has the role `stage` of chains.
#[must_use]
pub fn peer_program_with_stages<M: Middleware + 'static>(
    describe: impl FnOnce() -> Description,
    stage: RunStage,
) -> ExitCode {
    program::<M>(describe, Some(stage))
}

fn program<M: Middleware + 'static>(
    describe: impl FnOnce() -> Description,
    stage: Option<RunStage>,
) -> ExitCode {
    if std::env::args_os().nth(1).as_deref() == Some("--describe".as_ref()) {
        return match serde_json::to_string(&describe()) {
            Ok(text) => {
                let mut out = std::io::stdout().lock();
                if writeln!(out, "{text}").is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(_) => ExitCode::FAILURE,
        };
    }
    finish(job().and_then(|(job, line, mut commands)| {
        match job.role {
            Role::Keeper => {}
            Role::Stage if let Some(run) = stage => {
                let unset = settle(&job);
                let mut end = run(&job, &line, &|| emit(&Event::Ready))?;
                end.unset.extend(unset);
                return Ok(vec![end]);
            }
            Role::OwnTool => {
                let unset = settle(&job);
                return Ok(vec![End {
                    own_tool: Some(M::own_tool(&job)?),
                    unset,
                    ..End::new(job.role, 0)
                }]);
            }
            _ => return ends::<M>(&job),
        }
        emit(&Event::Ready);
        // This process ends when the runner sends a line or ends.
        let _ = commands.read_line(&mut String::new());
        M::remove_leftovers(&job).map(|()| Vec::new())
    }))
}

fn serve() -> Result<Vec<End>> {
    let (job, _, mut commands) = job()?;
    let special = match job.role {
        Role::Memcpy => special::memcpy,
        Role::SameThread => special::same_thread,
        Role::Hog => special::hog(&job, &emit),
        Role::IdleSubscriber | Role::LateSubscriber => {
            |job: &Job| special::quiet_subscriber(job, &emit)
        }
        Role::IdlePublisher | Role::KeepsLast => {
            let unset = settle(&job);
            let mut end = if job.role == Role::KeepsLast {
                special::keeps_last(&job, &emit, &mut commands)
            } else {
                special::idle_publisher(&job, &emit, &mut commands)
            }?;
            end.unset.extend(unset);
            return Ok(vec![end]);
        }
        _ => {
            return match job.system {
                System::Driveline => ends::<Ends>(&job),
                System::Futex | System::Spin => ends::<FloorEnds>(&job),
                System::Memcpy | System::Peer { .. } => {
                    Err(anyhow!("this program does not carry samples with {}", job.system))
                }
            };
        }
    };
    let unset = settle(&job);
    let mut end = special(&job)?;
    end.unset.extend(unset);
    Ok(vec![end])
}

/// Reads the job on standard input. Returns it, its line, and the rest of the input.
fn job() -> Result<(Job, String, std::io::StdinLock<'static>)> {
    // A measured process must not outlive its runner.
    end_with_starter()?;
    let mut commands = std::io::stdin().lock();
    let mut line = String::new();
    commands.read_line(&mut line).context("no job came on standard input")?;
    let job: Job = serde_json::from_str(&line).context(
        "this command is only for the benchmark itself, which gives it a job on standard input",
    )?;
    ensure!(
        job.protocol == PROTOCOL,
        "the job speaks version {} of the harness protocol, this program version {PROTOCOL}",
        job.protocol
    );
    Ok((job, line, commands))
}

/// Sets this process up for the job. Returns the settings that the machine refused.
fn settle(job: &Job) -> Vec<String> {
    let cpu = match job.role {
        Role::Subscriber | Role::Echo | Role::IdleSubscriber | Role::LateSubscriber => {
            subscriber_cpu(job)
        }
        _ => job.publisher_cpu,
    };
    recorder::settle(job, cpu)
}

/// Runs the ends of a link that belong to this process.
fn ends<M: Middleware + 'static>(job: &Job) -> Result<Vec<End>> {
    match job.role {
        Role::Threads => threads::<M>(job),
        Role::Publisher | Role::Subscriber | Role::Ping | Role::Echo => {
            let unset = settle(job);
            let mut end = one_end(job, &M::join(job, &name(job))?, &|| emit(&Event::Ready))?;
            end.unset.extend(unset);
            Ok(vec![end])
        }
        Role::Stage | Role::Stages => {
            bail!(
                "this program has no role for stages of this kind, so it cannot carry such chains \
                 (docs/protocols/chain.md)"
            )
        }
        role => bail!("{role:?} is no part of this program's"),
    }
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

/// Topic of the questions of a ping-pong.
pub(crate) fn ping(job: &Job) -> String {
    format!("{}/ping", job.topic)
}

pub(crate) fn pong(job: &Job) -> String {
    format!("{}/pong", job.topic)
}

/// Runs one of the four kinds of ends.
fn one_end<M: Middleware>(job: &Job, m: &M, ready: &dyn Fn()) -> Result<End> {
    match job.role {
        Role::Publisher => {
            let mut sender = m.sender(job, &job.topic)?;
            ready();
            open_loop::publish(job, &mut sender, FIRST)
        }
        Role::Subscriber => {
            let mut receiver = m.receiver(job, &job.topic)?;
            ready();
            open_loop::subscribe(job, &mut receiver)
        }
        Role::Ping => {
            let mut sender = m.sender(job, &ping(job))?;
            let mut receiver = m.receiver(job, &pong(job))?;
            ready();
            closed_loop::ping(job, &mut sender, &mut receiver, FIRST)
        }
        Role::Echo => {
            let mut sender = m.sender(job, &pong(job))?;
            let mut receiver = m.receiver(job, &ping(job))?;
            ready();
            closed_loop::echo(job, &mut sender, &mut receiver, FIRST)
        }
        role => bail!("{role:?} is no end of a link"),
    }
}

/// Runs all ends of a link in this process, a thread each.
fn threads<M: Middleware + 'static>(job: &Job) -> Result<Vec<End>> {
    let (sending, receiving) = match job.pace {
        Pace::PingPong => (Role::Ping, Role::Echo),
        Pace::RateHz(_) => (Role::Publisher, Role::Subscriber),
    };
    let part = |role, index| Job { role, index, reach: Reach::Process, ..job.clone() };
    let common = M::join(job, "threads")?;
    let mut handles = Vec::new();
    let (started, all_started) = std::sync::mpsc::channel();
    let parts = (0..job.subscribers).map(|i| part(receiving, i)).chain([part(sending, 0)]);
    for job in parts {
        if job.role == sending {
            // Receivers first, as between processes.
            for _ in 0..job.subscribers {
                all_started
                    .recv()
                    .map_err(|_| anyhow!("a receiving thread ended before it began"))?;
            }
        }
        let here = common.for_thread(&name(&job))?;
        let cpu = if job.role == receiving { subscriber_cpu(&job) } else { job.publisher_cpu };
        let started = started.clone();
        let body = move || -> Result<End> {
            let unset = recorder::settle(&job, cpu);
            let mut end = one_end(&job, &here, &|| {
                let _ = started.send(());
            });
            if let Err(e) = &end {
                // The other threads wait for an event that will never come: report the error, and
                // end the process with all of them.
                emit(&Event::Failed { error: format!("{e:#}") });
                std::process::exit(1);
            }
            if let Ok(end) = &mut end {
                end.unset.extend(unset);
            }
            end
        };
        handles.push(
            std::thread::Builder::new()
                .name("bench-end".into())
                .spawn(body)
                .context("cannot start a thread")?,
        );
    }
    handles
        .into_iter()
        .map(|h| h.join().map_err(|_| anyhow!("a thread of the link panicked"))?)
        .collect()
}
