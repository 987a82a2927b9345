// SPDX-License-Identifier: Apache-2.0
//! Run of a stage.

use crate::driveline_edge::DrivelineEnds;
use crate::edge::{
    Edge, OtherInput, Output, PeerReceiver, PeerSender, Receiving, Sending, account, check,
    content, now,
};
use crate::message::Tally;
use crate::work::{Input, Work};
use crate::{StageReceiver, StageSender};
use anyhow::{Context, Result, bail, ensure};
use driveline_bench::Middleware;
use driveline_bench::chain::StageAccount;
use driveline_bench::harness::{End, Job, Pace, Role};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

const MATCH_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time without a message, at the beginning and later.
const FIRST_LIMIT: Duration = Duration::from_secs(60);
const SILENCE_LIMIT: Duration = Duration::from_secs(20);
/// A source gives up this long after twice the planned duration of its schedule. The remaining
/// samples count as not sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rest of a source before its first message: receivers notice a sender later than it notices them.
const BEFORE_FIRST: Duration = Duration::from_millis(200);
/// Rest before the end mark, so that it replaces no unread message.
const BEFORE_END: Duration = Duration::from_millis(100);
/// Time that a sending end stays after its last message.
const LINGER: Duration = Duration::from_millis(100);

#[derive(Deserialize)]
struct Line {
    stage: Described,
}

#[derive(Deserialize)]
struct Described {
    name: String,
    inputs: Vec<Edge>,
    output: Option<Edge>,
    work: PathBuf,
    #[serde(default)]
    parameters: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    cool_down: u64,
}

/// Stamps of one message: origin, source, published, in hand, start and end of the work, before
/// publishing, returned.
type Row = [u64; 8];

/// Does the job of a stage; `line` has further fields of the job. `ready` is called once its inputs
/// exist and its output is matched.
pub(crate) fn run<M>(job: &Job, line: &str, ready: &dyn Fn()) -> Result<End>
where
    M: Middleware,
    M::Sender: StageSender + 'static,
    M::Receiver: StageReceiver + 'static,
{
    let Line { stage } = serde_json::from_str(line)
        .context("the stage's job is not what docs/protocols/chain.md says")?;
    ensure!(
        !stage.inputs.is_empty() || stage.output.is_some(),
        "the stage '{}' has neither inputs nor an output",
        stage.name
    );
    stage.inputs.iter().chain(&stage.output).try_for_each(check)?;
    let total = job.warm_up + job.messages + stage.cool_down;
    let mut body =
        Body::new(Work::load(&stage.work, &serde_json::to_string(&stage.parameters)?)?, total);
    let mut links = Links::<M> { job, stage: &stage.name, own: None, driveline: None };
    let mut inputs = stage.inputs.iter();
    let trigger = inputs
        .next()
        .map(|edge| Ok::<_, anyhow::Error>((edge, links.receiver(edge)?)))
        .transpose()?;
    let mut others = inputs
        .map(|edge| Ok(OtherInput::new(links.receiver(edge)?, edge)))
        .collect::<Result<Vec<_>>>()?;
    if let Some(edge) = &stage.output {
        let sender = links.sender(edge)?;
        body.output = Some(
            Output::new(sender, edge, MATCH_TIMEOUT)
                .with_context(|| format!("the readers of '{}'", edge.topic))?,
        );
    }
    ready();

    let mut accounts = Vec::new();
    match trigger {
        Some((edge, mut receiver)) => {
            let tally = body.follow(job, receiver.as_mut(), &mut others)?;
            // Giving up is not a failure: the account shows missing messages.
            for other in &mut others {
                other.read_to_end(silence(job))?;
            }
            body.end()?;
            accounts.push(account(&edge.topic, &tally));
            accounts.extend(others.iter().map(OtherInput::account));
            // The sender is closed before the receivers. It may stay until its readers are gone.
            // So the stages of a chain close one after the other, from the sink to the source.
            let end = body.finish(job, &stage.name, accounts)?;
            drop((receiver, others));
            Ok(end)
        }
        None => {
            body.produce(job, total)?;
            body.end()?;
            body.finish(job, &stage.name, accounts)
        }
    }
}

