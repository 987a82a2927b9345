// SPDX-License-Identifier: Apache-2.0
//! Behaviour of a module whose launcher is lost, if the graph declares a mode for that
//! (`on_launcher_lost: {mode: NAME}`).
//!
//! No process replaces the launcher: each module enters the mode by itself, and ends on SIGTERM or
//! SIGINT.

use super::words::ModeWord;
use driveline_graph::{OnLauncherLost, ResolvedGraph, ResolvedModule};

/// Number of a switch that no launcher uses.
const BY_ITSELF: u64 = u64::MAX;

/// Returns the line that the launcher, if it still existed, would send to this module to enter the
/// mode.
pub(super) fn word(graph: &ResolvedGraph, module: &ResolvedModule) -> Option<ModeWord> {
    let (OnLauncherLost::Mode(name), Some(modes)) = (&graph.on_launcher_lost, &graph.modes) else {
        return None;
    };
    let mode = &modes.modes[modes.index(name)?];
    let own = module.components.iter().map(|c| c.name.as_str()).filter(|c| modes.is_modal(c));
    let (activate, deactivate) = own
        .map(str::to_owned)
        .partition(|component| mode.active.iter().any(|active| active == component));
    Some(ModeWord {
        switch: BY_ITSELF,
        mode: name.clone(),
        activate,
        deactivate,
        parameters: mode.parameters.clone(),
    })
}

/// Replaces standard output and standard error by `/dev/null`. The launcher read them, and nothing
/// reads them any more: a write would fail, and a component's `println!` would panic.
pub(super) fn close_outputs() {
    let Ok(null) = std::fs::File::options().write(true).open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}
