// SPDX-License-Identifier: Apache-2.0
//! Other middleware that can be measured: which programs there are, what they can do, and how to add those that are not
//! there.
//!
//! A peer is a program in the directory of peers that speaks [`crate::harness`]. Called with `--describe` it prints a
//! [`Description`] as JSON. The catalogue names the peers that people ask for; one that is in the catalogue but not in the
//! directory is shown with what would have to be done, so that nothing is missing silently.

use crate::child::{Started, unreadable};
use crate::harness::{Job, PROTOCOL, Pace, Reach, Reliability, System, Wait};
use anyhow::{Context, Result, bail, ensure};
use driveline_runtime::graph::{closest, suggest};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Names the directory of peers; without it, `peers` beside the executable or one level up.
pub const PEERS_VARIABLE: &str = "DRIVELINE_PEERS";

/// Where peers are looked for, for those who miss one.
pub const PLACE: &str =
    "Peers are looked for in the directory that DRIVELINE_PEERS names; without it, in `peers` beside this program, or one level up.";

/// How the reason begins for which a peer is left out that is not there; how to add it follows.
pub const NOT_INSTALLED: &str = "not installed";

/// How long a peer may take to describe itself.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// More than any description needs.
const DESCRIPTION_MAX: u64 = 1 << 20;
const CATALOGUE: &str = include_str!("../../../peers/catalogue.json");

/// What a peer says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// [`PROTOCOL`] that it speaks.
    pub protocol: u32,
    /// Name, as it is called in a job: lower case, no slash.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Version of the middleware.
    pub version: String,
    /// The ways in which it can carry samples.
    pub variants: Vec<Variant>,
}

/// One way in which a peer carries samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Name, as it is called in a job.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Where its ends can be.
    pub reach: Vec<Reach>,
    /// How its readers can wait.
    pub waits: Vec<WaitKind>,
    /// Which of these it offers.
    pub reliability: Vec<Reliability>,
    /// Whether samples are written and read in place; otherwise the middleware copies them.
    pub loans: bool,
    /// Least size in bytes.
    pub min_size: usize,
    /// Greatest size in bytes.
    pub max_size: usize,
    /// Greatest number of subscribers.
    pub max_subscribers: usize,
    /// Whether it needs a [`crate::harness::Role::Keeper`].
    #[serde(default)]
    pub keeper: bool,
    /// What a reader of its figures must know.
    #[serde(default)]
    pub note: String,
    /// How it is configured, and why so.
    pub settings: Vec<Setting>,
    /// A variation of another variant's settings, measured only when it is named itself.
    #[serde(default)]
    pub tuning: bool,
    /// The middleware's own latency tool, which it runs in the role [`crate::harness::Role::OwnTool`]; empty if there is none.
    #[serde(default)]
    pub own_tool: String,
    /// How the readers of that tool wait.
    #[serde(default)]
    pub own_tool_wait: WaitKind,
    /// The sizes in bytes that it can measure; none: any.
    #[serde(default)]
    pub own_tool_sizes: Vec<usize>,
}

/// One thing that is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name in the middleware.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Why, and who recommends it.
    pub why: String,
}

/// A kind of [`Wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// Sleeps in the kernel.
    #[default]
    Block,
    /// Never sleeps.
    Spin,
    /// Spins for a while, then sleeps.
    SpinThenBlock,
}

impl From<Wait> for WaitKind {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Block => Self::Block,
            Wait::Spin => Self::Spin,
            Wait::SpinThenBlock(_) => Self::SpinThenBlock,
        }
    }
}

impl Variant {
    /// Whether there is a tool of its own that measures the same link as a job.
    #[must_use]
    pub fn has_own_tool_for(&self, job: &Job) -> bool {
        let fits = self.own_tool_sizes.is_empty() || self.own_tool_sizes.contains(&job.size);
        !self.own_tool.is_empty() && job.may_have_own_tool() && fits && self.own_tool_wait == WaitKind::from(job.wait)
    }

