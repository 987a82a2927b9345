// SPDX-License-Identifier: Apache-2.0
//! Remote writers and readers, as DDS discovers them.

use super::{Entity, Participant, Result, Waiting, checked};
use crate::discovery_info::Gid;
use crate::qos::{DurabilityKind, EndpointQos, LivelinessKind};
use cyclors as c;
use driveline_types::Reliability;
use std::ffi::CStr;
use std::time::Duration;

/// Maximum length of an accepted name, in bytes.
const MAX_NAME: usize = 256;
const MAX_USER_DATA: usize = 1024;
/// Maximum number of events taken at once.
const BATCH: usize = 64;

/// A writer or a reader.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Handle by which samples name their writer.
    pub(crate) handle: u64,
    pub(crate) gid: Gid,
    pub(crate) topic: String,
    pub(crate) type_name: String,
    pub(crate) qos: EndpointQos,
    /// Number of kept samples, if announced; `u32::MAX` for all.
    pub(crate) depth: Option<u32>,
    pub(crate) user_data: Vec<u8>,
}

/// Change reported by discovery.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Here(Endpoint),
    /// The endpoint with this handle is gone.
    Gone(u64),
}

/// Reader of discovery data: of writers, or of readers.
#[derive(Debug)]
pub(crate) struct Discovery {
    reader: Entity,
}

impl Discovery {
    fn new(participant: &Participant, topic: c::dds_entity_t) -> Result<Self> {
        // SAFETY: the arguments are numbers; QoS and listener are null.
        let reader = unsafe {
            c::dds_create_reader(
                participant.participant.0,
                topic,
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        Ok(Self { reader: Entity::new(checked("watch remote endpoints", reader)?) })
    }

    pub(crate) fn of_writers(participant: &Participant) -> Result<Self> {
        Self::new(participant, c::DDS_BUILTIN_TOPIC_DCPSPUBLICATION)
    }

    pub(crate) fn of_readers(participant: &Participant) -> Result<Self> {
        Self::new(participant, c::DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION)
    }

    pub(crate) fn wake(&self, waiting: &Waiting) -> Result<()> {
        waiting.add(&self.reader)
    }

    /// Returns up to 64 changes; empty if there are none.
    pub(crate) fn take(&self) -> Result<Vec<Found>> {
        let mut samples = [std::ptr::null_mut(); BATCH];
        // SAFETY: the structure has only numbers and bools, for which zeros are valid.
        let mut infos: [c::dds_sample_info_t; BATCH] = unsafe { std::mem::zeroed() };
        // SAFETY: both arrays have `BATCH` entries, as passed. Null pointers ask for a loan: they
        // then point to samples of CycloneDDS until `dds_return_loan`.
        let count = unsafe {
            c::dds_take(
                self.reader.0,
                samples.as_mut_ptr(),
                infos.as_mut_ptr(),
                BATCH,
                BATCH as u32,
            )
        };
        let count = checked("read discovery data", count)?;
        let mut found = Vec::new();
        for (sample, info) in samples.iter().zip(&infos).take(count as usize) {
            if info.instance_state != c::dds_instance_state_DDS_IST_ALIVE {
                found.push(Found::Gone(info.instance_handle));
            } else if info.valid_data && !sample.is_null() {
                // SAFETY: a valid sample of one of the two built-in topics, both of which have this
                // type.
                let endpoint = unsafe { &*sample.cast::<c::dds_builtintopic_endpoint_t>() };
                found.extend(read(endpoint, info.instance_handle).map(Found::Here));
            }
        }
        if count > 0 {
            // SAFETY: `count` loans were given; none of them is used any more.
            unsafe { c::dds_return_loan(self.reader.0, samples.as_mut_ptr(), count) };
        }
        Ok(found)
    }
}

/// Reads an endpoint; `None` if a name is missing or too long.
pub(super) fn read(endpoint: &c::dds_builtintopic_endpoint_t, handle: u64) -> Option<Endpoint> {
    let name = |text: *const std::ffi::c_char| {
        // SAFETY: a text of CycloneDDS, which ends in NUL and lives as long as the sample.
        let bytes = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?.to_bytes();
        (bytes.len() <= MAX_NAME).then(|| String::from_utf8_lossy(bytes).into_owned())
    };
    let (topic, type_name) = (name(endpoint.topic_name)?, name(endpoint.type_name)?);
    let qos = endpoint.qos.cast_const();
    let (mut reliability, mut durability, mut liveliness) = (0, 0, 0);
    let (mut blocking, mut deadline, mut lease) = (0, i64::MAX, i64::MAX);
    let (mut history, mut depth) = (c::dds_history_kind_DDS_HISTORY_KEEP_LAST, 0);
    let (mut data, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: `qos` belongs to the sample and is only read (for a null one the calls return false).
    // Each call writes only the values that it is given pointers to.
    unsafe {
        c::dds_qget_reliability(qos, &raw mut reliability, &raw mut blocking);
        c::dds_qget_durability(qos, &raw mut durability);
        c::dds_qget_deadline(qos, &raw mut deadline);
        c::dds_qget_liveliness(qos, &raw mut liveliness, &raw mut lease);
        c::dds_qget_history(qos, &raw mut history, &raw mut depth);
        c::dds_qget_userdata(qos, &raw mut data, &raw mut len);
    }
    let mut user_data = Vec::new();
    if !data.is_null() {
        // SAFETY: `dds_qget_userdata` has returned a block of `len` bytes that is ours, and it is
        // freed once.
        unsafe {
            user_data.extend_from_slice(std::slice::from_raw_parts(
                data.cast::<u8>(),
                len.min(MAX_USER_DATA),
            ));
            c::dds_free(data);
        }
    }
    let time =
        |ns: i64| (ns != i64::MAX).then(|| Duration::from_nanos(u64::try_from(ns).unwrap_or(0)));
    let qos = EndpointQos {
        reliability: if reliability == c::dds_reliability_kind_DDS_RELIABILITY_RELIABLE {
            Reliability::Reliable
        } else {
            Reliability::BestEffort
        },
        durability: match durability {
            c::dds_durability_kind_DDS_DURABILITY_VOLATILE => DurabilityKind::Volatile,
            c::dds_durability_kind_DDS_DURABILITY_TRANSIENT_LOCAL => DurabilityKind::TransientLocal,
            c::dds_durability_kind_DDS_DURABILITY_TRANSIENT => DurabilityKind::Transient,
            _ => DurabilityKind::Persistent,
        },
        deadline: time(deadline),
        liveliness: match liveliness {
            c::dds_liveliness_kind_DDS_LIVELINESS_AUTOMATIC => LivelinessKind::Automatic,
            c::dds_liveliness_kind_DDS_LIVELINESS_MANUAL_BY_PARTICIPANT => {
                LivelinessKind::ManualByParticipant
            }
            _ => LivelinessKind::ManualByTopic,
        },
        lease: time(lease),
    };
    let depth = if history == c::dds_history_kind_DDS_HISTORY_KEEP_ALL {
        Some(u32::MAX)
    } else {
        // 1 is DDS's default, which CycloneDDS uses if a writer does not announce its own. So a
        // depth of 1 counts as not announced.
        u32::try_from(depth).ok().filter(|depth| *depth > 1)
    };
    Some(Endpoint { handle, gid: endpoint.key.v, topic, type_name, qos, depth, user_data })
}
