// SPDX-License-Identifier: Apache-2.0
//! QoS field of tokens.

use crate::qos::{DurabilityKind, EndpointQos, LivelinessKind};
use driveline_types::Reliability;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

/// Depth if a token states none.
pub const DEFAULT_DEPTH: u32 = 42;
/// Infinite duration in seconds and nanoseconds: 2^63 − 1 nanoseconds.
const INFINITE: (u64, u32) = (9_223_372_036, 854_775_807);

/// QoS of an endpoint as its token states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenQos {
    /// QoS that decides a match in DDS.
    pub endpoint: EndpointQos,
    /// True if all samples are kept, not only the last `depth`.
    pub keep_all: bool,
    /// Number of kept samples.
    pub depth: u32,
    /// Lifespan of samples.
    pub lifespan: Option<Duration>,
}

impl Default for TokenQos {
    fn default() -> Self {
        let endpoint = EndpointQos { reliability: Reliability::Reliable, ..EndpointQos::default() };
        Self { endpoint, keep_all: false, depth: DEFAULT_DEPTH, lifespan: None }
    }
}

/// Returns the value as text, or an empty text for the default.
fn differing<T: PartialEq + Display>(value: T, default: T) -> String {
    if value == default { String::new() } else { value.to_string() }
}

fn time(t: Option<Duration>) -> String {
    let (s, ns) = t.map_or(INFINITE, |t| (t.as_secs(), t.subsec_nanos())).min(INFINITE);
    format!("{},{}", differing(s, INFINITE.0), differing(ns, INFINITE.1))
}

impl Display for TokenQos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EndpointQos { reliability, durability, deadline, liveliness, lease } = self.endpoint;
        let reliability = if reliability == Reliability::Reliable { 1 } else { 2 };
        // rmw_zenoh has no transient or persistent; both include transient local.
        let durability = if durability == DurabilityKind::Volatile { 2 } else { 1 };
        let history = if self.keep_all { 2 } else { 1 };
        let liveliness = match liveliness {
            LivelinessKind::Automatic => 1,
            LivelinessKind::ManualByParticipant => 2,
            LivelinessKind::ManualByTopic => 3,
        };
        write!(
            f,
            "{}:{}:{},{}:{}:{}:{},{}",
            differing(reliability, 1),
            differing(durability, 2),
            differing(history, 1),
            differing(self.depth, DEFAULT_DEPTH),
            time(deadline),
            time(self.lifespan),
            differing(liveliness, 1),
            time(lease)
        )
    }
}

/// Parses a number; an empty text is the default.
fn number<T: FromStr>(text: &str, default: T) -> Option<T> {
    match text {
        "" => Some(default),
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
        _ => None,
    }
}

/// Parses a duration; `None` if malformed. Zero is the default: infinite.
fn duration(s: &str, ns: &str) -> Option<Option<Duration>> {
    let (s, ns) = (number(s, INFINITE.0)?, number(ns, INFINITE.1)?);
    let finite = (s, ns) < INFINITE && (s, ns) != (0, 0);
    (ns < 1_000_000_000).then(|| finite.then(|| Duration::new(s, ns)))
}

