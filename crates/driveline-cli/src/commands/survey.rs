// SPDX-License-Identifier: Apache-2.0
//! Survey of a domain: its participants, with warnings about participants that do not answer.

use super::domains::DomainPlace;
use crate::process;
use crate::text::cut;
use driveline_shm::{ParticipantInfo, Survey};
use driveline_terminal::screen::Screen;
use driveline_terminal::table::{Align, aligned};
use std::time::Duration;

/// Time for all participants to answer.
const ASK: Duration = Duration::from_secs(1);
/// Number of columns to which text that processes of other users may have chosen is cut.
const NAME: usize = 80;
/// Maximum number of processes named because they do not answer.
const MOST_SILENT: usize = 16;
/// Maximum length of a process's reason for an incomplete listing, in characters.
const MOST_OF_REASON: usize = 300;

/// Returns the domain's place and the participants that answer; prints warnings about the others. A
/// domain that was never joined has no participants.
pub(super) fn ask(
    domain: Option<&str>,
    screen: &Screen,
) -> Result<(DomainPlace, Vec<ParticipantInfo>), String> {
    let place = DomainPlace::of(domain)?;
    let Some(directory) = driveline_shm::domain::existing(domain).map_err(|e| e.to_string())?
    else {
        return Ok((place, Vec::new()));
    };
    let Survey { participants, silent, silent_others } =
        driveline_shm::survey(&directory, ASK).map_err(|e| e.to_string())?;
    let mut silent: Vec<u32> = silent.into_iter().chain(silent_others).collect();
    let all = silent.len();
    silent.retain(|pid| *pid > 0);
    silent.truncate(MOST_SILENT);
    let more = all - silent.len();
    if more > 0 {
        let who =
            if more == 1 { "1 participant".to_owned() } else { format!("{more} participants") };
        screen.print_error(&format!(
            "warning: {who} of this domain did not answer: what they have is not in the list\n"
        ));
    }
    for pid in silent {
        let name = process::name(pid).unwrap_or_else(|| "a process".to_owned());
        let what = if process::is_stopped(pid) {
            format!("is suspended; `kill -CONT {pid}` lets it go on")
        } else {
            "does not answer".into()
        };
        // Separate from the list: the topics of these processes are unknown.
        screen.print_error(&format!("warning: {} (pid {pid}): {what}\n", cut(&name, NAME)));
    }
    for p in participants.iter().filter(|p| !p.incomplete.is_empty()) {
        let (name, pid) = (cut(&p.name, NAME), p.pid_in_its_namespace);
        screen.print_error(&format!(
            "warning: {name} (pid {pid}): {}\n",
            cut(&p.incomplete, MOST_OF_REASON)
        ));
    }
    Ok((place, participants))
}

/// Prints a table whose first row is its head.
pub(super) fn print_table(align: &[Align], rows: &[Vec<String>], screen: &Screen) {
    for (i, line) in aligned(align, rows).iter().enumerate() {
        let line = if i == 0 { screen.paint("1", line) } else { line.clone() };
        screen.print(&(line + "\n"));
    }
}
