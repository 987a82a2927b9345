// SPDX-License-Identifier: Apache-2.0
//! Graph files: which components run in which process, and which topics are between them.
//!
//! [`load`] reads a file with all that it includes, checks it against the types in [`model`], reads
//! the classes of the component libraries, and resolves everything into a [`ResolvedGraph`]. It
//! collects all mistakes that it can find, each with file, line and a suggestion. If a part cannot
//! be read, the other parts are still checked. Whatever bytes the files contain, [`load`] returns
//! findings or a graph, and does not panic.
//!
//! Not here: starting processes.
//!
//! ```
//! use driveline_graph::{Colour, DescribeError, LoadOptions, load};
//! # let dir = tempfile::tempdir().unwrap();
//! let path = dir.path().join("graph.yaml");
//! std::fs::write(&path, "driveline: 1\nmodule: {}\n").unwrap();
//! let nothing = |_: &std::path::Path| {
//!     Err(DescribeError { reason: "no libraries here".into(), help: None })
//! };
//! let loaded = load(&path, &LoadOptions::new(&nothing));
//! assert!(loaded.graph.is_none());
//! assert!(loaded.diagnostics.render(Colour::No).contains("did you mean `modules`?"));
//! ```

mod de;
mod deployment;
pub mod descriptor;
mod diagnostic;
mod document;
mod files;
mod health_topic;
mod library;
pub mod model;
mod modes;
mod parameters;
mod partial;
mod reaction;
mod real_time;
mod resolve;
pub mod resolved;
pub mod section;
mod shape;
mod standby;
mod supervision;
mod together;
mod topology;
mod units;
mod variables;
mod yaml;

pub use diagnostic::{
    Colour, Diagnostic, Diagnostics, Place, Related, Severity, Span, clean, closest, suggest,
};
pub use document::{Document, parse_document, read_document};
pub use files::{MAX_BYTES, Unreadable, bounded_text};
pub use library::{COMPONENT_PATH, Describe, DescribeError, Environment, default_library_dirs};
pub use model::{
    Cpus, LimitsSpec, ModeOrder, OnExhausted, OnLauncherLost, RateSpec, Reaction, RestartPolicy,
};
pub use modes::MAX_MODES;
pub use parameters::{parameter_from_text, parameters_of_file};
pub use reaction::HANG;
pub use resolve::{LoadOptions, Loaded, load};
pub use resolved::{
    ModeSource, Mount, ResolvedBudget, ResolvedComponent, ResolvedDeployment, ResolvedExecutor,
    ResolvedGraph, ResolvedInput, ResolvedMode, ResolvedModes, ResolvedModule, ResolvedOutput,
    ResolvedRate, ResolvedRealTime, ResolvedRestart, ResolvedTopic, ResolvedTrigger, ResolvedWatch,
};
pub use section::{Registered, json_schema};
pub use units::{ByteSize, ByteSizeError, Milliseconds};

#[cfg(test)]
extern crate self as driveline_graph;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

/// Registers no gateway's section.
#[cfg(test)]
fn registered_in_tests() -> Registered {
    Registered::default()
}
