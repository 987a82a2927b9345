// SPDX-License-Identifier: Apache-2.0
//! Loads a scenario from a file or by a built-in name.

use super::Scenario;
use super::builtin::{Builtin, builtin};
use super::check::check;
use super::error::LoadError;
use driveline_bench::peers::Peer;
use driveline_graph::{Diagnostics, Document, parse_document, read_document};
use std::path::Path;

impl From<Diagnostics> for LoadError {
    fn from(found: Diagnostics) -> Self {
        Self::File(found)
    }
}

/// Loads a built-in scenario by its id, or a file by its path. Does not check that the named
/// systems exist.
///
/// # Errors
/// If there is no such scenario, or the file has mistakes. Each mistake has its line.
pub fn load(word: &str) -> Result<Scenario, LoadError> {
    check(document(word)?, None)
}

/// Does the same, and checks that the systems are Driveline or among these peers.
///
/// # Errors
/// The errors of [`load`], and an error if a system does not exist.
pub fn load_for(word: &str, peers: &[Peer]) -> Result<Scenario, LoadError> {
    check(document(word)?, Some(peers))
}

/// Checks the text of a scenario, with its systems as in [`load_for`]. Errors show it as a file of
/// this name.
pub(crate) fn from_text(name: &str, text: String, peers: &[Peer]) -> Result<Scenario, LoadError> {
    check(parse_document(Path::new(name), text)?, Some(peers))
}

/// Returns true if two words name the same experiment: the same built-in one, or the same file.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    match (built_in(a), built_in(b)) {
        (None, None) => std::fs::canonicalize(a)
            .ok()
            .zip(std::fs::canonicalize(b).ok())
            .is_some_and(|(a, b)| a == b),
        (a, b) => a.map(|b| b.id) == b.map(|b| b.id),
    }
}

/// Returns the built-in experiment of that name, in upper or lower case.
pub(crate) fn built_in(word: &str) -> Option<&'static Builtin> {
    builtin().iter().find(|b| b.id.eq_ignore_ascii_case(word))
}

fn document(word: &str) -> Result<Document<Scenario>, LoadError> {
    if let Some(known) = built_in(word) {
        return Ok(parse_document(
            Path::new(&format!("{}.yaml", known.id)),
            known.text.to_owned(),
        )?);
    }
    let path = Path::new(word);
    let looks_like_file = word.contains(['/', '.']);
    if looks_like_file || path.exists() {
        return Ok(read_document(path)?);
    }
    Err(LoadError::NoSuchExperiment(format!("{}; a file is named by its path", no_such(word))))
}

/// Returns an error about an unknown name. It suggests a similar id, and names the command that
/// lists all ids.
pub(crate) fn no_such(word: &str) -> String {
    // Suggests ids that differ in at most two letters. For short words it is at most half of their
    // letters, because otherwise every id would match.
    let most = (word.chars().count() / 2).min(2);
    let distance = |id: &str| strsim::levenshtein(&id.to_lowercase(), &word.to_lowercase());
    let near = builtin().iter().map(|b| b.id).filter(|id| distance(id) <= most);
    // Ids of one paper have the same first letter.
    let near = near
        .min_by_key(|id| (distance(id), !word.to_lowercase().starts_with(&id[..1].to_lowercase())));
    let hint = near.map_or_else(String::new, |id| format!(" Did you mean {id}?"));
    format!("there is no experiment '{word}'.{hint} `driveline bench list` shows them")
}

/// Returns the JSON Schema of scenario files, for editors.
#[must_use]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Scenario)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_nothing_is_answered_with_what_there_is() {
        assert!(load("refsis").unwrap_err().to_string().contains("Did you mean refsys"));
        assert!(
            load("S99")
                .unwrap_err()
                .to_string()
                .contains("no experiment 'S99'. `driveline bench list`")
        );
        assert!(load("K4").unwrap_err().to_string().contains("Did you mean K1?"));
        assert!(load("no/such.yaml").unwrap_err().to_string().contains("no/such.yaml"));
        assert_eq!(load("s1").unwrap().id, "S1");
    }
}
