// SPDX-License-Identifier: Apache-2.0
//! Quality of service, with DDS's names and its rule of request and offer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Behaviour of a publisher towards slow subscriptions.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// Newest wins: samples that a subscription has not read are overwritten and count as missed.
    #[default]
    BestEffort,
    /// The publisher waits, at most `max_blocking_ms`, until every reliable subscription has read
    /// the sample that would be overwritten; then it overwrites the sample and counts a
    /// time-out.
    Reliable,
}

/// Delivery of earlier samples to late subscriptions.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Only samples published after the match.
    #[default]
    Volatile,
    /// Also the last `depth` samples published before the match.
    TransientLocal,
}

/// Way in which a publisher shows that it is alive.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Liveliness {
    /// By its process being alive.
    #[default]
    Automatic,
    /// By publishing, or by asserting its liveliness, at least once per lease.
    ManualByTopic,
}

/// Quality of service of one end. The default is keep-last 1, best effort, volatile.
// A peer ignores keys that it does not know. So later releases may add only policies that an older
// peer may ignore. Graph files are checked against the schema first, which permits no unknown keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Qos {
    /// Keep the last `depth` samples; at least 1. It bounds how far a subscription may lag before
    /// it misses samples.
    #[schemars(range(min = 1, max = Qos::MAX_DEPTH))]
    pub depth: u32,
    /// See [`Reliability`].
    pub reliability: Reliability,
    /// Longest wait of a reliable publish, in milliseconds.
    pub max_blocking_ms: u32,
    /// See [`Durability`].
    pub durability: Durability,
    /// Longest interval between samples, in milliseconds.
    #[schemars(range(min = 1))]
    pub deadline_ms: Option<u32>,
    /// Greatest age of a sample that is delivered, in milliseconds.
    #[schemars(range(min = 1))]
    pub lifespan_ms: Option<u32>,
    /// See [`Liveliness`].
    pub liveliness: Liveliness,
    /// Time without a sign of life from which a publisher counts as not alive, in milliseconds.
    #[schemars(range(min = 1))]
    pub lease_ms: Option<u32>,
    /// Publisher: put an XXH3-64 of the payload into each header. Subscription: match only
    /// publishers that do so, and verify the checksum. Inside a process a
    /// pointer is passed: there the rule of matching is the same, and no checksum is computed.
    pub checksum: bool,
    /// Publisher: its strength as owner of the topic, among several. Subscription: deliver the
    /// strongest publisher's samples alone, whatever the value. In graphs it is the key `strength`
    /// of an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub strength: Option<u32>,
}

impl Default for Qos {
    fn default() -> Self {
        Self {
            depth: 1,
            reliability: Reliability::BestEffort,
            max_blocking_ms: 100,
            durability: Durability::Volatile,
            deadline_ms: None,
            lifespan_ms: None,
            liveliness: Liveliness::Automatic,
            lease_ms: None,
            checksum: false,
            strength: None,
        }
    }
}

/// An offered QoS that does not satisfy a requested one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "topic '{topic}': QoS '{policy}' does not match: the publisher offers {offered}, the \
     subscription requests {requested}; {remedy}"
)]
pub struct QosMismatch {
    /// The topic.
    pub topic: String,
    /// The policy, by its DDS name; `CHECKSUM`, which DDS does not have.
    pub policy: &'static str,
    /// Policy offered by the publisher.
    pub offered: String,
    /// Policy requested by the subscription.
    pub requested: String,
    /// Remedy.
    pub remedy: &'static str,
}

impl Qos {
    /// Greatest history depth that a publisher or subscription may declare.
    pub const MAX_DEPTH: u32 = 1024;

