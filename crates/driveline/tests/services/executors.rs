// SPDX-License-Identifier: Apache-2.0
//! Services, clients and the executors that run them.

use crate::support::{PATIENCE, Rig, Tile, at, callback, caller, conformance, executor, until};
use driveline::service::ClientStats;
use driveline::{CallError, CallbackOptions, GroupKind, Trigger};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

conformance! {
    /// One thread runs the server, the client, and the timer that sends requests.
    fn an_executor_serves_itself_and_a_blocking_call_within_it_is_refused(r: &Rig) {
        let executor = executor();
        executor
            .add_service(
                r.service(),
                callback(&executor),
                |q: &driveline::Sample<crate::support::TileRequest>| {
                    Ok(Tile { x: q.view().unwrap().x, y: 0 })
                },
            )
            .unwrap();
        let caller = executor.add_client(r.client(), callback(&executor)).unwrap();
        let blocking = Mutex::new(r.client());
        assert!(blocking.lock().unwrap().wait_for_server(PATIENCE));
        until("matched", || caller.raw().has_server());
        let (told, heard) = channel();
        let options = CallbackOptions {
            name: "asks".into(),
            group: executor.group(GroupKind::MutuallyExclusive),
            trigger: Trigger::Timer { period: Duration::from_millis(1), max_age: None },
            inputs: Vec::new(),
        };
        executor
            .add_callback(options, move |_| {
                let refused = blocking.lock().unwrap().call(at(1, 1), PATIENCE).unwrap_err();
                assert!(matches!(refused, CallError::WouldDeadlock { .. }), "{refused}");
                let told = told.clone();
                let sent = caller.call_then(at(2, 1), PATIENCE, move |tile| {
                    let _ = told.send(tile.unwrap().view().unwrap().x);
                });
                assert!(sent.is_ok() || matches!(sent, Err(CallError::Busy { .. })), "{sent:?}");
            })
            .unwrap();
        executor.start().unwrap();
        for _ in 0..5 {
            assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), 2);
        }
        executor.stop();
    }

    /// Nothing else happens on the executor: only the time-out can wake it.
    fn the_end_of_a_calls_time_wakes_its_executor(r: &Rig) {
        let (_service, client) = r.pair();
        let (executor, caller) = caller(client);
        executor.start().unwrap();
        let (told, heard) = channel();
        // time: no server answers, so only the time-out ends it
        let short = Duration::from_millis(20);
        caller
            .call_then(at(1, 1), short, move |outcome| {
                told.send(outcome.err()).unwrap()
            })
            .unwrap();
        let error = heard.recv_timeout(PATIENCE).unwrap().unwrap();
        assert!(matches!(error, CallError::TimedOut { was_taken: false, .. }), "{error}");
    }

    fn the_end_of_a_server_wakes_the_executor_of_its_client(r: &Rig) {
        let (service, client) = r.pair();
        let (executor, caller) = caller(client);
        executor.start().unwrap();
        let (told, heard) = channel();
        caller
            .call_then(at(1, 1), Duration::MAX, move |outcome| told.send(outcome.err()).unwrap())
            .unwrap();
        // time: gives the executor time to fall asleep; the test also holds for an awake executor
        std::thread::sleep(Duration::from_millis(5));
        drop(service);
        let error = heard.recv_timeout(PATIENCE).unwrap().unwrap();
        assert!(matches!(error, CallError::ServerGone { was_taken: false, .. }), "{error}");
    }

    /// No call is in flight, and nothing else happens on the executor: only servers wake the
    /// watcher.
    fn a_watcher_of_servers_is_notified_when_they_come_and_go(r: &Rig) {
        let (executor, caller) = caller(r.client());
        let (told, heard) = channel();
        caller.raw().watch_servers(move || {
            let _ = told.send(());
        });
        executor.start().unwrap();
        let next = |what: &str, server: &dyn Fn() -> bool| {
            while !server() {
                heard.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no report that {what}"));
            }
        };
        assert!(matches!(caller.raw().server(), Err(CallError::NoServer { .. })));
        let service = r.service();
        next("a server came", &|| caller.raw().server().is_ok_and(|node| node == "server"));
        drop(service);
        next("it went", &|| matches!(caller.raw().server(), Err(CallError::NoServer { .. })));
    }

    fn what_hears_of_an_outcome_can_ask_again(r: &Rig) {
        let _server = r.map_server();
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        let (executor, caller) = caller(client);
        executor.start().unwrap();
        let (told, heard) = channel();
        let again = caller.clone();
        let first = move |tile: Result<driveline::Sample<Tile>, CallError>| {
            let x = tile.unwrap().view().unwrap().x;
            again
                .call_then(at(x + 1, 1), PATIENCE, move |tile| {
                    told.send(tile.unwrap().view().unwrap().x).unwrap()
                })
                .unwrap();
        };
        caller.call_then(at(1, 1), PATIENCE, first).unwrap();
        assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), 2);
    }

    fn calls_end_with_their_executor_and_it_owns_nothing_in_a_circle(r: &Rig) {
        let (_service, client) = r.pair();
        let (executor, caller) = caller(client);
        let (told, heard) = channel::<()>();
        let circle = caller.clone();
        caller
            .call_then(at(1, 1), PATIENCE, move |_| {
                let _ = &circle;
                told.send(()).unwrap();
            })
            .unwrap();
        drop(executor);
        assert_eq!(
            heard.recv_timeout(PATIENCE),
            Err(RecvTimeoutError::Disconnected),
            "it is dropped, not called"
        );
        let refused = caller.call_then(at(1, 1), PATIENCE, |_| {}).unwrap_err();
        assert!(matches!(refused, CallError::ExecutorGone { .. }), "{refused}");
        assert_eq!(
            caller.raw().stats(),
            ClientStats { requests: 1, abandoned: 1, ..ClientStats::default() }
        );
    }

    fn many_threads_call_at_once_and_each_hears_of_its_own(r: &Rig) {
        let _server = r.map_server();
        let mut client = r.client_with(8);
        assert!(client.wait_for_server(PATIENCE));
        let (executor, caller) = caller(client);
        executor.start().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let caller = caller.clone();
                scope.spawn(move || {
                    for i in 0..50 {
                        let x = thread * 1000 + i;
                        let (told, heard) = channel();
                        until("sent", || {
                            let told = told.clone();
                            let sent = caller.call_then(at(x, 2), PATIENCE, move |tile| {
                                told.send(tile.unwrap().view().unwrap().x).unwrap()
                            });
                            sent.is_ok()
                        });
                        assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), x);
                    }
                });
            }
        });
        let stats = caller.raw().stats();
        assert_eq!((stats.requests, stats.answered), (200, 200));
    }

    fn the_memory_of_an_ended_client_is_released_without_a_request(r: &Rig) {
        let executor = executor();
        let (responders, kept) = channel();
        executor
            .add_service_with(
                r.service(),
                callback(&executor),
                move |_: driveline::Sample<crate::support::TileRequest>, responder| {
                    responders.send(responder).unwrap();
                },
            )
            .unwrap();
        executor.start().unwrap();
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        // time: the responder is kept, so only the time-out ends it
        assert!(client.call(at(1, 1), Duration::from_millis(50)).is_err());
        let responder = kept.recv_timeout(PATIENCE).unwrap();
        assert!(!responder.raw().client_is_gone());
        drop(client);
        until("let go", || responder.raw().client_is_gone());
    }
}
