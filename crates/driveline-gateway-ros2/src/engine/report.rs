// SPDX-License-Identifier: Apache-2.0
//! Report of the gateway.

use super::KIND;
use super::control_thread::{ControlThread, WITH_A_REMARK, pairs};
use super::endpoint::{Endpoint, Profile, Writing};
use super::lock;
use super::service::written;
use crate::discovery_info::Gid;
use driveline_gateway::{Refusal, Report, Ros2Report, Ros2TopicReport};
use driveline_types::MonotonicNs;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Maximum number of refusals in a report.
const MAX_REFUSALS: usize = 1024;
/// Maximum number of remarks on subscriptions for each topic in a report.
const MAX_REMARKS: usize = 64;

impl ControlThread {
    pub(super) fn report(&self, writings: &[Writing]) -> Report {
        let spec = &self.common.spec;
        let mut to_ros: Vec<_> =
            self.outgoing.values().flatten().map(|t| t.report(writings)).collect();
        for topic in &mut to_ros {
            let published = pairs(writings, &self.readers)
                .filter(|(w, _)| w.publisher.is_some() && w.topic.as_str() == topic.topic);
            let matched: HashSet<_> = published
                .filter(|(w, r)| self.common.against(w, r).is_empty())
                .map(|(_, r)| r.gid)
                .collect();
            topic.readers = matched.iter().map(|gid| self.node_of(gid)).collect();
            topic.readers.sort();
            topic.remarks = self.remarks(writings, &topic.topic);
        }
        let empty = |topic: String| Ros2TopicReport { topic, ..Ros2TopicReport::default() };
        let mut from_ros: BTreeMap<String, Ros2TopicReport> =
            self.sought.iter().map(|t| (t.clone(), empty(t.clone()))).collect();
        for of_profile in self.incoming.iter().flat_map(|(_, incoming)| incoming.report()) {
            let topic =
                from_ros.entry(of_profile.topic.clone()).or_insert_with(|| empty(of_profile.topic));
            topic.publishers.extend(of_profile.publishers);
            topic.remarks.extend(of_profile.remarks);
            topic.carried += of_profile.carried;
            topic.across += of_profile.across;
            topic.replaced += of_profile.replaced;
            for (reason, count) in of_profile.dropped {
                *topic.dropped.entry(reason).or_default() += count;
            }
        }
        let unmatched = pairs(writings, &self.readers)
            .map(|(w, r)| (w, r, self.common.against(w, r)))
            .filter(|(_, _, reasons)| !reasons.is_empty());
        let unmatched = unmatched.map(|(w, r, reasons)| Refusal {
            topic: w.topic.to_string(),
            host: self.node_of(&r.gid),
            outgoing: true,
            subscription: true,
            reason: reasons.join("; "),
            again_ms: None,
        });
        let here: Vec<_> = lock(&self.common.refusals).values().cloned().collect();
        let there = self.incoming.iter().flat_map(|(_, incoming)| incoming.refusals());
        let mut refused: Vec<_> =
            here.into_iter().chain(unmatched).chain(there).take(MAX_REFUSALS).collect();
        refused.sort_by(|a, b| (&a.topic, &a.host, &a.reason).cmp(&(&b.topic, &b.host, &b.reason)));
        let now = MonotonicNs::now();
        let nodes: HashSet<_> = self.nodes.values().collect();
        let network = self.common.transports.iter().find_map(|transport| transport.network());
        let (network, malformed_tokens) =
            network.map(|n| (n.report, n.malformed_tokens)).unwrap_or_default();
        Report {
            gateway: KIND.into(),
            pid: std::process::id(),
            domain: self.domain.clone(),
            host: format!("{:016x}", self.common.mark),
            at_ns: now.0,
            up_ms: now.since(self.started).as_millis() as u64,
            network,
            refused,
            ros2: Some(Ros2Report {
                domain_id: spec.domain_id,
                dds: spec.dds,
                zenoh: self.common.has(Profile::Zenoh),
                interface: spec.interface.clone(),
                nodes: nodes.len(),
                malformed_tokens,
                left_out: self.left_out.clone(),
                beside: self.beside.iter().cloned().collect(),
                to_ros,
                from_ros: from_ros.into_values().collect(),
                services: self.services.report(&self.nodes),
            }),
            ..Report::default()
        }
    }

    /// Remarks on local publishers of a topic, and on ROS 2 subscriptions that receive its samples.
    fn remarks(&self, writings: &[Writing], topic: &str) -> Vec<String> {
        let matched = pairs(writings, &self.readers)
            .filter(|(w, r)| w.topic.as_str() == topic && self.common.against(w, r).is_empty());
        let of = |(w, r): (&Writing, &Endpoint)| {
            let remarks = Some(self.common.remarks(w, r)).filter(|remarks| !remarks.is_empty())?;
            Some(format!(
                "a subscription of node {} {WITH_A_REMARK}: {}",
                self.node_of(&r.gid),
                remarks.join("; ")
            ))
        };
        let weaker =
            writings.iter().filter(|w| w.topic.as_str() == topic).filter_map(|w| w.weaker.clone());
        let all: BTreeSet<_> = weaker.chain(matched.filter_map(of)).take(MAX_REMARKS).collect();
        all.into_iter().collect()
    }

    /// Name of the node of a foreign endpoint, in ROS 2's form.
    fn node_of(&self, gid: &Gid) -> String {
        written(self.nodes.get(gid))
    }
}