    /// Why it cannot do a job; nothing if it can.
    #[must_use]
    pub fn refuses(&self, job: &Job) -> Option<String> {
        let kind = WaitKind::from(job.wait);
        if !self.reach.contains(&job.reach) {
            let where_to = match job.reach {
                Reach::Process => "threads of one process",
                Reach::Host => "processes",
                Reach::Network => "other hosts",
            };
            return Some(format!("does not reach {where_to}"));
        }
        if !self.waits.contains(&kind) {
            return Some(format!("readers cannot wait as '{}'", job.wait));
        }
        if !self.reliability.contains(&job.reliability) {
            let what = if job.reliability == Reliability::Reliable { "reliable" } else { "best effort" };
            return Some(format!("is not {what}"));
        }
        if job.size < self.min_size || job.size > self.max_size {
            return Some(format!("carries {} to {} bytes, not {}", self.min_size, self.max_size, job.size));
        }
        if job.subscribers > self.max_subscribers {
            return Some(format!("has at most {} subscribers, not {}", self.max_subscribers, job.subscribers));
        }
        if job.pace == Pace::PingPong && job.subscribers != 1 {
            return Some("a ping-pong has one subscriber".into());
        }
        None
    }
}

/// A peer that somebody may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// Name, as it is called in a job.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Whether it can be measured.
    pub state: State,
}

/// Whether a peer can be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is there.
    Installed {
        /// Its program.
        program: PathBuf,
        /// What it says about itself.
        description: Description,
    },
    /// Its program is there but of no use.
    Broken {
        /// Its program.
        program: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is not there.
    NotInstalled {
        /// How to add it.
        how_to_add: String,
    },
}

impl Peer {
    /// Why it cannot be measured, and how to add it, if it is not there.
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
}

/// The directory of peers: the one that the environment names, or the one that stands beside the executable.
#[must_use]
pub fn directory() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(PEERS_VARIABLE) {
        return Some(named.into());
    }
    let executable = std::env::current_exe().ok()?;
    let beside = executable.parent()?;
    [beside.join("peers"), beside.parent()?.join("peers")].into_iter().find(|d| d.is_dir())
}

/// All peers: those of the catalogue, in its order, then whatever else is in the directory. Blocks while they describe
/// themselves.
///
/// # Errors
/// If a directory is named that cannot be read. A peer that does not work is part of the result instead.
pub fn discover(directory: Option<&Path>) -> Result<Vec<Peer>> {
    let known: Vec<Known> = serde_json::from_str(CATALOGUE).context("the catalogue of peers is damaged")?;
    let mut found = Vec::new();
    if let Some(directory) = directory {
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("cannot read the directory of peers {}: build them with `make peers`", directory.display()))?;
        let mut programs: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| is_program(p)).collect();
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
        Ok(description) if description.name == file => {
            Peer { name: file, title: description.title.clone(), state: State::Installed { program, description } }
        }
        Ok(description) => {
            let reason = format!("it calls itself '{}': the file must have the same name", description.name);
            Peer { name: file.clone(), title: file, state: State::Broken { program, reason } }
        }
        Err(e) => Peer { name: file.clone(), title: file, state: State::Broken { program, reason: format!("{e:#}") } },
    }
}

/// What names of peers and variants are made of: they stand in ids, files and `PEER/VARIANT`.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    (1..=40).contains(&name.len()) && name.chars().all(plain)
}

impl Description {
    /// What no peer can say of itself.
    fn mistake(&self) -> Option<String> {
        let own = [System::Driveline, System::Futex, System::Spin, System::Memcpy].map(|s| s.to_string());
        if !is_name(&self.name) || own.contains(&self.name) {
            return Some(format!(
                "a peer cannot be called '{}': use lower-case letters, digits, `_` and `-`, and no name of this program's own",
                self.name
            ));
        }
        let twice = |v: &&Variant| self.variants.iter().filter(|other| other.name == v.name).count() > 1;
        if let Some(v) = self.variants.iter().find(|v| !is_name(&v.name)) {
            return Some(format!("a variant cannot be called '{}': use lower-case letters, digits, `_` and `-`", v.name));
        }
        if let Some(v) = self.variants.iter().find(twice) {
            return Some(format!("there are two variants '{}'", v.name));
        }
        if let Some(v) = self.variants.iter().find(|v| v.min_size > v.max_size || v.reach.is_empty()) {
            return Some(format!("the variant '{}' carries nothing: `reach` names none, or `min_size` is above `max_size`", v.name));
        }
        None
    }
}

