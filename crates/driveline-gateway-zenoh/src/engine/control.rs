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

/// Maximum number of remembered reasons that were logged while the host cannot join the network.
const MAX_LOGGED_REASONS: usize = 16;

/// Participant and lock of the gateway in the domain on this host.
struct Here {
    /// One participant for all control threads, so that each knows what its predecessor still
    /// publishes for other hosts.
    participant: Participant,
    /// Dropped last. Ensures that the domain has only one gateway on this host.
    _only: OnlyOne,
}

/// Requests of the gateway's owner to the control thread. They outlive it and reach its successor.
pub(super) struct Control {
    stop: AtomicBool,
    report_requests: ReportRequests,
    notices: Arc<Notices>,
    /// Present control thread, and the id of this host, which each control thread chooses anew.
    present: Mutex<Option<(Kicker, String)>>,
    /// Exists also while there is no control thread.
    here: Mutex<Option<Here>>,
    /// Reason why this process cannot use the network any more.
    failure: Mutex<Option<String>>,
    /// True if the gateway may inspect and use all sockets of this process.
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

    /// Joins this domain, and ensures that there is no other gateway of it on this host.
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

    pub(super) fn release_domain(&self) {
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

    /// Returns the report. If the control thread is busy, or there is none, returns the last one.
    pub(super) fn report(&self) -> Report {
        let is_there = lock(&self.present).is_some();
        if is_there {
            self.report_requests.ask(|| self.kick())
        } else {
            self.report_requests.last()
        }
    }

    /// Returns the requests for reports, which the control thread answers.
    pub(super) fn report_requests(&self) -> &ReportRequests {
        &self.report_requests
    }

    pub(super) fn notices(&self) -> Arc<Notices> {
        self.notices.clone()
    }

    /// Notes a new control thread, and the id that it has chosen for this host.
    pub(super) fn is_there(&self, kicker: Kicker, host: String) {
        *lock(&self.present) = Some((kicker, host));
    }

    /// Notes that there is no control thread, or none yet.
    pub(super) fn is_away(&self) {
        *lock(&self.present) = None;
    }

    /// Notes the reason why this host cannot join the network; joining is retried. The reason is
    /// for reports, and for the log unless it was logged recently (`logged`).
    pub(super) fn kept_out(
        &self,
        config: &GatewayConfig,
        why: &GatewayError,
        logged: &mut BTreeSet<String>,
    ) {
        let why = why.to_string();
        if logged.len() >= MAX_LOGGED_REASONS {
            logged.clear();
        }
        if logged.insert(why.clone()) {
            self.log(format!("not in the network; trying again each second: {why}"));
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

    /// Permits the gateway to inspect and use all sockets of this process.
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

    pub(super) fn log(&self, line: String) {
        self.notices.log(line);
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
