// SPDX-License-Identifier: Apache-2.0
//! Outcomes of calls without a response.

use crate::support::{
    Outcomes, PATIENCE, Rig, Tile, TileRequest, TileService, at, caller, conformance, until,
};
use driveline::Payload as _;
use driveline::service::{ClientStats, ServiceStats};
use driveline::types::service::{MAX_REFUSAL_LEN, Outcome};
use driveline::types::{MonotonicNs, VirtualClock};
use driveline::{AnswerError, CallError, ClientOptions, Reach, ServiceError, ServiceOptions};
use std::time::Duration;

// time: in each test no server answers, so only the time-out ends the call
const SHORT: Duration = Duration::from_millis(30);

/// Waits for a request, and answers it.
fn answer(service: &mut TileService, x: i32) {
    let mut responder = None;
    until("taken", || {
        responder = service.take().unwrap().map(|(_, responder)| responder);
        responder.is_some()
    });
    responder.unwrap().send(Tile { x, y: 1 }).unwrap();
}

conformance! {
    fn without_a_server_a_call_fails_at_once_and_one_can_be_waited_for(r: &Rig) {
        let mut client = r.client();
        let refused = client.call(at(1, 1), PATIENCE).unwrap_err();
        assert!(matches!(refused, CallError::NoServer { .. }), "{refused}");
        assert!(refused.to_string().contains("wait_for_server"), "{refused}");
        assert!(!client.wait_for_server(SHORT));
        let server = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| client.wait_for_server(PATIENCE));
            // time: gives the wait time to begin; a wait that begins later must end as well
            std::thread::sleep(Duration::from_millis(3));
            let server = r.map_server();
            assert!(waiting.join().unwrap());
            server
        });
        assert_eq!(client.call(at(1, 1), PATIENCE).unwrap().view().unwrap().x, 1);
        drop(server);
        until("gone", || !client.wait_for_server(Duration::ZERO));
        assert!(matches!(client.call(at(1, 1), PATIENCE), Err(CallError::NoServer { .. })));
    }

    fn one_process_offers_a_service_once(r: &Rig) {
        let first = r.service();
        let again = r.server.service::<TileRequest, Tile>(
            "map/tile",
            ServiceOptions { reach: r.reach, ..Default::default() },
        );
        let Err(refused @ ServiceError::Offered { .. }) = again else {
            panic!("a second server was made")
        };
        assert!(refused.to_string().contains("'map/tile'"), "{refused}");
        drop(first);
        let server = r.map_server();
        drop(server);
        drop(r.service());
    }

    fn a_response_that_comes_too_late_is_dropped_and_counted(r: &Rig) {
        let (mut service, mut client) = r.pair();
        let answered = |service: &mut crate::support::TileService| match service.take().unwrap() {
            Some((request, responder)) => {
                let x = request.view().unwrap().x;
                responder.send(Tile { x, y: 1 }).is_ok()
            }
            None => false,
        };
        let call = |client: &mut crate::support::TileClient,
                    service: &mut crate::support::TileService,
                    x| {
            std::thread::scope(|scope| {
                let calling =
                    scope.spawn(|| client.call(at(x, 1), PATIENCE).map(|t| t.view().unwrap().x));
                until("answered", || answered(service));
                assert_eq!(calling.join().unwrap().unwrap(), x);
            });
        };
        // After the first response, the client is matched with the response publisher. Before the
        // match, a later response can replace an earlier one.
        call(&mut client, &mut service, 1);
        let gone = client.call(at(1, 1), SHORT).unwrap_err();
        let CallError::TimedOut { after, was_taken: false, .. } = gone else { panic!("{gone}") };
        assert!(after >= SHORT);
        assert!(answered(&mut service));
        call(&mut client, &mut service, 2);
        assert_eq!(
            client.stats(),
            ClientStats {
                requests: 3,
                answered: 2,
                timed_out: 1,
                late: 1,
                ..ClientStats::default()
            }
        );
    }

    fn a_time_out_says_whether_the_request_was_taken(r: &Rig) {
        let clock = VirtualClock::starting_at(MonotonicNs::real_now());
        let _entered = clock.enter();
        let (mut service, client) = r.pair();
        let (executor, caller) = caller(client);
        let outcomes = Outcomes::default();
        caller.call_then(at(1, 1), SHORT, outcomes.take()).unwrap();
        let mut held = None;
        until("taken", || {
            held = held.take().or_else(|| service.take().unwrap());
            held.is_some()
        });
        executor.run_ready();
        assert!(outcomes.seen().is_empty(), "{:?}", outcomes.seen());
        clock.advance(SHORT);
        until("over", || {
            executor.run_ready();
            !outcomes.seen().is_empty()
        });
        assert!(
            matches!(&outcomes.seen()[0], Err(text) if text.contains("taken, and may have been \
                                                                          executed")),
            "{:?}",
            outcomes.seen()
        );
    }

    fn more_calls_than_agreed_are_busy_and_an_outcome_makes_room(r: &Rig) {
        let (mut service, mut client) = (r.service(), r.client_with(2));
        assert!(client.wait_for_server(PATIENCE));
        let (executor, caller) = caller(client);
        let outcomes = Outcomes::default();
        caller.call_then(at(1, 1), PATIENCE, outcomes.take()).unwrap();
        caller.call_then(at(2, 1), PATIENCE, outcomes.take()).unwrap();
        let busy = caller.call_then(at(3, 1), PATIENCE, |_| panic!("it was refused")).unwrap_err();
        assert!(matches!(busy, CallError::Busy { limit: 2, .. }), "{busy}");
        let mut responder = None;
        until("taken", || {
            responder = service.take().unwrap().map(|(_, responder)| responder);
            responder.is_some()
        });
        responder.unwrap().send(Tile { x: 1, y: 1 }).unwrap();
        until("answered", || executor.run_ready() == 1);
        caller.call_then(at(3, 1), PATIENCE, outcomes.take()).unwrap();
        assert_eq!(outcomes.seen(), [Ok(1)]);
    }

    fn a_request_that_was_not_taken_is_not_pushed_out(r: &Rig) {
        let mut service = r.service_with(|o| (o.max_clients, o.max_pending) = (1, 1));
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        // Until the server's end is matched, the server cannot take the request below.
        until("matched", || service.raw().clients() == 1);
        assert!(matches!(
            client.call(at(1, 1), SHORT),
            Err(CallError::TimedOut { was_taken: false, .. })
        ));
        let full = client.call(at(2, 1), PATIENCE).unwrap_err();
        assert!(matches!(full, CallError::QueueFull { .. }), "{full}");
        assert!(full.to_string().contains("'server'"), "{full}");
        let (request, responder) = service.take().unwrap().unwrap();
        assert_eq!((request.view().unwrap().x, request.missed()), (1, 0));
        drop(request);
        responder.refuse("too late");
        until("told", || service.raw().outbox().is_empty());
        assert!(
            matches!(client.call(at(3, 1), SHORT), Err(CallError::TimedOut { .. })),
            "there is room again"
        );
        // The client may be matched with the response publisher after the call above. Each call
        // reads the late answers first.
        until("counted", || {
            let _ = client.call(at(4, 1), Duration::ZERO);
            client.stats().late == 1
        });
    }

    /// The server may publish its answer before or after the client is matched with the response
    /// publisher.
    fn a_first_answer_is_there_although_its_server_went_if_it_went_with_an_empty_outbox(r: &Rig) {
        for x in 1..20 {
            let (mut service, mut client) = r.pair();
            let outbox = service.raw().outbox();
            assert!(outbox.is_empty(), "no request was sent");
            let outcome = std::thread::scope(|scope| {
                let calling = scope
                    .spawn(|| client.call(at(x, 1), PATIENCE).map(|tile| tile.view().unwrap().x));
                answer(&mut service, x);
                until("readable", || outbox.is_empty());
                drop(service);
                calling.join().unwrap()
            });
            assert_eq!(outcome.unwrap(), x);
            until("gone", || !client.wait_for_server(Duration::ZERO));
        }
    }

    fn what_a_client_cannot_read_is_in_the_outbox_until_the_client_goes(r: &Rig) {
        let mut service = r.service();
        let outbox = service.raw().outbox();
        let o = ClientOptions { reach: r.reach, ..Default::default() };
        let mut other_response =
            r.client.client::<TileRequest, TileRequest>("map/tile", o).unwrap();
        assert!(other_response.wait_for_server(PATIENCE));
        std::thread::scope(|scope| {
            let calling =
                scope.spawn(|| other_response.call(at(1, 1), PATIENCE).map(drop).unwrap_err());
            answer(&mut service, 1);
            let refused = calling.join().unwrap();
            assert!(matches!(refused, CallError::Mismatch { .. }), "{refused}");
        });
        // Inside the process, the server knows at once that the client does not match its response
        // publisher.
        assert_eq!(outbox.is_empty(), r.reach == Reach::Process);
        drop(other_response);
        until("empty", || outbox.is_empty());
    }

    fn the_end_of_a_server_is_reported_at_once_and_whether_it_had_the_request(r: &Rig) {
        for taken in [false, true] {
            let (mut service, mut client) = r.pair();
            let outcome = std::thread::scope(|scope| {
                let calling = scope.spawn(|| client.call(at(1, 1), PATIENCE).map(|_| ()));
                until("sent", || {
                    service.raw().clients() == 1 && service.wait(Some(PATIENCE)).unwrap()
                });
                // The test keeps the responder until the call has ended: dropped earlier, it would
                // refuse the request.
                let kept = if taken {
                    service.take().unwrap().map(|(_, responder)| responder)
                } else {
                    None
                };
                drop(service);
                let outcome = calling.join().unwrap();
                drop(kept);
                outcome
            });
            let Err(CallError::ServerGone { was_taken, .. }) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(was_taken, taken);
        }
    }

    fn what_was_answered_before_the_server_went_is_delivered(r: &Rig) {
        let (mut service, client) = r.pair();
        let (executor, caller) = caller(client);
        let outcomes = Outcomes::default();
        let answer = |service: &mut crate::support::TileService, x| {
            until("taken", || match service.take().unwrap() {
                Some((_, responder)) => responder.send(Tile { x, y: 0 }).is_ok(),
                None => false,
            });
        };
        // Once the first response has arrived, the client is matched with the server's response
        // publisher.
        caller.call_then(at(1, 1), PATIENCE, outcomes.take()).unwrap();
        answer(&mut service, 1);
        until("answered", || executor.run_ready() == 1);
        caller.call_then(at(2, 1), PATIENCE, outcomes.take()).unwrap();
        answer(&mut service, 2);
        drop(service);
        until("gone", || !caller.raw().has_server());
        executor.run_ready();
        assert_eq!(outcomes.seen(), [Ok(1), Ok(2)]);
    }

    fn a_dropped_request_is_reported_at_once(r: &Rig) {
        let _server = crate::support::serve(r.service(), |request, responder| {
            match request.view().unwrap().x {
                1 => drop(responder),
                2 => panic!("on purpose"),
                3 => responder.refuse(&"ä".repeat(3 * MAX_REFUSAL_LEN)),
                // The loan is longer than `max_response`.
                4 => assert!(matches!(responder.loan(1 << 20), Err(AnswerError::Loan { .. }))),
                x => responder.send(Tile { x, y: 0 }).unwrap(),
            }
        });
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        let mut refused = |x| match client.call(at(x, 1), PATIENCE) {
            Err(CallError::Refused { outcome, text, .. }) => (outcome, text),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            refused(1),
            (Outcome::Unanswered, "the request was let go without an answer".into())
        );
        assert_eq!(refused(2).0, Outcome::Panicked);
        let (outcome, text) = refused(3);
        assert_eq!((outcome, text.len()), (Outcome::Refused, MAX_REFUSAL_LEN));
        let (outcome, text) = refused(4);
        assert!(outcome == Outcome::Unanswered && text.contains("max_response"), "{text}");
        assert_eq!(client.call(at(5, 1), PATIENCE).unwrap().view().unwrap().x, 5);
    }

    fn a_client_too_many_is_refused_and_served_when_there_is_space(r: &Rig) {
        let mut service = r.service_with(|o| o.max_clients = 1);
        let (mut first, mut second) = (r.client(), r.client());
        let mut serve_until = |done: &dyn Fn() -> bool| {
            until("done", || {
                if let Some((request, responder)) = service.take().unwrap() {
                    let x = request.view().unwrap().x;
                    responder.send(Tile { x, y: 0 }).unwrap();
                }
                done()
            });
            service.stats()
        };
        let mut call = |client: &mut crate::support::TileClient| {
            assert!(client.wait_for_server(PATIENCE));
            std::thread::scope(|scope| {
                let calling =
                    scope.spawn(|| client.call(at(7, 1), PATIENCE).map(|t| t.view().unwrap().x));
                serve_until(&|| calling.is_finished());
                calling.join().unwrap()
            })
        };
        assert_eq!(call(&mut first).unwrap(), 7);
        let refused = call(&mut second).unwrap_err();
        let CallError::Refused { outcome: Outcome::NoRoom, text, .. } = &refused else {
            panic!("{refused}")
        };
        assert!(text.contains("max_clients"), "{text}");
        assert_eq!(call(&mut first).unwrap(), 7, "it has its place still");
        drop(first);
        until("served", || call(&mut second).is_ok());
    }

    fn a_refusal_is_sent_although_a_response_is_loaned(r: &Rig) {
        let o = ServiceOptions { reach: r.reach, ..Default::default() };
        let mut service = r
            .server
            .raw_service("map/tile", TileRequest::payload_schema(), Tile::payload_schema(), o)
            .unwrap();
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| client.call(at(1, 1), PATIENCE).map(drop));
            until("asked", || {
                let Some(request) = service.take().unwrap() else { return false };
                let loan = request.responder.loan(8).unwrap();
                request.responder.refuse("on second thoughts");
                drop(loan);
                true
            });
            let refused = calling.join().unwrap().unwrap_err().to_string();
            assert!(refused.contains("on second thoughts"), "{refused}");
        });
    }

    fn a_client_with_too_many_calls_gets_an_error(r: &Rig) {
        let service = r.service_with(|o| o.max_pending = 2);
        let _server = crate::support::serve(service, |_, responder| {
            responder.send(Tile { x: 0, y: 0 }).unwrap()
        });
        let mut client = r.client_with(3);
        assert!(client.wait_for_server(PATIENCE));
        let refused = client.call(at(1, 1), PATIENCE).unwrap_err().to_string();
        assert!(refused.contains("3 calls") && refused.contains("max_pending"), "{refused}");
    }

    fn a_client_that_times_out_again_and_again_cannot_pile_up_work(r: &Rig) {
        let (mut service, mut client) = r.pair();
        assert!(matches!(client.call(at(1, 1), SHORT), Err(CallError::TimedOut { .. })));
        let slow = service.take().unwrap().unwrap();
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| client.call(at(2, 1), PATIENCE).map(|_| ()));
            until("refused", || {
                assert!(service.take().unwrap().is_none());
                calling.is_finished()
            });
            let refused = calling.join().unwrap().unwrap_err();
            assert!(
                matches!(refused, CallError::Refused { outcome: Outcome::NoRoom, .. }),
                "{refused}"
            );
        });
        drop(slow);
    }

    fn requests_of_an_ended_client_are_not_served(r: &Rig) {
        let (mut service, client) = r.pair();
        let (executor, caller) = caller(client);
        caller.call_then(at(1, 1), PATIENCE, |_| panic!("its outcome was delivered")).unwrap();
        let mut first = None;
        until("taken", || {
            first = first.take().or_else(|| service.take().unwrap());
            first.is_some()
        });
        drop((executor, caller));
        let (_, responder) = first.unwrap();
        until("seen to be gone", || {
            assert!(service.take().unwrap().is_none());
            responder.raw().client_is_gone()
        });
        assert!(matches!(responder.send(Tile { x: 0, y: 0 }), Err(AnswerError::ClientGone { .. })));
        until("forgotten", || service.raw().clients() == 0);

        // The second client is dropped before the server takes its request.
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        assert!(matches!(client.call(at(2, 1), Duration::ZERO), Err(CallError::TimedOut { .. })));
        // The server's end is matched last. Before that, it has no client that can be gone.
        until("matched", || service.raw().clients() == 1);
        drop(client);
        until("gone", || service.raw().clients() == 0);
        until("dropped", || {
            assert!(service.take().unwrap().is_none());
            service.stats().client_gone == 1
        });
        let stats = service.stats();
        assert_eq!(
            stats,
            ServiceStats { requests: 2, client_gone: 1, undelivered: 1, ..ServiceStats::default() }
        );
    }

    fn ends_that_differ_in_a_type_say_so_with_both_hashes(r: &Rig) {
        let _server = r.map_server();
        let o = || ClientOptions { reach: r.reach, ..Default::default() };
        let mut other_request = r.client.client::<Tile, Tile>("map/tile", o()).unwrap();
        let mut refused = String::new();
        until("refused", || {
            let error = other_request.call_in_place(0, |_| {}, PATIENCE).unwrap_err();
            refused = error.to_string();
            matches!(error, CallError::Mismatch { .. })
        });
        let hash = |schema: driveline::types::Schema| schema.hash().to_string();
        for part in [
            "test/Tile'",
            "test/TileRequest'",
            &hash(Tile::payload_schema()),
            &hash(TileRequest::payload_schema()),
        ] {
            assert!(refused.contains(part), "'{part}' is not in '{refused}'");
        }
        let mut other_response =
            r.client.client::<TileRequest, TileRequest>("map/tile", o()).unwrap();
        assert!(other_response.wait_for_server(PATIENCE));
        // The call fails at once, despite the unlimited time-out.
        let refused = other_response.call(at(1, 1), Duration::MAX).unwrap_err();
        assert!(matches!(refused, CallError::Mismatch { .. }), "{refused}");
        assert!(refused.to_string().contains(&hash(Tile::payload_schema())), "{refused}");
    }

    fn a_client_that_holds_all_permitted_responses_gets_an_error(r: &Rig) {
        let _server = r.map_server();
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        let held = client.call(at(1, 1), PATIENCE).unwrap();
        let refused = client.call(at(2, 1), PATIENCE).unwrap_err();
        assert!(refused.to_string().contains("held"), "{refused}");
        assert_eq!(held.view().unwrap().x, 1);
        drop(held);
        assert_eq!(client.call(at(3, 1), PATIENCE).unwrap().view().unwrap().x, 3);
        assert_eq!(
            client.stats(),
            ClientStats {
                requests: 3,
                answered: 2,
                abandoned: 1,
                late: 1,
                ..ClientStats::default()
            }
        );
    }
}

