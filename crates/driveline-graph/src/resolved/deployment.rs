// SPDX-License-Identifier: Apache-2.0
//! Container of a module.

use crate::diagnostic::Place;
use crate::model::Cpus;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Container of a module.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResolvedDeployment {
    /// Image; made from the module's libraries if there is none.
    pub image: Option<String>,
    /// User id in the container.
    pub user: Option<u32>,
    /// CPUs.
    pub cpus: Option<Cpus>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// Devices: `/dev/video0`, or names of the Container Device Interface such as
    /// `nvidia.com/gpu=all`.
    pub devices: Vec<String>,
    /// Files and directories of the host.
    pub mounts: Vec<Mount>,
    /// Places of its keys, by their names: `image`, `mounts/0`; `module` is the module itself.
    #[serde(skip)]
    pub places: BTreeMap<String, Place>,
}

impl ResolvedDeployment {
    /// Returns the place of a key, or of the module if it has no such key.
    #[must_use]
    pub fn place(&self, key: &str) -> Option<&Place> {
        self.places.get(key).or_else(|| self.places.get("module"))
    }
}

/// A file or directory of the host in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Path on the host.
    pub source: PathBuf,
    /// Absolute path in the container.
    pub target: PathBuf,
    /// True if the module may write there.
    pub writable: bool,
}

impl Mount {
    /// Parses `SOURCE[:TARGET][:rw|:ro]`. A relative source is below `directory`; the default
    /// target is the path on the host.
    pub(crate) fn parse(text: &str, directory: &Path) -> Result<Self, &'static str> {
        let (text, writable) = match (text.strip_suffix(":rw"), text.strip_suffix(":ro")) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => (text, false),
        };
        let (source, target) = match text.split_once(':') {
            Some((source, target)) => (source, Some(target)),
            None => (text, None),
        };
        if source.is_empty() || target.is_some_and(|t| t.contains(':')) {
            return Err("write `source`, `source:target`, or either with `:rw`");
        }
        if text.contains(',') {
            return Err("engines cannot mount a path with a comma");
        }
        let source = directory.join(source);
        let source = std::path::absolute(&source).unwrap_or(source);
        let target = target.map_or_else(|| source.clone(), PathBuf::from);
        if !target.is_absolute() || target == Path::new("/") {
            return Err("the target must be an absolute path in the container, and not `/` itself");
        }
        if target.components().any(|c| c == Component::ParentDir) {
            return Err("write the target without `..`");
        }
        if target.starts_with("/run/driveline") {
            return Err("the domain of the run is at /run/driveline: mount to another place");
        }
        let system = ["/proc", "/sys", "/dev", "/opt/driveline"].map(Path::new);
        if system.into_iter().any(|directory| target == directory) {
            return Err("the container needs its own files there: mount to another place");
        }
        Ok(Self { source, target, writable })
    }
}
