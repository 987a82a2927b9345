// SPDX-License-Identifier: Apache-2.0
//! Nodes on rmw_zenoh as seen on the wire, and their router, written on Zenoh alone from the
//! description of rmw_zenoh. This file must use no code of the gateway, so that a mistake there is
//! not repeated here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use twox_hash::XxHash3_128;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::{Config, Session, Wait};
use zenoh_ext::{
    AdvancedPublisher, AdvancedPublisherBuilderExt, AdvancedSubscriber,
    AdvancedSubscriberBuilderExt, CacheConfig, HistoryConfig, MissDetectionConfig, RecoveryConfig,
};

pub(crate) const STRING: (&str, &str) = (
    "std_msgs::msg::dds_::String_",
    "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
);
pub(crate) const IMAGE: (&str, &str) = (
    "sensor_msgs::msg::dds_::Image_",
    "RIHS01_d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47",
);
pub(crate) const HUMBLE_STRING: (&str, &str) = (STRING.0, "TypeHashNotSupported");

/// Settings of rmw_zenoh for nodes, except for the router's address.
pub(crate) const NODE_SETTINGS: [(&str, &str); 8] = [
    ("mode", "'peer'"),
    ("listen/endpoints", "['tcp/localhost:0']"),
    ("scouting/multicast/enabled", "false"),
    (
        "scouting/gossip/autoconnect_strategy",
        "{ peer: { to_router: 'always', to_peer: 'greater-zid' } }",
    ),
    ("scouting/gossip/target", "{ router: ['router', 'peer'], peer: ['router'] }"),
    ("timestamping/enabled", "true"),
    ("transport/link/tx/queue/congestion_control/drop/wait_before_drop", "50000"),
    ("transport/link/tx/queue/congestion_control/block/wait_before_close", "60000000"),
];

fn configured(settings: &[(&str, &str)]) -> Session {
    let mut config = Config::default();
    for (key, value) in settings {
        config.insert_json5(key, value).unwrap();
    }
    zenoh::open(config).wait().unwrap()
}

/// Router, as `rmw_zenohd`.
pub(crate) struct Router {
    session: Session,
}

impl Router {
    pub(crate) fn new() -> Self {
        Self::at("tcp/127.0.0.1:0")
    }

    pub(crate) fn at(endpoint: &str) -> Self {
        let session = configured(&[
            ("mode", "'router'"),
            ("listen/endpoints", &format!("['{endpoint}']")),
            ("scouting/multicast/enabled", "false"),
            ("timestamping/enabled", "true"),
        ]);
        Self { session }
    }

    /// Address on which it listens.
    pub(crate) fn endpoint(&self) -> String {
        self.session.info().locators().wait().first().unwrap().to_string()
    }
}

/// Context with one node.
pub(crate) struct Node {
    pub(super) session: Session,
    domain: u32,
    name: String,
    next: AtomicU64,
    _token: LivelinessToken,
}

/// QoS: letters r|b (reliability), t|v (durability), then the depth; 0 keeps all.
#[derive(Clone, Copy)]
pub(super) struct Qos {
    reliable: bool,
    lasting: bool,
    depth: usize,
}

impl Qos {
    pub(super) fn of(text: &str) -> Self {
        Self {
            reliable: text.starts_with('r'),
            lasting: text[1..].starts_with('t'),
            depth: text[2..].parse().unwrap(),
        }
    }

    fn field(self) -> String {
        let history = if self.depth == 0 { "2,".to_owned() } else { format!(",{}", self.depth) };
        format!(
            "{}:{}:{history}:,:,:,,",
            if self.reliable { "" } else { "2" },
            if self.lasting { "1" } else { "" }
        )
    }
}

pub(super) fn gid(token: &str) -> [u8; 16] {
    XxHash3_128::oneshot(token.as_bytes()).to_le_bytes()
}

impl Node {
    /// Creates a node that connects to the router, and to other nodes by gossip.
    pub(crate) fn new(router: &Router, domain: u32, name: &str) -> Self {
        Self::at("tcp/localhost:0", router, domain, name)
    }

