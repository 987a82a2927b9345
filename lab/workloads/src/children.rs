// SPDX-License-Identifier: Apache-2.0
//! Processes of the parts of a run, as seen by the process that starts them. A *part* is a further
//! process of a workload, for example a publisher ([`crate::part`]).

use crate::command_line::{PART, WORKLOAD_COMMAND};
use crate::job::WorkloadJob;
use crate::orders::{Assignment, Order, Said};
use crate::record::Window;
use anyhow::{Context, Result, bail};
use driveline_bench::child::{end_of, lines, readable};
use driveline_bench::harness::Event;
use driveline_bench::observations::Observations;
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time in which a part must start, or end after the order.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum length of the shown part of an error message, in bytes.
const SHOWN: usize = 4096;

/// Processes of parts by number, in the order of their start. Dropping it ends them all.
pub(crate) struct Children<'a> {
    job: &'a WorkloadJob,
    program: PathBuf,
    members: Vec<Member>,
    heard: Receiver<(usize, Option<Said>)>,
    sender: Sender<(usize, Option<Said>)>,
}

struct Member {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    waiting: VecDeque<Said>,
    /// `true` if this process has ended the part; the part's output no longer counts.
    dismissed: bool,
}

impl<'a> Children<'a> {
    pub(crate) fn new(job: &'a WorkloadJob) -> Result<Self> {
        let (sender, heard) = channel();
        let program = std::env::current_exe().context("cannot find the running program")?;
        Ok(Self { job, program, members: Vec::new(), heard, sender })
    }

    /// Starts a part and returns its number. Must be called on the process's first thread: the
    /// kernel ends a part together with the thread that started it.
    pub(crate) fn start(&mut self, name: &str, part: impl Serialize) -> Result<usize> {
        let assignment = Assignment {
            name: name.to_owned(),
            domain_dir: self.job.domain_dir.clone(),
            raw_dir: self.raw_dir()?,
            cpus: self.job.cpus.clone(),
            seed: self.job.seed,
        };
        let mut job = serde_json::to_value(assignment)?;
        job["part"] = serde_json::to_value(part)?;
        let program = self.program.clone();
        self.spawn(name, Command::new(program).args([WORKLOAD_COMMAND, PART]), &job)
    }

    /// Starts a peer's program with a job of the harness protocol, and returns its number. Like
    /// [`Self::start`], it must be called on the process's first thread.
    pub(crate) fn start_peer(
        &mut self,
        name: &str,
        program: &Path,
        job: &impl Serialize,
    ) -> Result<usize> {
        let mut job = serde_json::to_value(job)?;
        job["raw_dir"] = serde_json::to_value(self.raw_dir()?)?;
        self.spawn(name, &mut Command::new(program), &job)
    }

    /// Makes the directory of the part that is started next.
    fn raw_dir(&self) -> Result<PathBuf> {
        let raw_dir = self.job.raw_dir.join(format!("part-{}", self.members.len()));
        std::fs::create_dir_all(&raw_dir)
            .with_context(|| format!("cannot make {}", raw_dir.display()))?;
        Ok(raw_dir)
    }

    fn spawn(&mut self, name: &str, command: &mut Command, job: &Value) -> Result<usize> {
        let index = self.members.len();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().with_context(|| {
                format!("cannot start {} as {name}", command.get_program().display())
            })?;
        let mut stdin = child.stdin.take();
        let line = job.to_string();
        // If the part has died already, the wait for it reports that.
        let _ = stdin.as_mut().map(|s| writeln!(s, "{line}"));
        if let Some(out) = child.stdout.take() {
            let sender = self.sender.clone();
            std::thread::Builder::new().name("listener".into()).spawn(move || {
                for line in lines(out).flatten() {
                    if let Some(said) = message(&line) {
                        let _ = sender.send((index, Some(said)));
                    }
                }
                let _ = sender.send((index, None));
            })?;
        }
        self.members.push(Member {
            name: name.to_owned(),
            child,
            stdin,
            waiting: VecDeque::new(),
            dismissed: false,
        });
        Ok(index)
    }

    /// Starts a part and waits until it is ready to begin.
    pub(crate) fn start_ready(&mut self, name: &str, part: impl Serialize) -> Result<usize> {
        let index = self.start(name, part)?;
        self.ready(index)?;
        Ok(index)
    }

