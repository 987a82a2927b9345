// SPDX-License-Identifier: Apache-2.0
//! The sending end, and the memory of its samples.

use crate::describe::Carrier;
use crate::link::{
    Alive, END, HEAD, SAMPLE, check_transports, data_key, receiver_key, sender_key, token,
    wait_until,
};
use crate::session::pool_size;
use anyhow::{Context, Result, anyhow, bail};
use bytes::{Bytes, BytesMut};
use driveline_bench::Sender;
use driveline_bench::harness::{Job, Payload, Reliability, Role};
use driveline_peer_stage::StageSender;
use std::io::Write;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;
use zenoh::shm::{
    GarbageCollect, OwnedShmBuf, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder,
    ShmProviderState, ZAllocError, ZLayoutAllocError, ZShmMut,
};
use zenoh::{Session, Wait};

/// Maximum wait for shared memory for a sample. For a place in the queue of the link, Zenoh waits
/// as long: its defaults of `wait_before_drop` and `wait_before_close`.
const BEST_EFFORT_PATIENCE: Duration = Duration::from_millis(1);
const RELIABLE_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time that a finished sender waits for its receivers to finish.
const LINGER: Duration = Duration::from_secs(10);

/// Source of the bytes of samples.
enum Source {
    /// A pool of shared memory.
    Pool(ShmProvider<PosixShmProviderBackend>),
    /// One buffer, which is used again if Zenoh has no reference to it after the publication.
    Buffer(Option<BytesMut>),
    /// A body that all samples share, after their own heads. It is never written to.
    Body(Bytes),
}

/// Memory for one sample.
pub enum Loan {
    Shared(ZShmMut),
    Buffer(BytesMut),
    /// Only the head will be written.
    Untouched,
}

pub struct Out {
    session: Session,
    key: String,
    publisher: Publisher<'static>,
    source: Source,
    published: u64,
    carrier: Carrier,
    patience: Duration,
    receivers: Alive,
    /// `true` if this end sends the last message of the run on its link: the end mark.
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
                    anyhow!(
                        "cannot make a pool of {bytes} bytes of shared memory: {e}. Zenoh \
                         locks it into memory: see `ulimit -l` and `df /dev/shm`"
                    )
                })?)
            }
            (_, Payload::Filled) => Source::Buffer(None),
            // Not zeros: all zero pages would be the same page of the kernel.
            (_, Payload::Untouched) => Source::Body(vec![0x5a; body].into()),
        };
        let receivers = Alive::watch(session, receiver_key(topic, "*"))?;
        let token = token(session, sender_key(topic))?;
        Ok(Self {
            session: session.clone(),
            key,
            publisher,
            source,
            published: 0,
            carrier,
            patience,
            receivers,
            speaks_last: matches!(job.role, Role::Publisher | Role::Ping | Role::Stage),
            _token: token,
        })
    }

    /// Sends the end mark. It must not be lost, whatever the link may lose. It consists only of a
    /// head and blocks the sender if necessary. It is not in shared memory, because Zenoh drops
    /// messages there if a stopped process wrote them.
    fn put_last(&mut self, message: Vec<u8>) -> Result<u64, String> {
        let put = self
            .session
            .put(&self.key, message)
            .congestion_control(CongestionControl::Block)
            .express(true);
        put.wait().map_err(|e| e.to_string())?;
        self.published += 1;
        Ok(self.published)
    }
}

#[inline]
fn head(mark: [u8; 8], number: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let (m, n) = head.split_at_mut(mark.len());
    m.copy_from_slice(&mark);
    n.copy_from_slice(&number.to_le_bytes());
    head
}

#[inline]
fn place(payload: &mut [u8], head: [u8; HEAD]) -> Result<(), String> {
    *payload.first_chunk_mut().ok_or("a payload is shorter than its head")? = head;
    Ok(())
}

/// Allocates memory of the pool. Waits, for a bounded time, until readers release some.
fn allocate(
    pool: &ShmProvider<PosixShmProviderBackend>,
    len: usize,
    patience: Duration,
) -> Result<ZShmMut, String> {
    let mut since = None;
    loop {
        match pool.alloc(len).with_policy::<GarbageCollect>().wait() {
            Ok(buffer) => return Ok(buffer),
            Err(ZLayoutAllocError::Alloc(
                ZAllocError::OutOfMemory | ZAllocError::NeedDefragment,
            )) => {
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
            Ok(self.receivers.count() >= receivers
                && self.publisher.matching_status().wait().is_ok_and(|m| m.matching()))
        })
        .with_context(|| format!("{} of {receivers} subscribers came", self.receivers.count()))?;
        check_transports(&self.session, self.carrier)?;
        if self.carrier == Carrier::ShmImplicit {
            // Until its pool exists, Zenoh sends over TCP.
            wait_until(timeout, || match self.session.get_shm_provider() {
                ShmProviderState::Ready(_) => Ok(true),
                ShmProviderState::Initializing(_) => Ok(false),
                _ => bail!(
                    "Zenoh could not make its pool of shared memory, which it locks into \
                     memory: see `ulimit -l` and `df /dev/shm`"
                ),
            })
            .context("the pool of shared memory is not ready")?;
        }
        Ok(())
    }

    #[inline]
    fn loan(&mut self, len: usize) -> Result<Loan, String> {
        match &mut self.source {
            Source::Pool(pool) => allocate(pool, len, self.patience).map(Loan::Shared),
            Source::Buffer(spare) => {
                let mut buffer = spare
                    .take()
                    .filter(|b| b.capacity() >= len)
                    .unwrap_or_else(|| BytesMut::zeroed(len));
                // A shortened buffer still has its capacity. If the length is unchanged, nothing is
                // written.
                buffer.resize(len, 0);
                Ok(Loan::Buffer(buffer))
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
        let number = self.published + 1;
        let head = head(SAMPLE, number);
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
        self.publisher.put(payload).wait().map_err(|e| e.to_string())?;
        if let (Source::Buffer(spare), Some(buffer)) = (&mut self.source, again) {
            *spare = buffer.try_into_mut().ok();
        }
        self.published = number;
        Ok(number)
    }

    #[inline]
    fn answer(&mut self, loan: Loan, question: u64) -> Result<u64, String> {
        self.published = question;
        self.publish(loan)
    }

    fn publish_end(&mut self) -> Result<u64, String> {
        self.put_last(head(END, self.published + 1).to_vec())
    }

    fn wake_calls(&self) -> Option<u64> {
        None
    }
}

impl StageSender for Out {
    fn shorten(loan: &mut Loan, len: usize) {
        match loan {
            Loan::Shared(buffer) => {
                // Never longer than the buffer, so it cannot fail. If it did, only more bytes would
                // be sent.
                let _ = NonZeroUsize::new(len).and_then(|len| buffer.try_resize(len));
            }
            Loan::Buffer(buffer) => buffer.truncate(len),
            Loan::Untouched => {}
        }
    }

    fn publish_last(&mut self, message: &[u8]) -> Result<u64, String> {
        self.put_last(message.to_vec())
    }
}

impl Drop for Out {
    /// A session that closes drops unsent messages. So the sender of the end mark stays until all
    /// receivers have left, at most for `LINGER`.
    fn drop(&mut self) {
        if self.speaks_last && self.published > 0 {
            // If a receiver does not leave, its own timeout reports it.
            let _ = wait_until(LINGER, || Ok(self.receivers.count() == 0));
        }
    }
}