    /// Creates a node that nodes of other hosts can connect to: a router forwards nothing between
    /// nodes.
    pub(crate) fn at(listens: &str, router: &Router, domain: u32, name: &str) -> Self {
        let (connect, listen) = (format!("['{}']", router.endpoint()), format!("['{listens}']"));
        let own = [("connect/endpoints", connect.as_str()), ("listen/endpoints", listen.as_str())];
        let settings: Vec<_> = NODE_SETTINGS.iter().copied().chain(own).collect();
        let session = configured(&settings);
        let token = format!("@ros2_lv/{domain}/{}/0/0/NN/%/%/{name}", session.zid());
        let token = session.liveliness().declare_token(token).wait().unwrap();
        Self { session, domain, name: name.into(), next: AtomicU64::new(1), _token: token }
    }

    pub(super) fn token(
        &self,
        kind: &str,
        topic: &str,
        (type_name, hash): (&str, &str),
        qos: Qos,
    ) -> String {
        let (domain, zid, id) =
            (self.domain, self.session.zid(), self.next.fetch_add(1, Ordering::Relaxed));
        let topic = topic.replace('/', "%");
        format!(
            "@ros2_lv/{domain}/{zid}/0/{id}/{kind}/%/%/{}/{topic}/{type_name}/{hash}/{}",
            self.name,
            qos.field()
        )
    }

    pub(super) fn key(&self, topic: &str, (type_name, hash): (&str, &str)) -> String {
        format!("{}/{}/{type_name}/{hash}", self.domain, &topic[1..])
    }

    /// Creates a publisher. A reliable one waits while a connection takes nothing, so that a test
    /// can expect every sample. rmw_zenoh waits only for a publisher that keeps all samples. For
    /// others it drops a sample that has found no room for 50 ms, which a busy machine exceeds.
    pub(crate) fn publisher(&self, topic: &str, of: (&str, &str), qos: &str) -> Publisher {
        let qos = Qos::of(qos);
        let token = self.token("MP", topic, of, qos);
        let congestion =
            if qos.reliable { CongestionControl::Block } else { CongestionControl::Drop };
        let mut publisher = self
            .session
            .declare_publisher(self.key(topic, of))
            .congestion_control(congestion)
            .advanced();
        if qos.lasting {
            publisher = publisher
                .publisher_detection()
                .cache(CacheConfig::default().max_samples(qos.depth));
            if qos.reliable {
                publisher = publisher.sample_miss_detection(
                    MissDetectionConfig::default().sporadic_heartbeat(Duration::from_millis(500)),
                );
            }
        }
        let (publisher, gid) = (publisher.wait().unwrap(), gid(&token));
        Publisher { publisher, gid, sequence: 0, token: Some(self.declare(&token)), text: token }
    }

    pub(crate) fn subscription(&self, topic: &str, of: (&str, &str), qos: &str) -> Subscription {
        let qos = Qos::of(qos);
        let heard = Arc::<Mutex<Vec<Heard>>>::default();
        let list = heard.clone();
        let callback = move |sample: Sample| {
            let attachment = sample.attachment().expect("mandatory").to_bytes();
            assert_eq!((attachment.len(), attachment[16]), (33, 16), "anything else aborts rclcpp");
            let number = i64::from_le_bytes(attachment[..8].try_into().unwrap());
            let payload = sample.payload().to_bytes().into_owned();
            list.lock().unwrap().push(Heard {
                number,
                gid: attachment[17..].try_into().unwrap(),
                payload,
            });
        };
        let mut subscriber =
            self.session.declare_subscriber(self.key(topic, of)).callback(callback).advanced();
        if qos.lasting {
            subscriber = subscriber
                .subscriber_detection()
                .history(HistoryConfig::default().detect_late_publishers().max_samples(qos.depth));
            if qos.reliable {
                subscriber = subscriber.recovery(RecoveryConfig::default().heartbeat());
            }
        }
        let subscriber = subscriber.wait().unwrap();
        let token = self.token("MS", topic, of, qos);
        Subscription {
            _subscriber: subscriber,
            heard,
            _token: self.session.liveliness().declare_token(token).wait().unwrap(),
        }
    }

