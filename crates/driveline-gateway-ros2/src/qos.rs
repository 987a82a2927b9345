// SPDX-License-Identifier: Apache-2.0
//! QoS of DDS endpoints, and the reasons why two of them do not match: section 4 of
//! `docs/protocols/ros2-dds.md`.

use driveline_gateway::ros2::RuleQos;
use driveline_types::{Liveliness, Qos, Reliability};
use std::fmt;
use std::time::Duration;

/// Durability kinds, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "DDS's names")]
pub enum DurabilityKind {
    Volatile,
    TransientLocal,
    Transient,
    Persistent,
}

/// Liveliness kinds, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "DDS's names")]
pub enum LivelinessKind {
    Automatic,
    ManualByParticipant,
    ManualByTopic,
}

/// QoS that decides whether two endpoints match. `None` is an infinite time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointQos {
    /// Reliable or best effort.
    pub reliability: Reliability,
    /// Durability.
    pub durability: DurabilityKind,
    /// Maximum time between two samples.
    pub deadline: Option<Duration>,
    /// Kind of liveliness.
    pub liveliness: LivelinessKind,
    /// Time without a sign of life after which the writer is not alive.
    pub lease: Option<Duration>,
}

impl Default for EndpointQos {
    fn default() -> Self {
        Self {
            reliability: Reliability::BestEffort,
            durability: DurabilityKind::Volatile,
            deadline: None,
            liveliness: LivelinessKind::Automatic,
            lease: None,
        }
    }
}

/// Writes reliability and durability, which explain most mismatches.
impl fmt::Display for EndpointQos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reliability =
            if self.reliability == Reliability::Reliable { "reliable" } else { "best effort" };
        write!(f, "{reliability}, {}", self.durability.to_string().replace('_', " "))
    }
}

/// Policy for which a writer and a reader do not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Name of the policy in DDS.
    pub policy: &'static str,
    /// Policy offered by the writer.
    pub offered: String,
    /// Policy requested by the reader.
    pub requested: String,
    /// Remedy.
    pub remedy: &'static str,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: the writer offers {}, the reader requests {}; {}",
            self.policy, self.offered, self.requested, self.remedy
        )
    }
}

fn time(t: Option<Duration>) -> String {
    t.map_or_else(|| "infinite".to_owned(), |t| format!("{t:?}"))
}

fn reliability(r: Reliability) -> String {
    if r == Reliability::Reliable { "reliable".into() } else { "best_effort".into() }
}

/// Returns all policies for which a writer with `offered` and a reader with `requested` do not
/// match; empty if they match.
#[must_use]
pub fn mismatches(offered: &EndpointQos, requested: &EndpointQos) -> Vec<Mismatch> {
    // `None` is infinite, so longer than any time.
    let longer =
        |a: Option<Duration>, b: Option<Duration>| b.is_some_and(|b| a.is_none_or(|a| a > b));
    let mut found = Vec::new();
    let mut add = |policy, offered, requested, remedy| {
        found.push(Mismatch { policy, offered, requested, remedy })
    };
    if offered.reliability < requested.reliability {
        let remedy = "make the writer reliable (`qos: {reliability: reliable}` in its rule) or the \
             reader best effort";
        add(
            "RELIABILITY",
            reliability(offered.reliability),
            reliability(requested.reliability),
            remedy,
        );
    }
    if offered.durability < requested.durability {
        let remedy = "make the writer transient local (`qos: {durability: transient_local}` in its \
             rule) or the reader volatile";
        add("DURABILITY", offered.durability.to_string(), requested.durability.to_string(), remedy);
    }
    if longer(offered.deadline, requested.deadline) {
        let remedy = "make the writer's deadline at most as long as the reader's, or let the \
             reader request none";
        add("DEADLINE", time(offered.deadline), time(requested.deadline), remedy);
    }
    if offered.liveliness < requested.liveliness {
        let remedy = "make the writer's liveliness manual by topic or the reader's automatic";
        add("LIVELINESS", offered.liveliness.to_string(), requested.liveliness.to_string(), remedy);
    }
    if longer(offered.lease, requested.lease) {
        let remedy = "make the writer's lease at most as long as the reader's, or let the reader \
             request none";
        add("LIVELINESS lease", time(offered.lease), time(requested.lease), remedy);
    }
    found
}

impl fmt::Display for DurabilityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Volatile => "volatile",
            Self::TransientLocal => "transient_local",
            Self::Transient => "transient",
            Self::Persistent => "persistent",
        })
    }
}

impl fmt::Display for LivelinessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Automatic => "automatic",
            Self::ManualByParticipant => "manual_by_participant",
            Self::ManualByTopic => "manual_by_topic",
        })
    }
}

