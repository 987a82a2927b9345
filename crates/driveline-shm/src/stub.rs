// SPDX-License-Identifier: Apache-2.0
//! Signatures only, so that dependants can be written; replaced module by module.
#![allow(clippy::todo, clippy::missing_errors_doc, clippy::must_use_candidate, missing_docs, clippy::new_without_default)]
use crate::*;
use driveline_types::{EndpointId, MonotonicNs, SampleHeader};
use std::path::Path;
use std::time::Duration;

#[derive(Clone)]
pub struct Participant;
impl Participant {
    pub fn open(_config: ParticipantConfig) -> Result<Self, OpenError> {
        todo!()
    }
    pub fn id(&self) -> EndpointId {
        todo!()
    }
    pub fn domain_dir(&self) -> &Path {
        todo!()
    }
    pub fn create_publisher(&self, _config: PublisherConfig) -> Result<Publisher, CreatePublisherError> {
        todo!()
    }
    pub fn create_subscription(&self, _config: SubscriptionConfig) -> Result<Subscription, CreateSubscriptionError> {
        todo!()
    }
    /// Free-form description that listings return (at most 64 KiB, longer ones are cut).
    pub fn set_description(&self, _json: String) {
        todo!()
    }
}

pub fn list(_domain_dir: &Path, _timeout: Duration) -> Result<Vec<ParticipantInfo>, ListError> {
    todo!()
}

pub struct Publisher;
impl Publisher {
    pub fn id(&self) -> EndpointId {
        todo!()
    }
    pub fn max_payload(&self) -> usize {
        todo!()
    }
    pub fn loan(&mut self, _len: usize) -> Result<Loan, LoanError> {
        todo!()
    }
    pub fn publish(&mut self, _loan: Loan, _meta: PublishMeta) -> Result<u64, PublishError> {
        todo!()
    }
    pub fn next_sequence(&self) -> u64 {
        todo!()
    }
    pub fn matched(&self) -> usize {
        todo!()
    }
    pub fn stats(&self) -> PublisherStats {
        todo!()
    }
    pub fn poll_event(&mut self) -> Option<PublisherEvent> {
        todo!()
    }
    pub fn assert_liveliness(&mut self) {
        todo!()
    }
}

pub struct Loan;
impl Loan {
    pub fn payload(&self) -> &[u8] {
        todo!()
    }
    pub fn payload_mut(&mut self) -> &mut [u8] {
        todo!()
    }
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Shortens the payload; a greater length changes nothing.
    pub fn shrink(&mut self, _len: usize) {
        todo!()
    }
}

pub struct Subscription;
impl Subscription {
    pub fn id(&self) -> EndpointId {
        todo!()
    }
    pub fn take_next(&mut self) -> Result<Option<Sample>, TakeError> {
        todo!()
    }
    pub fn take_latest(&mut self) -> Result<Option<Sample>, TakeError> {
        todo!()
    }
    pub fn copy_next(&mut self, _into: &mut [u8]) -> Result<Option<Copied>, TakeError> {
        todo!()
    }
    pub fn copy_latest(&mut self, _into: &mut [u8]) -> Result<Option<Copied>, TakeError> {
        todo!()
    }
    pub fn has_unread(&self) -> bool {
        todo!()
    }
    pub fn matched(&self) -> usize {
        todo!()
    }
    pub fn stats(&self) -> SubscriptionStats {
        todo!()
    }
    pub fn poll_event(&mut self) -> Option<SubscriptionEvent> {
        todo!()
    }
}

/// What a copy brought.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Header of the copied sample; its `payload_len` says how much of the buffer is filled.
    pub header: SampleHeader,
    /// Missed on this edge since the previous sample.
    pub missed: u64,
    pub publisher: EndpointId,
}

pub struct Sample;
impl Sample {
    pub fn payload(&self) -> &[u8] {
        todo!()
    }
    pub fn header(&self) -> &SampleHeader {
        todo!()
    }
    pub fn missed(&self) -> u64 {
        todo!()
    }
    pub fn publisher(&self) -> EndpointId {
        todo!()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitBackend {
    #[default]
    Auto,
    FutexWaitv,
    Threads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// An attached, unmuted subscription has unread samples.
    Data,
    /// Kicked, or an attached subscription has a new event (match, end of a match, refusal, deadline …).
    Kicked,
    TimedOut,
}

pub struct WaitSet;
impl WaitSet {
    pub fn new(_backend: WaitBackend) -> Result<Self, WaitSetError> {
        todo!()
    }
    /// At most one wait set per subscription at a time.
    pub fn attach(&mut self, _sub: &Subscription) -> Result<(), WaitSetError> {
        todo!()
    }
    pub fn detach(&mut self, _sub: &Subscription) {
        todo!()
    }
    /// A muted subscription stays attached but does not end a wait (for one whose callback is busy). Cheap.
    pub fn set_muted(&mut self, _sub: &Subscription, _muted: bool) {
        todo!()
    }
    pub fn kicker(&self) -> Kicker {
        todo!()
    }
    pub fn wait(&mut self, _deadline: Option<MonotonicNs>, _spin: Duration) -> Wake {
        todo!()
    }
}

#[derive(Clone)]
pub struct Kicker;
impl Kicker {
    pub fn kick(&self) {
        todo!()
    }
}
