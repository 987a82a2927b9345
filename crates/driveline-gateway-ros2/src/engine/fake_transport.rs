// SPDX-License-Identifier: Apache-2.0
//! Transport for tests, without a network: the test takes the part of the nodes of ROS 2.

use super::endpoint::{Change, Endpoint, Handle, Profile, Writing};
use super::error::GatewayError;
use super::feed::{Came, Feed};
use super::lock;
use super::ros_writer::{Listed, Offer, RosWriter, WriterList, Written};
use super::service::{Answers, Asking, Interface, Offered, Requests, ServiceEndpoint};
use super::transport::{Discovery, Learnt, Nodes, Transport, types_differ};
use super::transports::{Opened, Transports};
use super::waiting::{Signal, Waiting};
use crate::names::RosNode;
use crate::qos::{ReaderClass, mismatches};
use crate::types::Crossing;
use bytes::Bytes;
use driveline_gateway::ros2::Rule;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Profile that the fake transport stands for: it matches by QoS, as DDS does.
const PROFILE: Profile = Profile::Dds;

/// Reason why services are not possible.
const NO_SERVICES: &str = "the fake transport has no services";

/// The nodes of ROS 2.
#[derive(Default)]
pub(super) struct FakeNodes {
    changes: Mutex<Vec<(bool, Change)>>,
    /// The feed that was opened last.
    feed: Mutex<Option<Arc<Queue>>>,
    next_gid: AtomicU64,
    /// Samples that the gateway has written.
    pub(super) written: Mutex<Vec<Vec<u8>>>,
}

impl FakeNodes {
    /// Returns the transport to these nodes.
    pub(super) fn open(self: &Arc<Self>) -> Result<Opened, GatewayError> {
        Ok(Opened {
            transports: Transports(vec![Box::new(FakeTransport(self.clone()))]),
            discoveries: vec![(PROFILE, Box::new(FakeDiscovery(self.clone())))],
            waiting: Arc::new(Waiting::Signal(Signal::default())),
        })
    }

    /// Creates a writer or a reader.
    pub(super) fn here(&self, writes: bool, endpoint: &Endpoint) {
        lock(&self.changes).push((writes, Change::Here(Box::new(endpoint.clone()))));
    }

    /// Ends a writer or a reader.
    pub(super) fn gone(&self, writes: bool, handle: Handle) {
        lock(&self.changes).push((writes, Change::Gone(handle)));
    }

    /// Sends a sample of a writer to the feed that was opened last.
    pub(super) fn send(&self, writer: Handle, class: ReaderClass, number: i64, bytes: &[u8]) {
        let queue = lock(&self.feed).clone().expect("an open feed");
        let bytes = bytes.to_vec();
        lock(&queue.samples).push_back(FakeSample { writer, class, number, bytes });
        queue.signal.raise();
    }
}

struct FakeSample {
    writer: Handle,
    class: ReaderClass,
    number: i64,
    bytes: Vec<u8>,
}

/// Samples that wait for the thread of a topic.
#[derive(Default)]
struct Queue {
    samples: Mutex<VecDeque<FakeSample>>,
    signal: Signal,
}

/// Feed of a topic. By default, no samples arrive.
#[derive(Default)]
pub(super) struct FakeFeed(Arc<Queue>);

impl Feed for FakeFeed {
    fn kept(&self) -> u64 {
        32
    }

    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn same_clock(&self) -> bool {
        false
    }

    fn read(&self, _: &Endpoint, _: ReaderClass, _: &Crossing) -> Result<(), String> {
        Ok(())
    }

    fn take(&self, each: &mut dyn FnMut(&Came<'_>)) -> Result<bool, String> {
        let Some(sample) = lock(&self.0.samples).pop_front() else { return Ok(false) };
        each(&Came {
            writer: sample.writer,
            class: sample.class,
            source_timestamp: 0,
            number: Some(sample.number),
            lost: &AtomicU64::new(0),
            rejected: 0,
            sample: Ok(sample.bytes.as_slice().into()),
        });
        Ok(true)
    }

    fn losses(&self) -> [(&'static str, u64); 2] {
        // Sequence numbers show lost samples.
        [("rejected", 0), ("attachment", 0)]
    }

    fn wait(&self, longest: Duration) -> Result<(), String> {
        self.0.signal.wait(longest);
        Ok(())
    }

    fn wake(&self) {
        self.0.signal.raise();
    }
}

struct FakeWriter {
    nodes: Arc<FakeNodes>,
    _listed: Listed,
}

impl RosWriter for FakeWriter {
    fn write(&self, parts: &[&[u8]], _: Option<&Bytes>, _: i64) -> Result<Written, String> {
        lock(&self.nodes.written).push(parts.concat());
        Ok(Written::default())
    }
}

struct FakeTransport(Arc<FakeNodes>);

impl Transport for FakeTransport {
    fn profile(&self) -> Profile {
        PROFILE
    }

    fn feed(&self, _: &Rule) -> Result<Box<dyn Feed>, String> {
        let feed = FakeFeed::default();
        *lock(&self.0.feed) = Some(feed.0.clone());
        Ok(Box::new(feed))
    }

    fn writer(&self, offer: Offer<'_>, list: WriterList<'_>) -> Result<Box<dyn RosWriter>, String> {
        let gid = u128::from(self.0.next_gid.fetch_add(1, Ordering::Relaxed)).to_le_bytes();
        let listed = list.add(PROFILE, gid, String::new(), offer);
        Ok(Box::new(FakeWriter { nodes: self.0.clone(), _listed: listed }))
    }

    fn offer(
        &self,
        _: &Interface,
        _: &RosNode,
        _: Arc<dyn Requests>,
    ) -> Result<Box<dyn Offered>, String> {
        Err(NO_SERVICES.into())
    }

    fn ask(
        &self,
        _: &Interface,
        _: &RosNode,
        _: &ServiceEndpoint,
        _: Arc<dyn Answers>,
    ) -> Result<Arc<dyn Asking>, String> {
        Err(NO_SERVICES.into())
    }

    fn compares_qos(&self) -> bool {
        true
    }

    fn against(&self, writing: &Writing, reader: &Endpoint) -> Vec<String> {
        let mismatches = mismatches(&writing.qos, &reader.qos);
        let mismatches = mismatches.iter().map(ToString::to_string);
        mismatches.chain(types_differ(writing, reader)).collect()
    }

    fn remarks(&self, _: &Writing, _: &Endpoint) -> Vec<String> {
        Vec::new()
    }

    fn check_type(&self, _: &Endpoint, _: &Crossing) -> Result<(), String> {
        Ok(())
    }

    fn server_mismatch(&self, _: &Interface, _: &ServiceEndpoint) -> Option<String> {
        None
    }

    fn named_within(&self) -> Duration {
        Duration::ZERO
    }
}

struct FakeDiscovery(Arc<FakeNodes>);

impl Discovery for FakeDiscovery {
    fn poll(&mut self, _: &mut Nodes, _: usize) -> Learnt {
        Learnt { endpoints: std::mem::take(&mut lock(&self.0.changes)), ..Learnt::default() }
    }

    fn next(&mut self) -> Option<Instant> {
        None
    }

    fn gateways(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
}
