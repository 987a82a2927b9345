// SPDX-License-Identifier: Apache-2.0
//! Eclipse iceoryx2, as its examples use it: publish-subscribe for the data, and for a sleeping
//! reader an additional event service, notified after each sample. A spinning reader polls the
//! subscriber.

use anyhow::{Context, Result, anyhow, bail};
use driveline_bench::harness::{Job, PROTOCOL, Reach, Reliability, Wait};
use driveline_bench::peers::{Description, Setting, Variant, WaitKind};
use driveline_bench::{Middleware, Received, Receiver, Sender};
use driveline_peer_stage::{StageReceiver, StageSender};
use iceoryx2::port::listener::{Listener, ListenerWaitError};
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::sample::Sample;
use iceoryx2::sample_mut::SampleMut;
use iceoryx2::service::port_factory::event::PortFactory as EventService;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory as DataService;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Version that Cargo.toml pins.
const VERSION: &str = "0.10.0";
const SAMPLE: [u8; 8] = *b"drvbench";
const END: [u8; 8] = *b"drvbend!";
/// Size of mark and number.
const HEAD: usize = 16;
const LARGEST: usize = 256 << 20;
/// Maximum sleep in [`Receiver::wait`] before the reader checks for samples again, even without a
/// notification.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Number of polls of a spinning reader between two reads of the clock, which cost as much as a
/// poll.
const LOOKS_PER_CLOCK: u32 = 64;

type Ipc = ipc::Service;

fn main() -> ExitCode {
    set_log_level(LogLevel::Error);
    driveline_peer_stage::program::<Ends>(describe)
}

fn describe() -> Description {
    let setting = |name: &str, value: &str, why: &str| Setting {
        name: name.into(),
        value: value.into(),
        why: why.into(),
    };
    let variant = Variant {
        name: "ipc".into(),
        title: "publish-subscribe over shared memory; event service for sleeping readers, polling \
             for spinning ones"
            .into(),
        reach: vec![Reach::Host],
        waits: vec![WaitKind::Block, WaitKind::Spin],
        reliability: vec![Reliability::BestEffort],
        loans: true,
        min_size: 32,
        max_size: LARGEST,
        max_subscribers: 64,
        keeper: true,
        note: "its benchmarks come with its source only, not with the crate".into(),
        settings: vec![
            setting(
                "service",
                "ipc::Service",
                "the variant for one process per end; the \
                 thread-safe one is slower",
            ),
            setting(
                "loan",
                "loan_slice_uninit",
                "no initialisation of memory that is overwritten, \
                 as the documentation recommends",
            ),
            setting(
                "enable_safe_overflow",
                "true",
                "the oldest sample gives way, as with \
                 keep-last; the default",
            ),
            setting("subscriber_max_buffer_size", "depth", "the history depth of the job"),
            setting("subscriber_max_borrowed_samples", "2", "one in hand, one on its way"),
            setting(
                "wake-up",
                "one notify() after each send() where readers sleep, none where \
                 they poll",
                "the event-based example",
            ),
        ],
        ..Variant::default()
    };
    Description {
        protocol: PROTOCOL,
        name: "iceoryx2".into(),
        title: "Eclipse iceoryx2".into(),
        version: VERSION.into(),
        variants: vec![variant],
    }
}

/// Configuration from which each end makes a node of its own: nodes cannot move between threads.
struct Ends {
    config: Config,
}

/// Prefix of this run's names: shared memory has one flat name space.
fn prefix(job: &Job) -> String {
    let mut hasher = DefaultHasher::new();
    job.domain_dir.hash(&mut hasher);
    format!("drv{:08x}_", hasher.finish() as u32)
}

fn failed<E: std::fmt::Debug>(what: &'static str) -> impl FnOnce(E) -> anyhow::Error {
    move |e| anyhow!("{what}: {e:?}")
}

/// Sleeps until a notification comes, until the process is stopped and continued, or for `longest`.
/// A sleeping reader checks again in any case.
fn sleep(listener: &Listener<Ipc>, longest: Duration) -> Result<()> {
    match listener.timed_wait(|_| (), longest) {
        Ok(_) | Err(ListenerWaitError::InterruptSignal) => Ok(()),
        Err(e) => Err(failed("cannot wait")(e)),
    }
}