    pub(crate) fn ready(&mut self, index: usize) -> Result<()> {
        match self.hear(index, PATIENCE)? {
            Some(Said::Ready) => Ok(()),
            other => {
                bail!("{} was to be ready within {PATIENCE:?}, but: {other:?}", self.name(index))
            }
        }
    }

    pub(crate) fn begin(&mut self, index: usize, window: Window) {
        self.order(index, Order::Begin { window });
    }

    /// Returns name and process id of each part that was not killed.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (String, u32)> {
        self.members.iter().filter(|m| !m.dismissed).map(|m| (m.name.clone(), m.child.id()))
    }

    pub(crate) fn order(&mut self, index: usize, order: Order) {
        let line = serde_json::to_string(&order).unwrap_or_default();
        if let Some(stdin) = self.members.get_mut(index).and_then(|m| m.stdin.as_mut()) {
            let _ = writeln!(stdin, "{line}");
        }
    }

    /// Kills a part, with SIGKILL, and forgets about it.
    pub(crate) fn kill(&mut self, index: usize) {
        if let Some(m) = self.members.get_mut(index) {
            m.dismissed = true;
            let _ = m.child.kill();
            let _ = m.child.wait();
        }
    }

    /// Returns the next message of a part, if it sends one within this time. Fails if any part
    /// fails, with that part's message.
    pub(crate) fn hear(&mut self, index: usize, within: Duration) -> Result<Option<Said>> {
        let end = Instant::now() + within;
        loop {
            if let Some(said) = self.members.get_mut(index).and_then(|m| m.waiting.pop_front()) {
                return Ok(Some(said));
            }
            match self.heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((from, said)) => self.note(from, said)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    fn note(&mut self, from: usize, said: Option<Said>) -> Result<()> {
        let Some(member) = self.members.get_mut(from).filter(|m| !m.dismissed) else {
            return Ok(());
        };
        match said {
            Some(Said::Failed { error }) => {
                bail!("{} failed: {}", member.name, readable(error.as_bytes(), SHOWN))
            }
            Some(said) => member.waiting.push_back(said),
            None => {
                let status = end_of(&mut member.child)
                    .with_context(|| format!("cannot determine how {} ended", member.name))?;
                if !status.success() {
                    bail!("{} ended too early ({status})", member.name);
                }
            }
        }
        Ok(())
    }

    fn name(&self, index: usize) -> String {
        self.members.get(index).map_or_else(String::new, |m| m.name.clone())
    }

    /// Waits until a part is done, and adds its observations: series unchanged, counters to those
    /// of the same name.
    pub(crate) fn finish(
        &mut self,
        index: usize,
        within: Duration,
        into: &mut Observations,
    ) -> Result<()> {
        loop {
            match self.hear(index, within)? {
                Some(Said::Done { observations }) => {
                    merge(observations.read()?, into);
                    return Ok(());
                }
                Some(_) => {}
                None => bail!("{} did not end within {within:?}", self.name(index)),
            }
        }
    }
}

/// Reads a line of a part: a message of this program's own, or an event of a peer's.
fn message(line: &str) -> Option<Said> {
    if let Ok(said) = serde_json::from_str(line) {
        return Some(said);
    }
    match serde_json::from_str(line).ok()? {
        Event::Ready => Some(Said::Ready),
        Event::Idle => None,
        // A keeper reports no ends of a link.
        Event::Done { ends } => {
            let end = ends.into_iter().next();
            let unset = end.as_ref().map(|e| e.unset.clone()).unwrap_or_default();
            let mut observations = end.and_then(|e| e.observations).unwrap_or_default();
            observations.unset.extend(unset);
            Some(Said::Done { observations })
        }
        Event::Failed { error } => Some(Said::Failed { error }),
    }
}

fn merge(o: Observations, into: &mut Observations) {
    for s in o.series {
        into.put(&s.subject, s.quantity, s.points);
    }
    for (name, n) in o.counters {
        *into.counters.entry(name).or_default() += n;
    }
    into.invalid.extend(o.invalid);
    into.unset.extend(o.unset);
}

impl Drop for Children<'_> {
    fn drop(&mut self) {
        for m in &mut self.members {
            let _ = m.child.kill();
            let _ = m.child.wait();
        }
    }
}