/// Maximum time since the last message.
fn silence(job: &Job) -> Duration {
    let hz = match job.pace {
        Pace::RateHz(hz) => hz,
        Pace::PingPong => 1000.0,
    };
    SILENCE_LIMIT + Duration::try_from_secs_f64(2.0 / hz).unwrap_or(SILENCE_LIMIT)
}

/// Returns the job of a link that corresponds to this edge.
fn job_of(job: &Job, edge: &Edge) -> Job {
    Job {
        topic: edge.topic.clone(),
        size: edge.size,
        subscribers: edge.readers,
        index: edge.index,
        ..job.clone()
    }
}

/// The process's objects of each middleware that carries one of its edges.
struct Links<'a, M> {
    job: &'a Job,
    stage: &'a str,
    own: Option<M>,
    driveline: Option<DrivelineEnds>,
}

impl<M> Links<'_, M>
where
    M: Middleware,
    M::Sender: StageSender + 'static,
    M::Receiver: StageReceiver + 'static,
{
    fn sender(&mut self, edge: &Edge) -> Result<Box<dyn Sending>> {
        if self.is_own(edge)? {
            let job = job_of(self.job, edge);
            let sender = self.own()?.sender(&job, &edge.topic)?;
            return Ok(Box::new(PeerSender::new(sender, edge.size)));
        }
        let job = self.job;
        Ok(Box::new(self.driveline()?.sender(job, edge)?))
    }

    fn receiver(&mut self, edge: &Edge) -> Result<Box<dyn Receiving>> {
        if self.is_own(edge)? {
            let job = job_of(self.job, edge);
            return Ok(Box::new(PeerReceiver(self.own()?.receiver(&job, &edge.topic)?)));
        }
        let job = self.job;
        Ok(Box::new(self.driveline()?.receiver(job, edge)?))
    }

    fn is_own(&self, edge: &Edge) -> Result<bool> {
        let own = self.job.system.to_string();
        if edge.system != own && edge.system != "driveline" {
            bail!(
                "the edge '{}' is to be carried by {}, but this program carries {own} and \
                 driveline",
                edge.topic,
                edge.system
            );
        }
        Ok(edge.system == own)
    }

    fn own(&mut self) -> Result<&M> {
        let own = match self.own.take() {
            Some(own) => own,
            None => M::join(self.job, self.stage)?,
        };
        Ok(self.own.insert(own))
    }

    fn driveline(&mut self) -> Result<&DrivelineEnds> {
        let driveline = match self.driveline.take() {
            Some(driveline) => driveline,
            None => DrivelineEnds::join(self.job, self.stage)?,
        };
        Ok(self.driveline.insert(driveline))
    }
}

/// A work with its measurements.
struct Body {
    work: Work,
    output: Option<Output>,
    rows: Vec<Row>,
    stage: StageAccount,
    end: End,
}

impl Body {
    fn new(work: Work, total: u64) -> Self {
        // Touched, so that no page of it is mapped during the measurement.
        let mut rows = vec![[1; 8]; total as usize + 1];
        rows.clear();
        Self {
            work,
            output: None,
            rows,
            stage: StageAccount::default(),
            end: End::new(Role::Stage, 0),
        }
    }