impl Ends {
    fn services(&self, job: &Job, topic: &str) -> Result<Services> {
        let node = NodeBuilder::new()
            .config(&self.config)
            .create::<Ipc>()
            .map_err(failed("cannot make a node"))?;
        let name: ServiceName = topic.try_into().map_err(failed("the topic is no service name"))?;
        let readers = if topic.ends_with("/pong") { 1 } else { job.subscribers.max(1) };
        let data = node
            .service_builder(&name)
            .publish_subscribe::<[u8]>()
            .max_publishers(1)
            .max_subscribers(readers)
            .max_nodes(readers + 1)
            .enable_safe_overflow(true)
            .subscriber_max_buffer_size(job.depth as usize)
            .subscriber_max_borrowed_samples(2)
            .history_size(0)
            .open_or_create()
            .map_err(failed("cannot open the publish-subscribe service"))?;
        let event = match job.wait {
            Wait::Block => Some(
                node.service_builder(&name)
                    .event()
                    .max_notifiers(1)
                    .max_listeners(readers)
                    .max_nodes(readers + 1)
                    .open_or_create()
                    .map_err(failed("cannot open the event service"))?,
            ),
            Wait::Spin => None,
            Wait::SpinThenBlock(_) => bail!("this peer does not spin before it sleeps"),
        };
        Ok(Services { data, event, _node: node })
    }
}

struct Services {
    data: DataService<Ipc, [u8], ()>,
    event: Option<EventService<Ipc>>,
    _node: Node<Ipc>,
}

impl Middleware for Ends {
    type Sender = Out;
    type Receiver = In;

    fn join(job: &Job, _name: &str) -> Result<Self> {
        let mut config = Config::default();
        // Names of sockets are limited in length, so the default root directory is kept instead of
        // the job's, and the runs differ in the prefix.
        let prefix = prefix(job);
        config.global.prefix =
            prefix.as_str().try_into().map_err(failed("the prefix is no file name"))?;
        Ok(Self { config })
    }

    /// Removes the segment that iceoryx2 otherwise keeps for each prefix forever.
    fn remove_leftovers(job: &Job) -> Result<()> {
        let prefix = prefix(job);
        for entry in std::fs::read_dir("/dev/shm").context("cannot read /dev/shm")? {
            let entry = entry.context("cannot read /dev/shm")?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                std::fs::remove_file(entry.path())
                    .with_context(|| format!("cannot remove {}", entry.path().display()))?;
            }
        }
        Ok(())
    }

    fn for_thread(&self, _name: &str) -> Result<Self> {
        Ok(Self { config: self.config.clone() })
    }

    fn sender(&self, job: &Job, topic: &str) -> Result<Out> {
        let services = self.services(job, topic)?;
        let builder =
            services.data.publisher_builder().max_loaned_samples(1).initial_max_slice_len(job.size);
        let publisher = builder.create().map_err(failed("cannot make the publisher"))?;
        let notifier = match &services.event {
            Some(event) => Some(
                event.notifier_builder().create().map_err(failed("cannot make the notifier"))?,
            ),
            None => None,
        };
        Ok(Out { publisher, notifier, published: 0, size: job.size, services })
    }

    fn receiver(&self, job: &Job, topic: &str) -> Result<In> {
        let services = self.services(job, topic)?;
        let listener = match &services.event {
            Some(event) => Some(
                event.listener_builder().create().map_err(failed("cannot make the listener"))?,
            ),
            None => None,
        };
        let builder = services.data.subscriber_builder().buffer_size(job.depth as usize);
        let subscriber = builder.create().map_err(failed("cannot make the subscriber"))?;
        Ok(In { subscriber, listener, last: 0, services })
    }
}

struct Out {
    publisher: Publisher<Ipc, [u8], ()>,
    notifier: Option<Notifier<Ipc>>,
    published: u64,
    size: usize,
    services: Services,
}

impl Out {
    #[inline]
    fn send(&mut self, mut loan: SampleMut<Ipc, [u8], ()>, mark: [u8; 8]) -> Result<u64, String> {
        let number = self.published + 1;
        if let Some((head, _)) = loan.payload_mut().split_at_mut_checked(HEAD) {
            head[..8].copy_from_slice(&mark);
            head[8..].copy_from_slice(&number.to_le_bytes());
        }
        loan.send().map_err(|e| format!("{e:?}"))?;
        if let Some(notifier) = &self.notifier {
            notifier.notify().map_err(|e| format!("{e:?}"))?;
        }
        self.published = number;
        Ok(number)
    }
}

impl Sender for Out {
    type Loan = SampleMut<Ipc, [u8], ()>;

