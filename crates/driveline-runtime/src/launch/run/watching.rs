// SPDX-License-Identifier: Apache-2.0
//! Observation of one process by the launcher.

use super::super::child::Child;
use super::super::judge::Judge;
use super::super::usage::Reported;
use crate::heartbeats::{Layout, PeerHeartbeats};
use driveline_graph::ResolvedModule;
use std::time::Instant;

/// Watch over one process, from its start to its end.
#[derive(Default)]
pub(super) struct Watching<'a> {
    /// The heartbeats, once they were received.
    pub(super) beats: Option<(PeerHeartbeats, Judge<'a>)>,
    pub(super) reported: Reported,
    pub(super) next_usage: Option<Instant>,
    /// True if the launcher ends it because of a fault.
    pub(super) faulty: bool,
}

impl<'a> Watching<'a> {
    /// Maps the heartbeats whose descriptor the process has sent, if it was received. The error is
    /// for people.
    pub(super) fn take(
        &mut self,
        module: &'a ResolvedModule,
        child: &mut Child,
    ) -> Result<(), String> {
        let Some((fd, layout)) = child.sent.take().zip(Layout::of(module)) else { return Ok(()) };
        // Only the first descriptor counts: another one would begin the judgement anew.
        if std::mem::replace(&mut child.is_watched, true) {
            return Ok(());
        }
        let beats = PeerHeartbeats::open(&fd, layout).map_err(|e| {
            format!("its heartbeats cannot be used: {e}; its calls and rates are not watched")
        })?;
        self.beats = Some((beats, Judge::new(module)));
        Ok(())
    }
}
