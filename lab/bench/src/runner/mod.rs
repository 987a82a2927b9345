// SPDX-License-Identifier: Apache-2.0
//! Runs planned trials: each with fresh processes, which start in order, and with one account for
//! all of its processes. Several links at the same time have an account each.

mod beside;
mod gateways;
mod listen;
pub(crate) mod process;
mod quota;
mod trial;
pub(crate) mod watch;

pub use beside::{Beside, Favour};
pub use process::Program;
pub use quota::Quota;
pub use trial::{Kind, Trial};

use crate::account::{self, Account};
use crate::cable::{Cable, CableSpec};
use crate::deployment::Deployment;
use crate::harness::{End, Job, Pace, Reach, Role, System};
use crate::machine::ProcessUse;
use crate::metric::Metric;
use crate::observations::Observations;
use crate::peers::Selection;
use anyhow::{Context, Result, ensure};
use driveline_shm::floor::SharedWords;
use process::{LOOK, Processes, Until};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use watch::Watch;

/// Time in which processes must start and find each other, and in which they must finish after the
/// order to do so.
const START: Duration = Duration::from_secs(30);
/// Time limit of a middleware's own tool, with a slow start and a slow end.
const OWN_TOOL: Duration = Duration::from_secs(60);
/// Time for a link to come to rest before it is observed.
const SETTLE: Duration = Duration::from_millis(500);

/// Runs trials, several links at a time, and chains, with these programs.
pub struct Runner<'a> {
    /// Program of the measured processes that are not peers.
    pub program: &'a Program,
    /// Peers that can take part.
    pub peers: &'a Selection,
    /// Checked twice a second; an interrupted run fails.
    pub interrupted: &'a AtomicBool,
    /// Gateway program that carries Driveline's topics between hosts, if it was built.
    pub gateway: Option<PathBuf>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Ensemble {
    /// Accounts in the order of the jobs; a trial has one.
    pub accounts: Vec<Account>,
    /// Processor time, memory and switches of each process, if they were observed; use by a
    /// container engine; effects of a quota and of a cable.
    pub observations: Observations,
}

impl From<Account> for Ensemble {
    fn from(account: Account) -> Self {
        Self { accounts: vec![account], observations: Observations::default() }
    }
}

/// Link whose ends are done and have ended.
struct Ran<'p> {
    processes: Processes<'p>,
    /// Index of the publisher.
    publisher: usize,
    ends: Vec<End>,
    /// Use of a container engine.
    observations: Observations,
}

