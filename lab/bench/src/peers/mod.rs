// SPDX-License-Identifier: Apache-2.0
//! Other middleware that can be measured: the available programs, their capabilities, and
//! instructions to add missing ones.
//!
//! A peer is a program in the directory of peers that speaks [`crate::harness`]. Called with
//! `--describe` it prints a [`Description`] as JSON. The catalogue names the well-known peers. A
//! peer of the catalogue without a program is listed with instructions to add it.

mod description;
mod list;
mod selection;

pub use description::{Description, RunsWorkload, Setting, Variant, WaitKind};
pub use list::{PeersArgs, list_peers};
pub use selection::{Selection, misnamed, names, select};

use crate::child::{Started, unreadable};
use crate::harness::{PROTOCOL, System};
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline_terminal::paragraphs::wrapped;
use driveline_terminal::table::{Align, aligned};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Variable with the directory of peers. Without it: `peers` in the executable's directory or one
/// level up.
pub const PEERS_VARIABLE: &str = "DRIVELINE_PEERS";

/// Explains to users where peers are searched.
pub const PLACE: &str = "Peers are in the directory that DRIVELINE_PEERS names. Without it, they \
     are in `peers` next to this program, or one level up.";

/// First words of the reason why a missing peer is skipped; instructions to add it follow.
pub const NOT_INSTALLED: &str = "not installed";

/// Time in which a peer must describe itself.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a description in bytes.
const DESCRIPTION_MAX: u64 = 1 << 20;
const CATALOGUE: &str = include_str!("../../../peers/catalogue.json");

/// A known or installed peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// Name in jobs.
    pub name: String,
    /// Readable name.
    pub title: String,
    /// Availability of the peer.
    pub state: State,
}

/// Availability of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is installed.
    Installed {
        /// Its program.
        program: PathBuf,
        /// Its description.
        description: Description,
    },
    /// Its program exists, but cannot be used.
    Broken {
        /// Its program.
        program: PathBuf,
        /// Error.
        reason: String,
    },
    /// It is not installed.
    NotInstalled {
        /// Instructions to add it.
        how_to_add: String,
    },
}

impl Peer {
    /// Returns a text that the peer is not installed and how to add it; `None` if its program
    /// exists.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let State::NotInstalled { how_to_add } = &self.state else { return None };
        Some(format!("{NOT_INSTALLED}: {how_to_add}"))
    }
}

#[derive(Deserialize)]
struct Known {
    name: String,
    title: String,
    how_to_add: String,
    /// Beginnings of the names of the variants with [`Variant::needs_pod`].
    #[serde(default)]
    needs_pod: Vec<String>,
}

/// Returns true if the ends of a peer's variant must share `/dev/shm`, `/tmp` or a PID namespace,
/// according to its description or to the catalogue.
#[must_use]
pub fn needs_pod(system: &System, variant: &Variant) -> bool {
    let System::Peer { name, .. } = system else { return false };
    let known: Vec<Known> = serde_json::from_str(CATALOGUE).unwrap_or_default();
    let known = known.iter().find(|k| k.name == *name);
    variant.needs_pod
        || known.is_some_and(|k| k.needs_pod.iter().any(|v| variant.name.starts_with(v)))
}

/// Returns the directory of peers: from the environment, or next to the executable.
#[must_use]
pub fn directory() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(PEERS_VARIABLE) {
        return Some(named.into());
    }
    let executable = std::env::current_exe().ok()?;
    let beside = executable.parent()?;
    [beside.join("peers"), beside.parent()?.join("peers")].into_iter().find(|d| d.is_dir())
}

/// Returns all peers: those of the catalogue, in its order, then the others in the directory.
/// Blocks while they describe themselves.
///
/// # Errors
/// If `directory` cannot be read. A broken peer is part of the result instead.
pub fn discover(directory: Option<&Path>) -> Result<Vec<Peer>> {
    let known: Vec<Known> =
        serde_json::from_str(CATALOGUE).context("the catalogue of peers is damaged")?;
    let mut found = Vec::new();
    if let Some(directory) = directory {
        let place = directory.display();
        let entries = std::fs::read_dir(directory).map_err(|e| match e.kind() {
            // The default directory was already checked.
            ErrorKind::NotFound => anyhow!(
                "{PEERS_VARIABLE} names {place}, which does not exist: \
                 name another directory, or unset it"
            ),
            _ => anyhow!(
                "cannot read the directory of peers {place}: {e}: name another one with \
                 {PEERS_VARIABLE}"
            ),
        })?;
        let mut programs: Vec<PathBuf> =
            entries.flatten().map(|e| e.path()).filter(|p| is_program(p)).collect();
        programs.sort();
        found = programs.into_iter().map(examine).collect();
    }
    let mut peers = Vec::new();
    for k in known {
        let state = match found.iter().position(|p: &Peer| p.name == k.name) {
            Some(i) => found.remove(i).state,
            None => State::NotInstalled { how_to_add: k.how_to_add },
        };
        peers.push(Peer { name: k.name, title: k.title, state });
    }
    peers.extend(found);
    Ok(peers)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn examine(program: PathBuf) -> Peer {
    let file = program.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    match describe(&program, DESCRIBE_TIMEOUT) {
        Ok(description) if description.name == file => Peer {
            name: file,
            title: description.title.clone(),
            state: State::Installed { program, description },
        },
        Ok(description) => {
            let reason =
                format!("it calls itself '{}': the file must have the same name", description.name);
            Peer { name: file.clone(), title: file, state: State::Broken { program, reason } }
        }
        Err(e) => Peer {
            name: file.clone(),
            title: file,
            state: State::Broken { program, reason: format!("{e:#}") },
        },
    }
}

/// Runs a program to get its description.
fn describe(program: &Path, timeout: Duration) -> Result<Description> {
    let mut command = Command::new(program);
    command.arg("--describe").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut started = Started::new(&mut command).context("it cannot be started")?;
    let out = started.pipes().1.context("it has no standard output")?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = sender.send(out.take(DESCRIPTION_MAX + 1).read_to_end(&mut said).map(|_| said));
    });
    let heard = receiver.recv_timeout(timeout);
    let status = started.end_within(if heard.is_ok() { timeout } else { Duration::ZERO });
    let Ok(said) = heard else { bail!("it did not describe itself within {timeout:?}") };
    let said = said.context("its description cannot be read")?;
    // The size is checked before the exit status, because a longer output was not read to its end.
    ensure!(
        said.len() as u64 <= DESCRIPTION_MAX,
        "its description is longer than {} MiB",
        DESCRIPTION_MAX >> 20
    );
    let text = String::from_utf8(said).context("its description cannot be read")?;
    let status = status.context("`--describe` failed")?;
    ensure!(status.success(), "`--describe` failed ({status})");
    if let Some(text) = serde_json::from_str(&text).ok().as_ref().and_then(unreadable) {
        bail!("'{text}' in its description has control characters or invisible ones");
    }
    let description: Description = serde_json::from_str(&text)
        .context("its description is not what docs/protocols/harness.md says")?;
    ensure!(
        description.protocol == PROTOCOL,
        "it speaks version {} of the harness protocol, this program version {PROTOCOL}: build both \
         from the same source",
        description.protocol
    );
    if let Some(mistake) = description.mistake() {
        bail!("its description is not valid: {mistake} (docs/protocols/harness.md)");
    }
    Ok(description)
}

