// SPDX-License-Identifier: Apache-2.0
//! Inputs that brought the oldest data.

use super::StageSeries;
use crate::records::{StageInput, StageRecord};
use driveline_types::header::Arrival;
use driveline_types::{MonotonicNs, TopicId};

/// Maximum number of pairs of origin and input kept for a stage: every input can carry every
/// origin.
const MAX_CARRIERS: usize = 512;

impl StageSeries {
    /// Notes, for each origin, which input brought the oldest data. Among inputs with equally old
    /// data, the first one counts, as in lineages.
    pub(crate) fn note_carriers(&mut self, record: &StageRecord<'_>) {
        let mut oldest: Vec<(TopicId, MonotonicNs, i64, &StageInput<'_>)> = Vec::with_capacity(4);
        for input in record.inputs {
            for origin in input.header.origins.as_slice() {
                match oldest.iter_mut().find(|(topic, ..)| *topic == origin.topic) {
                    Some(have) if origin.source_oldest.signed() < have.1.signed() => {
                        *have = (origin.topic, origin.source_oldest, origin.idle_ns, input)
                    }
                    Some(_) => {}
                    None => {
                        oldest.push((origin.topic, origin.source_oldest, origin.idle_ns, input))
                    }
                }
            }
        }
        for (origin, _, before_ns, input) in oldest {
            let key = (origin, input.input.to_owned());
            if self.carriers.len() >= MAX_CARRIERS && !self.carriers.contains_key(&key) {
                continue;
            }
            let here_ns = match input.arrival {
                Arrival::Read => record.start.0.saturating_sub(input.header.publish_time.0),
                Arrival::Triggered => 0,
            };
            let carrier = self.carriers.entry(key).or_default();
            carrier.topic = input.topic;
            carrier.calls += 1;
            carrier.here_ns = carrier.here_ns.saturating_add(here_ns);
            carrier.before_ns = carrier.before_ns.saturating_add(before_ns);
        }
    }
}
