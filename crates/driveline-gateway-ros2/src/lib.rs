// SPDX-License-Identifier: Apache-2.0
//! Exchanges topics of a Driveline domain with ROS 2 nodes, over DDS and by rmw_zenoh, as far as
//! rules say so: `docs/protocols/ros2-dds.md` and `docs/protocols/ros2-zenoh.md`; and has services
//! of one side called from the other: `docs/protocols/ros2-services.md`.
//!
//! Without the feature `engine` this crate has the parts that need neither DDS nor Zenoh: names,
//! QoS and why two ends do not match, what gateways and nodes say about themselves, and the
//! conversion of samples.
//!
//! Not here: definitions of ROS 2 types and CDR (`driveline-rosidl`), graph files and rules
//! (`driveline-runtime`), actions.
//!
//! Both ends of a service of ROS 2 in Driveline. With
//! `{service: /math/add, type: demo_srvs/srv/Add, server: driveline}` under `ros2: services:`,
//! nodes call the server; with `server: ros` a node is the server, and the client stays as it is:
//!
//! ```
//! use driveline::{ClientOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind, Reach, ServiceCallback, ServiceOptions};
//! use driveline_rosidl::{Catalog, cdr, parse_srv};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Of an installed package: catalog.add_package(Path::new("/opt/ros/jazzy/share/demo_srvs"))?
//! let mut catalog = Catalog::new();
//! catalog.add_service(parse_srv(&"demo_srvs/srv/Add".parse()?, "Add.srv", "int64 a\nint64 b\n---\nint64 sum\n")?)?;
//! let request = catalog.schema(&"demo_srvs/srv/Add_Request".parse()?)?;
//! let response = catalog.schema(&"demo_srvs/srv/Add_Response".parse()?)?;
//! # let dir = tempfile::tempdir()?;
//! let context = Context::new(ContextOptions { domain_dir: Some(dir.path().join("domain")), ..ContextOptions::named("math") })?;
//! let node = context.node("math/adder")?;
//!
//! let service = node.raw_service("math/add", request.clone(), response.clone(), ServiceOptions { reach: Reach::Host, ..Default::default() })?;
//! let executor = Executor::new(ExecutorOptions::default())?;
//! let callback = ServiceCallback { name: "add".into(), group: executor.group(GroupKind::MutuallyExclusive) };
//! executor.add_raw_service(service, callback, |asked| {
//!     let numbers = |bytes: &[u8]| {
//!         let mut from = cdr::Decoder::new(bytes)?;
//!         Ok::<_, cdr::CdrError>((from.number::<i64>()?, from.number::<i64>()?))
//!     };
//!     match numbers(asked.sample.payload().unwrap_or_default()) {
//!         Ok((a, b)) => {
//!             let mut to = cdr::Encoder::new(cdr::ByteOrder::Little);
//!             to.number(a.wrapping_add(b));
//! // The client has received the error; there is no more to do here.
//!             let _ = asked.responder.send_bytes(&to.finish());
//!         }
//!         Err(e) => asked.responder.refuse(&format!("the request cannot be read: {e}")),
//!     }
//! })?;
//! executor.start()?;
//!
//! let mut client = node.raw_client("math/add", request, response, ClientOptions { reach: Reach::Host, ..Default::default() })?;
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
