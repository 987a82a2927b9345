// SPDX-License-Identifier: Apache-2.0
//! ROS 2 node on the crate ros2-client: RustDDS for DDS, its own implementation of rmw_zenoh for
//! Zenoh. It uses no code of Driveline.
//!
//! ```text
//! peer dds|zenoh pub TOPIC string|image SIZE COUNT PERIOD_US QOS
//!                       as peer.c; TOPIC with or without DDS's `rt/`
//! peer dds|zenoh sub TOPIC string|image QOS
//!                       as peer.c
//! peer dds|zenoh graph  prints namespace and name of each other node that it discovers
//! peer dds|zenoh serve SERVICE add DELAY_MS MAPPING
//!                       responds with the sum after DELAY_MS; prints each request
//! peer dds|zenoh serve SERVICE types SIZE MAPPING
//!                       responds with SIZE bytes
//! peer dds|zenoh call SERVICE add|types A B COUNT MAPPING
//!                       sends COUNT requests, B one greater each time; prints each response
//! ```
//!
//! MAPPING is the mapping of services to DDS topics: cyclone, enhanced or basic. Over Zenoh it has
//! no effect. ROS_DOMAIN_ID sets the domain, NODE the name of the node (default `peer`), and
//! ZENOH_CONFIG_OVERRIDE, as rmw_zenoh reads it, the address of the router.

mod dds;
#[cfg(feature = "jazzy")]
mod over_zenoh;
mod service;

use ros2_client::qos::{Durability, History, QosProfile, WhenFull};
use ros2_client::{MessageTypeName, Name, NodeName, RmwRequestId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use service::{Add, Of, Service, Types};
use std::error::Error;
use std::io::Write;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Content of a sample, and its printed form.
trait Message: Serialize + DeserializeOwned + Send + 'static {
    /// Package and name of its type.
    const OF: (&'static str, &'static str);
    fn new(size: usize, letter: u8) -> Self;
    fn content(&self) -> &[u8];
    fn frame(&self) -> &str;
}

impl Message for String {
    const OF: (&'static str, &'static str) = ("std_msgs", "String");

    fn new(size: usize, letter: u8) -> Self {
        char::from(letter).to_string().repeat(size)
    }

    fn content(&self) -> &[u8] {
        self.as_bytes()
    }

    fn frame(&self) -> &str {
        "-"
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    sec: i32,
    nanosec: u32,
    frame_id: String,
}

#[derive(Serialize, Deserialize)]
struct Image {
    header: Header,
    height: u32,
    width: u32,
    encoding: String,
    is_bigendian: u8,
    step: u32,
    data: Vec<u8>,
}

impl Message for Image {
    const OF: (&'static str, &'static str) = ("sensor_msgs", "Image");

    fn new(size: usize, letter: u8) -> Self {
        let header = Header { sec: 0, nanosec: 0, frame_id: "cam".into() };
        Self {
            header,
            height: 1,
            width: size as u32,
            encoding: "mono8".into(),
            is_bigendian: 0,
            step: size as u32,
            data: vec![letter; size],
        }
    }

    fn content(&self) -> &[u8] {
        &self.data
    }

    fn frame(&self) -> &str {
        &self.header.frame_id
    }
}

/// Samples to write.
struct Samples {
    size: usize,
    count: usize,
    period: Duration,
}

/// Topic with the QoS of its writer or reader.
struct Endpoint {
    topic: Name,
    of: MessageTypeName,
    qos: QosProfile,
    /// True if samples are written without waiting for a reader: each new reader receives them
    /// later.
    lasting: bool,
}

/// Node over DDS or Zenoh.
trait Node: Sized {
    type Publisher<M: Message>;
    type Subscription<M: Message>;
    type Server<S: Service>;
    type Client<S: Service>;
    fn publisher<M: Message>(&mut self, of: &Endpoint) -> Result<Self::Publisher<M>>;
    fn subscription<M: Message>(&mut self, of: &Endpoint) -> Result<Self::Subscription<M>>;
    /// Returns true if there is a reader.
    fn matched<M: Message>(&self, publisher: &Self::Publisher<M>) -> bool;
    fn publish<M: Message>(&self, publisher: &Self::Publisher<M>, message: M) -> Result<()>;
    fn take<M: Message>(&self, subscription: &Self::Subscription<M>) -> Result<Option<M>>;
    /// Returns other nodes that were announced since the last call; nodes may be repeated.
    fn nodes(&self) -> Vec<(String, String)>;
    fn server<S: Service>(&mut self, of: &Of) -> Result<Self::Server<S>>;
    fn client<S: Service>(&mut self, of: &Of) -> Result<Self::Client<S>>;
    fn request<S: Service>(
        &self,
        server: &Self::Server<S>,
    ) -> Result<Option<(RmwRequestId, S::Request)>>;
    fn respond<S: Service>(
        &self,
        server: &Self::Server<S>,
        id: RmwRequestId,
        response: S::Response,
    ) -> Result<()>;
    /// Calls the service. `None`: no response will come, or standard input has ended.
    fn call<S: Service>(
        &self,
        client: &Self::Client<S>,
        request: S::Request,
    ) -> Result<Option<S::Response>>;
}

/// Returns namespace and base of a name, with or without a leading `/`.
fn name_of(name: &str) -> (String, &str) {
    let name = name.trim_start_matches('/');
    name.rsplit_once('/')
        .map_or(("/".to_owned(), name), |(space, base)| (format!("/{space}"), base))
}

/// Parses the QoS: letters r|b (reliability), t|v (durability), then the depth; 0 keeps all.
fn endpoint<M: Message>(topic: &str, qos: &str) -> Result<Endpoint> {
    let depth = qos.get(2..).ok_or("QoS is too short")?.parse()?;
    let reliable = qos.starts_with('r');
    let lasting = qos[1..].starts_with('t');
    let mut profile = QosProfile::subscription_default().history(if depth == 0 {
        History::KeepAll
    } else {
        History::KeepLast { depth }
    });
    if reliable {
        profile = profile.reliability_reliable(WhenFull::Wait(Duration::from_secs(10)));
    }
    if lasting {
        profile = profile.durability(Durability::TransientLocal);
    }
    let (namespace, base) = name_of(topic.strip_prefix("rt/").unwrap_or(topic));
    Ok(Endpoint {
        topic: Name::new(&namespace, base)?,
        of: MessageTypeName::new(M::OF.0, M::OF.1),
        qos: profile,
        lasting,
    })
}

/// Returns true if standard input has ended.
fn over(wait: Duration) -> bool {
    let input = rustix::stdio::stdin();
    let mut of = [PollFd::new(&input, PollFlags::IN)];
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    poll(&mut of, Some(&wait)).is_ok_and(|ready| ready > 0)
        && !matches!(std::io::Read::read(&mut std::io::stdin(), &mut [0]), Ok(1..))
}

fn say(line: &str) {
    println!("{line}");
    // A test that has closed standard output has also ended this process.
    let _ = std::io::stdout().flush();
}

fn sum(data: &[u8]) -> u32 {
    data.iter()
        .fold(2_166_136_261, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619))
}

