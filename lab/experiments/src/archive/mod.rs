// SPDX-License-Identifier: Apache-2.0
//! Archive of a measurement on disk: the only input of reports and comparisons.
//!
//! An archive is a directory (`docs/protocols/archive.md`). `manifest.json` has the planned
//! measurements, the machine and the command. `runs/<experiment>/<case>/<round>.json` is the
//! account of a run, with its raw stamps and observations next to it as Arrow files. A run's
//! account is written last and appears at once, so an archive is consistent at any time. An
//! interrupted measurement has fewer runs, and continues with the missing ones.

mod accounts;
mod check;
mod columns;
mod manifest;
mod samples;

pub use manifest::{Case, Experiment, Link, LinkMeasure, Manifest, Role, Run, Workload};
pub use samples::{LinkSample, metrics};

use anyhow::{Context, Result, anyhow, bail, ensure};
use check::{check, check_readable};
use driveline_bench::child::plain_json;
use driveline_bench::observations::Observations;
use serde::Deserialize;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of the format. Version 2 added floors that copy.
pub const FORMAT: u32 = 2;
/// Oldest version that is read.
const OLDEST_FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
/// Ending of files that are not complete yet.
const PART: &str = "part";
/// An archive on disk.
#[derive(Clone, Debug)]
pub struct Archive {
    directory: PathBuf,
    /// Lock, held during a measurement into it.
    _claim: Option<Arc<File>>,
    /// Its manifest.
    pub manifest: Manifest,
}

impl Archive {
    /// Makes an archive. The directory must not exist, or be empty.
    ///
    /// # Errors
    /// If the file system fails, the directory is not empty, another process measures into it, or a
    /// text has control characters.
    pub fn create(directory: &Path, manifest: Manifest) -> Result<Self> {
        check_readable(&manifest)?;
        let made = || std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        fs::create_dir_all(directory).map_err(|e| {
            anyhow!(
                "cannot make {}: {e}: name a directory that may be made with --out",
                made().display()
            )
        })?;
        let empty = || -> Result<()> {
            let mut there = fs::read_dir(directory)
                .with_context(|| format!("cannot read {}", directory.display()))?
                .flatten();
            // A partly written manifest may stay: it belongs to no measurement.
            ensure!(
                there.all(|entry| Path::new(&entry.file_name())
                    == Path::new(MANIFEST).with_extension(PART)),
                "{} is not empty: name another directory, or go on with the measurement in it with \
                 --resume",
                directory.display()
            );
            Ok(())
        };
        empty()?;
        let claim = claim(directory)?;
        // Checks again: another process may have created an archive before the claim.
        empty()?;
        let archive =
            Self { directory: directory.to_owned(), _claim: Some(Arc::new(claim)), manifest };
        archive.write_manifest()?;
        Ok(archive)
    }

    /// Opens an archive.
    ///
    /// # Errors
    /// If the directory is not an archive, has an unsupported format, or is damaged.
    pub fn open(directory: &Path) -> Result<Self> {
        ensure!(
            directory.is_dir(),
            "there is no directory {}: name one that `driveline bench run` has made (it prints \
             their names)",
            directory.display()
        );
        let path = directory.join(MANIFEST);
        let text = read(&path)
            .and_then(|text| String::from_utf8(text).map_err(std::io::Error::other))
            .with_context(|| {
                format!(
                    "cannot read {} (`driveline bench run` makes such directories, and prints \
                 their names)",
                    path.display()
                )
            })?;
        let format: Version = serde_json::from_str(&text)
            .with_context(|| format!("{} is no manifest", path.display()))?;
        ensure!(
            (OLDEST_FORMAT..=FORMAT).contains(&format.format),
            "{} has format {}, this program reads {OLDEST_FORMAT} to {FORMAT}: use the version \
             that made it",
            path.display(),
            format.format
        );
        let manifest: Manifest = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged", path.display()))?;
        check(&manifest)
            .with_context(|| format!("{} is damaged, or not by this program", path.display()))?;
        Ok(Self { directory: directory.to_owned(), _claim: None, manifest })
    }

    /// Claims the archive for a measurement: no other process can measure into it until this object
    /// and its clones are dropped.
    ///
    /// # Errors
    /// If another process has claimed it.
    pub fn claimed(self) -> Result<Self> {
        let _claim = Some(Arc::new(claim(&self.directory)?));
        Ok(Self { _claim, ..self })
    }

