// SPDX-License-Identifier: Apache-2.0
//! The parts of CycloneDDS that the gateway uses: topics of any type as bytes, discovery, waiting.
//! This module is the only place of the crate that calls C.
//!
//! Entities are numbers. CycloneDDS looks them up in its own table, under its own locks. A number
//! that has become invalid is an error, not undefined behaviour, and every function that takes one
//! can be called from any thread. So the SAFETY comments argue about memory only: strings and
//! structures that go in, and samples that come out.
#![allow(unsafe_code, reason = "calls C; tools/check_source.py knows this directory")]

mod discovery;
mod log;
mod matched;
mod sample;
mod unacknowledged;

pub(crate) use discovery::{Discovery, Endpoint, Found};
pub(crate) use log::withheld;
pub(crate) use sample::Taken;

use crate::discovery_info::Gid;
use crate::qos::{DurabilityKind, EndpointQos, LivelinessKind};
use cyclors as c;
use driveline_types::Reliability;
use sample::Reference;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;
use unacknowledged::Unacknowledged;

/// Call that CycloneDDS refused, or that was not made.
#[derive(Debug, Error)]
#[error("CycloneDDS cannot {action}: {reason}")]
pub struct DdsError {
    /// Attempted action.
    pub action: &'static str,
    /// Error text of CycloneDDS, or the reason why CycloneDDS was not called.
    pub reason: String,
}

pub(crate) type Result<T> = std::result::Result<T, DdsError>;

/// Returns the value, or the error that a negative value stands for.
fn checked(action: &'static str, code: i32) -> Result<i32> {
    if code >= 0 {
        return Ok(code);
    }
    // SAFETY: the function takes any number and returns a pointer to a static text that ends in
    // NUL.
    let text = unsafe { CStr::from_ptr(c::dds_strretcode(code)) };
    Err(DdsError { action, reason: text.to_string_lossy().into_owned() })
}

fn text(action: &'static str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| DdsError { action, reason: "a name with a zero byte".into() })
}

/// DDS entity, deleted when this value is dropped or closed. Calls with a closed entity fail.
/// CycloneDDS draws entity numbers at random from two thousand million, so it hardly ever reuses a
/// number.
#[derive(Debug)]
pub(crate) struct Entity(c::dds_entity_t, AtomicBool);

impl Entity {
    fn new(number: c::dds_entity_t) -> Self {
        Self(number, AtomicBool::new(false))
    }

    fn close(&self) {
        // Only once: afterwards the number may belong to another entity.
        if !self.1.swap(true, Ordering::AcqRel) {
            #[cfg(test)]
            let _beside_a_participant = TURN.read();
            // SAFETY: the argument is a number. If its parent has deleted the entity, the call
            // fails.
            unsafe { c::dds_delete(self.0) };
        }
    }
}

impl Drop for Entity {
    fn drop(&mut self) {
        self.close();
    }
}

/// Prevents entities from being deleted at the same time as their participant. Only tests delete
/// the participant before its entities. A reader deleted at that moment would delete its topic
/// twice, and CycloneDDS asserts against that.
#[cfg(test)]
static TURN: std::sync::RwLock<()> = std::sync::RwLock::new(());

impl Entity {
    /// Returns its id on the wire.
    pub(crate) fn gid(&self) -> Result<Gid> {
        let mut guid = c::dds_guid_t { v: [0; 16] };
        // SAFETY: the call writes 16 bytes to an array of 16 bytes, and keeps no pointer.
        checked("get the id of an endpoint", unsafe { c::dds_get_guid(self.0, &raw mut guid) })?;
        Ok(guid.v)
    }
}

/// History of a writer or a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) enum History {
    KeepLast(u32),
    /// Keeps all samples, at most `limit`; `late` of them for late joiners.
    KeepAll {
        limit: u32,
        late: u32,
    },
}

/// Configuration of a writer or a reader.
#[derive(Clone, Debug)]
pub(crate) struct EndpointConfig<'a> {
    pub(crate) qos: EndpointQos,
    pub(crate) history: History,
    pub(crate) max_blocking: Duration,
    pub(crate) lifespan: Option<Duration>,
    pub(crate) user_data: &'a str,
}

