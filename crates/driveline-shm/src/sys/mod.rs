// SPDX-License-Identifier: Apache-2.0
//! Kernel interfaces of the transport, each in one small module.

pub(crate) mod admission;
pub(crate) mod blocking_tasks;
pub(crate) mod descriptors;
pub(crate) mod directory;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod mapping;
pub(crate) mod memfd;
pub(crate) mod memory;
pub(crate) mod numa;
pub(crate) mod peer;
pub(crate) mod socket;
