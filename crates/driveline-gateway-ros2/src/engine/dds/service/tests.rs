// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::discovery_info::PARTICIPANT_USER_DATA;
use crate::engine::dds::configuration;
use crate::engine::rig::{DOMAIN, alone};
use crate::engine::service::{Answers, Cdr, Reply, RequestId, Requests};
use std::sync::Arc;

#[test]
fn endless_samples_do_not_keep_a_thread_from_checking_matches() {
    let taken = std::cell::Cell::new(0);
    let take = |_| {
        taken.set(taken.get() + 1);
        assert!(taken.get() <= 10 * TURN, "it has to check in between");
    };
    assert!(turn(|| Ok(Some(())), take).unwrap(), "there may be more");
    assert_eq!(taken.replace(0), TURN);
    let mut left = 3;
    let mut next = || {
        left -= 1;
        Ok((left >= 0).then_some(()))
    };
    assert!(!turn(&mut next, take).unwrap() && taken.get() == 3, "that was all");
}

/// Accepts all requests, and answers none.
struct Silent;

impl Requests for Silent {
    fn request(&self, _: RequestId, _: Cdr<'_>, _: Box<dyn Reply>) {}
    fn dropped(&self, _: &'static str, _: &str) {}
    fn stray(&self, _: &'static str, _: &str) {}
    fn keep(&self) {}
    fn settled(&self, _: Result<(), (&'static str, &str)>) {}
}

impl Answers for Silent {
    fn answered(&self, _: i64, _: Cdr<'_>) {}
    fn failed(&self, _: i64, _: &str) {}
    fn not_sent(&self, _: i64, _: &str) {}
    fn stray(&self, _: &'static str, _: &str) {}
}

/// Waits for the reason and returns it. Only a failure takes long.
fn reason(mut broken: impl FnMut() -> Option<String>) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match broken() {
            Some(reason) => return reason,
            None => assert!(Instant::now() < end, "the break is not reported"),
        }
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn participant() -> Participant {
    let spec = serde_json::from_value(serde_json::json!({ "domain_id": DOMAIN })).unwrap();
    Participant::open(DOMAIN, &configuration(&spec, 1024), PARTICIPANT_USER_DATA).unwrap()
}

fn interface() -> Interface {
    let schema = Schema::bytes("a/srv/B_Request", "cdr", "");
    Interface {
        service: "a/b".parse().unwrap(),
        ros: "a/srv/B".parse().unwrap(),
        hash: None,
        request: schema.clone(),
        response: schema,
        max_request: 64,
        max_response: 64,
        pending: 1,
    }
}

fn server(of: &Interface) -> ServiceEndpoint {
    ServiceEndpoint {
        profile: Profile::Dds,
        handle: 7,
        gid: [7; 16],
        role: Role::Server,
        service: of.service.clone(),
        type_name: of.ros.dds(),
        hash: String::new(),
        gateway: false,
        node: None,
        unable: None,
    }
}

#[test]
fn ends_that_cannot_go_on_say_so_until_they_are_withdrawn() {
    let _alone = alone();
    let (dds, of) = (participant(), interface());
    let (node, server) = (RosNode::gateway(), server(&of));
    let offered = offer(&dds, Release::Jazzy, &of, &node, Arc::new(Silent)).unwrap();
    let asking = ask(&dds, Release::Jazzy, &of, &node, &server, Arc::new(Silent)).unwrap();
    assert_eq!((offered.broken(), asking.broken()), (None, None));
    // Deletes the conditions that the threads wait on.
    drop(dds);
    assert!(
        reason(|| offered.broken()).contains("CycloneDDS cannot wait"),
        "{:?}",
        offered.broken()
    );
    assert!(reason(|| asking.broken()).contains("CycloneDDS cannot wait"), "{:?}", asking.broken());
    offered.withdraw();
    asking.withdraw();
    assert_eq!(
        (offered.broken(), asking.broken()),
        (None, None),
        "a withdrawn end is not reported as broken"
    );
}

/// Withdrawal hides an end at once. The drop happens later, on a thread that may have to wait.
#[test]
fn a_withdrawn_end_is_invisible_before_it_is_dropped() {
    let _alone = alone();
    let (dds, of) = (participant(), interface());
    let seen =
        [dds::Discovery::of_readers(&dds).unwrap(), dds::Discovery::of_writers(&dds).unwrap()];
    let asking =
        ask(&dds, Release::Jazzy, &of, &RosNode::gateway(), &server(&of), Arc::new(Silent))
            .unwrap();
    let own = asking.own();
    let mut handles = Vec::new();
    let mut left = || {
        for found in seen.iter().flat_map(|seen| seen.take().unwrap()) {
            match found {
                Found::Here(e) if e.gid == own.readers[0] || e.gid == own.writers[0] => {
                    handles.push(e.handle)
                }
                Found::Here(_) => {}
                Found::Gone(handle) => handles.retain(|h| *h != handle),
            }
        }
        handles.len()
    };
    reason(|| (left() == 2).then(String::new));
    asking.withdraw();
    reason(|| (left() == 0).then(String::new));
    drop(asking);
}
