// SPDX-License-Identifier: Apache-2.0
//! The two ends of a link.

use crate::describe::Carrier;
use crate::session::pool_size;
use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::{Bytes, BytesMut};
use driveline_bench::harness::{Job, Pace, Payload, Reliability, Role, Wait as Waiting};
use driveline_bench::{Received, Receiver, Sender};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use zenoh::bytes::ZBytes;
use zenoh::handlers::{FifoChannel, FifoChannelHandler, RingChannel, RingChannelHandler};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::{Sample, SampleKind};
use zenoh::shm::{
    GarbageCollect, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder, ShmProviderState, ZAllocError, ZLayoutAllocError, ZShmMut,
};
use zenoh::{Session, Wait};

const SAMPLE: [u8; 8] = *b"drvbench";
const END: [u8; 8] = *b"drvbend!";
/// Mark and number.
pub const HEAD: usize = 16;
/// How long a publication may wait for shared memory, as long as for a place in the queue to the link: Zenoh's own
/// defaults, `wait_before_drop` and `wait_before_close`.
const BEST_EFFORT_PATIENCE: Duration = Duration::from_millis(1);
const RELIABLE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a sender that is done waits for its receivers to be done.
const LINGER: Duration = Duration::from_secs(10);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// For ends to find each other, and for the end mark beyond its schedule.
const MATCH_TIMEOUT: Duration = Duration::from_secs(20);

fn data_key(topic: &str) -> String {
    format!("driveline/data/{topic}")
}

fn sender_key(topic: &str) -> String {
    format!("driveline/senders/{topic}")
}

fn receiver_key(topic: &str, index: &str) -> String {
    format!("driveline/receivers/{topic}/{index}")
}

/// Ends that are alive, by their tokens.
struct Alive {
    keys: Arc<Mutex<HashSet<String>>>,
    _subscriber: Subscriber<()>,
}