    fn wait_matched(&mut self, receivers: usize, timeout: Duration) -> Result<()> {
        let sleeping =
            |event: &EventService<Ipc>| event.dynamic_config().number_of_listeners() >= receivers;
        wait_until(timeout, "subscribers", || {
            self.services.data.dynamic_config().number_of_subscribers() >= receivers
                && self.services.event.as_ref().is_none_or(sleeping)
        })
    }

    #[inline]
    fn loan(&mut self, len: usize) -> Result<Self::Loan, String> {
        let loan = self.publisher.loan_slice_uninit(len).map_err(|e| format!("{e:?}"))?;
        // SAFETY: the bytes lie in mapped shared memory, which the kernel has zeroed or an earlier
        // sample has filled.
        Ok(unsafe { loan.assume_init() })
    }

    #[inline]
    fn payload(loan: &mut Self::Loan) -> &mut [u8] {
        loan.payload_mut()
    }

    #[inline]
    fn publish(&mut self, loan: Self::Loan) -> Result<u64, String> {
        self.send(loan, SAMPLE)
    }

    #[inline]
    fn answer(&mut self, loan: Self::Loan, question: u64) -> Result<u64, String> {
        self.published = question;
        self.publish(loan)
    }

    fn publish_end(&mut self) -> Result<u64, String> {
        let loan = self.loan(self.size)?;
        self.send(loan, END)
    }

    fn wake_calls(&self) -> Option<u64> {
        None
    }
}

/// Messages sent with `publish` keep the size of the edge, because shared memory is sent by its
/// address, which costs the same for any length. So `shorten` is not implemented.
impl StageSender for Out {
    fn publish_last(&mut self, message: &[u8]) -> Result<u64, String> {
        let mut loan = self.loan(message.len())?;
        loan.payload_mut().copy_from_slice(message);
        self.send(loan, END)
    }
}

struct In {
    subscriber: Subscriber<Ipc, [u8], ()>,
    listener: Option<Listener<Ipc>>,
    last: u64,
    services: Services,
}

impl Receiver for In {
    type Sample = Taken;

    fn wait_matched(&mut self, timeout: Duration) -> Result<()> {
        wait_until(timeout, "the publisher", || {
            self.services.data.dynamic_config().number_of_publishers() > 0
        })
    }

    #[inline]
    fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        let start = Instant::now();
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                if self.subscriber.has_samples().map_err(failed("cannot poll for samples"))? {
                    return Ok(());
                }
                match &self.listener {
                    Some(listener) => {
                        let longest = limit.map_or(LONGEST_SLEEP, |l| {
                            l.saturating_sub(start.elapsed()).min(LONGEST_SLEEP)
                        });
                        sleep(listener, longest)?;
                        break;
                    }
                    None => std::hint::spin_loop(),
                }
            }
            if limit.is_some_and(|l| start.elapsed() >= l) {
                return Ok(());
            }
        }
    }

    #[inline]
    fn take(&mut self) -> Result<Option<Taken>> {
        let Some(sample) = self.subscriber.receive().map_err(failed("cannot receive"))? else {
            return Ok(None);
        };
        let head =
            sample.payload().first_chunk::<HEAD>().context("a payload is shorter than its head")?;
        let (mark, number) = head.split_at(8);
        let number = u64::from_le_bytes(number.try_into()?);
        let missed = number.saturating_sub(self.last + 1);
        self.last = number;
        Ok(Some(Taken { number, missed, end: mark == END, sample }))
    }
}

impl StageReceiver for In {
    fn wait_at_most(&mut self, limit: Duration) -> Result<()> {
        if limit.is_zero() {
            // Notifications of an input without a sleeping reader must not pile up.
            if let Some(listener) = &self.listener {
                listener.try_wait(|_| ()).map_err(failed("cannot poll for notifications"))?;
            }
            return Ok(());
        }
        let start = Instant::now();
        while !self.subscriber.has_samples().map_err(failed("cannot poll for samples"))? {
            let Some(left) = limit.checked_sub(start.elapsed()).filter(|left| !left.is_zero())
            else {
                break;
            };
            match &self.listener {
                Some(listener) => {
                    sleep(listener, left)?;
                }
                None => std::hint::spin_loop(),
            }
        }
        Ok(())
    }
}

struct Taken {
    number: u64,
    missed: u64,
    end: bool,
    sample: Sample<Ipc, [u8], ()>,
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
        self.sample.payload()
    }

    #[inline]
    fn is_end(&self) -> bool {
        self.end
    }
}

fn wait_until(timeout: Duration, whom: &str, mut condition: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > timeout {
            bail!("{whom} did not come within {timeout:?}");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
