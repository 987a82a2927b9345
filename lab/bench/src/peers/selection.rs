// SPDX-License-Identifier: Apache-2.0
//! Selection of peers by name.

use super::{Description, PLACE, Peer, State, Variant, directory, discover};
use crate::harness::System;
use anyhow::{Result, bail};
use driveline_graph::{closest, suggest};
use std::path::{Path, PathBuf};

/// Returns the possible names: `all`, known or installed peers, and their variants. Blocks while
/// they describe themselves.
#[must_use]
pub fn names() -> Vec<String> {
    // A directory that cannot be read has no peers.
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

/// Requested peers, and the ones that cannot be measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Programs to measure, each with the requested variants.
    pub chosen: Vec<(PathBuf, Description)>,
    /// Requested peers that cannot be measured: name and reason.
    pub unavailable: Vec<(String, String)>,
}

/// Returns the error in a name and the remedy, or `None` if the name is valid. Valid names are
/// `all`, peers, variants of installed peers, and these `others`.
#[must_use]
pub fn misnamed(peers: &[Peer], name: &str, others: &[&str]) -> Option<(String, String)> {
    if name == "all" || others.contains(&name) {
        return None;
    }
    let (peer_name, variant) = name.split_once('/').map_or((name, None), |(p, v)| (p, Some(v)));
    let Some(peer) = peers.iter().find(|p| p.name == peer_name) else {
        let known: Vec<&str> =
            others.iter().copied().chain(peers.iter().map(|p| p.name.as_str())).collect();
        let what = if others.is_empty() { "peer" } else { "system" };
        let help = match closest(peer_name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}. {PLACE}", known.join(", ")),
        };
        return Some((format!("there is no {what} '{peer_name}'"), help));
    };
    let State::Installed { description, .. } = &peer.state else { return None };
    let variant =
        variant.filter(|wanted| description.variants.iter().all(|v| v.name != *wanted))?;
    let names = description.variants.iter().map(|v| v.name.as_str());
    Some((
        format!("the peer {peer_name} has no variant '{variant}'"),
        suggest(variant, "it has", names),
    ))
}

/// Resolves names of peers (`fastdds`), of their variants (`fastdds/shm`), or `all`. Tuning
/// variants must be named (`fastdds/udp_500`).
///
/// # Errors
/// If a peer is neither installed nor known, or an installed peer has no variant of this name.
pub fn select(peers: &[Peer], names: &[String]) -> Result<Selection> {
    let mut selection = Selection::default();
    for name in names {
        let (peer_name, variant) =
            name.split_once('/').map_or((name.as_str(), None), |(p, v)| (p, Some(v)));
        let all = name == "all";
        let matching: Vec<&Peer> = peers.iter().filter(|p| all || p.name == peer_name).collect();
        if let Some((message, help)) = misnamed(peers, name, &[]) {
            bail!("{message}: {help}");
        }
        for peer in matching {
            match &peer.state {
                State::Installed { program, description } => {
                    let wanted: Vec<Variant> = description
                        .variants
                        .iter()
                        .filter(|v| variant.map_or(!v.tuning, |w| v.name == w))
                        .cloned()
                        .collect();
                    if wanted.is_empty() && variant.is_none() {
                        let reason = "has only variants for tuning, which are requested by name \
                             (PEER/VARIANT): see `bench peers`";
                        selection.unavailable.push((peer.name.clone(), reason.to_owned()));
                        continue;
                    }
                    match selection.chosen.iter_mut().find(|(p, _)| p == program) {
                        Some((_, d)) => d.variants.extend(wanted),
                        None => selection.chosen.push((
                            program.clone(),
                            Description { variants: wanted, ..description.clone() },
                        )),
                    }
                }
                State::Broken { reason, .. } => selection
                    .unavailable
                    .push((peer.name.clone(), format!("does not work: {reason}"))),
                State::NotInstalled { .. } => {
                    selection
                        .unavailable
                        .extend(peer.missing().map(|reason| (peer.name.clone(), reason)));
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
    /// Returns the program that carries the samples of a system; none if it is not chosen.
    #[must_use]
    pub fn program(&self, system: &System) -> Option<&Path> {
        let System::Peer { name, .. } = system else { return None };
        self.chosen.iter().find(|(_, d)| d.name == *name).map(|(p, _)| p.as_path())
    }

    /// Returns the description of a system's variant.
    #[must_use]
    pub fn variant(&self, system: &System) -> Option<&Variant> {
        let System::Peer { name, variant } = system else { return None };
        self.chosen
            .iter()
            .find(|(_, d)| d.name == *name)?
            .1
            .variants
            .iter()
            .find(|v| v.name == *variant)
    }

    /// Returns the readable name of a system: of the peer and of its variant.
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

    /// Returns all chosen systems.
    pub fn systems(&self) -> impl Iterator<Item = (System, &Variant)> {
        self.chosen.iter().flat_map(|(_, d)| {
            d.variants
                .iter()
                .map(|v| (System::Peer { name: d.name.clone(), variant: v.name.clone() }, v))
        })
    }
}
