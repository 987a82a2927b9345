// SPDX-License-Identifier: Apache-2.0
//! Access rights of a graph that have no effect in its domain.

use driveline_graph::ResolvedGraph;
use driveline_graph::model::{Access, Reach};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns a warning if topics admit other users, but the domain's directory does not.
pub(super) fn without_effect(graph: &ResolvedGraph, domain_dir: &Path) -> Option<String> {
    let mode = std::fs::metadata(domain_dir).ok()?.mode();
    text(graph, domain_dir, mode)
}

fn text(graph: &ResolvedGraph, domain_dir: &Path, mode: u32) -> Option<String> {
    if mode & 0o077 != 0 {
        return None;
    }
    let admits = |access: &Access| match access {
        Access::OwnUser => false,
        Access::Anyone => true,
        Access::Users(users) => !users.is_empty(),
    };
    let open: Vec<String> = graph
        .topics
        .iter()
        .filter(|(_, t)| t.reach >= Reach::Host && admits(&t.access))
        .map(|(name, _)| format!("'{name}'"))
        .collect();
    let first = open.first()?;
    let more = match open.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    Some(format!(
        "warning: topic {first}{more} admits other users (`access:`), but none of them can enter \
         {} (mode {:04o}); share the domain with a group (`domain_group: GID` in the graph), or \
         make a directory for all users (`install -d -m 1777 /dev/shm/NAME`) and name it in \
         DRIVELINE_DOMAIN_DIR for all processes",
        domain_dir.display(),
        mode & 0o7777
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_graph::{LoadOptions, load};

    fn graph(access: &str) -> ResolvedGraph {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        let text = format!(
            "driveline: 1\ntopics: {{a: {{reach: host, max_payload: 8, access: \
             {access}}}}}\nmodules: {{m: {{components: {{c: {{library: x, class: X, outputs: {{x: \
             a}}}}}}}}}}\n"
        );
        std::fs::write(&path, text).unwrap();
        let nothing = |_: &Path| Ok(Vec::new());
        let options = LoadOptions { modules: Some(Vec::new()), ..LoadOptions::new(&nothing) };
        load(&path, &options).graph.unwrap()
    }

    #[test]
    fn rights_behind_a_closed_directory_are_reported_with_the_remedy() {
        let told = |access: &str, mode| text(&graph(access), Path::new("/d"), mode);
        for access in ["{users: [1001]}", "anyone"] {
            let text = told(access, 0o40700).unwrap();
            assert!(text.contains("'a'") && text.contains("mode 0700"), "{text}");
            assert!(text.contains("DRIVELINE_DOMAIN_DIR"), "{text}");
            assert_eq!(told(access, 0o41777), None);
        }
        assert_eq!(told("own_user", 0o40700), None);
    }
}