/// Asks a program what it is.
fn describe(program: &Path, timeout: Duration) -> Result<Description> {
    let mut command = Command::new(program);
    command.arg("--describe").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut started = Started::new(&mut command).context("it cannot be started")?;
    let out = started.pipes().1.context("it has no standard output")?;
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = tell.send(out.take(DESCRIPTION_MAX + 1).read_to_end(&mut said).map(|_| said));
    });
    let heard = told.recv_timeout(timeout);
    let status = started.end_within(if heard.is_ok() { timeout } else { Duration::ZERO });
    let Ok(said) = heard else { bail!("it did not describe itself within {timeout:?}") };
    let said = said.context("its description cannot be read")?;
    // Before how it ended: nobody listened to the rest.
    ensure!(said.len() as u64 <= DESCRIPTION_MAX, "its description is longer than {} MiB", DESCRIPTION_MAX >> 20);
    let text = String::from_utf8(said).context("its description cannot be read")?;
    let status = status.context("`--describe` failed")?;
    ensure!(status.success(), "`--describe` failed ({status})");
    if let Some(text) = serde_json::from_str(&text).ok().as_ref().and_then(unreadable) {
        bail!("'{text}' in its description has control characters");
    }
    let description: Description = serde_json::from_str(&text).context("its description is not what docs/protocols/harness.md says")?;
    ensure!(
        description.protocol == PROTOCOL,
        "it speaks version {} of the harness protocol, this program version {PROTOCOL}: build both from the same source",
        description.protocol
    );
    if let Some(mistake) = description.mistake() {
        bail!("its description cannot be: {mistake} (docs/protocols/harness.md)");
    }
    Ok(description)
}

/// What may be asked for: `all`, the peers that are known or there, and their variants. Blocks while they describe themselves.
#[must_use]
pub fn names() -> Vec<String> {
    // A directory that cannot be read has none.
    let peers = discover(directory().as_deref()).or_else(|_| discover(None)).unwrap_or_default();
    let mut names = vec!["all".to_owned()];
    for peer in peers {
        names.push(peer.name.clone());
        if let State::Installed { description, .. } = &peer.state {
            names.extend(description.variants.iter().map(|v| format!("{}/{}", peer.name, v.name)));
        }
    }
    names
}

/// What somebody asked to measure, and what cannot be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Programs to measure, each with the variants that were asked for.
    pub chosen: Vec<(PathBuf, Description)>,
    /// What was asked for but cannot be measured: the name, and why.
    pub unavailable: Vec<(String, String)>,
}

/// What is wrong with a name that is to be measured, and what to do about it; nothing if it may be asked for: `all`, a peer, a
/// variant of one that is installed, or one of these `others`.
#[must_use]
pub fn misnamed(peers: &[Peer], name: &str, others: &[&str]) -> Option<(String, String)> {
    if name == "all" || others.contains(&name) {
        return None;
    }
    let (peer_name, variant) = name.split_once('/').map_or((name, None), |(p, v)| (p, Some(v)));
    let Some(peer) = peers.iter().find(|p| p.name == peer_name) else {
        let known: Vec<&str> = others.iter().copied().chain(peers.iter().map(|p| p.name.as_str())).collect();
        let what = if others.is_empty() { "peer" } else { "system" };
        let help = match closest(peer_name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}. {PLACE}", known.join(", ")),
        };
        return Some((format!("there is no {what} '{peer_name}'"), help));
    };
    let State::Installed { description, .. } = &peer.state else { return None };
    let variant = variant.filter(|wanted| description.variants.iter().all(|v| v.name != *wanted))?;
    let names = description.variants.iter().map(|v| v.name.as_str());
    Some((format!("the peer {peer_name} has no variant '{variant}'"), suggest(variant, "it has", names)))
}

