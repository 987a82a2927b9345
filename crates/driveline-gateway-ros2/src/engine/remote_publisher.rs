// SPDX-License-Identifier: Apache-2.0
//! Publisher on this host that carries the samples of a ROS 2 publisher.

use super::dds::HEAD_BYTES;
use super::feed::Came;
use super::gateway_state::GatewayState;
use super::lock;
use super::ros_writer::{RosWriter, Written};
use crate::convert::{Arrival, ConvertError, FromRos, PassedOn};
use crate::qos::{DurabilityKind, EndpointQos, ReaderClass};
use crate::types::Crossing;
use driveline_gateway::ros2::{Rule, SourceTime};
use driveline_shm::{
    CreatePublisherError, Participant, Publisher, PublisherConfig, PublisherEvent, RefusalCode,
};
use driveline_types::{
    Durability, Lineage, MonotonicNs, NodeName, Qos, Remote, SampleHeader, TopicName,
    wall_offset_ns,
};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};

/// Number of samples kept for late joiners if the writer keeps some, but announces no number or a
/// larger one.
pub(super) const MOST_LATE: u32 = 16;

/// Reason why a sample was not published.
pub(super) struct Dropped {
    /// Reason under which it is counted.
    pub(super) reason: &'static str,
    /// Text for the log.
    pub(super) text: String,
    /// True if it is not a sample of its type, and so must not be passed on. False does not mean
    /// that it was checked completely.
    pub(super) broken: bool,
}

impl From<ConvertError> for Dropped {
    fn from(e: ConvertError) -> Self {
        Self { reason: e.name(), text: e.to_string(), broken: matches!(e, ConvertError::Cdr(_)) }
    }
}

impl Dropped {
    fn no_room(e: impl std::fmt::Display) -> Self {
        Self { reason: "no_room", text: e.to_string(), broken: false }
    }
}

/// See the module. Fields outside of its locks do not change, except that `across` can be set once.
/// So other threads can read them while a sample waits for readers.
pub(super) struct RemotePublisher {
    pub(super) node: NodeName,
    pub(super) crossing: Crossing,
    pub(super) class: ReaderClass,
    /// Offer of its writer.
    pub(super) offered: EndpointQos,
    /// Remark on the writer, although it is accepted.
    pub(super) remark: Option<String>,
    source_time: SourceTime,
    topic: TopicName,
    /// Destination of its samples over the other profile (DDS or rmw_zenoh); set later if there was
    /// no space.
    pub(super) across: OnceLock<Across>,
    /// Local nodes that subscribe.
    subscribers: Mutex<BTreeSet<NodeName>>,
    /// Only the topic's thread locks it, because that thread may hold the lock while a publish
    /// waits for readers.
    publishing: Mutex<Publishing>,
}

/// Events of a remote publisher.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Happened {
    /// The set of subscribing nodes has changed.
    pub(super) changed: bool,
    /// Reasons why local subscriptions do not match, as texts.
    pub(super) refused: Vec<String>,
}

struct Publishing {
    publisher: Publisher,
    taken: u64,
    /// Lost samples that no sequence number shows.
    lost: u64,
    dropped: u64,
}

/// Position of a writer that numbers its samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    /// Number of the last arrived sample.
    last: Option<i64>,
    /// Last number of the writer's previous remote publisher, if the writer was gone and came back.
    before: Option<i64>,
    /// Number of skipped sequence numbers.
    gaps: u64,
    /// Number of samples that arrived and found no space, and that no gap has included yet.
    rejected: u64,
}

impl Numbers {
    /// Position of a writer whose samples up to `before` were received earlier, if any were.
    pub(super) fn after(before: Option<i64>) -> Self {
        Self { before, ..Self::default() }
    }

    /// Number of samples missing before this one; `None`: a repeated sample.
    pub(super) fn gap(&mut self, number: Option<i64>) -> Option<u64> {
        let Some(number) = number else { return Some(0) };
        let gap = missing(number, self.last, self.before)?;
        self.last = Some(number);
        self.gaps = self.gaps.saturating_add(gap);
        Some(gap)
    }

    /// Returns how many of the `gap` missing samples did not arrive. The others arrived and found
    /// no space: `rejected`, and those of earlier calls that no gap has included yet. They are
    /// counted elsewhere.
    pub(super) fn lost(&mut self, gap: u64, rejected: u64) -> u64 {
        let known = self.rejected.saturating_add(rejected);
        self.rejected = known.saturating_sub(gap);
        gap.saturating_sub(known)
    }

    /// Number of skipped sequence numbers so far.
    pub(super) fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Number of the last arrived sample, whatever happened to it.
    pub(super) fn furthest(&self) -> Option<i64> {
        self.last.max(self.before)
    }
}