impl Runner<'_> {
    /// Runs a trial, in an empty directory that it may fill. Blocks until it has ended.
    ///
    /// # Errors
    /// If a process fails or hangs; its messages are part of the error.
    pub fn run(&self, trial: &Trial, dir: &Path) -> Result<Ensemble> {
        let answer_timeout_ms = trial.job.usual_answer_timeout_ms();
        let job = Job {
            domain_dir: dir.join("domain"),
            raw_dir: dir.to_owned(),
            answer_timeout_ms,
            ..trial.job.clone()
        };
        match trial.kind {
            Kind::Link | Kind::Floor if job.reach == Reach::Process => {
                self.alone(&Job { role: Role::Threads, ..job })
            }
            Kind::Link | Kind::Floor => return self.link(&job, trial.cable, trial.deployment, dir),
            Kind::SameThread => self.alone(&Job { role: Role::SameThread, ..job }),
            Kind::Memcpy(_) => self.alone(&job),
            Kind::AtRest(time) => self.at_rest(&job, time),
            Kind::StartUp => self.start_up(&job),
            Kind::OwnTool => self.own_tool(&job),
        }
        .map(Ensemble::from)
    }

    /// Runs the latency tool of a peer's middleware for a job. Blocks while the tool runs, mostly
    /// 2 to 10 s. The account has no samples, only the tool's result.
    fn own_tool(&self, job: &Job) -> Result<Account> {
        let mut processes = self.processes();
        // Some tools measure all sizes that they support, whatever size was requested. The keeper
        // needs resources for the largest one.
        let sizes = self.peers.variant(&job.system).map_or(&[][..], |v| &v.own_tool_sizes);
        let size = sizes.iter().copied().fold(job.size, usize::max);
        let keeper = self.keep(&mut processes, &Job { size, ..job.clone() })?;
        let tool =
            processes.start("the own tool", &Job { role: Role::OwnTool, ..job.clone() }, None)?;
        processes.wait(tool, Until::Done, OWN_TOOL)?;
        Self::dismiss(&mut processes, keeper)?;
        let mut account = Account::default();
        for end in processes.ends() {
            account.unset.extend(end.unset);
            account.own_tool = account.own_tool.or(end.own_tool);
        }
        ensure!(
            account.own_tool.as_ref().is_some_and(|t| t.n > 0 && t.p50_ns > 0),
            "the own tool of {} measured nothing",
            job.system
        );
        Ok(account)
    }

    pub(crate) fn processes(&self) -> Processes<'_> {
        Processes::new(self.program, self.peers, self.interrupted)
    }

    /// Starts the keeper of the system, a process that provides a daemon or a domain number
    /// ([`Role::Keeper`]), if it needs one.
    fn keep(&self, processes: &mut Processes<'_>, job: &Job) -> Result<Option<usize>> {
        let Some(variant) = self.peers.variant(&job.system) else { return Ok(None) };
        std::fs::create_dir_all(&job.domain_dir)
            .with_context(|| format!("cannot make {}", job.domain_dir.display()))?;
        if !variant.keeper {
            return Ok(None);
        }
        let keeper =
            processes.start("the keeper", &Job { role: Role::Keeper, ..job.clone() }, None)?;
        processes.wait(keeper, Until::Ready, START)?;
        Ok(Some(keeper))
    }

    /// Makes the two hosts of a job, and starts the gateways that carry Driveline's samples between
    /// them.
    fn connect(
        &self,
        processes: &mut Processes<'_>,
        job: &Job,
        cable: Option<CableSpec>,
    ) -> Result<()> {
        if job.reach != Reach::Network {
            return Ok(());
        }
        let cable = cable.unwrap_or_default();
        processes.lay(Cable::new(cable)?);
        if job.system == System::Driveline {
            let program = self
                .gateway
                .as_ref()
                .context("the gateway between hosts is not built: `make gateways` builds it")?;
            std::fs::create_dir_all(&job.domain_dir)
                .with_context(|| format!("cannot make {}", job.domain_dir.display()))?;
            for (side, config) in
                gateways::configurations(job, cable, &job.domain_dir)?.into_iter().enumerate()
            {
                processes.start_gateway(side, program, &config)?;
            }
        }
        Ok(())
    }

    /// Ends finished processes, the keeper last.
    fn dismiss(processes: &mut Processes<'_>, keeper: Option<usize>) -> Result<()> {
        processes.let_go()?;
        if let Some(keeper) = keeper {
            processes.go_on(keeper);
            processes.wait(keeper, Until::Done, START)?;
        }
        processes.let_go()
    }

    /// Runs everything in one process.
    fn alone(&self, job: &Job) -> Result<Account> {
        let mut processes = self.processes();
        let keeper = self.keep(&mut processes, job)?;
        let process = processes.start("the process", job, None)?;
        processes.wait(process, Until::Done, longest(job))?;
        Self::dismiss(&mut processes, keeper)?;
        account::account(job, &processes.ends(), processes.began_ns())
    }

    /// Runs a process for each end; receivers start first.
    fn link(
        &self,
        job: &Job,
        cable: Option<CableSpec>,
        deployment: Deployment,
        dir: &Path,
    ) -> Result<Ensemble> {
        let (sending, receiving) = match job.pace {
            Pace::PingPong => (Role::Ping, Role::Echo),
            Pace::RateHz(_) => (Role::Publisher, Role::Subscriber),
        };
        let words = match job.system {
            System::Driveline | System::Memcpy | System::Peer { .. } => None,
            System::Futex | System::Spin => {
                Some(SharedWords::create().context("cannot make the floor's shared words")?)
            }
        };
        let mut processes = self.processes();
        processes.deploy(deployment, dir, &job.system)?;
        let Ran { mut processes, publisher, ends, observations } =
            self.run_ends(processes, job, cable, sending, receiving, words.as_ref())?;
        let mut account = account::account(job, &ends, processes.began_ns())?;
        if let (Role::Publisher, Some(first)) = (sending, first_sample(&ends, Role::Subscriber)) {
            account.start_up_ns = Some(first.saturating_sub(processes.spawned_ns(publisher)));
        }
        account.unset.extend(processes.ends().into_iter().flat_map(|e| e.unset));
        let mut ensemble = Ensemble { accounts: vec![account], observations };
        processes.report_cable(&mut ensemble.observations);
        Ok(ensemble)
    }

    /// Runs links of one system at the same time, in an empty directory that it may fill: a process
    /// for each end. Their topics must differ. Blocks until all have ended.
    ///
    /// # Errors
    /// If a process fails or hangs, or the machine refuses an additional condition of the run.
    pub fn run_links(&self, jobs: &[Job], beside: &Beside, dir: &Path) -> Result<Ensemble> {
        let Some(first) = jobs.first() else { return Ok(Ensemble::default()) };
        ensure!(
            jobs.iter().all(|j| j.system == first.system),
            "links of one run are all carried by the same system"
        );
        let quota = beside.quota_percent.map(Quota::new).transpose()?;
        let mut processes = self.processes();
        processes.confine(quota.as_ref());
        processes.deploy(beside.deployment, dir, &first.system)?;
        let place = |(i, job): (usize, &Job)| -> Result<Job> {
            let raw_dir = dir.join(format!("link-{i}"));
            std::fs::create_dir(&raw_dir)
                .with_context(|| format!("cannot make {}", raw_dir.display()))?;
            Ok(Job { domain_dir: dir.join("domain"), raw_dir, ..job.clone() })
        };
        let jobs = jobs.iter().enumerate().map(place).collect::<Result<Vec<_>>>()?;
        if let Some(job) = jobs.first() {
            self.connect(&mut processes, job, beside.cable)?;
        }
        // One keeper for all links, with room for all.
        let subscribers = jobs.iter().map(|job| job.subscribers).sum();
        let size = jobs.iter().map(|job| job.size).max().unwrap_or(0);
        let for_all = jobs.first().map(|job| Job { subscribers, size, ..job.clone() });
        let keeper = for_all.map(|job| self.keep(&mut processes, &job)).transpose()?.flatten();
        for n in 0..beside.hogs {
            let hog =
                Job { role: Role::Hog, system: System::Driveline, ..beside.placed(first, None) };
            let hog = processes.start(&format!("hog {n}"), &hog, None)?;
            processes.wait(hog, Until::Ready, START)?;
        }
        let mut parts: Vec<(Vec<usize>, usize)> = Vec::new();
        for job in &jobs {
            let mut receivers = Vec::new();
            for index in 0..job.subscribers {
                let name = format!("{} · subscriber {index}", job.topic);
                let job = Job { role: Role::Subscriber, index, ..beside.placed(job, Some(index)) };
                receivers.push(processes.start(&name, &job, None)?);
            }
            parts.push((receivers, 0));
        }
        for receiver in parts.iter().flat_map(|(r, _)| r) {
            processes.wait(*receiver, Until::Ready, START)?;
        }
        for (job, part) in jobs.iter().zip(&mut parts) {
            let job_placed = Job { role: Role::Publisher, ..beside.placed(job, None) };
            part.1 = processes.start(&format!("{} · publisher", job.topic), &job_placed, None)?;
        }
        let watch = beside.watch_every.map(|every| Watch::start(processes.pids(), every));
        for (job, (receivers, publisher)) in jobs.iter().zip(&parts) {
            processes.wait(*publisher, Until::Done, longest(job))?;
            for receiver in receivers {
                processes.wait(*receiver, Until::Done, backlog(job))?;
            }
        }
        let mut observations = watch.map(Watch::stop).unwrap_or_default();
        processes.report_engine(&mut observations);
        Self::dismiss(&mut processes, keeper)?;
        processes.report_cable(&mut observations);
        if let Some(throttling) = quota.as_ref().and_then(Quota::throttling) {
            for (what, n) in [
                ("quota: periods of 100 ms", throttling.periods),
                ("quota: periods throttled", throttling.throttled),
                ("quota: throttled ns", throttling.waited_ns),
            ] {
                observations.counters.insert(what.into(), n);
            }
        }
        let mut accounts = Vec::new();
        for (job, (receivers, publisher)) in jobs.iter().zip(&parts) {
            let mut ends: Vec<End> = receivers.iter().flat_map(|r| processes.ends_of(*r)).collect();
            ends.extend(processes.ends_of(*publisher));
            let mut account = account::account(job, &ends, processes.began_ns())?;
            if let Some(first) = first_sample(&ends, Role::Subscriber) {
                account.start_up_ns = Some(first.saturating_sub(processes.spawned_ns(*publisher)));
            }
            accounts.push(account);
        }
        if let (Some(keeper), Some(account)) = (keeper, accounts.first_mut()) {
            account.unset.extend(processes.ends_of(keeper).into_iter().flat_map(|e| e.unset));
        }
        Ok(Ensemble { accounts, observations })
    }

    fn run_ends<'p>(
        &self,
        mut processes: Processes<'p>,
        job: &Job,
        cable: Option<CableSpec>,
        sending: Role,
        receiving: Role,
        words: Option<&SharedWords>,
    ) -> Result<Ran<'p>> {
        self.connect(&mut processes, job, cable)?;
        let keeper = self.keep(&mut processes, job)?;
        let mut receivers = Vec::new();
        for index in 0..job.subscribers {
            receivers.push(processes.start(
                &format!("subscriber {index}"),
                &Job { role: receiving, index, ..job.clone() },
                words,
            )?);
        }
        for &receiver in &receivers {
            processes.wait(receiver, Until::Ready, START)?;
        }
        let publisher =
            processes.start("the publisher", &Job { role: sending, ..job.clone() }, words)?;
        processes.wait(publisher, Until::Done, longest(job))?;
        for receiver in receivers {
            processes.wait(receiver, Until::Done, backlog(job))?;
        }
        let mut observations = Observations::default();
        processes.report_engine(&mut observations);
        Self::dismiss(&mut processes, keeper)?;
        let ends = processes.ends();
        Ok(Ran { processes, publisher, ends, observations })
    }

    /// Runs a link on which nothing is published, and observes it from outside for this time.
    fn at_rest(&self, job: &Job, time: Duration) -> Result<Account> {
        let mut processes = self.processes();
        let subscriber = processes.start(
            "the subscriber",
            &Job { role: Role::IdleSubscriber, ..job.clone() },
            None,
        )?;
        processes.wait(subscriber, Until::Ready, START)?;
        let publisher = processes.start(
            "the publisher",
            &Job { role: Role::IdlePublisher, ..job.clone() },
            None,
        )?;
        processes.wait(publisher, Until::Idle, START)?;
        std::thread::sleep(SETTLE);
        let look = |processes: &Processes<'_>| -> Result<_> {
            Ok((
                ProcessUse::of(processes.pid(publisher))?,
                ProcessUse::of(processes.pid(subscriber))?,
                driveline::types::MonotonicNs::now(),
            ))
        };
        let (publisher_before, subscriber_before, start) = look(&processes)?;
        self.rest(time)?;
        let (publisher_after, subscriber_after, end) = look(&processes)?;
        let seconds = end.since(start).as_secs_f64();
        let per_second = |after: u64, before: u64| {
            (after.saturating_sub(before) as f64 / seconds).round() as u64
        };
        processes.go_on(publisher);
        processes.wait(publisher, Until::Done, START)?;
        processes.wait(subscriber, Until::Done, START)?;
        processes.let_go()?;
        let ends = processes.ends();
        let mut account = Account {
            unset: ends.into_iter().flat_map(|e| e.unset).collect(),
            ..Account::default()
        };
        account.once = BTreeMap::from([
            (Metric::IdlePublisherCpu, per_second(publisher_after.cpu_ns, publisher_before.cpu_ns)),
            (
                Metric::IdleSubscriberCpu,
                per_second(subscriber_after.cpu_ns, subscriber_before.cpu_ns),
            ),
            (
                Metric::IdleReaderCpu,
                per_second(subscriber_after.main_cpu_ns, subscriber_before.main_cpu_ns),
            ),
        ]);
        let switches = subscriber_after.switches.saturating_sub(subscriber_before.switches);
        account.idle_wakeups_per_s = Some(switches as f64 / seconds);
        Ok(account)
    }

    /// Sleeps for this time, or until an interruption.
    fn rest(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while let Some(left) =
            end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            ensure!(!self.interrupted.load(Relaxed), "interrupted");
            std::thread::sleep(left.min(LOOK));
        }
        Ok(())
    }

    /// Runs a publisher that starts while a subscriber waits, and a subscriber that starts while a
    /// sample waits.
    fn start_up(&self, job: &Job) -> Result<Account> {
        let Ran { processes, publisher, ends, .. } =
            self.run_ends(self.processes(), job, None, Role::Publisher, Role::Subscriber, None)?;
        let first =
            first_sample(&ends, Role::Subscriber).context("the subscriber got no sample")?;
        let mut account = Account {
            unset: ends.into_iter().flat_map(|e| e.unset).collect(),
            ..Account::default()
        };
        account
            .once
            .insert(Metric::StartPublisher, first.saturating_sub(processes.spawned_ns(publisher)));
        drop(processes);

        // A domain of its own, so that nothing of the first link is found.
        let job = Job { domain_dir: job.domain_dir.with_extension("late"), ..job.clone() };
        let mut processes = self.processes();
        let publisher = processes.start(
            "the publisher",
            &Job { role: Role::KeepsLast, ..job.clone() },
            None,
        )?;
        processes.wait(publisher, Until::Ready, START)?;
        let subscriber =
            processes.start("the subscriber", &Job { role: Role::LateSubscriber, ..job }, None)?;
        processes.wait(subscriber, Until::Ready, START)?;
        let spawned = processes.spawned_ns(subscriber);
        processes.go_on(publisher);
        processes.wait(publisher, Until::Done, START)?;
        processes.wait(subscriber, Until::Done, START)?;
        processes.let_go()?;
        let ends = processes.ends();
        let first = first_sample(&ends, Role::LateSubscriber)
            .context("the late subscriber got no sample")?;
        ensure!(first > spawned, "the late subscriber's first sample is older than its process");
        account.once.insert(Metric::StartSubscriber, first - spawned);
        Ok(account)
    }
}