/// QoS of CycloneDDS, freed when this value is dropped.
struct Native(*mut c::dds_qos_t);

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: `dds_create_qos` made it, and it is freed only here.
        unsafe { c::dds_delete_qos(self.0) };
    }
}

fn ns(t: Duration) -> i64 {
    i64::try_from(t.as_nanos()).unwrap_or(i64::MAX)
}

fn or_infinite(t: Option<Duration>) -> i64 {
    t.map_or(i64::MAX, ns)
}

impl Native {
    fn new(user_data: &str) -> Self {
        // SAFETY: `dds_create_qos` returns a structure that is ours, or ends the program if memory
        // is short; `dds_qset_userdata` copies the given number of bytes.
        unsafe {
            let qos = c::dds_create_qos();
            c::dds_qset_userdata(qos, user_data.as_ptr().cast(), user_data.len());
            Self(qos)
        }
    }

    fn of(config: &EndpointConfig<'_>) -> Self {
        let this = Self::new(config.user_data);
        let EndpointQos { reliability, durability, deadline, liveliness, lease } = config.qos;
        let reliability = match reliability {
            Reliability::Reliable => c::dds_reliability_kind_DDS_RELIABILITY_RELIABLE,
            Reliability::BestEffort => c::dds_reliability_kind_DDS_RELIABILITY_BEST_EFFORT,
        };
        let durability = match durability {
            DurabilityKind::Volatile => c::dds_durability_kind_DDS_DURABILITY_VOLATILE,
            DurabilityKind::TransientLocal => c::dds_durability_kind_DDS_DURABILITY_TRANSIENT_LOCAL,
            DurabilityKind::Transient => c::dds_durability_kind_DDS_DURABILITY_TRANSIENT,
            DurabilityKind::Persistent => c::dds_durability_kind_DDS_DURABILITY_PERSISTENT,
        };
        let liveliness = match liveliness {
            LivelinessKind::Automatic => c::dds_liveliness_kind_DDS_LIVELINESS_AUTOMATIC,
            LivelinessKind::ManualByParticipant => {
                c::dds_liveliness_kind_DDS_LIVELINESS_MANUAL_BY_PARTICIPANT
            }
            LivelinessKind::ManualByTopic => c::dds_liveliness_kind_DDS_LIVELINESS_MANUAL_BY_TOPIC,
        };
        let depth = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        // SAFETY: all calls write numbers into our structure; the representation is read from an
        // array of one number, as its length says.
        unsafe {
            c::dds_qset_reliability(this.0, reliability, ns(config.max_blocking));
            c::dds_qset_durability(this.0, durability);
            c::dds_qset_deadline(this.0, or_infinite(deadline));
            c::dds_qset_liveliness(this.0, liveliness, or_infinite(lease));
            c::dds_qset_lifespan(this.0, or_infinite(config.lifespan));
            let late = match config.history {
                History::KeepLast(n) => {
                    c::dds_qset_history(
                        this.0,
                        c::dds_history_kind_DDS_HISTORY_KEEP_LAST,
                        depth(n),
                    );
                    n
                }
                History::KeepAll { limit, late } => {
                    c::dds_qset_history(this.0, c::dds_history_kind_DDS_HISTORY_KEEP_ALL, 0);
                    c::dds_qset_resource_limits(this.0, depth(limit), -1, depth(limit));
                    late
                }
            };
            let (kind, none) = (c::dds_history_kind_DDS_HISTORY_KEEP_LAST, -1);
            c::dds_qset_durability_service(this.0, 0, kind, depth(late), none, none, none);
            c::dds_qset_ignorelocal(this.0, c::dds_ignorelocal_kind_DDS_IGNORELOCAL_PARTICIPANT);
            let xcdr1 = c::DDS_DATA_REPRESENTATION_XCDR1 as c::dds_data_representation_id_t;
            c::dds_qset_data_representation(this.0, 1, &raw const xcdr1);
        }
        this
    }
}

/// Participant of a DDS domain. Its entities end with it, so drop it after all writing threads have
/// ended.
#[derive(Debug)]
pub(crate) struct Participant {
    participant: Entity,
    /// After `participant`: fields drop in this order, and the domain must end last.
    _domain: Entity,
}

