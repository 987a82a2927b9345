// SPDX-License-Identifier: Apache-2.0
//! Modules that continue without their launcher (`on_launcher_lost: {mode: NAME}`).

use crate::process;
use crate::text::cut;
use driveline_shm::ParticipantInfo;
use std::path::Path;
use std::time::Duration;

/// Number of columns to which a name and the whole text are cut.
const NAME: usize = 80;
const LINE: usize = 800;
/// Program of modules.
const HOST: &str = "driveline-host";
/// Time for the processes of the domain to answer.
const ASK: Duration = Duration::from_millis(500);

/// Names the modules in the domain whose launcher has ended, and says how to end them; the last
/// part of a sentence, empty without such modules. `graph`: only modules of this graph, and
/// suspended modules, whose graph is not known. Blocks for half a second at most.
pub(super) fn modules(directory: &Path, graph: Option<&str>) -> String {
    let survey = driveline_shm::survey(directory, ASK).unwrap_or_default();
    let mut found: Vec<(String, u32)> =
        survey.participants.iter().filter_map(|p| module_of(p, graph)).collect();
    found.extend(survey.silent.iter().filter_map(|pid| suspended(*pid)));
    found.sort();
    if found.is_empty() {
        return String::new();
    }
    let pids: Vec<u32> = found.iter().map(|(_, pid)| *pid).collect();
    let names: Vec<_> =
        found.iter().map(|(name, pid)| format!("'{}' (process {pid})", cut(name, NAME))).collect();
    let text = format!(
        "; these modules continue without their launcher, which has ended: {}; {}",
        names.join(", "),
        process::how_to_end(&pids)
    );
    cut(&text, LINE)
}

/// Returns the name and the PID of a process that is a suspended module without a launcher. Its
/// graph is not known.
fn suspended(pid: u32) -> Option<(String, u32)> {
    let is_module = process::program(pid).is_some_and(|program| program == HOST);
    let is_suspended = process::is_stopped(pid) && process::launcher(pid).is_none();
    (is_module && is_suspended).then(|| Some((process::name(pid)?, pid)))?
}

fn module_of(p: &ParticipantInfo, graph: Option<&str>) -> Option<(String, u32)> {
    let about: serde_json::Value = serde_json::from_str(&p.description).ok()?;
    let (of, module) = (about["graph"].as_str()?, about["module"].as_str()?);
    let pid = p.pid_in_its_namespace;
    // A process of another PID namespace has another number here, and perhaps no launcher here.
    let is_here = process::name(pid).is_some_and(|comm| module.starts_with(&comm));
    let is_meant = p.of_this_user && graph.is_none_or(|graph| graph == of);
    (is_meant && is_here && process::launcher(pid).is_none()).then(|| (module.to_owned(), pid))
}
