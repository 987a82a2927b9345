// SPDX-License-Identifier: Apache-2.0
//! State that outlives a control thread: requests of the gateway's owner, lines to log, and the
//! lock against a second gateway of the domain on this host.

use super::error::GatewayError;
use super::{lock, session};
use driveline_gateway::network::{CarriedTopic, GatewayConfig};
use driveline_gateway::{
    NetworkReport, Notices, OnlyOne, PublisherReport, Report, ReportRequests, TopicReport,
};
use driveline_shm::{Kicker, Participant, ParticipantConfig};
use driveline_types::MonotonicNs;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Name of this kind of gateway in a domain.
pub(super) const KIND: &str = "zenoh";

/// Number of remembered reasons that were logged while a host cannot join the network.
const MAX_TOLD: usize = 16;

/// The gateway on this host.
struct Here {
    /// One for all control threads, by which each knows what the one before still publishes for other
    /// hosts.
    participant: Participant,
    /// Goes last: the only gateway of the domain on this host.
    _only: OnlyOne,
}

/// Requests of the gateway's owner to the control thread, also to its successor.
pub(super) struct Control {
    stop: AtomicBool,
    report_requests: ReportRequests,
    notices: Arc<Notices>,
    /// The present one, and what the host is called since it has begun.
    present: Mutex<Option<(Kicker, String)>>,
    /// Also between one control thread and the next.
    here: Mutex<Option<Here>>,
    /// Reason why this process cannot use the network any more.
    failure: Mutex<Option<String>>,
    /// All sockets of this process are the gateway's.
    owns_sockets: AtomicBool,
    started: MonotonicNs,
}

impl Control {
    pub(super) fn new() -> Arc<Self> {
        let first = Report { gateway: KIND.into(), pid: std::process::id(), ..Report::default() };
        let report_requests = ReportRequests::new(first);
        Arc::new(Self {
            stop: AtomicBool::new(false),
            report_requests,
            notices: Arc::default(),
            present: Mutex::default(),
            here: Mutex::default(),
            failure: Mutex::default(),
            owns_sockets: AtomicBool::new(false),
            started: MonotonicNs::now(),
        })
    }

    /// Takes part in this domain, and sees to it that there is no other gateway.
    pub(super) fn take_part(&self, domain_dir: PathBuf) -> Result<Participant, GatewayError> {
        let mut here = lock(&self.here);
        if let Some(Here { participant, .. }) = &*here {
            return Ok(participant.clone());
        }
        let participant = Participant::open(ParticipantConfig {
            domain_dir: Some(domain_dir),
            name: "gateway".into(),
        })?;
        let _only = OnlyOne::new(participant.domain_dir(), KIND)?;
        Ok(here.insert(Here { participant, _only }).participant.clone())
    }

    pub(super) fn let_others_serve(&self) {
        *lock(&self.here) = None;
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.kick();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn kick(&self) {
        if let Some((kicker, _)) = &*lock(&self.present) {
            kicker.kick();
        }
    }

    /// The report, or the one before if the control thread is busy.
    pub(super) fn report(&self) -> Report {
        let is_there = lock(&self.present).is_some();
        if is_there {
            self.report_requests.ask(|| self.kick())
        } else {
            self.report_requests.last()
        }
    }

    /// Returns the place where the control thread answers requests for its report.
    pub(super) fn report_requests(&self) -> &ReportRequests {
        &self.report_requests
    }

    pub(super) fn notices(&self) -> Arc<Notices> {
        self.notices.clone()
    }

    /// A control thread is there, and the host is called so since.
    pub(super) fn is_there(&self, kicker: Kicker, host: String) {
        *lock(&self.present) = Some((kicker, host));
    }

    /// There is no control thread any more, or not yet.
    pub(super) fn is_away(&self) {
        *lock(&self.present) = None;
    }

    /// Notes the reason why this host cannot join the network, which is retried: for reports, and
    /// for the log unless it was `told` recently.
    pub(super) fn kept_out(
        &self,
        config: &GatewayConfig,
        why: &GatewayError,
        told: &mut BTreeSet<String>,
    ) {
        let why = why.to_string();
        if told.len() >= MAX_TOLD {
            told.clear();
        }
        if told.insert(why.clone()) {
            self.tell(format!("not in the network, which is tried again each second: {why}"));
        }
        let now = MonotonicNs::now();
        let spec = &config.network;
        let network = NetworkReport {
            listens: spec.listen_endpoints(),
            connects: spec.connect.clone(),
            interface: spec.interface.clone(),
            kept_out: Some(why),
            ..NetworkReport::default()
        };
        let topics = config.topics.iter().map(|t| topic_report(t, Vec::new(), None)).collect();
        self.report_requests.put(Report {
            gateway: KIND.into(),
            pid: std::process::id(),
            domain: config.domain.clone(),
            host: session::host_name(spec),
            at_ns: now.0,
            up_ms: now.since(self.started).as_millis() as u64,
            network,
            topics,
            ..Report::default()
        });
    }

    /// From now on sockets of this process may be looked at and used.
    pub(super) fn owns_sockets(&self) {
        self.owns_sockets.store(true, Ordering::Release);
    }

    pub(super) fn has_sockets(&self) -> bool {
        self.owns_sockets.load(Ordering::Acquire)
    }

    pub(super) fn set_failure(&self, why: Option<String>) {
        *lock(&self.failure) = why;
    }

    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    pub(super) fn host(&self) -> String {
        lock(&self.present).as_ref().map(|(_, host)| host.clone()).unwrap_or_default()
    }

    pub(super) fn tell(&self, line: String) {
        self.notices.tell(line);
    }

    pub(super) fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }
}

/// Report on a topic: its fixed and its changing parts.
pub(super) fn topic_report(
    t: &CarriedTopic,
    publishers: Vec<PublisherReport>,
    similar: Option<String>,
) -> TopicReport {
    TopicReport {
        topic: t.topic.to_string(),
        send: t.send,
        receive: t.receive,
        max_payload: t.max_payload,
        max_rate_hz: t.max_rate_hz,
        every: t.every,
        publishers,
        similar,
    }
}
