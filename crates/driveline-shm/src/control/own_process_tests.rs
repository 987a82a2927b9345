// SPDX-License-Identifier: Apache-2.0
//! Subscriptions that skip the publishers of their own process.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use super::{Commands, Control, Source};
use crate::config::{OwnProcess, SchemaRequest, SubscriptionConfig};
use crate::control::Identity;
use crate::inlet::Inlet;
use crate::sys::descriptors;
use crate::sys::directory::{Directory, Kind, Name};
use crate::sys::socket;
use driveline_types::{EndpointId, TopicName};
use std::sync::{Arc, Mutex};

/// The socket of a publisher is in the directory before the control thread knows the publisher.
#[test]
fn an_own_publisher_is_left_out_as_soon_as_its_name_can_be_seen() {
    let dir = tempfile::tempdir().unwrap();
    let identity = Arc::new(Identity {
        id: EndpointId::random().unwrap(),
        name: "test".into(),
        pid: std::process::id(),
        directory: Directory::open(Some(dir.path())).unwrap(),
        description: Mutex::default(),
        own_names: Mutex::default(),
    });
    let mut control =
        Control::new(Arc::clone(&identity), Arc::new(Commands::new().unwrap())).unwrap();
    let topic: TopicName = "t".parse().unwrap();
    let mut config =
        SubscriptionConfig::new(topic.clone(), "n".parse().unwrap(), SchemaRequest::Any);
    config.own_process = OwnProcess::Exclude;
    let (_opening, first_match) = descriptors::admit(0, 1).unwrap();
    let id = EndpointId::random().unwrap();
    control.add_inlet(Arc::new(Inlet::new(id, config, first_match)));

    let (_listener, _name) = identity.listen(topic.id(), 0o600).unwrap();
    control.scan();
    let dials = |control: &Control| {
        control.sources.values().filter(|s| matches!(s, Source::Dial(_))).count()
    };
    assert_eq!(dials(&control), 0, "its samples would come twice");

    let other = Name::random(Kind::Publisher(topic.id().0)).unwrap();
    let _other = socket::listen_at(&identity.directory, &other, 0o600).unwrap();
    control.scan();
    assert_eq!(dials(&control), 1, "one of another process");
}
