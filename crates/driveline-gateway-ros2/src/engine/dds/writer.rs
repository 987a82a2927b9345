// SPDX-License-Identifier: Apache-2.0
//! Writer of a topic over DDS.

use crate::dds;
use crate::discovery_info::endpoint_user_data;
use crate::engine::endpoint::Profile;
use crate::engine::ros_writer::{Listed, Offer, RosWriter, WriterList, Written};
use crate::names::dds_topic;
use bytes::Bytes;
use driveline_gateway::ros2::Release;
use std::time::Duration;

/// Dropped in this order: the writer ends before its topic.
struct DdsWriter {
    writer: dds::Writer,
    _topic: dds::Entity,
    _listed: Listed,
}

/// Opens a writer.
pub(in crate::engine) fn open(
    dds: &dds::Participant,
    release: Release,
    offer: Offer<'_>,
    list: WriterList<'_>,
) -> Result<Box<dyn RosWriter>, String> {
    let text = |e: dds::DdsError| e.to_string();
    let config = dds::EndpointConfig {
        qos: offer.qos,
        // A writer that keeps all samples would wait for a departed reader until its lease ends,
        // and delay all other readers.
        history: dds::History::KeepLast(offer.depth),
        max_blocking: Duration::ZERO,
        lifespan: offer.lifespan,
        user_data: &endpoint_user_data(offer.crossing.hash, release),
    };
    let name = dds_topic(offer.topic).ok_or("ROS 2 does not permit its name: rename it")?;
    let topic = dds.topic(&name, &offer.crossing.ros.dds()).map_err(text)?;
    let writer = dds.writer(&topic, &config).map_err(text)?;
    let gid = writer.entity.gid().map_err(text)?;
    let listed = list.add(Profile::Dds, gid, String::new(), offer);
    Ok(Box::new(DdsWriter { writer, _topic: topic, _listed: listed }))
}

impl RosWriter for DdsWriter {
    fn write(&self, parts: &[&[u8]], _: Option<&Bytes>, _: i64) -> Result<Written, String> {
        let replaced = self.writer.write(parts).map_err(|e| e.to_string())?;
        Ok(Written { replaced, ..Written::default() })
    }
}
