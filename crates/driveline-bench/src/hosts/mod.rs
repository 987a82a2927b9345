// SPDX-License-Identifier: Apache-2.0
//! Hosts that are network namespaces of this machine, and what is between them: pairs of devices, and delayed links. Runs between two hosts are made of
//! them, and so are tests of what talks between hosts. All of it is gone with the process that made it, however that ends; it needs root. Where only the
//! loopback device is needed, [`Port`] is enough, and needs nobody's leave.

mod cable;
mod namespace;
mod port;
mod relay;

pub(crate) use cable::Cable;
pub use cable::{CableSpec, cable_refused};
pub use namespace::Namespace;
pub use port::Port;
pub use relay::{Direction, DirectionFigures, TapRelay};
