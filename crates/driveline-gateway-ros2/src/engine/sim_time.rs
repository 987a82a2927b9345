// SPDX-License-Identifier: Apache-2.0
//! Receives a simulation's clock, if stamps use it (`use_sim_time`).

use super::endpoint::{Endpoint, Profile};
use super::error::GatewayError;
use super::feed::Feed;
use super::gateway_state::GatewayState;
use crate::clock;
use crate::qos::{EndpointQos, ReaderClass};
use crate::rmw_zenoh::key_hash;
use driveline_gateway::ros2::{Direction, Form, Rule};
use driveline_types::{Durability, MonotonicNs, Reliability, TopicName};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest pause between checks without an event.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Time after the start without any clock message, after which this is logged.
const MISSED_AFTER: Duration = Duration::from_secs(5);

/// Receiver on one profile. Dropping it ends it.
pub(super) struct SimTime {
    feed: Arc<dyn Feed>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SimTime {
    pub(super) fn start(
        common: &Arc<GatewayState>,
        profile: Profile,
    ) -> Result<Self, GatewayError> {
        let refused = |message: String| GatewayError::Config {
            key: "use_sim_time",
            message: format!("cannot listen to /{} over {profile}: {message}", clock::TOPIC),
            help: "leave it out, and stamps are of the wall clock".into(),
        };
        let rule = Rule::new(format!("/{}", clock::TOPIC), Direction::FromRos);
        let topic: TopicName = clock::TOPIC.parse().map_err(|_| refused("its name".into()))?;
        let crossing =
            common.types.from_ros(clock::TYPE, Form::Cdr).map_err(|e| refused(e.to_string()))?;
        // The weakest request matches a clock of any QoS.
        let class = ReaderClass::new(Reliability::BestEffort, Durability::Volatile);
        let anybody = Endpoint {
            profile,
            handle: 0,
            gid: [0; 16],
            topic,
            type_name: clock::TYPE.into(),
            hash: key_hash(crossing.hash, common.spec.release).unwrap_or_default(),
            session: String::new(),
            announced: None,
            qos: EndpointQos::default(),
            depth: None,
            gateway: false,
            node: None,
        };
        let feed = Arc::<dyn Feed>::from(
            common.transport(profile).and_then(|t| t.feed(&rule)).map_err(refused)?,
        );
        feed.read(&anybody, class, &crossing).map_err(refused)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("dl-clock".into()).spawn({
            let (common, feed, stop) = (common.clone(), feed.clone(), stop.clone());
            move || listen(&common, &*feed, &stop)
        });
        let thread =
            thread.map_err(|source| GatewayError::System { action: "start a thread", source })?;
        Ok(Self { feed, stop, thread: Some(thread) })
    }
}

fn listen(common: &GatewayState, feed: &dyn Feed, stop: &AtomicBool) {
    let mut missed_at = Some(Instant::now() + MISSED_AFTER);
    let mut broken = false;
    while !stop.load(Ordering::Acquire) {
        let took = feed.take(&mut |came| {
            // A sample of 12 bytes is never split.
            let heard = came.sample.and_then(|s| s.one().ok_or(s.len()));
            let heard = heard.map_err(|len| format!("it has {len} bytes"));
            let heard = heard.and_then(|bytes| {
                common.clock.hear(bytes, MonotonicNs::now()).map_err(|e| e.to_string())
            });
            if let Err(e) = heard
                && !std::mem::replace(&mut broken, true)
            {
                common.log(format!(
                    "a sample of /{} is not understood, and others like it: {e}",
                    clock::TOPIC
                ));
            }
        });
        if common.clock.ahead_ns(0).is_some() {
            missed_at = None;
        } else if missed_at.is_some_and(|at| Instant::now() > at) {
            missed_at = None;
            common.log(format!(
                "no node publishes the time on /{} yet: until then stamps have no \
                 meaning, in both directions",
                clock::TOPIC
            ));
        }
        let waited = match took {
            Ok(true) => Ok(()),
            Ok(false) => feed.wait(CHECK_EVERY),
            Err(e) => Err(e),
        };
        if let Err(e) = waited {
            // The gateway ends: otherwise it would convert stamps by an outdated clock.
            common.fail(format!("the time on /{} is not heard any more: {e}", clock::TOPIC));
            return;
        }
    }
}

impl Drop for SimTime {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.feed.wake();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been reported already.
            let _ = thread.join();
        }
    }
}