/// Destination of a publisher's samples in the other profile.
pub(super) struct Across {
    pub(super) ros_writer: Box<dyn RosWriter>,
    /// Longest sample, in bytes.
    pub(super) longest: usize,
}

impl Across {
    /// Passes a sample on unchanged. `unchecked`: its type, if it was not checked completely yet.
    /// `None`: it is invalid or too long, and its remote publisher has counted it. Does not block.
    pub(super) fn pass_on(
        &self,
        sample: &Came<'_>,
        unchecked: Option<&Crossing>,
    ) -> Option<Result<Written, String>> {
        let pieces = sample.sample.ok()?;
        let passed_on = PassedOn::new(pieces, self.longest).ok()?;
        unchecked.map_or(Ok(()), |crossing| crossing.check(&pieces.whole())).ok()?;
        Some(self.ros_writer.write(&passed_on.parts(), None, sample.source_timestamp))
    }
}

/// Values that all remote publishers of one profile of a gateway share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outside {
    /// Random number that identifies this gateway in headers of samples and in reports.
    pub(super) mark: u64,
    /// True if all samples come from this host.
    pub(super) same_clock: bool,
    /// Present offset of the clock of stamps from this host's monotonic clock.
    pub(super) stamps_ahead_ns: Option<i64>,
}

impl Outside {
    /// Returns these values for one profile of a gateway.
    pub(super) fn of(state: &GatewayState, same_clock: bool) -> Self {
        Self {
            mark: state.mark,
            same_clock,
            stamps_ahead_ns: state.clock.ahead_ns(wall_offset_ns()),
        }
    }
}

/// Returns the number of samples missing before `number`; `None`: a repeated sample. `last`: the
/// last number. `before`: the last number of the publisher's previous remote publisher. The samples
/// that the previous one kept for late joiners ended with it. So a sample with a number up to
/// `before` is no repetition here: it is published again.
fn missing(number: i64, last: Option<i64>, before: Option<i64>) -> Option<u64> {
    if last.is_some_and(|last| number <= last) {
        return None;
    }
    let known = last.max(before);
    Some(known.filter(|known| number > *known).map_or(0, |known| number.abs_diff(known) - 1))
}

/// Durability of a writer, in Driveline's terms.
fn lasting(offered: &EndpointQos) -> Durability {
    if offered.durability >= DurabilityKind::TransientLocal {
        Durability::TransientLocal
    } else {
        Durability::Volatile
    }
}

impl RemotePublisher {
    pub(super) fn open(
        participant: &Participant,
        topic: &TopicName,
        node: NodeName,
        crossing: Crossing,
        (offered, class, qos): (EndpointQos, ReaderClass, Qos),
        rule: &Rule,
    ) -> Result<Self, CreatePublisherError> {
        let max_payload = usize::try_from(rule.max_payload_bytes()).unwrap_or(usize::MAX);
        let mut config =
            PublisherConfig::new(topic.clone(), node.clone(), crossing.schema.clone(), max_payload);
        config.qos = qos;
        config.pins = rule.pins.unwrap_or(config.pins);
        config.loans = 1;
        let publishing = Mutex::new(Publishing {
            publisher: participant.create_publisher(config)?,
            taken: 0,
            lost: 0,
            dropped: 0,
        });
        let (source_time, topic) = (rule.source_time, topic.clone());
        let (across, subscribers) = (OnceLock::new(), Mutex::default());
        Ok(Self {
            node,
            crossing,
            class,
            offered,
            remark: None,
            source_time,
            topic,
            across,
            subscribers,
            publishing,
        })
    }

    /// Local nodes that subscribe, as of the last [`hear`](Self::hear).
    pub(super) fn subscribers(&self) -> BTreeSet<NodeName> {
        lock(&self.subscribers).clone()
    }

    /// Returns the events since the last call. Only for the topic's thread.
    pub(super) fn hear(&self) -> Happened {
        let (mut happened, mut any) = (Happened::default(), false);
        let mut publishing = lock(&self.publishing);
        while let Some(event) = publishing.publisher.poll_event() {
            any = true;
            // A different type or QoS is a mistake of the graph or of a rule. Other reasons are
            // temporary, or concern foreign processes.
            if let PublisherEvent::Refused { code: RefusalCode::Qos | RefusalCode::Type, text } =
                event
            {
                let weakened = self.offered.reliability > self.class.reliability
                    || self.class.durability < lasting(&self.offered);
                let why = if weakened {
                    " (the rule's `qos` has the gateway offer less here than the node does)"
                } else {
                    ""
                };
                let text = format!(
                    "a subscription here does not match the publisher of node '{}' in ROS 2: \
                     {text}{why}",
                    self.node
                );
                happened.refused.push(text);
            }
        }
        if any {
            let now: BTreeSet<_> =
                publishing.publisher.subscriptions().into_iter().map(|s| s.node).collect();
            drop(publishing);
            let mut before = lock(&self.subscribers);
            happened.changed = *before != now;
            *before = now;
        }
        happened
    }

