// SPDX-License-Identifier: Apache-2.0
//! Samples of one topic over DDS.

use crate::dds;
use crate::discovery_info::{Gid, endpoint_user_data};
use crate::engine::endpoint::Endpoint;
use crate::engine::feed::{Came, Feed, Readers};
use crate::engine::{feed, lock};
use crate::names::dds_topic;
use crate::qos::ReaderClass;
use crate::types::Crossing;
use driveline_gateway::ros2::Release;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time for which samples of a departed writer may still arrive. It is zero, because DDS keeps the
/// order of a writer's samples and its departure.
pub(in crate::engine) const GRACE: Duration = Duration::ZERO;

/// Returns the number of samples of a topic that may wait. DDS has one limit for all topics, so
/// samples of each topic may be as long as the longest of any topic.
pub(in crate::engine) fn kept(of_topic: u64, of_any: u64) -> u32 {
    feed::kept(of_topic.max(of_any))
}

struct Reader {
    class: ReaderClass,
    reader: dds::Reader,
    /// Number of losses reported by DDS so far.
    seen: AtomicU64,
    /// Number of these losses that no header states yet.
    lost: AtomicU64,
    _topic: dds::Entity,
}

/// See the module.
pub(in crate::engine) struct DdsFeed {
    readers: Readers<Arc<Reader>>,
    waiting: dds::Waiting,
    /// Maximum number of waiting samples of each reader.
    kept: u32,
    release: Release,
    same_clock: bool,
    participant: Arc<dds::Participant>,
}

fn text(e: dds::DdsError) -> String {
    e.to_string()
}

impl DdsFeed {
    /// Makes a feed without readers. `kept`: maximum number of waiting samples of each reader.
    pub(in crate::engine) fn new(
        participant: &Arc<dds::Participant>,
        release: Release,
        kept: u32,
        same_clock: bool,
    ) -> Result<Self, String> {
        let waiting = participant.waiting().map_err(text)?;
        let (readers, participant) = (Readers::default(), participant.clone());
        Ok(Self { readers, waiting, kept, release, same_clock, participant })
    }
}

impl Feed for DdsFeed {
    fn kept(&self) -> u64 {
        self.kept.into()
    }

    fn grace(&self) -> Duration {
        GRACE
    }

    fn same_clock(&self) -> bool {
        self.same_clock
    }

    fn read(&self, of: &Endpoint, class: ReaderClass, crossing: &Crossing) -> Result<(), String> {
        let key = (class, of.type_name.clone(), of.hash.clone());
        let mut readers = lock(&self.readers);
        if readers.contains_key(&key) {
            return Ok(());
        }
        let name = dds_topic(&of.topic).unwrap_or_default();
        let topic = self.participant.topic(&name, &of.type_name).map_err(text)?;
        let config = dds::EndpointConfig {
            qos: class.requests(),
            history: dds::History::KeepAll { limit: self.kept, late: 1 },
            max_blocking: Duration::ZERO,
            lifespan: None,
            user_data: &endpoint_user_data(crossing.hash, self.release),
        };
        let reader = self.participant.reader(&topic, &config).map_err(text)?;
        self.waiting.add(&reader.entity).map_err(text)?;
        let (seen, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        readers.insert(key, Arc::new(Reader { class, reader, seen, lost, _topic: topic }));
        drop(readers);
        self.waiting.wake();
        Ok(())
    }

    fn take(&self, each: &mut dyn FnMut(&Came<'_>)) -> Result<bool, String> {
        let readers: Vec<_> = lock(&self.readers).values().cloned().collect();
        let mut any = false;
        for r in &readers {
            let losses = r.reader.losses();
            let Some(sample) = r.reader.take().map_err(text)? else { continue };
            any = true;
            let losses = u64::from(losses.0) + u64::from(losses.1);
            // DDS does not report the writer of a lost sample. One remote publisher counts the
            // losses, so none is counted twice.
            r.lost.fetch_add(
                losses.saturating_sub(r.seen.swap(losses, Ordering::Relaxed)),
                Ordering::Relaxed,
            );
            each(&Came {
                writer: sample.writer.into(),
                class: r.class,
                source_timestamp: sample.source_timestamp,
                number: None,
                lost: &r.lost,
                rejected: 0,
                sample: Ok(sample.bytes().into()),
            });
        }
        Ok(any)
    }

    fn losses(&self) -> [(&'static str, u64); 2] {
        let (mut lost, mut rejected) = (0, 0);
        for r in lock(&self.readers).values() {
            let losses = r.reader.losses();
            lost += u64::from(losses.0);
            rejected += u64::from(losses.1);
        }
        [("lost", lost), ("rejected", rejected)]
    }

    fn wait(&self, longest: Duration) -> Result<(), String> {
        self.waiting.wait(longest).map_err(text)
    }

    fn wake(&self) {
        self.waiting.wake();
    }

    fn gids(&self) -> Vec<Gid> {
        lock(&self.readers).values().filter_map(|r| r.reader.entity.gid().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_samples_are_bounded_in_bytes_for_every_topic() {
        const MIB: u64 = 1 << 20;
        for (of_topic, of_any, over_dds, over_zenoh) in [
            (64, 64, 4096, 4096),
            (64, 4 * MIB, 32, 4096),
            (4 * MIB, 4 * MIB, 32, 32),
            (64, 64 * MIB, 16, 4096),
            (0, 0, 4096, 4096),
        ] {
            assert_eq!(kept(of_topic, of_any), over_dds, "{of_topic} {of_any}");
            assert_eq!(feed::kept(of_topic), over_zenoh, "{of_topic} {of_any}");
        }
    }
}