impl Participant {
    /// Joins a DDS domain, with CycloneDDS's configuration in XML. A process can join a domain
    /// once.
    pub(crate) fn open(domain: u32, configuration: &str, user_data: &str) -> Result<Self> {
        log::bound();
        let configuration = text("read its configuration", configuration)?;
        // SAFETY: the text ends in NUL, outlives the call, and is copied.
        let domain_entity = unsafe { c::dds_create_domain(domain, configuration.as_ptr()) };
        let domain_entity = Entity::new(checked("take part in the network", domain_entity)?);
        let qos = Native::new(user_data);
        // SAFETY: the QoS outlives the call, which copies it; the listener is null.
        let participant = unsafe { c::dds_create_participant(domain, qos.0, std::ptr::null()) };
        Ok(Self {
            participant: Entity::new(checked("create a participant", participant)?),
            _domain: domain_entity,
        })
    }

    pub(crate) fn gid(&self) -> Result<Gid> {
        self.participant.gid()
    }

    /// Deletes the participant and its entities before this value is dropped. Calls with them fail
    /// from then on.
    #[cfg(test)]
    pub(crate) fn close(&self) {
        if !self.participant.1.swap(true, Ordering::AcqRel) {
            let _alone = TURN.write();
            // SAFETY: the argument is a number.
            unsafe { c::dds_delete(self.participant.0) };
        }
    }

    /// Creates a topic without a key, of any type, whose samples are bytes.
    pub(crate) fn topic(&self, name: &str, type_name: &str) -> Result<Entity> {
        const ACTION: &str = "create a topic";
        let (name, type_name) = (text(ACTION, name)?, text(ACTION, type_name)?);
        // SAFETY: both texts end in NUL and outlive the call. Its parameters are mutable, but it
        // only reads and copies the texts (`ddsi_sertype_init_flags`, `dds_create_topic_sertype`).
        let topic = unsafe {
            c::cdds_create_blob_topic(
                self.participant.0,
                name.as_ptr().cast_mut(),
                type_name.as_ptr().cast_mut(),
                true,
            )
        };
        Ok(Entity::new(checked(ACTION, topic)?))
    }

    /// Creates a writer. `topic` must outlive it, see [`Writer`].
    pub(crate) fn writer(&self, topic: &Entity, config: &EndpointConfig<'_>) -> Result<Writer> {
        let qos = Native::of(config);
        // SAFETY: as for the participant.
        let writer =
            unsafe { c::dds_create_writer(self.participant.0, topic.0, qos.0, std::ptr::null()) };
        let unacknowledged = match (config.history, config.qos) {
            // Samples kept for late joiners stay in the history, acknowledged or not.
            (
                History::KeepLast(depth),
                EndpointQos {
                    reliability: Reliability::Reliable,
                    durability: DurabilityKind::Volatile,
                    ..
                },
            ) => Some(Mutex::new(Unacknowledged::new(depth))),
            _ => None,
        };
        Ok(Writer { entity: Entity::new(checked("create a writer", writer)?), unacknowledged })
    }

    pub(crate) fn reader(&self, topic: &Entity, config: &EndpointConfig<'_>) -> Result<Reader> {
        let qos = Native::of(config);
        // SAFETY: as for the participant.
        let reader =
            unsafe { c::dds_create_reader(self.participant.0, topic.0, qos.0, std::ptr::null()) };
        let reliable = config.qos.reliability == Reliability::Reliable;
        Ok(Reader { entity: Entity::new(checked("create a reader", reader)?), reliable })
    }

    pub(crate) fn waiting(&self) -> Result<Waiting> {
        // SAFETY: arguments and results are numbers.
        let (set, guard) = unsafe {
            (
                c::dds_create_waitset(self.participant.0),
                c::dds_create_guardcondition(self.participant.0),
            )
        };
        let (set, guard) = (
            Entity::new(checked("create a wait set", set)?),
            Entity::new(checked("create a condition", guard)?),
        );
        // SAFETY: all arguments are numbers; `dds_waitset_wait` only returns the last one.
        checked("attach a condition", unsafe { c::dds_waitset_attach(set.0, guard.0, 0) })?;
        Ok(Waiting { set, guard })
    }
}