    /// Copies a sample into a slot and publishes it. `gaps`: number of samples of its writer that
    /// are missing so far. On a reliable topic, this may wait for readers.
    pub(super) fn take(
        &self,
        sample: &Came<'_>,
        gaps: u64,
        outside: Outside,
    ) -> Result<(), Dropped> {
        let mut publishing = lock(&self.publishing);
        publishing.lost += sample.lost.swap(0, Ordering::Relaxed);
        let result = self.publish(&mut publishing, sample, gaps, outside);
        publishing.taken += 1;
        if result.is_err() {
            publishing.dropped += 1;
        }
        result
    }

    fn publish(
        &self,
        to: &mut Publishing,
        sample: &Came<'_>,
        gaps: u64,
        outside: Outside,
    ) -> Result<(), Dropped> {
        let (now, offset) = (MonotonicNs::now(), wall_offset_ns());
        let max = to.publisher.max_payload();
        let pieces = sample.sample.map_err(|len| ConvertError::TooLong { len, max })?;
        let arrival = Arrival {
            time: now,
            stamps_ahead_ns: outside.stamps_ahead_ns,
            frame_index: to.taken,
            source_time: self.source_time,
        };
        let written = sample.source_timestamp.wrapping_sub(offset);
        let (loan, source) = match self.crossing.kind {
            Some(kind) => {
                if pieces.len() > max.saturating_add(HEAD_BYTES as usize) {
                    return Err(ConvertError::TooLong { len: pieces.len(), max }.into());
                }
                let converted = FromRos::of_pieces(kind, pieces, &arrival)?;
                let len = converted.payload_len()?;
                if len > max {
                    return Err(ConvertError::TooLong { len, max }.into());
                }
                let mut loan = to.publisher.loan(len).map_err(Dropped::no_room)?;
                converted.write(loan.payload_mut())?;
                let source = converted.source_time_ns();
                (loan, if source == 0 { written.cast_unsigned() } else { source })
            }
            None => {
                pieces.encapsulation()?;
                if pieces.len() > max {
                    return Err(ConvertError::TooLong { len: pieces.len(), max }.into());
                }
                let mut loan = to.publisher.loan(pieces.len()).map_err(Dropped::no_room)?;
                pieces.copy_to(loan.payload_mut())?;
                // In its slot the sample is contiguous, and not published yet.
                self.crossing.check(loan.payload()).map_err(ConvertError::from)?;
                (
                    loan,
                    if self.source_time == SourceTime::Arrival {
                        now.0
                    } else {
                        written.cast_unsigned()
                    },
                )
            }
        };
        let error_ns = if outside.same_clock { 0 } else { u64::MAX };
        let mut header = SampleHeader {
            publish_time: MonotonicNs::now(),
            wall_offset_ns: offset,
            ..SampleHeader::default()
        };
        let trace = to.publisher.id().0 as u64
            ^ to.publisher.next_sequence().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Lineage::default().stamp(
            &mut header,
            self.topic.id(),
            Some(MonotonicNs(source)),
            trace.max(1),
        );
        for origin in header.origins.as_mut_slice() {
            // The whole age is communication: the sample was in transit, or in the node that
            // published it.
            origin.communication_ns = header.publish_time.signed_since(origin.source_oldest);
            (origin.computation_ns, origin.idle_ns) = (0, 0);
        }
        header.clock_error_ns = error_ns;
        let transit_ns = header.publish_time.0.cast_signed().wrapping_sub(written);
        let lost = to.lost.saturating_add(gaps).saturating_add(to.dropped);
        header.remote = Some(Remote {
            host: outside.mark,
            lost,
            publisher: 0,
            transit_ns,
            offset_error_ns: error_ns,
        });
        to.publisher.publish(loan, &mut header).map_err(Dropped::no_room)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::zenoh::pieces;
    use crate::types::Types;
    use driveline_gateway::ros2::{Direction, Form};
    use driveline_graph::ByteSize;
    use driveline_rosidl::cdr::{ByteOrder, Encoder};
    use driveline_shm::{ParticipantConfig, SchemaRequest, SubscriptionConfig};
    use driveline_types::Reliability;
    use std::sync::atomic::AtomicU64;
    use zenoh::bytes::ZBytes;

    /// Cuts a long sample into pieces as Zenoh does for its links.
    fn in_batches(sample: &[u8]) -> ZBytes {
        let mut payload = ZBytes::writer();
        sample.chunks(65_000).for_each(|batch| payload.append(batch.to_vec().into()));
        payload.finish()
    }

    #[test]
    fn a_long_sample_in_pieces_is_put_together_nowhere_but_in_its_slot() {
        const PIXELS: usize = 4 << 20;
        let dir = tempfile::tempdir().unwrap();
        let config =
            ParticipantConfig { domain_dir: Some(dir.path().join("domain")), name: "test".into() };
        let participant = Participant::open(config).unwrap();
        let pixels: Vec<u8> = (0..PIXELS).map(|n| (n % 251) as u8).collect();
        let mut to = Encoder::new(ByteOrder::Little);
        to.numbers(&[0_u32; 2]);
        to.string(b"cam").unwrap();
        to.numbers(&[1, PIXELS as u32]);
        to.string(b"mono8").unwrap();
        to.number(0_u8);
        to.numbers(&[PIXELS as u32, PIXELS as u32]);
        to.bytes(&pixels);
        let sample = to.finish();
        for (form, topic) in [(Form::Converted, "image"), (Form::Cdr, "cdr")] {
            let topic: TopicName = topic.parse().unwrap();
            let crossing =
                Types::new(&[]).unwrap().from_ros("sensor_msgs::msg::dds_::Image_", form).unwrap();
            let mut rule = Rule::new(format!("/{topic}"), Direction::FromRos);
            rule.max_payload = Some(ByteSize(5 << 20));
            let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
            let what = (EndpointQos::default(), class, Qos::default());
            let remote_publisher = RemotePublisher::open(
                &participant,
                &topic,
                "camera".parse().unwrap(),
                crossing,
                what,
                &rule,
            )
            .unwrap();
            let config =
                SubscriptionConfig::new(topic, "reader".parse().unwrap(), SchemaRequest::Any);
            let mut subscription = participant.create_subscription(config).unwrap();
            while subscription.matched() == 0 {
                std::thread::yield_now();
            }
            let (payload, outside) = (
                in_batches(&sample),
                Outside { mark: 1, same_clock: true, stamps_ahead_ns: Some(wall_offset_ns()) },
            );
            assert!(payload.slices().count() > 60);
            let used = allocation_counter::measure(|| {
                let mut list = Vec::new();
                let sample = Ok(pieces(&payload, &mut list));
                let came = Came {
                    writer: 1,
                    class,
                    source_timestamp: 0,
                    number: None,
                    lost: &AtomicU64::new(0),
                    rejected: 0,
                    sample,
                };
                assert!(remote_publisher.take(&came, 0, outside).is_ok());
            });
            assert!(
                used.bytes_total < 16 << 10,
                "a list of pieces, and no copy of 4 MiB: {used:?}"
            );
            let taken = subscription.take_next().unwrap().unwrap();
            let end = if form == Form::Cdr {
                taken.payload() == sample
            } else {
                taken.payload().ends_with(&pixels)
            };
            assert!(end, "{form:?}: whole, in order");
        }
    }

    #[test]
    fn samples_without_space_are_not_counted_as_lost_too() {
        let mut numbers = Numbers::default();
        let mut lost = |number, rejected| {
            let gap = numbers.gap(Some(number)).unwrap();
            (gap, numbers.lost(gap, rejected))
        };
        // Samples 2 to 4 find no space while 1 is processed, and 5 does not arrive.
        assert_eq!([lost(1, 3), lost(6, 0), lost(9, 1)], [(0, 0), (4, 1), (2, 1)]);
    }

    #[test]
    fn samples_of_an_absent_publisher_are_missing_once() {
        assert_eq!(
            [missing(7, None, None), missing(8, Some(7), None), missing(11, Some(7), None)],
            [Some(0), Some(0), Some(3)]
        );
        assert_eq!([missing(7, Some(7), None), missing(6, Some(7), None)], [None, None]);
        // The previous remote publisher had received samples up to 7.
        assert_eq!([missing(8, None, Some(7)), missing(11, None, Some(7))], [Some(0), Some(3)]);
        // The history is repeated: the last two up to 7, and then 10.
        assert_eq!(
            [
                missing(6, None, Some(7)),
                missing(7, Some(6), Some(7)),
                missing(10, Some(7), Some(7))
            ],
            [Some(0), Some(0), Some(2)]
        );
        assert_eq!([missing(10, Some(6), Some(7)), missing(6, Some(6), Some(7))], [Some(2), None]);
    }
}
