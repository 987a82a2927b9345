// SPDX-License-Identifier: Apache-2.0
//! Commands about graph files and libraries.

use super::describer::{describer, load_options, print_mistakes};
use crate::arguments::{Graph, Validate};
use crate::text::count;
use crate::{exit, picture};
use driveline_gateway::ros2::Ros2Spec;
use driveline_graph::{Describe, Environment, LoadOptions, Loaded, json_schema, load};
use driveline_terminal::screen::Screen;
use serde_json::json;
use std::path::Path;

pub(crate) fn validate(arguments: &Validate, screen: &Screen) -> u8 {
    let describer = describer();
    let modules = if arguments.no_libraries {
        Some(Vec::new())
    } else {
        Some(arguments.modules.clone()).filter(|m| !m.is_empty())
    };
    let (mut worst, mut verdicts) = (exit::DONE, Vec::new());
    for file in &arguments.graphs {
        let loaded = load(
            file,
            &LoadOptions {
                set: arguments.set.clone(),
                modules: modules.clone(),
                ..load_options(&describer)
            },
        );
        let mut loaded = loaded;
        if let (Some(deploy), Some(graph)) = (arguments.deploy, &loaded.graph) {
            let found = super::deploy::mistakes(graph, deploy, arguments);
            found.into_iter().for_each(|d| loaded.diagnostics.push(d));
        }
        let (errors, warnings) = (loaded.diagnostics.errors(), loaded.diagnostics.warnings());
        if errors > 0 {
            worst = exit::GRAPH;
        }
        if screen.json {
            let list: Vec<_> = loaded.diagnostics.iter().collect();
            verdicts.push(json!({
                "graph": file, "valid": errors == 0, "errors": errors,
                "warnings": warnings, "diagnostics": list
            }));
        } else {
            screen.print(&loaded.diagnostics.render(screen.colour));
            screen.print(&format!("{}: {}\n", file.display(), verdict(&loaded, screen)));
        }
    }
    if screen.json {
        screen.print_json(&verdicts);
    }
    worst
}

/// Returns one line about a graph.
fn verdict(loaded: &Loaded, screen: &Screen) -> String {
    let counted = |n: usize, what: &str| count(n as u64, what);
    let warnings = counted(loaded.diagnostics.warnings(), "warning");
    let whole = loaded.graph.as_ref().filter(|_| loaded.diagnostics.errors() == 0);
    let Some(g) = whole else {
        let more = if loaded.is_partial {
            "; connections are checked when every part can be read"
        } else {
            ""
        };
        return format!(
            "{}, {warnings}{more}",
            screen.paint("1;31", &counted(loaded.diagnostics.errors(), "error"))
        );
    };
    let mut parts = vec![
        counted(g.modules.len(), "module"),
        counted(g.components().count(), "component"),
        counted(g.topics.len(), "topic"),
    ];
    if let Some(ros2) = g.sections.get::<Ros2Spec>().filter(|r| r.has_rules()) {
        parts.push(counted(ros2.topics.len() + ros2.services.len(), "rule") + " for ROS 2");
    }
    let parts = parts.join(", ");
    let remark =
        if loaded.diagnostics.warnings() > 0 { format!("; {warnings}") } else { String::new() };
    format!("{} ({parts}{remark})", screen.paint("1;32", "valid"))
}

pub(crate) fn show(arguments: &Graph, screen: &Screen) -> u8 {
    // A drawing of a graph needs none of its libraries.
    let none = |_: &Path| Ok(Vec::new());
    let Loaded { graph, diagnostics, .. } =
        load(&arguments.graph, &LoadOptions { modules: Some(Vec::new()), ..load_options(&none) });
    let Some(graph) = graph else {
        print_mistakes(&diagnostics, screen);
        return exit::GRAPH;
    };
    if screen.json {
        screen.print_json(&graph);
        return exit::DONE;
    }
    let Some(path) = &arguments.svg else {
        screen.print(&picture::text(&graph, screen));
        return exit::DONE;
    };
    match std::fs::write(path, picture::svg(&graph)) {
        Ok(()) => exit::DONE,
        Err(e) => {
            screen.error(format!("cannot write {}: {e}", path.display()));
            exit::FAILED
        }
    }
}

pub(crate) fn describe(library: &Path, screen: &Screen) -> u8 {
    // As in a graph file, a name without a directory is a file in the current directory, not in the
    // system's library directories.
    let classes = library
        .canonicalize()
        .map_err(|e| format!("{}: {e}", library.display()))
        .and_then(|path| {
            describer().describe(&path, &Environment::new()).map_err(|e| match e.help {
                Some(help) => format!("{}: {}; {help}", library.display(), e.reason),
                None => format!("{}: {}", library.display(), e.reason),
            })
        });
    let classes = match classes {
        Ok(classes) => classes,
        Err(text) => {
            screen.error(text);
            return exit::FAILED;
        }
    };
    if screen.json {
        screen.print_json(&classes);
        return exit::DONE;
    }
    let mut out = String::new();
    for class in &classes {
        let doc = |text: &str| if text.is_empty() { String::new() } else { format!("  # {text}") };
        out += &format!("{}{}\n", screen.paint("1", &class.name), doc(&class.doc));
        for (arrow, ports) in [("←", &class.inputs), ("→", &class.outputs)] {
            for p in ports {
                out += &format!(
                    "  {arrow} {}: {} {}{}\n",
                    p.name,
                    p.schema.kind,
                    p.schema.name,
                    doc(&p.doc)
                );
            }
        }
        for p in &class.parameters {
            let default = serde_json::to_string(&p.default).unwrap_or_default();
            let range = p.range.or(p.live).map_or_else(String::new, |r| format!(" ({r})"));
            out += &format!("  {} = {default}{range}{}\n", p.name, doc(&p.doc));
        }
    }
    screen.print(&out);
    exit::DONE
}

pub(crate) fn schema(screen: &Screen) -> u8 {
    screen.print_json(&json_schema(driveline_gateway::SECTIONS));
    exit::DONE
}