#[test]
fn two_servers_of_one_name_are_named_and_neither_is_asked() {
    let r = crate::support::rig(Reach::Host);
    let (mut first, mut client) = r.pair();
    let o = ServiceOptions { reach: Reach::Host, ..Default::default() };
    let mut second = r.client.service::<TileRequest, Tile>("map/tile", o).unwrap();
    let mut refused = None;
    until("refused", || {
        refused = client
            .call(at(1, 1), Duration::ZERO)
            .err()
            .filter(|e| matches!(e, CallError::SeveralServers { .. }));
        // Until the client sees the second server, it sends its requests to the first.
        while let Some((_, responder)) = first.take().unwrap() {
            responder.refuse("");
        }
        refused.is_some()
    });
    let text = refused.unwrap().to_string();
    assert!(text.contains("client, server"), "{text}");
    // The second server's end may be matched after the client's, and counts only then.
    until("matched", || second.raw().clients() == 1);
    // If the client published a request to the first server just when the second server was
    // matched, the second server has received that request, too, and has dropped it.
    assert!(second.take().unwrap().is_none());
    let (asked, misaddressed) = (first.stats().requests, second.stats().misaddressed);
    assert!(misaddressed <= 1, "{misaddressed}");
    assert!(client.call(at(1, 1), PATIENCE).is_err());
    assert!(first.take().unwrap().is_none() && second.take().unwrap().is_none());
    assert_eq!(first.stats().requests, asked);
    drop(first);
    assert!(client.wait_for_server(PATIENCE));
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| client.call(at(4, 1), PATIENCE).map(|t| t.view().unwrap().x));
        until("answered", || match second.take().unwrap() {
            Some((_, responder)) => responder.send(Tile { x: 4, y: 1 }).is_ok(),
            None => false,
        });
        assert_eq!(calling.join().unwrap().unwrap(), 4);
    });
    assert_eq!(second.stats().misaddressed, misaddressed);
}
