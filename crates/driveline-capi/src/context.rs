// SPDX-License-Identifier: Apache-2.0
//! Context and node.

use crate::status::*;
use driveline::{Context, ContextOptions, Node};
use std::ffi::c_char;

/// A process's membership in a domain. Any thread.
pub struct dl_context {
    pub(crate) context: Context,
}

/// A named part of the system that has publishers, subscriptions and parameters. Any thread.
pub struct dl_node {
    pub(crate) node: Node,
}

/// Joins a domain. Until an endpoint with host or network reach is created, the process touches
/// nothing outside itself except the domain's directory, which it creates if missing.
///
/// `name`: name of the process, as tools show it. `domain_dir`: NULL takes `DRIVELINE_DOMAIN_DIR`,
/// or else the user's domain named by `DRIVELINE_DOMAIN`, or else the user's default domain.
/// `*context`: owned by the caller, to be given to `dl_context_drop`. Warnings and errors of the
/// library go to stderr unless `DRIVELINE_LOG` says otherwise. Blocks only for file operations.
///
/// The first call in a process raises its soft limit on open descriptors to the hard limit
/// (`ulimit -Hn`), since each match takes one. Programs started from the process inherit it;
/// `select` cannot be used with descriptors from 1024 on.
///
/// # Safety
/// Strings are NULL or NUL-terminated; `context` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_context_new(
    name: *const c_char,
    domain_dir: *const c_char,
    context: *mut *mut dl_context,
) -> dl_status {
    guard(|| {
        place("context", context)?;
        // SAFETY: this function's contract.
        let (name, domain_dir) =
            unsafe { (text("name", name)?, optional_text("domain_dir", domain_dir)?) };
        crate::log::to_stderr_unless_set("warn");
        let options =
            ContextOptions { name: name.to_owned(), domain_dir: domain_dir.map(Into::into) };
        let made = Context::new(options).map_err(|e| Failure::new(DL_ERROR_OPEN, e))?;
        // SAFETY: this function's contract.
        unsafe { put("context", context, Box::into_raw(Box::new(dl_context { context: made }))) }
    })
}

/// Leaves the domain once everything created from it is dropped as well. `*context` (moved) becomes
/// NULL; NULL is permitted.
///
/// # Safety
/// `context` is NULL or points to NULL or to an owned handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_context_drop(context: *mut *mut dl_context) {
    // SAFETY: this function's contract.
    unsafe { release(context) }
}

/// Creates a node. `*node`: owned by the caller, to be given to `dl_node_drop`; it may outlive the
/// context's handle.
///
/// # Safety
/// `context` is NULL or a live handle; `name` is NULL or NUL-terminated; `node` is NULL or valid
/// for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_node_new(
    context: *const dl_context,
    name: *const c_char,
    node: *mut *mut dl_node,
) -> dl_status {
    guard(|| {
        place("node", node)?;
        // SAFETY: this function's contract.
        let (context, name) = unsafe { (borrow("context", context)?, text("name", name)?) };
        let made = context.context.node(name).map_err(|e| Failure::new(DL_ERROR_NAME, e))?;
        // SAFETY: this function's contract.
        unsafe { put("node", node, Box::into_raw(Box::new(dl_node { node: made }))) }
    })
}

/// Drops a node; its publishers and subscriptions live on. `*node` (moved) becomes NULL; NULL is
/// permitted.
///
/// # Safety
/// `node` is NULL or points to NULL or to an owned handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_node_drop(node: *mut *mut dl_node) {
    // SAFETY: this function's contract.
    unsafe { release(node) }
}