    /// Returns its path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Records that all runs are made.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn finish(&mut self, at: String) -> Result<()> {
        self.manifest.finished_at = Some(at);
        self.write_manifest()
    }

    fn write_manifest(&self) -> Result<()> {
        write_whole(&self.directory.join(MANIFEST), &serde_json::to_vec_pretty(&self.manifest)?)
    }

    fn path(&self, experiment: &str, case: &Case, round: u64, what: &str) -> PathBuf {
        self.directory
            .join("runs")
            .join(experiment)
            .join(&case.directory)
            .join(format!("{round}{what}"))
    }

    /// Adds a run: its account, the stamps of each link (in `run.accounts`) and its observations.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn add(
        &self,
        experiment: &str,
        case: &Case,
        run: &Run,
        observations: &Observations,
    ) -> Result<()> {
        let account = self.path(experiment, case, run.round, ".json");
        if let Some(parent) = account.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        if run.accounts.iter().any(|a| !a.stamps.is_empty()) {
            let stamps = self.path(experiment, case, run.round, ".stamps.arrow");
            samples::write(&stamps, &run.accounts)
                .with_context(|| format!("cannot write {}", stamps.display()))?;
        }
        if !observations.series.is_empty() {
            let path = self.path(experiment, case, run.round, ".observations.arrow");
            columns::write_observations(&path, observations)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        write_whole(&account, &serde_json::to_vec_pretty(run)?)
    }

    /// Writes a file of results next to the runs. Replaces a file of that name; does not follow a
    /// link.
    ///
    /// # Errors
    /// If the file system fails.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_whole(&self.directory.join(name), bytes)
    }

    /// Returns true if a run exists.
    #[must_use]
    pub fn has(&self, experiment: &str, case: &Case, round: u64) -> bool {
        self.path(experiment, case, round, ".json").exists()
    }

    /// Returns the runs of a case, by round.
    ///
    /// # Errors
    /// If one is damaged.
    pub fn runs(&self, experiment: &Experiment, case: &Case) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for round in 0..experiment.rounds {
            let path = self.path(&experiment.scenario.id, case, round, ".json");
            match read(&path) {
                Ok(text) => {
                    let read = || -> Result<Run> {
                        // Programs of other authors may have written these texts. They are
                        // printed later.
                        let run: Run = plain_json(&text)?;
                        ensure!(run.round == round, "it is the account of round {}", run.round);
                        accounts::check(case, &run)?;
                        Ok(run)
                    };
                    runs.push(read().map_err(|e| {
                        self.damaged(&path, (&experiment.scenario.id, case, round), &e)
                    })?);
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
            }
        }
        Ok(runs)
    }

    /// Returns the stamps of a run; empty if the run has none.
    ///
    /// # Errors
    /// If the stamps are damaged, or do not belong to the run's accounts.
    pub fn samples(&self, experiment: &str, case: &Case, run: &Run) -> Result<Vec<LinkSample>> {
        let path = self.path(experiment, case, run.round, ".stamps.arrow");
        let read = || -> Result<_> {
            let samples = if present(&path)? { samples::read(&path)? } else { Vec::new() };
            samples::check(&samples, run)?;
            Ok(samples)
        };
        read().map_err(|e| self.damaged(&path, (experiment, case, run.round), &e))
    }

    /// Returns the observations of a run; empty if the run has none.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn observations(&self, experiment: &str, case: &Case, round: u64) -> Result<Observations> {
        let path = self.path(experiment, case, round, ".observations.arrow");
        let read = || {
            if present(&path)? {
                columns::read_observations(&path)
            } else {
                Ok(Observations::default())
            }
        };
        read().map_err(|e| self.damaged(&path, (experiment, case, round), &e))
    }

    /// Returns an error about a damaged file of a run, with the remedy: a run without its account
    /// counts as not made.
    fn damaged(
        &self,
        path: &Path,
        (experiment, case, round): (&str, &Case, u64),
        why: &anyhow::Error,
    ) -> anyhow::Error {
        let account = self.path(experiment, case, round, ".json");
        anyhow!(
            "{} is damaged: {why:#} ({experiment} · {} in round {}): copy it anew from where it \
             was measured; or move {} away, and that run is left out",
            path.display(),
            case.id,
            round + 1,
            if path == account { "it".to_owned() } else { account.display().to_string() }
        )
    }
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Maximum length of a manifest or account, in bytes; a thousand cases need a tenth of it.
const MAX_TEXT: u64 = 64 << 20;

/// Reads a manifest or an account.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    present(path)?;
    let mut text = Vec::new();
    File::open(path)?.take(MAX_TEXT + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_TEXT {
        Err(std::io::Error::other(format!("it has more than {} MiB", MAX_TEXT >> 20)))
    } else {
        Ok(text)
    }
}

/// Returns true if a file exists. A file that is not regular is refused: reading a pipe would wait
/// for a writer.
fn present(path: &Path) -> std::io::Result<bool> {
    match fs::metadata(path) {
        Ok(m) if m.is_file() => Ok(true),
        Ok(_) => Err(std::io::Error::other("it is no plain file")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Claims a directory for a measurement.
fn claim(directory: &Path) -> Result<File> {
    let file =
        File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            bail!(
                "another process measures into {}: wait for its end, or name another directory",
                directory.display()
            )
        }
        // Not every file system has locks. Without them, the only danger is that two processes
        // measure into it.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Writes a file that appears as a whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_extension(PART);
    // Without a sync, a power failure can leave the new name with missing content.
    let written = || -> std::io::Result<()> {
        // Removes a file that an interrupted process left. It may also be a link, which opening it
        // would follow.
        match fs::remove_file(&part) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = fs::File::create_new(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    written()
        // On a full disk, the incomplete file would occupy space.
        .inspect_err(|_| drop(fs::remove_file(&part)))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