fn publish<M: Message>(node: &mut impl Node, of: &Endpoint, samples: &Samples) -> Result<()> {
    let publisher = node.publisher::<M>(of)?;
    while !of.lasting && !node.matched(&publisher) {
        if over(Duration::from_millis(5)) {
            return Ok(());
        }
    }
    say("matched");
    for n in 0..samples.count {
        node.publish(&publisher, M::new(samples.size, b'a' + (n % 26) as u8))?;
        // time: paces the publisher
        std::thread::sleep(samples.period);
    }
    say("written");
    while !over(Duration::from_secs(1)) {}
    Ok(())
}

fn subscribe<M: Message>(node: &mut impl Node, of: &Endpoint) -> Result<()> {
    let subscription = node.subscription::<M>(of)?;
    let mut n = 0;
    while !over(Duration::ZERO) {
        let Some(message) = node.take(&subscription)? else {
            // time: a pause between polls; the test ends the process
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        say(&format!(
            "{n} {} {} {}",
            message.content().len(),
            sum(message.content()),
            message.frame()
        ));
        n += 1;
    }
    Ok(())
}

fn run(node: &mut impl Node, arguments: &[&str]) -> Result<()> {
    match *arguments {
        ["pub", topic, kind, size, count, period_us, qos] => {
            let samples = Samples {
                size: size.parse()?,
                count: count.parse()?,
                period: Duration::from_micros(period_us.parse()?),
            };
            match kind {
                "string" => publish::<String>(node, &endpoint::<String>(topic, qos)?, &samples),
                "image" => publish::<Image>(node, &endpoint::<Image>(topic, qos)?, &samples),
                _ => Err("it is string or image".into()),
            }
        }
        ["sub", topic, "string", qos] => {
            subscribe::<String>(node, &endpoint::<String>(topic, qos)?)
        }
        ["sub", topic, "image", qos] => subscribe::<Image>(node, &endpoint::<Image>(topic, qos)?),
        ["graph"] => {
            while !over(Duration::from_millis(5)) {
                node.nodes()
                    .iter()
                    .for_each(|(namespace, name)| say(&format!("{namespace} {name}")));
            }
            Ok(())
        }
        ["serve", name, "add", number, mapping] => {
            service::serve::<Add>(node, &service::of::<Add>(name, mapping)?, number.parse()?)
        }
        ["serve", name, "types", number, mapping] => {
            service::serve::<Types>(node, &service::of::<Types>(name, mapping)?, number.parse()?)
        }
        ["call", name, kind, a, b, count, mapping] => {
            let numbers = (a.parse()?, b.parse()?);
            match kind {
                "add" => service::call::<Add>(
                    node,
                    &service::of::<Add>(name, mapping)?,
                    numbers,
                    count.parse()?,
                ),
                "types" => service::call::<Types>(
                    node,
                    &service::of::<Types>(name, mapping)?,
                    numbers,
                    count.parse()?,
                ),
                _ => Err("it is add or types".into()),
            }
        }
        _ => Err("for usage see the head of its source".into()),
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let domain = std::env::var("ROS_DOMAIN_ID")?.parse()?;
    let name = NodeName::new("/", &std::env::var("NODE").unwrap_or_else(|_| "peer".into()))?;
    match arguments.split_first() {
        Some((&"dds", rest)) => run(&mut dds::Dds::new(domain, name)?, rest),
        #[cfg(feature = "jazzy")]
        Some((&"zenoh", rest)) => run(&mut over_zenoh::Zenoh::new(domain, name)?, rest),
        _ => Err("the first word is dds or zenoh".into()),
    }
}