impl Alive {
    fn watch(session: &Session, key: String) -> Result<Self> {
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

    fn count(&self) -> usize {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn token(session: &Session, key: String) -> Result<LivelinessToken> {
    session.liveliness().declare_token(key).wait().map_err(|e| anyhow!("cannot say that this end is alive: {e}"))
}

/// Fails if Zenoh has fallen back on TCP where shared memory is to be measured. A low-latency transport cannot be asked
/// (version 1.10.2 panics); there, every sample is looked at.
fn check_transports(session: &Session, carrier: Carrier) -> Result<()> {
    if carrier == Carrier::Shm {
        return Ok(());
    }
    for transport in session.info().transports().wait() {
        ensure!(
            transport.is_shm() == (carrier != Carrier::Tcp),
            "the session to {} {} shared memory, against what was asked for: are both ends built alike, and is /dev/shm writable?",
            transport.zid(),
            if transport.is_shm() { "uses" } else { "does not use" }
        );
    }
    Ok(())
}

/// Where the bytes of samples come from.
enum Source {
    /// A pool of shared memory.
    Pool(ShmProvider<PosixShmProviderBackend>),
    /// One buffer, which is free again once it has been published.
    Buffer(Option<BytesMut>),
    /// A body that all samples share, behind a head of their own: nobody writes to it.
    Body(Bytes),
}

/// Memory for one sample.
pub enum Loan {
    Shared(ZShmMut),
    Buffer(BytesMut),
    /// Nothing but the head will be written.
    Untouched,
}

pub struct Out {
    session: Session,
    key: String,
    publisher: Publisher<'static>,
    source: Source,
    size: usize,
    published: u64,
    carrier: Carrier,
    patience: Duration,
    receivers: Alive,
    /// Whether it is this end that sends last.
    speaks_last: bool,
    _token: LivelinessToken,
}

impl Out {
    pub fn new(session: &Session, carrier: Carrier, job: &Job, topic: &str) -> Result<Self> {
        let (congestion, patience) = match job.reliability {
            Reliability::BestEffort => (CongestionControl::Drop, BEST_EFFORT_PATIENCE),
            Reliability::Reliable => (CongestionControl::Block, RELIABLE_PATIENCE),
        };
        let key = data_key(topic);
        let publisher = session
            .declare_publisher(key.clone())
            .congestion_control(congestion)
            .express(true)
            .wait()
            .map_err(|e| anyhow!("cannot make the publisher: {e}"))?;
        let body = job.size.checked_sub(HEAD).context("a payload is shorter than its head")?;
        let source = match (carrier, job.payload) {
            (Carrier::Shm, _) => {
                let bytes = pool_size(job);
                let pool = ShmProviderBuilder::default_backend(bytes).wait();
                Source::Pool(pool.map_err(|e| {
                    anyhow!("cannot make a pool of {bytes} bytes of shared memory: {e}. Zenoh locks it into memory: see `ulimit -l` and `df /dev/shm`")
                })?)
            }
            (_, Payload::Filled) => Source::Buffer(None),
            // Not zeros, which would be one page of the kernel, over and over.
            (_, Payload::Untouched) => Source::Body(vec![0x5a; body].into()),
        };
        let receivers = Alive::watch(session, receiver_key(topic, "*"))?;
        let token = token(session, sender_key(topic))?;
        Ok(Self {
            session: session.clone(),
            key,
            publisher,
            source,
            size: job.size,
            published: 0,
            carrier,
            patience,
            receivers,
            speaks_last: matches!(job.role, Role::Publisher | Role::Echo),
            _token: token,
        })
    }

    #[inline]
    fn send(&mut self, loan: Loan, mark: [u8; 8]) -> Result<u64, String> {
        let number = self.published + 1;
        let mut head = [0; HEAD];
        let (m, n) = head.split_at_mut(mark.len());
        m.copy_from_slice(&mark);
        n.copy_from_slice(&number.to_le_bytes());
        let mut again = None;
        let payload: ZBytes = match (loan, &self.source) {
            (Loan::Shared(mut buffer), _) => {
                place(&mut buffer, head)?;
                buffer.into()
            }
            (Loan::Buffer(mut buffer), _) => {
                place(&mut buffer, head)?;
                let buffer = buffer.freeze();
                again = Some(buffer.clone());
                buffer.into()
            }
            (Loan::Untouched, Source::Body(body)) => {
                let mut writer = ZBytes::writer();
                writer.write_all(&head).map_err(|e| e.to_string())?;
                writer.append(body.clone().into());
                writer.finish()
            }
            (Loan::Untouched, _) => return Err("this end has no body for untouched samples".into()),
        };
        if mark == END {
            // Whatever the link may lose, not this.
            let put = self.session.put(&self.key, payload).congestion_control(CongestionControl::Block).express(true);
            put.wait().map_err(|e| e.to_string())?;
        } else {
            self.publisher.put(payload).wait().map_err(|e| e.to_string())?;
        }
        if let (Source::Buffer(spare), Some(buffer)) = (&mut self.source, again) {
            *spare = buffer.try_into_mut().ok();
        }
        self.published = number;
        Ok(number)
    }
}

#[inline]
fn place(payload: &mut [u8], head: [u8; HEAD]) -> Result<(), String> {
    *payload.first_chunk_mut().ok_or("a payload is shorter than its head")? = head;
    Ok(())
}

/// Memory of the pool; waits, for a bounded time, until readers give some back.
fn allocate(pool: &ShmProvider<PosixShmProviderBackend>, len: usize, patience: Duration) -> Result<ZShmMut, String> {
    let mut since = None;
    loop {
        match pool.alloc(len).with_policy::<GarbageCollect>().wait() {
            Ok(buffer) => return Ok(buffer),
            Err(ZLayoutAllocError::Alloc(ZAllocError::OutOfMemory | ZAllocError::NeedDefragment)) => {
                if since.get_or_insert_with(Instant::now).elapsed() > patience {
                    return Err("no shared memory was free: readers hold it all".into());
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            Err(e) => return Err(format!("cannot allocate shared memory: {e}")),
        }
    }
}

impl Sender for Out {
    type Loan = Loan;

    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()> {
        wait_until(timeout, || {
            Ok(self.receivers.count() >= receivers && self.publisher.matching_status().wait().is_ok_and(|m| m.matching()))
        })
        .with_context(|| format!("{} of {receivers} subscribers came", self.receivers.count()))?;
        check_transports(&self.session, self.carrier)?;
        if self.carrier == Carrier::ShmImplicit {
            // Until its pool is there, Zenoh sends over TCP.
            wait_until(timeout, || match self.session.get_shm_provider() {
                ShmProviderState::Ready(_) => Ok(true),
                ShmProviderState::Initializing(_) => Ok(false),
                _ => bail!("Zenoh could not make its pool of shared memory, which it locks into memory: see `ulimit -l` and `df /dev/shm`"),
            })
            .context("the pool of shared memory is not there")?;
        }
        Ok(())
    }

    #[inline]
    fn loan(&mut self, len: usize) -> Result<Loan, String> {
        match &mut self.source {
            Source::Pool(pool) => allocate(pool, len, self.patience).map(Loan::Shared),
            Source::Buffer(spare) => {
                let spare = spare.take().filter(|b| b.len() == len);
                Ok(Loan::Buffer(spare.unwrap_or_else(|| BytesMut::zeroed(len))))
            }
            Source::Body(_) => Ok(Loan::Untouched),
        }
    }

    #[inline]
    fn payload(loan: &mut Loan) -> &mut [u8] {
        match loan {
            Loan::Shared(buffer) => buffer,
            Loan::Buffer(buffer) => buffer,
            Loan::Untouched => &mut [],
        }
    }

    #[inline]
    fn publish(&mut self, loan: Loan) -> Result<u64, String> {
        self.send(loan, SAMPLE)
    }

    fn publish_end(&mut self) -> Result<u64, String> {
        let loan = self.loan(self.size)?;
        self.send(loan, END)
    }

    fn wake_calls(&self) -> Option<u64> {
        None
    }
}

impl Drop for Out {
    /// A session that closes drops what it has not sent yet, so the last to speak stays until all have heard it.
    fn drop(&mut self) {
        if self.speaks_last && self.published > 0 {
            // If somebody does not leave, its own timeout tells.
            let _ = wait_until(LINGER, || Ok(self.receivers.count() == 0));
        }
    }
}

enum Samples {
    /// The oldest gives way to the newest.
    Ring(Subscriber<RingChannelHandler<Sample>>),
    /// If it is full, senders wait.
    Fifo(Subscriber<FifoChannelHandler<Sample>>),
}

impl Samples {
    #[inline]
    fn now(&self) -> Result<Option<Sample>> {
        match self {
            Self::Ring(s) => s.try_recv(),
            Self::Fifo(s) => s.try_recv(),
        }
        .map_err(|e| anyhow!("cannot receive: {e}"))
    }

    #[inline]
    fn within(&self, timeout: Duration) -> Result<Option<Sample>> {
        match self {
            Self::Ring(s) => s.recv_timeout(timeout),
            Self::Fifo(s) => s.recv_timeout(timeout),
        }
        .map_err(|e| anyhow!("cannot receive: {e}"))
    }
}

pub struct In {
    session: Session,
    samples: Samples,
    /// What [`Receiver::wait`] has found.
    found: Option<Sample>,
    wait: Waiting,
    longest_wait: Duration,
    last: u64,
    carrier: Carrier,
    senders: Alive,
    _token: LivelinessToken,
}

impl In {
    pub fn new(session: &Session, carrier: Carrier, job: &Job, topic: &str) -> Result<Self> {
        let subscriber = session.declare_subscriber(data_key(topic));
        let refused = |e| anyhow!("cannot make the subscriber: {e}");
        let depth = job.depth.max(1) as usize;
        let samples = match job.reliability {
            Reliability::BestEffort => Samples::Ring(subscriber.with(RingChannel::new(depth)).wait().map_err(refused)?),
            Reliability::Reliable => Samples::Fifo(subscriber.with(FifoChannel::new(depth)).wait().map_err(refused)?),
        };
        let longest_wait = match job.pace {
            Pace::PingPong => ANSWER_TIMEOUT,
            Pace::RateHz(hz) => {
                MATCH_TIMEOUT
                    + ANSWER_TIMEOUT
                    + Duration::try_from_secs_f64(2.0 * (job.warm_up + job.messages) as f64 / hz).context("the rate is no rate")?
            }
        };
        let senders = Alive::watch(session, sender_key(topic))?;
        // After the subscriber: who sees this token knows that one, too.
        let token = token(session, receiver_key(topic, &job.index.to_string()))?;
        Ok(Self { session: session.clone(), samples, found: None, wait: job.wait, longest_wait, last: 0, carrier, senders, _token: token })
    }

    fn missing(&self) -> anyhow::Error {
        anyhow!("nothing came for {:?}: it was lost, or the other end is gone", self.longest_wait)
    }

    /// Looks without sleeping.
    #[inline]
    fn spin(&self, at_most: Duration) -> Result<Option<Sample>> {
        let start = Instant::now();
        loop {
            if let Some(sample) = self.samples.now()? {
                return Ok(Some(sample));
            }
            if start.elapsed() > at_most {
                return Ok(None);
            }
            std::hint::spin_loop();
        }
    }
}

impl Receiver for In {
    type Sample = Taken;

    fn wait_matched(&mut self, timeout: Duration) -> Result<()> {
        wait_until(timeout, || Ok(self.senders.count() > 0)).context("the publisher did not come")?;
        check_transports(&self.session, self.carrier)
    }

    #[inline]
    fn wait(&mut self) -> Result<()> {
        if self.found.is_some() {
            return Ok(());
        }
        let found = match self.wait {
            Waiting::Block => self.samples.within(self.longest_wait)?,
            Waiting::Spin => self.spin(self.longest_wait)?,
            Waiting::SpinThenBlock(us) => match self.spin(Duration::from_micros(us))? {
                Some(sample) => Some(sample),
                None => self.samples.within(self.longest_wait)?,
            },
        };
        self.found = Some(found.ok_or_else(|| self.missing())?);
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> Result<Option<Taken>> {
        let sample = match self.found.take() {
            Some(sample) => sample,
            None => match self.samples.now()? {
                Some(sample) => sample,
                None => return Ok(None),
            },
        };
        if self.carrier == Carrier::Shm {
            ensure!(sample.payload().as_shm().is_some(), "a sample did not come through shared memory");
        }
        let mut head = [0; HEAD];
        sample.payload().reader().read_exact(&mut head).context("a payload is shorter than its head")?;
        let (mark, number) = head.split_at(SAMPLE.len());
        let number = u64::from_le_bytes(number.try_into()?);
        let missed = number.saturating_sub(self.last + 1);
        self.last = number;
        Ok(Some(Taken { number, missed, end: mark == END, sample, joined: OnceCell::new() }))
    }
}

pub struct Taken {
    number: u64,
    missed: u64,
    end: bool,
    sample: Sample,
    /// Pieces of a large sample that came over TCP, joined once somebody wants them so.
    joined: OnceCell<Vec<u8>>,
}

impl Received for Taken {
    #[inline]
    fn sequence(&self) -> u64 {
        self.number
    }

    #[inline]
    fn missed(&self) -> u64 {
        self.missed
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        if let Some(joined) = self.joined.get() {
            return joined;
        }
        match self.sample.payload().to_bytes() {
            Cow::Borrowed(whole) => whole,
            Cow::Owned(joined) => self.joined.get_or_init(|| joined),
        }
    }

    #[inline]
    fn size(&self) -> usize {
        self.sample.payload().len()
    }

    #[inline]
    fn copy_to(&self, target: &mut [u8]) {
        let mut rest = target;
        for piece in self.sample.payload().slices() {
            let (place, after) = std::mem::take(&mut rest).split_at_mut(piece.len());
            place.copy_from_slice(piece);
            rest = after;
        }
    }

    #[inline]
    fn is_end(&self) -> bool {
        self.end
    }
}

fn wait_until(timeout: Duration, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        ensure!(start.elapsed() <= timeout, "not within {timeout:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