    /// Returns the ROS graph: all present tokens.
    pub(crate) fn graph(&self) -> Vec<String> {
        let replies =
            self.session.liveliness().get(format!("@ros2_lv/{}/**", self.domain)).wait().unwrap();
        replies
            .iter()
            .filter_map(|reply| Some(reply.result().ok()?.key_expr().as_str().to_owned()))
            .collect()
    }

    /// Sends these bytes.
    pub(crate) fn put(
        &self,
        topic: &str,
        of: (&str, &str),
        payload: &[u8],
        attachment: Option<&[u8]>,
    ) {
        self.session
            .put(self.key(topic, of), payload)
            .attachment(attachment.map(<[u8]>::to_vec))
            .wait()
            .unwrap();
    }

    /// Declares this token.
    pub(crate) fn declare(&self, token: &str) -> LivelinessToken {
        self.session.liveliness().declare_token(token.to_owned()).wait().unwrap()
    }
}

pub(crate) struct Publisher {
    publisher: AdvancedPublisher<'static>,
    pub(crate) gid: [u8; 16],
    pub(crate) sequence: i64,
    token: Option<LivelinessToken>,
    text: String,
}

impl Publisher {
    /// Withdraws the publisher's token, as if the network to the publisher were cut.
    pub(crate) fn away(&mut self) {
        self.token = None;
    }

    /// Declares the token again, unchanged, after [`away`](Self::away).
    pub(crate) fn back(&mut self, node: &Node) {
        self.token = Some(node.declare(&self.text));
    }

    pub(crate) fn publish(&mut self, payload: &[u8]) {
        self.sequence += 1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let mut attachment = [self.sequence.to_le_bytes(), now.to_le_bytes()].concat();
        attachment.push(16);
        attachment.extend(self.gid);
        self.publisher.put(payload).attachment(attachment).wait().unwrap();
    }

    /// Returns true if there is a subscription.
    pub(crate) fn matched(&self) -> bool {
        self.publisher.matching_status().wait().unwrap().matching()
    }
}

/// Received sample.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) number: i64,
    pub(crate) gid: [u8; 16],
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Subscription {
    _subscriber: AdvancedSubscriber<()>,
    heard: Arc<Mutex<Vec<Heard>>>,
    _token: LivelinessToken,
}

impl Subscription {
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// Returns the number of received samples.
    pub(crate) fn count(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    /// Forgets the received samples.
    pub(crate) fn forget(&self) {
        self.heard.lock().unwrap().clear();
    }

    /// Returns the received strings.
    pub(crate) fn strings(&self) -> Vec<String> {
        let text = |h: &Heard| {
            let len = u32::from_le_bytes(h.payload[4..8].try_into().unwrap()) as usize;
            String::from_utf8(h.payload[8..8 + len - 1].to_vec()).unwrap()
        };
        self.heard.lock().unwrap().iter().map(text).collect()
    }
}

/// Encodes `std_msgs/msg/String` in CDR.
pub(crate) fn string(text: &str) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    bytes.extend((text.len() as u32 + 1).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.push(0);
    bytes
}

/// Encodes `sensor_msgs/msg/Image` of one row in mono8, in CDR.
pub(crate) fn image(width: usize, fill: u8) -> Vec<u8> {
    framed_image("cam", width, fill)
}

/// As [`image`], with another frame.
pub(crate) fn framed_image(frame: &str, width: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    let word = |bytes: &mut Vec<u8>, n: u32| {
        // Alignment counts from the end of the encapsulation.
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(n.to_le_bytes());
    };
    let text = |bytes: &mut Vec<u8>, text: &str| {
        word(bytes, text.len() as u32 + 1);
        bytes.extend(text.as_bytes());
        bytes.push(0);
    };
    word(&mut bytes, 0);
    word(&mut bytes, 0);
    text(&mut bytes, frame);
    word(&mut bytes, 1);
    word(&mut bytes, width as u32);
    text(&mut bytes, "mono8");
    bytes.push(0);
    word(&mut bytes, width as u32);
    word(&mut bytes, width as u32);
    bytes.resize(bytes.len() + width, fill);
    bytes
}

/// Returns the pixels of such an image: they are at its end, before the padding to a multiple of 4.
pub(crate) fn pixels(payload: &[u8], width: usize) -> &[u8] {
    let end = payload.len() - usize::from(payload[3] & 3);
    &payload[end - width..end]
}