    /// Checks DDS's compatibility rule for a publisher (`self`) and a subscription (`requested`),
    /// and the same rule for checksums. Depth, lifespan, `max_blocking_ms` and strength do not
    /// matter.
    ///
    /// # Errors
    /// [`QosMismatch`] with the first policy that does not match.
    pub fn satisfies(&self, requested: &Qos, topic: &str) -> Result<(), QosMismatch> {
        let refuse = |policy, offered: String, requested: String, remedy| {
            Err(QosMismatch { topic: topic.to_owned(), policy, offered, requested, remedy })
        };
        let ms = |v: Option<u32>| v.map_or("infinite".to_owned(), |v| format!("{v} ms"));
        let longer = |offered: Option<u32>, requested: Option<u32>| {
            requested.is_some_and(|r| offered.is_none_or(|o| o > r))
        };
        if self.reliability < requested.reliability {
            return refuse(
                "RELIABILITY",
                "best_effort".into(),
                "reliable".into(),
                "make the publisher reliable or the subscription best_effort",
            );
        }
        if self.durability < requested.durability {
            return refuse(
                "DURABILITY",
                "volatile".into(),
                "transient_local".into(),
                "make the publisher transient_local or the subscription volatile",
            );
        }
        if longer(self.deadline_ms, requested.deadline_ms) {
            return refuse(
                "DEADLINE",
                ms(self.deadline_ms),
                ms(requested.deadline_ms),
                "let the publisher promise a deadline that is no longer than the requested one",
            );
        }
        if self.liveliness < requested.liveliness {
            return refuse(
                "LIVELINESS",
                "automatic".into(),
                "manual_by_topic".into(),
                "make the publisher manual_by_topic or the subscription automatic",
            );
        }
        if longer(self.lease_ms, requested.lease_ms) {
            return refuse(
                "LIVELINESS lease",
                ms(self.lease_ms),
                ms(requested.lease_ms),
                "let the publisher promise a lease that is no longer than the requested one",
            );
        }
        if requested.checksum && !self.checksum {
            return refuse(
                "CHECKSUM",
                "none".into(),
                "XXH3-64".into(),
                "set `qos.checksum: true` at the publisher or `qos.checksum: false` at the \
                 subscription",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(offer: Qos, request: Qos) -> Option<&'static str> {
        offer.satisfies(&request, "t").err().map(|e| e.policy)
    }

    #[test]
    fn every_policy_matches_one_way_and_not_the_other() {
        let d = Qos::default;
        let cases: [(Qos, &str); 6] = [
            (Qos { reliability: Reliability::Reliable, ..d() }, "RELIABILITY"),
            (Qos { durability: Durability::TransientLocal, ..d() }, "DURABILITY"),
            (Qos { deadline_ms: Some(10), ..d() }, "DEADLINE"),
            (Qos { liveliness: Liveliness::ManualByTopic, ..d() }, "LIVELINESS"),
            (Qos { lease_ms: Some(10), ..d() }, "LIVELINESS lease"),
            (Qos { checksum: true, ..d() }, "CHECKSUM"),
        ];
        for (stronger, policy) in cases {
            assert_eq!(verdict(stronger.clone(), d()), None, "{policy}: a stronger offer is fine");
            assert_eq!(verdict(d(), stronger.clone()), Some(policy));
            assert_eq!(verdict(stronger.clone(), stronger), None);
        }
        assert_eq!(
            verdict(Qos { deadline_ms: Some(20), ..d() }, Qos { deadline_ms: Some(10), ..d() }),
            Some("DEADLINE")
        );
    }

    #[test]
    fn a_refused_checksum_names_topic_both_sides_and_remedy() {
        let text = Qos::default()
            .satisfies(&Qos { checksum: true, ..Qos::default() }, "camera/image")
            .unwrap_err()
            .to_string();
        for part in [
            "'camera/image'",
            "offers none",
            "requests XXH3-64",
            "`qos.checksum: true` at the publisher",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
    }

    #[test]
    fn keys_of_later_releases_are_ignored_but_not_by_the_schema_of_graph_files() {
        let qos: Qos = serde_json::from_str(r#"{"depth": 3, "priority": {"class": 7}}"#).unwrap();
        assert_eq!(qos, Qos { depth: 3, ..Qos::default() });
        let schema = schemars::schema_for!(Qos);
        assert_eq!(
            schema.get("additionalProperties").and_then(serde_json::Value::as_bool),
            Some(false)
        );
    }
}
