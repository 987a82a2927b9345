// SPDX-License-Identifier: Apache-2.0
//! Driveline's gateways between two hosts: their configurations.

use crate::cable::CableSpec;
use crate::harness::{HOSTS, Job, Pace, Role};
use crate::peer::{domain_dir, ping, pong, reliability};
use anyhow::{Context, Result};
use driveline::types::Qos;
use driveline_gateway::network::{CarriedTopic, GatewayConfig, NetworkSpec};
use driveline_graph::model::Access;
use std::path::{Path, PathBuf};

/// Bandwidth in the gateways' configuration for a cable without a limit: more than the processors
/// carry.
const UNLIMITED_MBIT: u32 = 10_000;
/// Port on which the gateway of the sending host listens.
const GATEWAY_PORT: u16 = 7450;

/// Writes the gateways' configurations for both hosts for a run with Driveline.
pub(super) fn configurations(job: &Job, cable: CableSpec, dir: &Path) -> Result<[PathBuf; 2]> {
    let write = |side: usize| -> Result<PathBuf> {
        let config = serde_json::to_string(&gateway(job, cable, side)?)
            .context("the configuration of a gateway")?;
        let path = dir.join(format!("gateway-{side}.json"));
        std::fs::write(&path, config)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    Ok([write(0)?, write(1)?])
}

fn gateway(job: &Job, cable: CableSpec, side: usize) -> Result<GatewayConfig> {
    let [listening, _] = HOSTS;
    let endpoints = vec![format!("tcp/{listening}:{GATEWAY_PORT}")];
    let (role, listen, connect) = if side == 0 {
        (Role::Publisher, endpoints, Vec::new())
    } else {
        (Role::Subscriber, Vec::new(), endpoints)
    };
    // Each topic, and the index of the host that sends it.
    let topics = match job.pace {
        Pace::PingPong => vec![(ping(job), 0), (pong(job), 1)],
        Pace::RateHz(_) => vec![(job.topic.clone(), 0)],
    };
    let carried = |(topic, from): (String, usize)| -> Result<CarriedTopic> {
        Ok(CarriedTopic {
            topic: topic.parse().with_context(|| format!("`{topic}` is no name of a topic"))?,
            send: from == side,
            receive: from != side,
            max_payload: job.size as u64,
            pins: job.subscribers.max(1) as u32,
            hosts: None,
            qos: Qos { reliability: reliability(job), depth: job.depth, ..Qos::default() },
            max_rate_hz: None,
            every: None,
            access: Access::default(),
        })
    };
    let host = Some(format!("host-{side}"));
    let bandwidth_mbit = Some(cable.mbit.unwrap_or(UNLIMITED_MBIT));
    Ok(GatewayConfig {
        domain: "bench".into(),
        domain_dir: domain_dir(&Job { role, ..job.clone() }),
        network: NetworkSpec { host, listen, connect, bandwidth_mbit, ..NetworkSpec::default() },
        topics: topics.into_iter().map(carried).collect::<Result<_>>()?,
    })
}
