// SPDX-License-Identifier: Apache-2.0
//! `bench peers`: the list of other middleware.

use super::{Peer, details, directory, discover, misnamed, table};
use crate::UsageError;
use anyhow::{Result, anyhow, bail};
use driveline_terminal::paragraphs;

/// Show the other middleware that can be measured.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PeersArgs {
    /// Peers to describe: their configuration with the reasons, or instructions to add them
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Describe all peers
    #[arg(long)]
    pub settings: bool,
    /// Print JSON with all descriptions
    #[arg(skip)]
    pub json: bool,
}

/// Returns the peers, one line each. With names or `settings`, it returns their complete
/// descriptions; with `json`, JSON. If there are names, only the named peers are returned. Blocks
/// while the peers describe themselves.
///
/// # Errors
/// If the directory in the environment cannot be read, or a name is unknown.
pub fn list_peers(args: &PeersArgs) -> Result<String> {
    let mut found = discover(directory().as_deref())?;
    if let Some((message, help)) = args.names.iter().find_map(|name| misnamed(&found, name, &[])) {
        bail!(UsageError::new(anyhow!("{message}: {help}")));
    }
    if !args.names.is_empty() && args.names.iter().all(|name| name != "all") {
        // If a variant is named, its peer is shown.
        let named =
            |p: &Peer| args.names.iter().any(|name| name.split('/').next() == Some(&p.name));
        found.retain(named);
    }
    if args.json {
        return Ok(serde_json::to_string_pretty(&found)?);
    }
    let width = paragraphs::width();
    let in_full = args.settings || !args.names.is_empty();
    Ok(if in_full { details(&found, width) } else { table(&found, width) })
}