/// Returns the time at which the last of the receivers had its first sample.
fn first_sample(ends: &[End], role: Role) -> Option<u64> {
    ends.iter().filter(|e| e.role == role).map(|e| e.first_sample_ns).max().flatten()
}

/// Returns the time that a receiver may take after the publisher has finished. A receiver with a
/// processing time may then still have to process all samples, if none is replaced.
fn backlog(job: &Job) -> Duration {
    START.saturating_add(Duration::from_micros(
        job.processing_us.saturating_mul(job.warm_up + job.messages),
    ))
}

/// Returns a bound on a run's duration that only a hang exceeds. It is long enough for any schedule
/// and for slow memory.
fn longest(job: &Job) -> Duration {
    let samples = (job.warm_up + job.messages) as f64;
    let handling = samples
        * (0.002 + job.size as f64 / 200e6 + job.processing_us as f64 / 1e6)
        * job.subscribers as f64;
    let schedule = match job.pace {
        Pace::PingPong => 0.0,
        Pace::RateHz(hz) => 2.0 * samples / hz,
    };
    Duration::from_secs_f64(60.0 + handling + schedule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::sample_job;
    use crate::peers;

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn every_run_over_a_relay_reports_its_losses() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer.py"),
            dir.path().join("test"),
        )
        .unwrap();
        let selection =
            peers::select(&peers::discover(Some(dir.path())).unwrap(), &["test/sound".into()])
                .unwrap();
        let (program, interrupted) =
            (Program { path: "false".into(), args: Vec::new() }, AtomicBool::new(false));
        let runner = Runner {
            program: &program,
            peers: &selection,
            interrupted: &interrupted,
            gateway: None,
        };
        // This peer uses Unix sockets in the domain directory, not the cable: the test checks only
        // that the run reports the cable's losses.
        let job = |pace| Job {
            system: "test/sound".parse().unwrap(),
            reach: Reach::Network,
            size: 64,
            pace,
            ..sample_job()
        };
        let cable = Some(CableSpec { delay_ms: 1.0, ..CableSpec::default() });
        let run = |n: &str| dir.path().join(n);
        [run("a"), run("b")].iter().for_each(|d| std::fs::create_dir(d).unwrap());
        let closed = runner
            .run(&Trial::new(Kind::Link, job(Pace::PingPong)).over(cable), &run("a"))
            .unwrap();
        let open = runner
            .run_links(
                &[job(Pace::RateHz(500.0))],
                &Beside { cable, ..Beside::default() },
                &run("b"),
            )
            .unwrap();
        for ensemble in [closed, open] {
            assert_eq!(
                ensemble.observations.counters.get("cable: frames dropped, from host 1"),
                Some(&0)
            );
            assert_eq!((ensemble.accounts.len(), ensemble.observations.invalid), (1, vec![]));
        }
    }
}
