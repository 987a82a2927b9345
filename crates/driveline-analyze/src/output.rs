// SPDX-License-Identifier: Apache-2.0
//! Writes the files of a run.

use crate::Collector;
use crate::report;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason why the files of a run could not be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// A directory or file cannot be written.
    #[error(
        "cannot write {path}: {source}; choose another output directory, free some space, \
         or give yourself the right to write"
    )]
    Write {
        /// File or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A figure cannot be expressed in JSON.
    #[error("the summary cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes `summary.json` and `report.html` into `directory`, which is created if necessary. Returns
/// the report's path.
///
/// Each file is complete or absent, also for a concurrent reader: a partial one never replaces an
/// older one. It may be called repeatedly during a run.
///
/// # Errors
/// [`OutputError::Write`] names the file or directory.
pub fn write_outputs(run: &Collector, directory: &Path) -> Result<PathBuf, OutputError> {
    let summary = run.summary();
    let mut json = serde_json::to_string_pretty(&summary)?;
    json.push('\n');
    fs::create_dir_all(directory)
        .map_err(|source| OutputError::Write { path: directory.to_owned(), source })?;
    replace(&directory.join("summary.json"), &json)?;
    let page = directory.join("report.html");
    replace(&page, &report::render(run, &summary))?;
    Ok(page)
}

fn replace(path: &Path, text: &str) -> Result<(), OutputError> {
    let write = || {
        use std::os::unix::fs::PermissionsExt;
        let mut file = tempfile::Builder::new()
            .prefix(".driveline-")
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(text.as_bytes())?;
        file.persist(path).map_err(|e| e.error)
    };
    write().map(drop).map_err(|source| OutputError::Write { path: path.to_owned(), source })
}
