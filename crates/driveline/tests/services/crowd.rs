// SPDX-License-Identifier: Apache-2.0
//! More clients than a server can have.

use crate::support::{PATIENCE, Tile, TileClient, TileRequest, at, rig, until};
use driveline::Payload as _;
use driveline::types::service::Outcome;
use driveline::{CallError, EndpointEvent, Reach, ServiceOptions};

/// Maximum number of clients that a server can be matched with, and that it can serve.
const MOST: usize = 256;

/// MAX_MATCHES of the server's subscription.
#[test]
fn the_257th_client_of_another_process_is_refused_at_both_ends_and_served_when_one_has_gone() {
    let r = rig(Reach::Host);
    let server = r.map_server();
    let mut clients: Vec<TileClient> = (0..MOST).map(|_| r.client()).collect();
    until("matched", || clients.iter_mut().all(|c| c.wait_for_server(PATIENCE)));
    let mut beyond = r.client();
    until("refused", || matches!(beyond.call(at(1, 1), PATIENCE), Err(CallError::Mismatch { .. })));
    let refused = beyond.call(at(1, 1), PATIENCE).unwrap_err().to_string();
    assert!(
        refused.contains("'map/tile'")
            && refused.contains("too many publishers are matched: at most 256"),
        "{refused}"
    );
    assert_eq!(clients[MOST - 1].call(at(2, 1), PATIENCE).unwrap().view().unwrap().x, 2);
    clients.remove(0);
    assert!(beyond.wait_for_server(PATIENCE));
    assert_eq!(beyond.call(at(3, 1), PATIENCE).unwrap().view().unwrap().x, 3);
    drop(server);
}

#[test]
fn a_request_that_is_held_leaves_the_other_clients_of_a_server_alone() {
    let r = rig(Reach::Host);
    let mut service = r.service_with(|o| o.max_held = 1);
    let (mut taken, outcomes) = (Vec::new(), crate::support::Outcomes::default());
    let callers: Vec<_> = (0..2).map(|_| crate::support::caller(r.client())).collect();
    for (x, (_, caller)) in (1..).zip(&callers) {
        until("matched", || caller.raw().has_server());
        caller.call_then(at(x, 0), PATIENCE, outcomes.take()).unwrap();
    }
    until("both taken", || {
        taken.extend(service.take().unwrap());
        taken.len() == 2
    });
}

/// MAX_MATCHES, seen from the server.
#[test]
fn a_server_hears_of_the_257th_client() {
    let r = rig(Reach::Host);
    let schemas = (TileRequest::payload_schema(), Tile::payload_schema());
    let mut service = r
        .server
        .raw_service(
            "map/tile",
            schemas.0,
            schemas.1,
            ServiceOptions { reach: r.reach, ..Default::default() },
        )
        .unwrap();
    let _clients: Vec<TileClient> = (0..=MOST).map(|_| r.client()).collect();
    until("told", || {
        let told = std::iter::from_fn(|| service.poll_event()).find_map(|e| match e {
            EndpointEvent::Refused { text } => Some(text),
            _ => None,
        });
        told.is_some_and(|text| text.contains("too many publishers are matched: at most 256"))
    });
}

/// MAX_CLIENTS, MAX_PUBLISHERS: each client gets an answer or a reason, no matter how many clients
/// call.
#[test]
fn each_of_very_many_clients_of_one_process_gets_an_answer_or_a_reason() {
    const BEYOND: usize = 300;
    let r = rig(Reach::Process);
    for most in [1, MOST] {
        let mut service = r.service_with(|o| o.max_clients = most as u32);
        let mut clients: Vec<TileClient> = (0..MOST + BEYOND).map(|_| r.client()).collect();
        // The second pass is for clients whose response publisher the server removed in the first
        // pass.
        for _ in 0..2 {
            for (i, client) in clients.iter_mut().enumerate() {
                let outcome = std::thread::scope(|scope| {
                    let calling = scope
                        .spawn(|| client.call(at(7, 1), PATIENCE).map(|t| t.view().unwrap().x));
                    until("done", || {
                        if let Some((request, responder)) = service.take().unwrap() {
                            let x = request.view().unwrap().x;
                            responder.send(Tile { x, y: 0 }).unwrap();
                        }
                        calling.is_finished()
                    });
                    calling.join().unwrap()
                });
                if i < most {
                    assert_eq!(outcome.unwrap(), 7);
                    continue;
                }
                let refused = outcome.unwrap_err();
                let CallError::Refused { outcome: Outcome::NoRoom, text, .. } = &refused else {
                    panic!("client {i}: {refused}")
                };
                let remedy = if most == MOST {
                    "under a second name"
                } else {
                    "raise the server's max_clients"
                };
                assert!(
                    text.contains(&format!("{most} clients are served")) && text.contains(remedy),
                    "{text}"
                );
            }
        }
        assert_eq!(
            (service.stats().clients, service.stats().no_room),
            (most as u64, 2 * (MOST + BEYOND - most) as u64)
        );
    }
}
