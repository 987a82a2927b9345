// SPDX-License-Identifier: Apache-2.0
//! `bench list`: lists the experiments.

use crate::scenario::{self, ReachSpec, Scenario, builtin};
use anyhow::{Context, Result, anyhow, ensure};
use driveline_bench::UsageError;
use driveline_terminal::paragraphs::{self, wrapped};
use std::path::Path;

/// Returns the experiments as a table, or as JSON.
///
/// # Errors
/// If a built-in experiment is damaged, which its test excludes.
pub fn list(json: bool) -> Result<String> {
    let all = builtin()
        .iter()
        .map(|b| scenario::load(b.id).with_context(|| b.id))
        .collect::<Result<Vec<_>>>()?;
    if json {
        return Ok(serde_json::to_string_pretty(&all)?);
    }
    Ok(rendered(&all, paragraphs::width()))
}

/// Returns each experiment with its question and its requirements. Text is wrapped at `width`
/// characters.
fn rendered(all: &[Scenario], width: usize) -> String {
    let ids = all.iter().map(|s| s.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for s in all {
        let needs = needs(s).map(|needs| format!("Needs {needs}"));
        let below = std::iter::once(format!("{} ({})", s.question, s.source)).chain(needs);
        text.push_str(&wrapped(&format!("{:ids$}  {}", s.id, s.title), width));
        text.extend(below.map(|line| wrapped(&format!("{:ids$}  {line}", ""), width)));
    }
    let how = "`driveline bench run ID… --quick` measures them; `driveline bench list --show ID` \
         prints one, to be copied and edited.";
    text + "\n" + &wrapped(how, width)
}

/// Returns the requirements of Driveline's own part of an experiment, apart from the program.
fn needs(s: &Scenario) -> Option<&'static str> {
    let between_hosts = s.link.reach == Some(ReachSpec::Network);
    let chain = s.chain.is_some().then_some("`make peers`: its stages are programs of their own");
    chain
        .or(between_hosts
            .then_some("root, `make gateways`, and `make peers` for whom to compare with"))
}

/// Returns the text of a built-in experiment, as a template.
///
/// # Errors
/// If there is no experiment of that name.
pub fn show(id: &str) -> Result<&'static str> {
    if let Some(known) = scenario::built_in(id) {
        return Ok(known.text);
    }
    ensure!(!Path::new(id).exists(), "'{id}' is a file already");
    Err(UsageError::new(anyhow!(scenario::no_such(id))).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_experiment_needs_stands_below_it() {
        let text = list(false).unwrap();
        let needing = |what: &str| {
            let ids = text.split("\n").collect::<Vec<_>>();
            let ids = ids
                .windows(3)
                .filter(|w| w[2].trim_start().starts_with(what))
                .map(|w| w[0].split(' ').next().unwrap_or_default());
            ids.collect::<Vec<_>>()
        };
        assert_eq!(
            (needing("Needs `make peers`"), needing("Needs root")),
            (vec!["W9", "S7", "B2", "B2C"], vec!["W10"])
        );
    }
}