/// Resolves names of peers (`fastdds`), of their variants (`fastdds/shm`), or `all`. Variants for tuning must be named
/// themselves (`fastdds/udp_500`).
///
/// # Errors
/// If a name is neither installed nor known.
pub fn select(peers: &[Peer], names: &[String]) -> Result<Selection> {
    let mut selection = Selection::default();
    for name in names {
        let (peer_name, variant) = name.split_once('/').map_or((name.as_str(), None), |(p, v)| (p, Some(v)));
        let all = name == "all";
        let matching: Vec<&Peer> = peers.iter().filter(|p| all || p.name == peer_name).collect();
        if let Some((message, help)) = misnamed(peers, name, &[]) {
            bail!("{message}: {help}");
        }
        for peer in matching {
            match &peer.state {
                State::Installed { program, description } => {
                    let wanted: Vec<Variant> =
                        description.variants.iter().filter(|v| variant.map_or(!v.tuning, |w| v.name == w)).cloned().collect();
                    if wanted.is_empty() && variant.is_none() {
                        let reason = "has only variants that must be named themselves, e.g. PEER/VARIANT: see `bench peers`";
                        selection.unavailable.push((peer.name.clone(), reason.to_owned()));
                        continue;
                    }
                    match selection.chosen.iter_mut().find(|(p, _)| p == program) {
                        Some((_, d)) => d.variants.extend(wanted),
                        None => selection.chosen.push((program.clone(), Description { variants: wanted, ..description.clone() })),
                    }
                }
                State::Broken { reason, .. } => selection.unavailable.push((peer.name.clone(), format!("does not work: {reason}"))),
                State::NotInstalled { .. } => {
                    selection.unavailable.extend(peer.missing().map(|reason| (peer.name.clone(), reason)));
                }
            }
        }
    }
    for (_, d) in &mut selection.chosen {
        let mut seen = Vec::new();
        d.variants.retain(|v| {
            !seen.contains(&v.name) && {
                seen.push(v.name.clone());
                true
            }
        });
    }
    Ok(selection)
}

impl Selection {
    /// The program that carries samples of a system; none if it is not chosen.
    #[must_use]
    pub fn program(&self, system: &System) -> Option<&Path> {
        let System::Peer { name, .. } = system else { return None };
        self.chosen.iter().find(|(_, d)| d.name == *name).map(|(p, _)| p.as_path())
    }

    /// What is known about the variant of a system.
    #[must_use]
    pub fn variant(&self, system: &System) -> Option<&Variant> {
        let System::Peer { name, variant } = system else { return None };
        self.chosen.iter().find(|(_, d)| d.name == *name)?.1.variants.iter().find(|v| v.name == *variant)
    }

    /// The name of a system for people: of the peer and of its variant.
    #[must_use]
    pub fn title(&self, system: &System) -> String {
        let System::Peer { name, .. } = system else { return system.to_string() };
        let peer = self.chosen.iter().find(|(_, d)| d.name == *name).map(|(_, d)| d.title.as_str());
        match (peer, self.variant(system)) {
            (Some(peer), Some(variant)) if variant.title.starts_with(peer) => variant.title.clone(),
            (Some(peer), Some(variant)) => format!("{peer}, {}", variant.title),
            _ => system.to_string(),
        }
    }

    /// All systems that were chosen.
    pub fn systems(&self) -> impl Iterator<Item = (System, &Variant)> {
        self.chosen.iter().flat_map(|(_, d)| d.variants.iter().map(|v| (System::Peer { name: d.name.clone(), variant: v.name.clone() }, v)))
    }
}

/// The peers as a table for people.
#[must_use]
pub fn table(peers: &[Peer]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for peer in peers {
        let _ = match &peer.state {
            State::Installed { description, .. } => writeln!(text, "{}: {} {}", peer.name, peer.title, description.version),
            State::Broken { reason, .. } => writeln!(text, "{}: does not work: {reason}", peer.name),
            State::NotInstalled { how_to_add } => writeln!(text, "{}: {}, not installed: {how_to_add}", peer.name, peer.title),
        };
        let State::Installed { description, .. } = &peer.state else { continue };
        text.push_str(&settings(description));
    }
    if peers.iter().any(|p| !matches!(p.state, State::Installed { .. })) {
        let _ = writeln!(text, "{PLACE}");
    }
    text
}

/// The variants of a peer, each with how it is configured and why.
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
        let _ = writeln!(text, "  {}/{}: {}{note}", description.name, v.name, v.title);
        for s in &v.settings {
            let _ = writeln!(text, "    {} = {}: {}", s.name, s.value, s.why);
        }
    }
    text
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
