// SPDX-License-Identifier: Apache-2.0
//! Gateway between a Driveline domain and ROS 2 nodes, over DDS and over rmw_zenoh. Rules name the
//! topics that it carries (`docs/protocols/ros2-dds.md`, `docs/protocols/ros2-zenoh.md`) and the
//! services that one side calls on the other (`docs/protocols/ros2-services.md`).
//!
//! Without the feature `engine` this crate has the parts that need neither DDS nor Zenoh: names,
//! QoS and the reasons why endpoints do not match, discovery data of nodes and gateways, and the
//! conversion of samples.
//!
//! Not here: definitions of ROS 2 types and CDR (`driveline-rosidl`), graph files
//! (`driveline-graph`), rules (`driveline-gateway`), actions.
//!
//! In the example, both the server and the client of a service are in Driveline. With the rule
//! `{service: /math/add, type: demo_srvs/srv/Add, server: driveline}` under `ros2: services:`, ROS
//! 2 nodes call this server. With `server: ros`, a ROS 2 node is the server, and the client below
//! does not change:
//!
//! ```
//! use driveline::{
//!     ClientOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind, Reach,
//!     ServiceCallback, ServiceOptions,
//! };
//! use driveline_rosidl::{Catalog, cdr, parse_srv};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // For an installed package: catalog.add_package(Path::new("/opt/ros/jazzy/share/demo_srvs"))?
//! let mut catalog = Catalog::new();
//! let definition = "int64 a\nint64 b\n---\nint64 sum\n";
//! catalog.add_service(parse_srv(&"demo_srvs/srv/Add".parse()?, "Add.srv", definition)?)?;
//! let request = catalog.schema(&"demo_srvs/srv/Add_Request".parse()?)?;
//! let response = catalog.schema(&"demo_srvs/srv/Add_Response".parse()?)?;
//! # let dir = tempfile::tempdir()?;
//! let context = Context::new(ContextOptions {
//!     domain_dir: Some(dir.path().join("domain")),
//!     ..ContextOptions::named("math")
//! })?;
//! let node = context.node("math/adder")?;
//!
//! let options = ServiceOptions { reach: Reach::Host, ..Default::default() };
//! let service = node.raw_service("math/add", request.clone(), response.clone(), options)?;
//! let executor = Executor::new(ExecutorOptions::default())?;
//! let group = executor.group(GroupKind::MutuallyExclusive);
//! let callback = ServiceCallback { name: "add".into(), group };
//! executor.add_raw_service(service, callback, |asked| {
//!     let numbers = |bytes: &[u8]| {
//!         let mut from = cdr::Decoder::new(bytes)?;
//!         Ok::<_, cdr::CdrError>((from.number::<i64>()?, from.number::<i64>()?))
//!     };
//!     match numbers(asked.sample.payload().unwrap_or_default()) {
//!         Ok((a, b)) => {
//!             let mut to = cdr::Encoder::new(cdr::ByteOrder::Little);
//!             to.number(a.wrapping_add(b));
//!             // If this fails, the client has received the error.
//!             let _ = asked.responder.send_bytes(&to.finish());
//!         }
//!         Err(e) => asked.responder.refuse(&format!("the request cannot be read: {e}")),
//!     }
//! })?;
//! executor.start()?;
//!
//! let options = ClientOptions { reach: Reach::Host, ..Default::default() };
//! let mut client = node.raw_client("math/add", request, response, options)?;
//! assert!(client.wait_for_server(Duration::from_secs(10)));
//! let mut to = cdr::Encoder::new(cdr::ByteOrder::Little);
//! to.numbers(&[2_i64, 3]);
//! let sum = client.call_bytes(&to.finish(), Duration::from_secs(10))?;
//! assert_eq!(cdr::Decoder::new(sum.payload().unwrap_or_default())?.number::<i64>()?, 5);
//! # Ok(()) }
//! ```

pub mod clock;
pub mod convert;
#[cfg(feature = "engine")]
mod dds;
pub mod discovery_info;
#[cfg(feature = "engine")]
pub mod engine;
pub mod names;
pub mod qos;
pub mod rmw_cyclonedds;
pub mod rmw_zenoh;
pub mod types;
