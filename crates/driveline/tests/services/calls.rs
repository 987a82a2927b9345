// SPDX-License-Identifier: Apache-2.0
//! Requests and responses.

use crate::support::{
    PATIENCE, Rig, Tile, TileRequest, at, callback, conformance, executor, refusal, serve, until,
};
use driveline::service::{ClientStats, ServiceStats};
use driveline::types::service::Outcome;
use driveline::types::{MonotonicNs, Schema};
use driveline::{
    CallError, Client, ClientOptions, Object, Protobuf, PublisherOptions, Reach, Service,
    ServiceOptions, SubscriptionOptions,
};
use driveline_msgs::proto::{Detection2D, Detections2D};

conformance! {
    fn a_call_brings_the_response_where_the_server_wrote_it(r: &Rig) {
        let _server = r.map_server();
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        for x in 1..20 {
            let tile = client.call(at(x, 3), PATIENCE).unwrap();
            let view = tile.view().unwrap();
            assert_eq!((*view.head(), view.tail()), (Tile { x, y: 3 }, &[x as f32; 3][..]));
            assert_eq!(view.tail().as_ptr().addr() % 64, 0);
            assert_eq!(tile.missed(), 0);
        }
        assert_eq!(
            client.stats(),
            ClientStats { requests: 19, answered: 19, ..ClientStats::default() }
        );
    }

    /// For example CDR with the schemas of a ROS 2 service.
    fn bytes_with_a_schema_are_called_and_answered(r: &Rig) {
        let [request, response] = [
            ("test/srv/Sum_Request", "uint8[] data\n"),
            ("test/srv/Sum_Response", "uint8[] data\n"),
        ]
        .map(|(name, text)| Schema::bytes(name, "cdr", text));
        let o = ServiceOptions { reach: r.reach, max_response: 2000, ..Default::default() };
        let service = r.server.raw_service("bytes", request.clone(), response.clone(), o).unwrap();
        let executor = executor();
        let answer = |q: driveline::service::RawRequest| {
            let mut bytes = q.sample.payload().unwrap().to_vec();
            bytes.reverse();
            let _ = q.responder.send_bytes(&bytes);
        };
        executor.add_raw_service(service, callback(&executor), answer).unwrap();
        executor.start().unwrap();
        let o = ClientOptions { reach: r.reach, max_request: 4000, ..Default::default() };
        let mut client =
            r.client.raw_client("bytes", request.clone(), response.clone(), o.clone()).unwrap();
        assert!(client.wait_for_server(PATIENCE));
        assert_eq!(client.call_bytes(&[1, 2, 3], PATIENCE).unwrap().payload().unwrap(), [3, 2, 1]);
        let too_long = client.call_bytes(&[7; 4001], PATIENCE).unwrap_err();
        assert!(matches!(&too_long, CallError::Loan { .. }), "{too_long}");
        let no_answer = client.call_bytes(&[7; 2001], PATIENCE).unwrap_err();
        assert!(no_answer.to_string().contains("max_response"), "{no_answer}");
        let asking = r.client.raw_client("bytes", request, response, o).unwrap();
        let mine = crate::support::executor();
        let (caller, _) = mine.add_raw_client(asking, callback(&mine)).unwrap();
        mine.start().unwrap();
        until("matched", || caller.server().is_ok());
        let (told, heard) = std::sync::mpsc::channel();
        let then = move |outcome: Result<driveline::RawSample, CallError>| {
            told.send(outcome.unwrap().payload().unwrap().to_vec()).unwrap()
        };
        caller.call_bytes_then(&[4, 5], PATIENCE, then).unwrap();
        assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), [5, 4]);
    }

    fn a_request_with_an_array_is_written_where_the_server_reads_it(r: &Rig) {
        let o = ServiceOptions { reach: r.reach, ..Default::default() };
        let service = r.server.service::<Tile, TileRequest>("sum", o).unwrap();
        let executor = executor();
        let answer = |tile: &driveline::Sample<Tile>| {
            let view = tile.view().unwrap();
            assert_eq!(view.tail().as_ptr().addr() % 64, 0);
            Ok(at(view.tail().iter().sum::<f32>() as i32, view.y))
        };
        executor.add_service(service, callback(&executor), answer).unwrap();
        executor.start().unwrap();
        let o = ClientOptions { reach: r.reach, ..Default::default() };
        let mut client = r.client.client::<Tile, TileRequest>("sum", o).unwrap();
        assert!(client.wait_for_server(PATIENCE));
        let fill = |mut view: driveline::types::PlainMut<'_, Tile>| {
            view.y = 9;
            view.tail_mut().copy_from_slice(&[1.0, 2.0, 4.0]);
        };
        let sum = client.call_in_place(3, fill, PATIENCE).unwrap();
        assert_eq!(*sum.view().unwrap().head(), at(7, 9));
    }

    fn messages_are_requests_and_responses_too(r: &Rig) {
        let o = ServiceOptions { reach: r.reach, ..Default::default() };
        let service: Service<Protobuf<Detection2D>, Protobuf<Detections2D>> =
            r.server.service("twice", o).unwrap();
        let executor = executor();
        let answer = |d: &driveline::ValueSample<Protobuf<Detection2D>>| {
            if d.score < 0.0 {
                return Err(refusal("no score is below nothing"));
            }
            Ok(Detections2D {
                detections: vec![(**d).clone(), (**d).clone()],
                ..Default::default()
            })
        };
        executor.add_service(service, callback(&executor), answer).unwrap();
        executor.start().unwrap();
        let o = ClientOptions { reach: r.reach, ..Default::default() };
        let mut client: Client<Protobuf<Detection2D>, Protobuf<Detections2D>> =
            r.client.client("twice", o).unwrap();
        assert!(client.wait_for_server(PATIENCE));
        for i in 0..5 {
            let d = Detection2D { score: i as f32, ..Default::default() };
            assert_eq!(client.call(d.clone(), PATIENCE).unwrap().detections, [d.clone(), d]);
            let refused = client
                .call(Detection2D { score: -1.0, ..Default::default() }, PATIENCE)
                .err()
                .unwrap();
            assert!(refused.to_string().contains("no score is below nothing"), "{refused}");
        }
    }

    fn only_who_asked_gets_the_response(r: &Rig) {
        let _server = r.map_server();
        let (mut asker, mut other) = (r.client(), r.client());
        assert!(asker.wait_for_server(PATIENCE) && other.wait_for_server(PATIENCE));
        assert_eq!(other.call(at(1, 1), PATIENCE).unwrap().view().unwrap().x, 1);
        for x in 2..10 {
            assert_eq!(asker.call(at(x, 1), PATIENCE).unwrap().view().unwrap().x, x);
        }
        let tile = other.call(at(10, 1), PATIENCE).unwrap();
        // The response is the second one that the server published for `other`.
        assert_eq!((tile.view().unwrap().x, tile.header().sequence, tile.missed()), (10, 2, 0));
        assert_eq!((other.stats().late, other.stats().stray), (0, 0));
    }

    fn the_response_of_a_wrong_request_is_a_reason(r: &Rig) {
        let _server = r.map_server();
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        let refused = client.call(at(0, -1), PATIENCE).unwrap_err();
        let CallError::Refused { outcome: Outcome::Refused, text, .. } = &refused else {
            panic!("{refused}")
        };
        assert_eq!(text, "there is no tile with negative y");
        assert!(refused.to_string().contains("'map/tile'"), "{refused}");
        assert_eq!(
            client.call(at(5, 0), PATIENCE).unwrap().view().unwrap().x,
            5,
            "it stays in service"
        );
    }

    fn answers_can_be_given_later_in_any_order_and_from_any_thread(r: &Rig) {
        let (mut service, client) = (r.service(), r.client_with(3));
        let (executor, caller) = crate::support::caller(client);
        until("matched", || caller.raw().has_server());
        let outcomes = crate::support::Outcomes::default();
        for x in 1..=3 {
            caller.call_then(at(x, 0), PATIENCE, outcomes.take()).unwrap();
        }
        let mut responders = Vec::new();
        until("taken", || {
            // The number of held requests is limited; the number of responders is not.
            let taken = service.take().unwrap();
            responders.extend(
                taken.map(|(request, responder)| (*request.view().unwrap().head(), responder)),
            );
            responders.len() == 3
        });
        let answering = std::thread::spawn(move || {
            for (request, responder) in responders.into_iter().rev() {
                responder.send(Tile { x: request.x, y: 0 }).unwrap();
            }
        });
        until("answered", || {
            executor.run_ready();
            outcomes.seen().len() == 3
        });
        answering.join().unwrap();
        assert_eq!(outcomes.seen(), [Ok(3), Ok(2), Ok(1)]);
        assert_eq!(
            service.stats(),
            ServiceStats { requests: 3, answered: 3, clients: 1, ..ServiceStats::default() }
        );
    }

    /// A callback consumes a camera frame and requests a tile. The request descends from the frame,
    /// and so does the response.
    fn a_call_belongs_to_the_lineage_of_who_asks(r: &Rig) {
        let (server_saw, saw) = std::sync::mpsc::channel();
        let _server = serve(r.service(), move |request, responder| {
            server_saw
                .send((request.header().trace_id, request.header().origins.as_slice()[0].topic))
                .unwrap();
            responder.send(Tile { x: 0, y: 0 }).unwrap();
        });
        let mut client = r.client();
        assert!(client.wait_for_server(PATIENCE));
        let mut camera =
            r.client.bytes_publisher("camera", "raw", PublisherOptions::default()).unwrap();
        let frames =
            r.client.bytes_subscription("camera", "raw", SubscriptionOptions::default()).unwrap();
        let (told, seen) = std::sync::mpsc::channel();
        let client = std::sync::Mutex::new(client);
        let executor = executor();
        let options = driveline::CallbackOptions {
            name: "planner".into(),
            group: executor.group(driveline::GroupKind::MutuallyExclusive),
            trigger: driveline::Trigger::any(),
            inputs: vec![("frames".into(), frames)],
        };
        executor
            .add_callback(options, move |invocation| {
                let tile = client.lock().unwrap().call(at(1, 1), PATIENCE).unwrap();
                told.send((invocation.sample(0).unwrap().header().trace_id, *tile.header()))
                    .unwrap();
            })
            .unwrap();
        let source = MonotonicNs(MonotonicNs::now().0 - 1_000_000);
        let mut frame = camera.loan(1).unwrap();
        frame.set_source_time(source);
        camera.publish(frame).unwrap();
        until("called", || executor.run_ready() == 1);
        let ((trace, response), (server_trace, topic)) =
            (seen.recv().unwrap(), saw.recv().unwrap());
        assert_eq!((server_trace, response.trace_id), (trace, trace));
        let origin = response.origins.as_slice()[0];
        assert_eq!(
            (response.origins.as_slice().len(), origin.topic, origin.source_oldest),
            (1, topic, source)
        );
        let parts = origin.communication_ns + origin.computation_ns + origin.idle_ns;
        assert_eq!(parts, origin.age_ns(response.publish_time), "the parts of the age add up");
    }

    fn an_answer_given_later_continues_the_lineage_of_its_request(r: &Rig) {
        let (mut service, client) = r.pair();
        let (executor, caller) = crate::support::caller(client);
        let (told, heard) = std::sync::mpsc::channel();
        caller
            .call_then(at(1, 1), PATIENCE, move |tile| told.send(*tile.unwrap().header()).unwrap())
            .unwrap();
        let (mut request, mut responder) = (None, None);
        until("taken", || {
            if let Some((q, a)) = service.take().unwrap() {
                (request, responder) = (Some(q), Some(a));
            }
            request.is_some()
        });
        let asked = *request.unwrap().header();
        std::thread::spawn(move || responder.unwrap().send(Tile { x: 0, y: 0 }).unwrap())
            .join()
            .unwrap();
        until("answered", || executor.run_ready() == 1);
        let answered = heard.recv().unwrap();
        assert_eq!(
            (answered.trace_id, answered.origins.as_slice()[0].topic),
            (asked.trace_id, asked.origins.as_slice()[0].topic)
        );
        assert_eq!(
            answered.origins.as_slice()[0].source_oldest,
            asked.origins.as_slice()[0].source_oldest
        );
    }

    fn the_names_of_the_topics_of_services_are_kept_for_them(r: &Rig) {
        let of = |topic: &str| {
            let publisher = r
                .client
                .bytes_publisher(topic, "raw", PublisherOptions::default())
                .err()
                .map(|e| e.to_string());
            let subscription = r
                .client
                .bytes_subscription(topic, "raw", SubscriptionOptions::default())
                .err()
                .map(|e| e.to_string());
            [publisher, subscription]
        };
        for text in of("_service/map/tile/request").into_iter().chain(of("_service")) {
            assert!(text.as_ref().is_some_and(|t| t.contains("services")), "{text:?}");
        }
        // A service and a topic may have one name.
        let _server = r.map_server();
        assert_eq!(of("map/tile"), [None, None]);
    }

    fn impossible_names_and_options_are_refused_with_their_bounds(r: &Rig) {
        let schema = || Schema::bytes("any", "raw", "");
        let client = |service: &str, change: &dyn Fn(&mut ClientOptions)| {
            let mut o = ClientOptions { reach: r.reach, ..Default::default() };
            change(&mut o);
            r.client
                .raw_client(service, schema(), schema(), o)
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        let service = |service: &str, change: &dyn Fn(&mut ServiceOptions)| {
            let mut o = ServiceOptions { reach: r.reach, ..Default::default() };
            change(&mut o);
            r.server
                .raw_service(service, schema(), schema(), o)
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        let long = "n".repeat(166);
        let refused = [
            (client("a b", &|_| {}), "character"),
            (client(&long, &|_| {}), "165"),
            (service("_service/a", &|_| {}), "name the service alone"),
            (client("a", &|o| o.pending = 0), "between 1 and 64"),
            (client("a", &|o| o.pending = 65), "between 1 and 64"),
            (client("a", &|o| o.reach = Reach::Network), "this host"),
            (service("a", &|o| o.max_clients = 257), "between 1 and 256"),
            (service("a", &|o| o.max_pending = 0), "between 1 and 64"),
            (service("a", &|o| o.max_held = 9), "between 1 and 8"),
            (service("a", &|o| o.max_response = usize::MAX), "max_response"),
        ];
        for (text, word) in refused {
            assert!(text.contains(word), "'{word}' is not in '{text}'");
        }
        assert_eq!(
            service(&long[1..], &|o| (o.max_clients, o.max_pending, o.max_held) = (256, 64, 8)),
            ""
        );
        assert_eq!(client(&long[1..], &|o| o.pending = 64), "");
    }
}

#[test]
fn objects_are_asked_for_and_given_inside_the_process() {
    let r = crate::support::rig(Reach::Process);
    let service: Service<Object<String>, Object<Vec<char>>> =
        r.server.service("letters", ServiceOptions::default()).unwrap();
    let executor = executor();
    executor.add_service(service, callback(&executor), |text| Ok(text.chars().collect())).unwrap();
    executor.start().unwrap();
    let mut client: Client<Object<String>, Object<Vec<char>>> =
        r.client.client("letters", ClientOptions::default()).unwrap();
    assert_eq!(*client.call("ab".to_owned(), PATIENCE).unwrap(), ['a', 'b']);
    let host = ServiceOptions { reach: Reach::Host, ..Default::default() };
    let refused = r.server.service::<Object<String>, Object<u8>>("other", host).err().unwrap();
    assert!(refused.to_string().contains("cannot leave the process"), "{refused}");
}

#[test]
fn at_host_reach_ends_of_one_process_meet_as_well_and_messages_stay_pointers() {
    let r = crate::support::rig(Reach::Host);
    let o = ServiceOptions { reach: Reach::Host, ..Default::default() };
    let service: Service<Protobuf<Detection2D>, Protobuf<Detection2D>> =
        r.server.service("same", o).unwrap();
    let executor = executor();
    executor
        .add_service(
            service,
            callback(&executor),
            |d: &driveline::ValueSample<Protobuf<Detection2D>>| Ok((**d).clone()),
        )
        .unwrap();
    let plain = r.service();
    executor
        .add_service(plain, callback(&executor), |q: &driveline::Sample<TileRequest>| {
            Ok(Tile { x: q.view().unwrap().x, y: 0 })
        })
        .unwrap();
    executor.start().unwrap();
    let o = ClientOptions { reach: Reach::Host, ..Default::default() };
    let mut inside: Client<Protobuf<Detection2D>, Protobuf<Detection2D>> =
        r.server.client("same", o.clone()).unwrap();
    let mut outside: Client<Protobuf<Detection2D>, Protobuf<Detection2D>> =
        r.client.client("same", o.clone()).unwrap();
    let mut tiles = r.server.client::<TileRequest, Tile>("map/tile", o).unwrap();
    assert!(
        inside.wait_for_server(PATIENCE)
            && outside.wait_for_server(PATIENCE)
            && tiles.wait_for_server(PATIENCE)
    );
    for i in 1..4 {
        let d = Detection2D { score: i as f32, ..Default::default() };
        assert_eq!(*inside.call(d.clone(), PATIENCE).unwrap(), d);
        assert_eq!(*outside.call(d.clone(), PATIENCE).unwrap(), d);
        assert_eq!(tiles.call(at(i, 0), PATIENCE).unwrap().view().unwrap().x, i);
    }
}
