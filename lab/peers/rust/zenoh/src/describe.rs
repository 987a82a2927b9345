// SPDX-License-Identifier: Apache-2.0
//! Description of this peer: its variants, and the configuration of each.

use anyhow::{Result, bail};
use driveline_bench::harness::{Job, PROTOCOL, Reach, Reliability, System};
use driveline_bench::peers::{Description, Setting, Variant, WaitKind};

/// Version that Cargo.toml pins.
const VERSION: &str = "1.10.2";
/// Far below the limit for reassembled messages in Zenoh (`max_message_size`, 1 GiB).
const LARGEST: usize = 256 << 20;

/// Number of batches of 64 KiB that may wait for the link: the most that Zenoh allows.
pub const QUEUE_BATCHES: &str = "16";
/// Size in bytes.
pub const RX_BUFFER: &str = "16777216";

/// Variant of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The bytes travel over TCP.
    Tcp,
    /// Samples are written in shared memory; TCP carries their addresses.
    Shm,
    /// Zenoh copies large samples into shared memory.
    ShmImplicit,
}

impl Carrier {
    const ALL: [Self; 3] = [Self::Tcp, Self::Shm, Self::ShmImplicit];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Shm => "shm",
            Self::ShmImplicit => "shm_implicit",
        }
    }

    /// Returns the variant of a job.
    pub fn of(job: &Job) -> Result<Self> {
        if let System::Peer { variant, .. } = &job.system
            && let Some(carrier) = Self::ALL.into_iter().find(|c| c.name() == variant)
        {
            return Ok(carrier);
        }
        bail!(
            "this program does not carry samples with {}: it has zenoh/tcp, zenoh/shm and \
             zenoh/shm_implicit",
            job.system
        )
    }

    fn title(self) -> &'static str {
        match self {
            Self::Tcp => "peer to peer over TCP on the loopback interface",
            Self::Shm => "samples written and read in shared memory; TCP carries where they lie",
            Self::ShmImplicit => {
                "from 3072 bytes on, Zenoh copies a sample into shared memory and it is read \
                 there; below that, TCP"
            }
        }
    }

    fn note(self) -> &'static str {
        match self {
            Self::Tcp => {
                "samples above 64 KiB arrive in pieces, which are only joined if they are read as \
                 one; best effort loses a sample that takes more than 50 ms to send (tens of MiB)"
            }
            Self::Shm => {
                "loses a sample, reliable ones too, if its sender is held up for 100 ms before it \
                 is read: Zenoh's watchdog takes the memory back"
            }
            Self::ShmImplicit => {
                "if a reading process is held up for 100 ms, Zenoh may reuse memory that is still \
                 read"
            }
        }
    }

    fn settings(self) -> Vec<Setting> {
        let setting = |name: &str, value: &str, why: &str| Setting {
            name: name.into(),
            value: value.into(),
            why: why.into(),
        };
        let mut all = vec![
            setting("mode", "peer", "no router between the ends; the default"),
            setting(
                "listen/endpoints",
                "tcp/127.0.0.1:0; between hosts, the host's address",
                "a single route, and a port that no other process has",
            ),
            setting(
                "scouting/multicast/enabled",
                "false",
                "runs must not meet; the ends find each other through files",
            ),
            setting(
                "scouting/gossip/enabled",
                "false",
                "the sending end, and each stage of a chain, connects to the existing ends; \
                 lowlatency refuses a second link, made by gossip, between the same two ends",
            ),
            setting(
                "express",
                "true",
                "no waiting for more messages to batch, as the documentation recommends for \
                 latency",
            ),
            setting(
                "congestion_control",
                "best effort: drop, reliable: block",
                "what the documentation offers for each; the end mark blocks",
            ),
            setting(
                "channel of the subscriber",
                "best effort: RingChannel(depth), reliable: FifoChannel(depth)",
                "the oldest gives way, or the sender waits",
            ),
            setting(
                "wait: block",
                "recv_timeout on the channel",
                "Zenoh's threads receive and wake the reader; spinning is try_recv in a loop",
            ),
        ];
        let pool = "(depth + 4) × (size + 4096) + 1 MiB; in chains one buffer more for each reader";
        let no_delay = setting(
            "transport/shared_memory/mode",
            "init",
            "no delay at the first sample, as the documentation recommends",
        );
        all.extend(match self {
            Self::Tcp => vec![
                setting("transport/shared_memory/enabled", "false", "as the variant says"),
                setting(
                    "transport/link/tx/queue/size/data",
                    QUEUE_BATCHES,
                    "a large sample is cut into batches of 64 KiB; 1 MiB and more take a third \
                     less time with 16 than with 2",
                ),
                setting(
                    "transport/link/rx/buffer_size",
                    RX_BUFFER,
                    "the value that the \
                     documentation names for large messages",
                ),
                setting(
                    "transport/unicast/lowlatency",
                    "false",
                    "it does not split messages, so \
                     it carries 64 KiB at most; the default",
                ),
            ],
            Self::Shm => vec![
                setting(
                    "transport/shared_memory/enabled",
                    "true",
                    "that each sample came so is \
                     checked",
                ),
                no_delay,
                setting(
                    "transport/unicast/lowlatency",
                    "true",
                    "what travels is small; a quarter less time than without. It has no queue, so \
                     a full link blocks the sender",
                ),
                setting("transport/unicast/qos/enabled", "false", "lowlatency requires it"),
                setting(
                    "ShmProvider",
                    pool,
                    "what readers, their history and the way to them can \
                     hold",
                ),
                setting(
                    "alloc().with_policy",
                    "GarbageCollect, repeated for at most 1 ms (reliable: 5 s)",
                    "as the examples have it, but bounded: as long as Zenoh waits for a place in \
                     its queue",
                ),
                setting(
                    "transport/shared_memory/transport_optimization/enabled",
                    "false",
                    "nothing is left to copy; saves its pool",
                ),
            ],
            Self::ShmImplicit => vec![
                setting(
                    "transport/shared_memory/enabled",
                    "true",
                    "that the other end agreed is \
                     checked before the first sample",
                ),
                no_delay,
                setting(
                    "transport/shared_memory/transport_optimization/enabled",
                    "true",
                    "the default",
                ),
                setting(
                    "transport/shared_memory/transport_optimization/pool_size",
                    pool,
                    "the default of 16 MiB holds three samples of 4 MiB",
                ),
                setting(
                    "transport/shared_memory/transport_optimization/message_size_threshold",
                    "3072",
                    "the default",
                ),
                setting(
                    "transport/unicast/lowlatency",
                    "false",
                    "what finds no memory in the pool \
                     travels over TCP; the default",
                ),
            ],
        });
        all
    }

    fn variant(self) -> Variant {
        Variant {
            name: self.name().into(),
            title: self.title().into(),
            reach: if self == Self::Tcp {
                vec![Reach::Host, Reach::Network]
            } else {
                vec![Reach::Host]
            },
            waits: vec![WaitKind::Block, WaitKind::Spin, WaitKind::SpinThenBlock],
            reliability: vec![Reliability::BestEffort, Reliability::Reliable],
            loans: self == Self::Shm,
            min_size: 32,
            max_size: LARGEST,
            max_subscribers: 64,
            keeper: self != Self::Tcp,
            note: format!(
                "{}; its latency tool, z_ping, is in none of the packages that it publishes",
                self.note()
            ),
            settings: self.settings(),
            ..Variant::default()
        }
    }
}

pub fn describe() -> Description {
    Description {
        protocol: PROTOCOL,
        name: "zenoh".into(),
        title: "Eclipse Zenoh".into(),
        version: VERSION.into(),
        variants: Carrier::ALL.into_iter().map(Carrier::variant).collect(),
    }
}