impl TokenQos {
    /// Parses the field; `None` if it is malformed.
    #[must_use]
    pub fn parse(field: &str) -> Option<Self> {
        let parts: Vec<&str> = field.split([':', ',']).collect();
        let separators = field.bytes().filter(|b| matches!(b, b':' | b','));
        let [
            reliability,
            durability,
            history,
            depth,
            deadline_s,
            deadline_ns,
            lifespan_s,
            lifespan_ns,
            liveliness,
            lease_s,
            lease_ns,
        ] = parts[..]
        else {
            return None;
        };
        if !separators.eq("::,:,:,:,,".bytes()) {
            return None;
        }
        let endpoint = EndpointQos {
            reliability: match number(reliability, 1)? {
                1 => Reliability::Reliable,
                2 => Reliability::BestEffort,
                _ => return None,
            },
            durability: match number(durability, 2)? {
                1 => DurabilityKind::TransientLocal,
                2 => DurabilityKind::Volatile,
                _ => return None,
            },
            deadline: duration(deadline_s, deadline_ns)?,
            liveliness: match number(liveliness, 1)? {
                1 => LivelinessKind::Automatic,
                2 => LivelinessKind::ManualByParticipant,
                3 => LivelinessKind::ManualByTopic,
                _ => return None,
            },
            lease: duration(lease_s, lease_ns)?,
        };
        let keep_all = match number(history, 1)? {
            1 => false,
            2 => true,
            _ => return None,
        };
        Some(Self {
            endpoint,
            keep_all,
            depth: number(depth, DEFAULT_DEPTH)?,
            lifespan: duration(lifespan_s, lifespan_ns)?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fields_of_rmw_zenoh_are_read_and_written() {
        let default = TokenQos::default();
        let lasting =
            EndpointQos { durability: DurabilityKind::TransientLocal, ..default.endpoint };
        let fast = EndpointQos { reliability: Reliability::BestEffort, ..default.endpoint };
        for (field, qos) in [
            ("::,:,:,:,,", default),
            (":1:,1:,:,:,,", TokenQos { endpoint: lasting, depth: 1, ..default }),
            ("2::,5:,:,:,,", TokenQos { endpoint: fast, depth: 5, ..default }),
            ("::2,:,:,:,,", TokenQos { keep_all: true, ..default }),
        ] {
            assert_eq!((TokenQos::parse(field), qos.to_string().as_str()), (Some(qos), field));
        }
        let said = TokenQos::parse("1:2:1,10:5,0:60,3000:1,0,0").unwrap();
        assert_eq!(
            (said.depth, said.endpoint.deadline, said.endpoint.lease),
            (10, Some(Duration::from_secs(5)), None)
        );
        assert_eq!(said.lifespan, Some(Duration::new(60, 3000)));
    }

    #[test]
    fn malformed_fields_are_refused() {
        for bad in [
            "",
            ":",
            "3::,:,:,:,,",
            ":0:,:,:,:,,",
            "::3,:,:,:,,",
            "::,x:,:,:,,",
            "::,-1:,:,:,,",
            "::,:,:,:4,,",
            "::,:1,1000000000:,:,,",
            "::,:,:,:,,,",
            "::::,,,,,,",
            "::,99999999999:,:,:,,",
        ] {
            assert_eq!(TokenQos::parse(bad), None, "{bad}");
        }
    }

    fn duration() -> impl Strategy<Value = Option<Duration>> {
        prop::option::of(
            (0..INFINITE.0, 1..1_000_000_000_u32).prop_map(|(s, ns)| Duration::new(s, ns)),
        )
    }

    pub(crate) fn any_qos() -> impl Strategy<Value = TokenQos> {
        let liveliness = prop::sample::select(vec![
            LivelinessKind::Automatic,
            LivelinessKind::ManualByParticipant,
            LivelinessKind::ManualByTopic,
        ]);
        (any::<(bool, bool, bool, u32)>(), duration(), duration(), duration(), liveliness).prop_map(
            |((reliable, lasting, keep_all, depth), deadline, lifespan, lease, liveliness)| {
                let reliability =
                    if reliable { Reliability::Reliable } else { Reliability::BestEffort };
                let durability =
                    if lasting { DurabilityKind::TransientLocal } else { DurabilityKind::Volatile };
                TokenQos {
                    endpoint: EndpointQos { reliability, durability, deadline, liveliness, lease },
                    keep_all,
                    depth,
                    lifespan,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn qos_fields_round_trip(qos in any_qos(), noise in "[0-9:,]{0,24}") {
            prop_assert_eq!(TokenQos::parse(&qos.to_string()), Some(qos));
            if let Some(qos) = TokenQos::parse(&noise) {
                prop_assert_eq!(TokenQos::parse(&qos.to_string()), Some(qos));
            }
        }
    }
}
