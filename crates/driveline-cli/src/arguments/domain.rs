// SPDX-License-Identifier: Apache-2.0
//! The domain, and the run in it, that a command works on.

use clap::Args;
use driveline_shm::domain::DIRECTORY_VARIABLE;

#[derive(Debug, Args)]
pub(crate) struct Domain {
    /// Domain, as in the graph [default: DRIVELINE_DOMAIN, or else `default`]
    #[arg(long, global = true, value_name = "NAME", value_parser = selected)]
    pub(crate) domain: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WhichRun {
    /// Domain of the run, as in the graph [default: DRIVELINE_DOMAIN, or else `default`]
    #[arg(long, value_name = "NAME", value_parser = selected)]
    pub(crate) domain: Option<String>,
    /// Run to select: the name of its graph, or at least 4 digits of its id
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
}

/// Parses `--domain`. Refuses it if the environment names the directory of the domain: that has
/// priority, and the command would work on another domain than the one that is named.
fn selected(name: &str) -> Result<String, String> {
    match std::env::var_os(DIRECTORY_VARIABLE).filter(|v| !v.is_empty()) {
        Some(directory) => Err(format!(
            "{DIRECTORY_VARIABLE}={} already selects the domain: leave out `--domain`, or unset \
             the variable",
            directory.display()
        )),
        None => Ok(name.to_owned()),
    }
}
