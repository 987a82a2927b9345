// SPDX-License-Identifier: Apache-2.0
//! Text for parts of the reports of gateways.

use crate::text::{count, cut};
use driveline_gateway::{
    HostReport, RemotePublisherReport, RemotePublisherState, Report, RouteReport,
};

/// Number of columns to which names are cut. Other hosts choose these names.
pub(super) const NAME: usize = 80;
/// Number of columns to which a reason that another host gives is cut.
pub(super) const REASON: usize = 800;

/// Formats a node for users; reports contain `?` for an unnamed node.
pub(super) fn node(name: &str) -> String {
    if name == "?" { "a node without a name".to_owned() } else { format!("'{}'", cut(name, NAME)) }
}

/// Samples and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) samples: f64,
    pub(super) bytes: f64,
}

impl Rate {
    pub(super) fn of(
        now: &Report,
        before: &Report,
        samples: (u64, u64),
        bytes: (u64, u64),
    ) -> Self {
        let seconds = now.at_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9;
        let per_second = |(now, before): (u64, u64)| now.saturating_sub(before) as f64 / seconds;
        Self { samples: per_second(samples), bytes: per_second(bytes) }
    }

    pub(super) fn of_edge(e: &RouteReport, now: &Report, before: &Report) -> Self {
        let old = before
            .edges
            .iter()
            .find(|o| o.topic == e.topic && o.to == e.to && o.offered == e.offered)
            .map(|o| o.figures)
            .unwrap_or_default();
        Self::of(now, before, (e.figures.sent, old.sent), (e.figures.sent_bytes, old.sent_bytes))
    }

    pub(super) fn of_inlet(i: &RemotePublisherReport, now: &Report, before: &Report) -> Self {
        let old = before
            .inlets
            .iter()
            .find(|o| o.publisher == i.publisher && o.topic == i.topic)
            .map(|o| o.figures)
            .unwrap_or_default();
        Self::of(
            now,
            before,
            (i.figures.published, old.published),
            (i.figures.published_bytes, old.published_bytes),
        )
    }
}

/// Returns the name of a host without the start number of its gateway.
pub(super) fn short(host: &str) -> String {
    cut(host.split('.').next().unwrap_or(host), NAME)
}

/// Formats a duration in whole seconds, minutes or hours, rounded down.
pub(super) fn seconds(ms: u64) -> String {
    match ms / 1000 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

/// Formats a time that may be negative, in milliseconds.
pub(super) fn ms(ns: i64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// Formats the offset of a host's clock.
pub(super) fn clock(h: &HostReport) -> String {
    match (h.offset_ns, h.offset_error_ns) {
        (Some(offset), Some(error)) => {
            let steps = if h.clock_steps > 0 {
                format!(", stepped {}", count(h.clock_steps, "time"))
            } else {
                String::new()
            };
            format!("{} ± {}{steps}", ms(offset), ms(i64::try_from(error).unwrap_or(i64::MAX)))
        }
        _ => "not measured".into(),
    }
}

/// Lists dropped samples by reason.
pub(super) fn dropped(drops: &[(&str, u64)]) -> String {
    if drops.is_empty() {
        "-".into()
    } else {
        drops
            .iter()
            .map(|(why, n)| format!("{} {n}", cut(why, NAME)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Returns a hint at the option that shows reasons.
pub(super) fn hint(explained: bool) -> &'static str {
    if explained { "" } else { " (`--explain` says why)" }
}

/// Returns the state of a remote publisher.
pub(super) fn inlet_state(state: RemotePublisherState) -> &'static str {
    match state {
        RemotePublisherState::Wanted => "carried",
        RemotePublisherState::NobodySubscribes => "no subscriber here",
        RemotePublisherState::ClockUnknown => "waits for that host's clock",
        RemotePublisherState::HostGone => "host is gone",
        RemotePublisherState::PublisherGone => "publisher is gone",
    }
}