/// Returns the offer of a writer towards ROS 2 for a publisher that offers `publisher`.
#[must_use]
pub fn of_publisher(publisher: &Qos, rule: &RuleQos) -> EndpointQos {
    EndpointQos {
        reliability: rule.reliability.unwrap_or(publisher.reliability),
        durability: durability(rule.durability.unwrap_or(publisher.durability)),
        deadline: milliseconds(rule.deadline_ms.or(publisher.deadline_ms)),
        liveliness: liveliness(rule.liveliness.unwrap_or(publisher.liveliness)),
        lease: milliseconds(rule.lease_ms.or(publisher.lease_ms)),
    }
}

fn milliseconds(ms: Option<u32>) -> Option<Duration> {
    ms.map(|ms| Duration::from_millis(ms.into()))
}

fn liveliness(of: Liveliness) -> LivelinessKind {
    match of {
        Liveliness::Automatic => LivelinessKind::Automatic,
        Liveliness::ManualByTopic => LivelinessKind::ManualByTopic,
    }
}

fn durability(of: driveline_types::Durability) -> DurabilityKind {
    match of {
        driveline_types::Durability::Volatile => DurabilityKind::Volatile,
        driveline_types::Durability::TransientLocal => DurabilityKind::TransientLocal,
    }
}

/// Returns the offer of a remote publisher for a writer that offers `offered` and is read by
/// `class`. A deadline is passed on: the remote publisher's next sample comes when the writer's
/// does. A lease is not: the writer's liveliness is known here only when DDS or Zenoh reports it.
#[must_use]
pub fn of_writer(offered: &EndpointQos, class: ReaderClass, depth: u32) -> Qos {
    // Rounded up to whole milliseconds, so that the publisher does not offer more than the writer.
    let ms = |time: Duration| {
        u32::try_from(time.as_nanos().div_ceil(1_000_000)).ok().map(|ms| ms.max(1))
    };
    Qos {
        depth,
        reliability: class.reliability,
        durability: class.durability,
        deadline_ms: offered.deadline.and_then(ms),
        ..Qos::default()
    }
}

/// Reader of the gateway, by the QoS that it requests from ROS 2 writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderClass {
    /// Reliability.
    pub reliability: Reliability,
    /// Durability.
    pub durability: driveline_types::Durability,
    /// Maximum time between two samples.
    pub deadline: Option<Duration>,
    /// Kind of liveliness.
    pub liveliness: LivelinessKind,
    /// Time without a sign of life after which the writer is not alive.
    pub lease: Option<Duration>,
}

impl ReaderClass {
    /// Returns the class that requests only these two policies.
    #[must_use]
    pub const fn new(reliability: Reliability, durability: driveline_types::Durability) -> Self {
        Self {
            reliability,
            durability,
            deadline: None,
            liveliness: LivelinessKind::Automatic,
            lease: None,
        }
    }

    /// Returns the reader class for a writer. [`lacks`](Self::lacks) returns what the writer does
    /// not offer.
    #[must_use]
    pub fn of_writer(offered: &EndpointQos, rule: &RuleQos) -> Self {
        use driveline_types::Durability::{TransientLocal, Volatile};
        let lasting = offered.durability >= DurabilityKind::TransientLocal;
        Self {
            reliability: rule.reliability.unwrap_or(offered.reliability),
            durability: rule.durability.unwrap_or(if lasting { TransientLocal } else { Volatile }),
            // Requested from writers only if a rule says so.
            deadline: milliseconds(rule.deadline_ms),
            liveliness: liveliness(rule.liveliness.unwrap_or_default()),
            lease: milliseconds(rule.lease_ms),
        }
    }

    /// Returns the policies for which a writer offers less than this reader requests, because a
    /// rule's `qos` asks for more; empty if the writer is read.
    #[must_use]
    pub fn lacks(self, offered: &EndpointQos) -> Vec<Mismatch> {
        let of_rule = |m: Mismatch| {
            let remedy = match m.policy {
                "RELIABILITY" => {
                    "have the node offer it, or take `reliability` out of the rule's `qos`"
                }
                "DURABILITY" => {
                    "have the node offer it, or take `durability` out of the rule's `qos`"
                }
                "DEADLINE" => {
                    "have the node offer it, or take `deadline_ms` out of the rule's `qos`"
                }
                "LIVELINESS" => {
                    "have the node offer it, or take `liveliness` out of the rule's `qos`"
                }
                _ => "have the node offer it, or take `lease_ms` out of the rule's `qos`",
            };
            Mismatch { remedy, ..m }
        };
        mismatches(offered, &self.requests()).into_iter().map(of_rule).collect()
    }

    /// Returns the QoS that a reader of this class requests.
    #[must_use]
    pub fn requests(self) -> EndpointQos {
        let Self { reliability, durability: kind, deadline, liveliness, lease } = self;
        EndpointQos { reliability, durability: durability(kind), deadline, liveliness, lease }
    }
}

#[cfg(test)]
#[path = "qos_tests.rs"]
mod tests;