    /// Works, publishes, and records the stamps. `row` has the stamps up to `in_hand`.
    fn work(&mut self, mut row: Row, inputs: &[Input<'_>]) -> Result<()> {
        self.stage.worked += 1;
        row[4] = now();
        row[5] = row[4];
        if let Err(reason) = self.try_to_work(&mut row, inputs)? {
            *self.end.not_sent.entry(reason).or_default() += 1;
        }
        if self.rows.len() < self.rows.capacity() {
            self.rows.push(row);
        }
        Ok(())
    }

    /// Fails if the work fails. Returns a reason if there was no memory for the message, or if it
    /// could not be sent.
    fn try_to_work(&mut self, row: &mut Row, inputs: &[Input<'_>]) -> Result<Result<(), String>> {
        let place = match self.output.as_mut().map(Output::content).transpose() {
            Ok(place) => place,
            Err(reason) => return Ok(Err(reason)),
        };
        let written = self.work.process(row[0], inputs, place)?;
        row[5] = now();
        let Some(output) = &mut self.output else { return Ok(Ok(())) };
        let Some(written) = written else {
            self.stage.no_output += 1;
            return Ok(Ok(()));
        };
        let sent = output.publish(row[0], (row[1] > 0).then_some(row[1]), written);
        Ok(sent.map(|(before, returned)| {
            (row[6], row[7]) = (before, returned);
            if row[1] == 0 {
                row[1] = before;
            }
        }))
    }

    fn produce(&mut self, job: &Job, total: u64) -> Result<()> {
        std::thread::sleep(BEFORE_FIRST);
        let start = now() + 1_000_000;
        let due = |i: u64| match job.pace {
            Pace::RateHz(hz) => start + (i as f64 * 1e9 / hz) as u64,
            Pace::PingPong => now(),
        };
        let give_up = match job.pace {
            Pace::RateHz(_) => start + 2 * (due(total) - start) + PATIENCE.as_nanos() as u64,
            Pace::PingPong => u64::MAX,
        };
        for i in 0..total {
            if now() > give_up {
                *self
                    .end
                    .not_sent
                    .entry("the source fell behind its schedule for too long".into())
                    .or_default() += total - i;
                self.stage.worked += total - i;
                break;
            }
            let at = due(i);
            driveline_bench::sleep_until(at);
            self.work([i + 1, 0, 0, at, 0, 0, 0, 0], &[])?;
        }
        std::thread::sleep(BEFORE_END);
        Ok(())
    }

    /// Works on every message of the first input, until the end mark or until no more messages
    /// come. Skips messages until each of the other inputs has a message.
    fn follow(
        &mut self,
        job: &Job,
        receiver: &mut dyn Receiving,
        others: &mut [OtherInput],
    ) -> Result<Tally> {
        let mut tally = Tally::new();
        let mut deadline = now() + FIRST_LIMIT.as_nanos() as u64;
        while !tally.has_ended {
            let Some(left) = deadline.checked_sub(now()) else { break };
            receiver.wait(Duration::from_nanos(left))?;
            let came = receiver.take(&mut |in_hand, payload| {
                let Some(head) = tally.note(payload).filter(|h| !h.is_end) else { return Ok(()) };
                for other in others.iter_mut() {
                    other.poll()?;
                }
                let first = Input {
                    content: content(payload, &head),
                    origin: head.origin,
                    source_time_ns: head.source_time_ns,
                };
                let given: Option<Vec<Input<'_>>> = std::iter::once(Some(first))
                    .chain(others.iter().map(OtherInput::input))
                    .collect();
                match given {
                    Some(given) => self.work(
                        [
                            head.origin,
                            head.source_time_ns,
                            head.publish_time_ns,
                            in_hand,
                            0,
                            0,
                            0,
                            0,
                        ],
                        &given,
                    ),
                    None => {
                        self.stage.skipped += 1;
                        Ok(())
                    }
                }
            })?;
            if came {
                deadline = now() + silence(job).as_nanos() as u64;
            }
        }
        Ok(tally)
    }

    fn end(&mut self) -> Result<()> {
        if let Some(output) = &mut self.output {
            output.end()?;
            std::thread::sleep(LINGER);
        }
        Ok(())
    }

    /// Writes the stamps, and closes the sending end.
    fn finish(
        mut self,
        job: &Job,
        name: &str,
        inputs: Vec<driveline_bench::chain::InputAccount>,
    ) -> Result<End> {
        let path = job.raw_dir.join(format!("{name}.stage"));
        let bytes: Vec<u8> =
            self.rows.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(&path, bytes)
            .with_context(|| format!("cannot write the stamps to {}", path.display()))?;
        self.stage.rows_file = path;
        self.stage.inputs = inputs;
        self.stage.report = serde_json::from_str(&self.work.report()?)
            .context("the work's report is no object of names and whole numbers")?;
        self.end.published = self.output.as_ref().map_or(0, Output::published);
        self.end.stage = Some(self.stage);
        Ok(self.end)
    }
}
