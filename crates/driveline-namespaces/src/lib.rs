// SPDX-License-Identifier: Apache-2.0
//! Test support: hosts that are network namespaces of this machine, with pairs of devices and
//! delayed links between them.
//!
//! Tests of the gateways use them, and so do measurements between two hosts. A namespace ends with
//! the process that made it, however that process ends. Making a namespace needs root. A test that
//! only needs the loopback device uses a [`Port`], which needs no rights.
//!
//! Not here: the properties of the links in measurements (`driveline-bench`, `cable`).

mod namespace;
mod port;
mod relay;

pub use namespace::{Namespace, SWITCH};
pub use port::Port;
pub use relay::{Direction, DirectionFigures, TapRelay};
