// SPDX-License-Identifier: Apache-2.0
//! Finds the topics of this host that a pattern sends to ROS 2 and that the graph does not list, by
//! querying the participants of the domain.

use super::lock;
use super::waiting::Waiting;
use driveline_gateway::ros2::{Direction, Ros2Spec};
use driveline_shm::ParticipantInfo;
use driveline_types::TopicName;
use driveline_types::service::is_reserved;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Period of checks for new endpoints, which show in the domain's directory.
const CHECKED: Duration = Duration::from_millis(250);
/// Number of queries after a change: a new publisher may not be listed yet.
const ASKED: u32 = 4;
/// Time-out of answers.
const ANSWERED: Duration = Duration::from_millis(500);

struct Shared {
    found: Mutex<BTreeSet<TopicName>>,
    stop: Mutex<bool>,
    more: Condvar,
}

/// Finds the topics on a thread, which ends when this value is dropped.
pub(super) struct LocalTopics {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Returns true for the description of a gateway, whose topics come from elsewhere.
fn is_gateway(description: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(description)
        .is_ok_and(|description| description.get("gateway").is_some())
}

/// Topics that these participants publish and that a pattern sends to ROS 2.
fn covered(spec: &Ros2Spec, participants: &[ParticipantInfo]) -> BTreeSet<TopicName> {
    let own = participants.iter().filter(|p| p.of_this_user && !is_gateway(&p.description));
    let topics = own
        .flat_map(|p| &p.publishers)
        .map(|p| p.topic.as_str())
        .filter(|topic| !is_reserved(topic));
    let covered =
        |topic: &TopicName| spec.rule(topic, false).is_some_and(|rule| rule.single().is_none());
    topics.filter_map(|topic| topic.parse().ok()).filter(covered).collect()
}

impl LocalTopics {
    /// Starts the search. `None`: no rule needs it.
    pub(super) fn start(
        spec: &Ros2Spec,
        domain_dir: &Path,
        control_thread: &Arc<Waiting>,
    ) -> std::io::Result<Option<Self>> {
        if !spec
            .topics
            .iter()
            .any(|rule| rule.direction != Direction::FromRos && rule.single().is_none())
        {
            return Ok(None);
        }
        let shared = Arc::new(Shared {
            found: Mutex::default(),
            stop: Mutex::new(false),
            more: Condvar::new(),
        });
        let (of_thread, spec, domain_dir, control_thread) =
            (shared.clone(), spec.clone(), domain_dir.to_owned(), control_thread.clone());
        let run = move || of_thread.run(&spec, &domain_dir, &control_thread);
        let thread = Some(std::thread::Builder::new().name("dl-topics".into()).spawn(run)?);
        Ok(Some(Self { shared, thread }))
    }

    /// Topics found since the last call; some may be repeated.
    pub(super) fn take(&self) -> BTreeSet<TopicName> {
        std::mem::take(&mut lock(&self.shared.found))
    }
}

impl Shared {
    fn run(&self, spec: &Ros2Spec, domain_dir: &PathBuf, control_thread: &Waiting) {
        let (mut seen, mut asks) = (None::<SystemTime>, ASKED);
        let mut known = BTreeSet::new();
        loop {
            let changed = std::fs::metadata(domain_dir).and_then(|m| m.modified()).ok();
            if changed != seen {
                (seen, asks) = (changed, ASKED);
            }
            if asks > 0 {
                asks -= 1;
                let covered =
                    covered(spec, &driveline_shm::list(domain_dir, ANSWERED).unwrap_or_default());
                let new: BTreeSet<_> = covered.difference(&known).cloned().collect();
                if !new.is_empty() {
                    lock(&self.found).extend(new);
                    control_thread.wake();
                }
                known = covered;
            }
            let stop = self
                .more
                .wait_timeout_while(lock(&self.stop), CHECKED, |stop| !*stop)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if *stop {
                return;
            }
        }
    }
}

impl Drop for LocalTopics {
    fn drop(&mut self) {
        *lock(&self.shared.stop) = true;
        self.shared.more.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