/// Writes samples of one topic. The topic must outlive the writer: the owner of a writer holds its
/// topic too, and drops it later.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) entity: Entity,
    /// Samples in flight; only for a reliable keep-last writer that keeps nothing for late joiners.
    unacknowledged: Option<Mutex<Unacknowledged<Reference>>>,
}

impl Writer {
    /// Writes a sample; CycloneDDS copies it once. The lengths of the parts add up to a multiple of
    /// 4. A keep-all writer waits for reliable readers, a keep-last writer never waits.
    ///
    /// Returns the number of samples replaced since the last call although a reliable reader had
    /// not acknowledged them in time. The number is always 0 for a best-effort writer, for a
    /// keep-all writer, and for a writer that keeps samples for late joiners.
    pub(crate) fn write(&self, parts: &[&[u8]]) -> Result<u64> {
        let mut unacknowledged =
            self.unacknowledged.as_ref().map(|u| u.lock().unwrap_or_else(PoisonError::into_inner));
        sample::write(&self.entity, parts, unacknowledged.as_deref_mut())
    }

    /// Closes the writer before this value is dropped. A thread that waits in [`Writer::write`]
    /// returns with an error.
    pub(crate) fn close(&self) {
        self.entity.close();
    }
}

/// Reads samples of one topic.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) entity: Entity,
    reliable: bool,
}

impl Reader {
    /// Returns the next sample; `None` if there is none now. Skips entries without data (a writer
    /// has gone).
    pub(crate) fn take(&self) -> Result<Option<Taken>> {
        sample::take(&self.entity)
    }

    /// Closes the reader before this value is dropped. Remote writers see it leave at once; calls
    /// with it fail from then on.
    pub(crate) fn close(&self) {
        self.entity.close();
    }

    /// Returns the number of lost samples and the number of finally rejected samples. If a reliable
    /// reader has no room, CycloneDDS offers the same sample repeatedly and counts each rejection.
    /// These rejections are not losses.
    pub(crate) fn losses(&self) -> (u32, u32) {
        // SAFETY: the structures have only numbers, for which zeros are valid; the calls write them
        // and keep no pointer. If a call fails, zeros stay.
        unsafe {
            let (mut lost, mut rejected) = (
                std::mem::zeroed::<c::dds_sample_lost_status>(),
                std::mem::zeroed::<c::dds_sample_rejected_status>(),
            );
            c::dds_get_sample_lost_status(self.entity.0, &raw mut lost);
            c::dds_get_sample_rejected_status(self.entity.0, &raw mut rejected);
            (lost.total_count, if self.reliable { 0 } else { rejected.total_count })
        }
    }
}

/// Waits until a sample can be taken or another thread wakes it.
#[derive(Debug)]
pub(crate) struct Waiting {
    set: Entity,
    guard: Entity,
}

impl Waiting {
    /// Also waits for samples of this reader from now on.
    pub(crate) fn add(&self, reader: &Entity) -> Result<()> {
        // SAFETY: the arguments are numbers. The condition belongs to the reader and ends with it.
        unsafe {
            let condition = checked(
                "create a condition",
                c::dds_create_readcondition(reader.0, c::DDS_ANY_STATE),
            )?;
            checked("attach a condition", c::dds_waitset_attach(self.set.0, condition, 1))?;
        }
        Ok(())
    }

    /// Ends the running call of [`wait`](Self::wait), or the next one.
    pub(crate) fn wake(&self) {
        // SAFETY: the argument is a number.
        unsafe { c::dds_set_guardcondition(self.guard.0, true) };
    }

    /// Waits at most `longest`.
    pub(crate) fn wait(&self, longest: Duration) -> Result<()> {
        // SAFETY: the arguments are numbers; the length of the attachments is zero, so none is
        // written.
        unsafe {
            checked("wait", c::dds_waitset_wait(self.set.0, std::ptr::null_mut(), 0, ns(longest)))?;
            c::dds_set_guardcondition(self.guard.0, false);
        }
        Ok(())
    }
}
