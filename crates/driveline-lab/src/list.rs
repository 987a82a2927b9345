// SPDX-License-Identifier: Apache-2.0
//! `bench list`: which experiments there are.

use crate::scenario::{self, builtin};
use anyhow::{Context, Result};
use std::fmt::Write as _;

/// The experiments as a table, or as JSON.
///
/// # Errors
/// If one of them is damaged, which its test excludes.
pub fn list(json: bool) -> Result<String> {
    let all = builtin().iter().map(|b| scenario::load(b.id).with_context(|| b.id)).collect::<Result<Vec<_>>>()?;
    if json {
        return Ok(serde_json::to_string_pretty(&all)?);
    }
    let width = all.iter().map(|s| s.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for s in &all {
        let _ = writeln!(text, "{:width$}  {}\n{:width$}  {} ({})", s.id, s.title, "", s.question, s.source);
    }
    text.push_str(
        "\n`driveline bench run ID… --quick` measures them; `driveline bench list --show ID` prints one, to be copied and edited.\n",
    );
    Ok(text)
}

/// The text of a built-in experiment, to be copied and edited.
///
/// # Errors
/// If there is none of that name.
pub fn show(id: &str) -> Result<&'static str> {
    // Loading explains what there is instead.
    scenario::load(id)?;
    builtin().iter().find(|b| b.id.eq_ignore_ascii_case(id)).map(|b| b.text).with_context(|| format!("'{id}' is a file already"))
}
