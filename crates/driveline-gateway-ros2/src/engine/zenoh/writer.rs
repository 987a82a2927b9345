// SPDX-License-Identifier: Apache-2.0
//! Writer of a topic over Zenoh: on the caller's thread, or on one of its own.

use super::Session;
use super::endpoint::{Prepared, Writer, WriterConfig};
use crate::engine::backlog::{Backlog, BacklogThreads, Pushed};
use crate::engine::endpoint::Profile;
use crate::engine::ros_writer::{Listed, Offer, RosWriter, WriterList, Written};
use crate::rmw_zenoh::{TokenQos, key_hash};
use bytes::Bytes;
use driveline_gateway::ros2::Release;
use std::sync::Arc;

/// Writer that waits for a link on its caller's thread.
struct Direct {
    writer: Writer,
    _listed: Listed,
}

/// Writer on a thread of its own. It stays in the list of writers until that thread has ended.
struct Apart {
    writer: Arc<Writer>,
    backlog: Backlog<Prepared>,
}

/// Opens a writer. `backlogs`: threads of writers.
pub(in crate::engine) fn open(
    session: &Session,
    backlogs: &BacklogThreads,
    release: Release,
    offer: Offer<'_>,
    list: WriterList<'_>,
) -> Result<Box<dyn RosWriter>, String> {
    let Offer { crossing, depth, lifespan, apart, .. } = offer;
    let hash = key_hash(crossing.hash, release).ok_or_else(|| {
        format!(
            "the definition of {} is not complete, so its hash is not known; name its packages \
             under `types`",
            crossing.ros
        )
    })?;
    let writer = session.writer(&WriterConfig {
        topic: offer.topic,
        type_name: &crossing.ros.dds(),
        hash: &hash,
        qos: TokenQos { endpoint: offer.qos, keep_all: false, depth, lifespan },
        node: &offer.node,
    })?;
    let listed = list.add(Profile::Zenoh, writer.gid(), hash, offer);
    if !apart {
        // A full link may block the caller, because no other profile waits behind this writer.
        return Ok(Box::new(Direct { writer, _listed: listed }));
    }
    let writer = Arc::new(writer);
    let of_thread = writer.clone();
    let send = move |sample| {
        // The closure must own the entry. A `move` closure captures only variables that it
        // mentions.
        let _ = &listed;
        of_thread.put(sample)
    };
    let (backlog, thread) =
        Backlog::start(depth, send).map_err(|e| format!("cannot start a thread: {e}"))?;
    backlogs.add(thread);
    Ok(Box::new(Apart { writer, backlog }))
}

impl RosWriter for Direct {
    fn write(
        &self,
        parts: &[&[u8]],
        slot: Option<&Bytes>,
        source_timestamp: i64,
    ) -> Result<Written, String> {
        self.writer
            .put(self.writer.prepare(parts, slot, source_timestamp)?)
            .map(|()| Written::default())
    }
}

impl RosWriter for Apart {
    fn write(
        &self,
        parts: &[&[u8]],
        _: Option<&Bytes>,
        source_timestamp: i64,
    ) -> Result<Written, String> {
        // Copies the bytes instead of holding the slot. A held slot would stay pinned while the
        // sample is in the backlog, and its publisher has few slots.
        let sample = self.writer.prepare(parts, None, source_timestamp)?;
        let Pushed { replaced, failed, why } =
            self.backlog.push(sample, parts.iter().map(|part| part.len()).sum());
        Ok(Written { replaced, failed, why })
    }
}