/// First words of the instructions for peers that `make peers` builds.
const BUILT: &str = "make peers";

/// Returns a line for each peer: its state, its name, and its variants or what is missing. Text is
/// wrapped at `width` characters.
#[must_use]
pub fn table(peers: &[Peer], width: usize) -> String {
    let head = ["PEER", "STATUS", "WHAT"].map(str::to_owned).to_vec();
    let row = |p: &Peer| {
        let (status, what) = match &p.state {
            State::Installed { description: d, .. } => {
                let mut carries: Vec<String> =
                    d.variants.iter().filter(|v| !v.tuning).map(|v| v.name.clone()).collect();
                let tuning = d.variants.len() - carries.len();
                carries.extend((tuning > 0).then(|| format!("{tuning} for tuning")));
                ("installed", format!("{} · {} · {}", p.title, d.version, carries.join(", ")))
            }
            State::Broken { reason, .. } => ("does not work", reason.clone()),
            State::NotInstalled { how_to_add } if how_to_add.starts_with(BUILT) => {
                ("not installed", format!("{} · {BUILT}", p.title))
            }
            State::NotInstalled { .. } => ("not installed", p.title.clone()),
        };
        vec![p.name.clone(), status.to_owned(), what]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(peers.iter().map(row)).collect();
    let mut text: String =
        aligned(&[Align::Left; 3], &rows).into_iter().map(|line| line + "\n").collect();
    let how = "`driveline bench peers NAME` prints the configuration of a peer, or how to add it; \
         `--settings` prints the configuration of all peers.";
    text = text + "\n" + &wrapped(how, width);
    text + &place(peers, width)
}

/// Returns the complete descriptions of peers, or how to add them. Text is wrapped at `width`
/// characters.
#[must_use]
pub fn details(peers: &[Peer], width: usize) -> String {
    let mut text = String::new();
    for peer in peers {
        let line = match &peer.state {
            State::Installed { description, .. } => {
                format!("{}: {} {}", peer.name, peer.title, description.version)
            }
            State::Broken { reason, .. } => format!("{}: does not work: {reason}", peer.name),
            State::NotInstalled { how_to_add } => {
                format!("{}: {}, not installed: {how_to_add}", peer.name, peer.title)
            }
        };
        text.push_str(&wrapped(&line, width));
        if let State::Installed { description, .. } = &peer.state {
            text.extend(settings(description).lines().map(|line| wrapped(line, width)));
        }
    }
    text + &place(peers, width)
}

/// Returns [`PLACE`] as wrapped text if one of these peers cannot be used.
fn place(peers: &[Peer], width: usize) -> String {
    let all_there = peers.iter().all(|p| matches!(p.state, State::Installed { .. }));
    if all_there { String::new() } else { wrapped(PLACE, width) }
}

/// Returns the variants of a peer, each with its settings and their reasons.
#[must_use]
pub(crate) fn settings(description: &Description) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for v in &description.variants {
        let mut note = if v.note.is_empty() { String::new() } else { format!(" ({})", v.note) };
        if v.tuning {
            note += " [tuning: measured only when it is named]";
        }
        if !v.own_tool.is_empty() {
            note += &format!(" [its own latency tool: {}]", v.own_tool);
        }
        for w in &v.workloads {
            note += &match w.missing.as_str() {
                "" => format!(" [runs the workload {}]", w.name),
                missing => format!(" [does not run the workload {}: {missing}]", w.name),
            };
        }
        let _ = writeln!(text, "  {}/{}: {}{note}", description.name, v.name, v.title);
        for s in &v.settings {
            let _ = writeln!(text, "    {} = {}: {}", s.name, s.value, s.why);
        }
    }
    text
}

#[cfg(test)]
mod tests;
