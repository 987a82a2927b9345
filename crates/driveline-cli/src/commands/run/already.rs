// SPDX-License-Identifier: Apache-2.0
//! Modules of an earlier run of the same graph that are still alive.

use crate::process;
use driveline_graph::ResolvedGraph;
use driveline_runtime::host;
use driveline_shm::Survey;
use driveline_shm::domain::DIRECTORY_VARIABLE;
use std::path::Path;
use std::time::Duration;

/// Returns an error if modules of this graph run in the domain already. Two runs of one graph would
/// publish each sample twice, without a visible reason.
pub(super) fn not_running_already(graph: &ResolvedGraph, domain_dir: &Path) -> Result<(), String> {
    if !domain_dir.exists() {
        return Ok(());
    }
    let Survey { participants, silent, .. } =
        driveline_shm::survey(domain_dir, Duration::from_millis(500)).map_err(|e| e.to_string())?;
    let mut alive = Vec::new();
    for module in &graph.modules {
        let name = host::process_name(graph, module);
        // Other users may use the same name.
        let answered = participants
            .iter()
            .find(|p| p.name == name && p.of_this_user)
            .map(|p| p.pid_in_its_namespace);
        // A suspended process cannot report its user. The kernel keeps 15 bytes of a process's
        // name.
        let short: String = module.name.as_str().chars().take(15).collect();
        let stopped =
            || silent.iter().copied().find(|pid| process::name(*pid).as_deref() == Some(&short));
        alive.extend(answered.or_else(stopped).map(|pid| (module.name.to_string(), pid)));
    }
    runs_already(&alive, names_directory()).map_or(Ok(()), Err)
}

/// Returns true if the environment names the directory of the domain.
pub(super) fn names_directory() -> bool {
    std::env::var_os(DIRECTORY_VARIABLE).is_some_and(|d| !d.is_empty())
}

/// Describes how to run a graph in another domain.
pub(super) fn another_domain(directory: bool) -> String {
    if directory {
        format!("set another directory in {DIRECTORY_VARIABLE}")
    } else {
        "use another domain: --domain NAME".to_owned()
    }
}

/// Returns the reason why a run cannot begin while modules of an earlier one live.
fn runs_already(alive: &[(String, u32)], directory: bool) -> Option<String> {
    let pids: Vec<u32> = alive.iter().map(|(_, pid)| *pid).collect();
    let (how, another) = (process::how_to_end(&pids), another_domain(directory));
    Some(match alive {
        [] => return None,
        [(module, pid)] => {
            format!(
                "module '{module}' of this graph runs already (process {pid}); {how}, or {another}"
            )
        }
        several => {
            let all: Vec<_> =
                several.iter().map(|(module, pid)| format!("'{module}' (process {pid})")).collect();
            format!("modules of this graph run already: {}; {how}, or {another}", all.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::runs_already;

    #[test]
    fn every_module_of_an_earlier_run_is_named() {
        assert_eq!(runs_already(&[], false), None);
        let pid = std::process::id();
        let text = runs_already(&[("lane".into(), pid)], false).unwrap();
        let one = format!("module 'lane' of this graph runs already (process {pid}); ");
        assert!(
            text.starts_with(&one) && text.ends_with("use another domain: --domain NAME"),
            "{text}"
        );
        let text = runs_already(&[("lane".into(), pid), ("track".into(), 2)], true).unwrap();
        let all = format!(
            "run already: 'lane' (process {pid}), 'track' (process 2); they are not supervised \
             any more: end them with `kill {pid} 2`, or `kill -KILL {pid} 2` if"
        );
        assert!(text.contains(&all) && text.contains("DRIVELINE_DOMAIN_DIR"), "{text}");
    }
}
