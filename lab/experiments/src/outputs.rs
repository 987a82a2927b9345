// SPDX-License-Identifier: Apache-2.0
//! Writes the readable outputs of an archive: page, table, summary.

use crate::analysis::{Analysis, analyse};
use crate::archive::Archive;
use crate::report::page;
use crate::{csv, markdown, terminal};
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline_bench::UsageError;
use driveline_terminal::paragraphs;
use driveline_types::text::plain;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the page in an archive.
pub(crate) const PAGE: &str = "report.html";

const EXAMPLES: &str = "\
Examples:
  driveline bench report results/monday
      rewrites report.html, results.csv and summary.json, and prints a summary
  driveline bench report results/monday --out monday.html
      writes the page to another file
  driveline bench report results/monday --markdown > figures.md
      tables for publication
  driveline bench report results/monday --json | jq '.experiments[].answer'";

/// Write the report of a measurement again: a page, tables, a summary.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Directory of a measurement
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Path of the page [default: DIR/report.html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the tables as Markdown instead of the summary
    #[arg(long)]
    pub markdown: bool,
    /// Print the summary as JSON instead of text
    #[arg(skip)]
    pub json: bool,
}

/// Writes the report of an archive and returns the text to print.
///
/// # Errors
/// If there is no archive, it is damaged, a file cannot be written, or two print formats are
/// requested.
pub fn report(args: &ReportArgs) -> Result<String> {
    if args.json && args.markdown {
        bail!(UsageError::new(anyhow!("--json and --markdown exclude each other: choose one")));
    }
    let archive = Archive::open(&args.directory)?;
    let path = args.out.clone().unwrap_or_else(|| archive.directory().join(PAGE));
    ensure!(
        args.out.is_none() || !path.is_dir(),
        "{} is a directory: name a file for the page with --out, for example {}",
        path.display(),
        path.join(PAGE).display()
    );
    let analysis = analyse(&archive)?;
    // If an archive cannot be written to, the outputs requested by name are written nevertheless.
    match keep(&archive, &analysis, args.out.as_deref()) {
        Err(e) if !(args.markdown || args.json || args.out.is_some()) => return Err(e),
        Err(e) => eprintln!("driveline: warning: {e:#}"),
        Ok(()) => {}
    }
    if let Some(path) = &args.out {
        // The caller chooses the path, which may be a link or a device.
        fs::write(path, page(&archive.manifest, &analysis))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.markdown {
        return Ok(markdown::summary(&archive.manifest, &analysis));
    }
    if args.json {
        return Ok(format!("{}\n", serde_json::to_string_pretty(&analysis)?));
    }
    Ok(summary(&archive, &analysis, &path))
}

/// Returns the text for standard output.
pub(crate) fn summary(archive: &Archive, analysis: &Analysis, page: &Path) -> String {
    let rendered =
        terminal::summary(&archive.manifest, analysis, archive.directory(), paragraphs::width());
    // The name of the directory may contain control characters.
    plain(&format!("{rendered}\nReport: {}\n", page.display()))
}

/// Writes table, summary and, unless it goes `elsewhere`, the page into the archive. The archive
/// may come from another user: links under these names are replaced, not followed.
pub(crate) fn keep(archive: &Archive, analysis: &Analysis, elsewhere: Option<&Path>) -> Result<()> {
    archive.put("results.csv", csv::csv(analysis).as_bytes())?;
    archive.put("summary.json", serde_json::to_string_pretty(analysis)?.as_bytes())?;
    elsewhere
        .map_or_else(|| archive.put(PAGE, page(&archive.manifest, analysis).as_bytes()), |_| Ok(()))
}
