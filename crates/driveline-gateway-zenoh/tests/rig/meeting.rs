// SPDX-License-Identifier: Apache-2.0
//! A gateway and a peer that the test controls message by message ("stranger").

use super::{Host, carried, eventually};
use driveline::types::{EndpointId, MonotonicNs, Qos, SampleHeader};
use driveline_gateway_zenoh::wire::{
    Ack, HostId, Keys, List, Offer, Outcome, Parsed, QosMark, SampleHead, Time,
};
use driveline_namespaces::Port;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::query::Queryable;
use zenoh::sample::SampleKind;
use zenoh::{Session, Wait};

pub(crate) const TOPIC: &str = "map";

/// A gateway with this topic, and a stranger.
pub(crate) struct Meeting {
    pub(crate) host: Host,
    /// Id that the gateway announces.
    pub(crate) gateway: HostId,
    pub(crate) session: Session,
    pub(crate) keys: Keys,
    pub(crate) me: HostId,
    /// Endpoint at which the gateway listens.
    pub(crate) endpoint: String,
    _port: Port,
    _dir: tempfile::TempDir,
}

/// Offer of the stranger.
pub(crate) struct Offered {
    answers: Vec<Queryable<()>>,
    _tokens: [LivelinessToken; 2],
}

impl Offered {
    /// Stops answering requests; the stranger stays present.
    pub(crate) fn fall_silent(&mut self) {
        self.answers.clear();
    }
}

impl Meeting {
    pub(crate) fn new(sends: bool, qos: &Qos) -> Self {
        Self::with(sends, qos, 64)
    }

    /// Creates a topic with samples of up to `max_payload` bytes.
    pub(crate) fn with(sends: bool, qos: &Qos, max_payload: u64) -> Self {
        Self::of(&carried(TOPIC, sends, !sends, max_payload, qos))
    }

    /// Makes the topic from its configuration.
    pub(crate) fn of(topic: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = Port::new().expect("a port");
        let endpoint = port.endpoint();
        let network = json!({ "host": "car", "listen": [endpoint] });
        let mut host =
            Host::new(dir.path(), "car", Vec::new(), &network, std::slice::from_ref(topic));
        host.start();
        let session = session(&endpoint);
        let (keys, me) = (Keys::new("test").unwrap(), HostId::new("stranger", 7).unwrap());
        let found = Arc::new(Mutex::new(None));
        let (of_callback, parse) = (found.clone(), keys.clone());
        let tokens = session.liveliness().declare_subscriber(keys.tokens("host")).history(true);
        let heard = tokens.callback(move |token| {
            if let (SampleKind::Put, Some(Parsed::Host(host))) =
                (token.kind(), parse.parse(token.key_expr().as_str()))
            {
                *of_callback.lock().unwrap() = Some(host).filter(|h| h.name() == "car");
            }
        });
        let heard = heard.wait().expect("tokens");
        eventually("known", || found.lock().unwrap().is_some());
        drop(heard);
        let gateway = found.lock().unwrap().clone().unwrap();
        Self { host, gateway, session, keys, me, endpoint, _port: port, _dir: dir }
    }

    pub(crate) fn token(&self, what: &Parsed) -> LivelinessToken {
        self.session.liveliness().declare_token(self.keys.key(what)).wait().expect("a token")
    }

    /// Announces that a subscription wants the topic.
    pub(crate) fn want(&self, host: &HostId, offered: QosMark, qos: QosMark) -> LivelinessToken {
        self.token(&Parsed::Want {
            host: host.clone(),
            of: self.gateway.clone(),
            offered,
            qos,
            topic: TOPIC.parse().unwrap(),
        })
    }

    pub(crate) fn topic(&self) -> Parsed {
        Parsed::Topic { host: self.me.clone(), topic: TOPIC.parse().unwrap() }
    }

    /// Announces these publishers of the stranger, and answers time requests, until the result is
    /// dropped.
    pub(crate) fn offer(&self, publishers: Vec<(EndpointId, Offer)>) -> Offered {
        let list = List { topic: TOPIC.parse().unwrap(), change: 1, publishers, ended: Vec::new() };
        let lists =
            self.session.declare_queryable(self.keys.key(&self.topic())).callback(move |query| {
                // The sender of the request may be gone. A panic would be on one of Zenoh's
                // threads, which all sessions of a process share.
                let _ = query.reply(query.key_expr().clone(), list.encode().unwrap()).wait();
            });
        let clock = self
            .session
            .declare_queryable(self.keys.key(&Parsed::Clock(self.me.clone())))
            .callback(|query| {
                let time =
                    Time { received: MonotonicNs::now(), answered: MonotonicNs::now(), changes: 1 };
                let _ = query.reply(query.key_expr().clone(), time.encode().to_vec()).wait();
            });
        let answers = vec![lists.wait().expect("lists"), clock.wait().expect("a clock")];
        Offered {
            answers,
            _tokens: [self.token(&Parsed::Host(self.me.clone())), self.token(&self.topic())],
        }
    }

    /// Returns the heads of the samples that the gateway sends the stranger, as long as the
    /// subscriber exists.
    pub(crate) fn heads(&self) -> (Arc<Mutex<Vec<SampleHead>>>, Subscriber<()>) {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let of_callback = heads.clone();
        let samples = self.session.declare_subscriber(self.keys.addressed("s", &self.me)).callback(
            move |sample| {
                of_callback
                    .lock()
                    .unwrap()
                    .push(SampleHead::decode(&sample.attachment().unwrap().to_bytes()).unwrap());
            },
        );
        (heads, samples.wait().expect("samples"))
    }

    /// Sends a sample to the gateway, and returns its answer.
    pub(crate) fn send(
        &self,
        answers: &Arc<Mutex<Vec<Ack>>>,
        offered: QosMark,
        number: u64,
        publisher: u128,
    ) -> Outcome {
        let header = SampleHeader {
            sequence: 1,
            publish_time: MonotonicNs::now(),
            ..SampleHeader::default()
        };
        let head = SampleHead {
            sent_again: false,
            place: 0,
            number,
            publisher,
            written: 1,
            owed: 0,
            sent: MonotonicNs::now(),
            header,
        };
        let topic = TOPIC.parse().unwrap();
        let key = self.keys.key(&Parsed::Sample {
            to: self.gateway.clone(),
            from: self.me.clone(),
            offered,
            topic,
        });
        self.session
            .put(key, vec![publisher as u8; 8])
            .attachment(head.encode())
            .wait()
            .expect("to send");
        eventually("acknowledged", || answers.lock().unwrap().iter().any(|a| a.number == number));
        answers.lock().unwrap().iter().find(|a| a.number == number).unwrap().outcome
    }
}

/// Opens a session that is connected to this address only.
pub(crate) fn session(endpoint: &str) -> Session {
    let mut config = zenoh::Config::default();
    for (key, value) in [
        ("connect/endpoints", json!([endpoint]).to_string()),
        ("connect/timeout_ms", "-1".into()),
        ("connect/exit_on_failure", "false".into()),
        (
            "connect/retry",
            "{ period_init_ms: 50, period_max_ms: 200, period_increase_factor: 2 }".into(),
        ),
        ("listen/endpoints", "[]".into()),
        ("scouting/multicast/enabled", "false".into()),
    ] {
        config.insert_json5(key, &value).expect(key);
    }
    zenoh::open(config).wait().expect("a session")
}
