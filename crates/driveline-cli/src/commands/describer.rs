// SPDX-License-Identifier: Apache-2.0
//! Descriptions of component libraries, from `driveline-host`.

use driveline_graph::descriptor::ComponentClass;
use driveline_graph::{Describe, DescribeError, Diagnostics, Environment, LoadOptions};
use driveline_runtime::launch::{HostDescriber, ProgramNotFound, find_host};
use driveline_terminal::screen::Screen;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Asks `driveline-host`. If that program is missing, reports this at the first library.
pub(super) struct Describer(Result<HostDescriber, ProgramNotFound>);

pub(super) fn describer() -> Describer {
    Describer(find_host().map(HostDescriber::new))
}

/// Returns the options with which every command loads a graph file: the sections of the gateways
/// are known.
pub(super) fn load_options(describe: &dyn Describe) -> LoadOptions<'_> {
    LoadOptions { registered: driveline_gateway::registered(), ..LoadOptions::new(describe) }
}

/// Prints what was found in a graph that has mistakes: on standard error, or with `--json` as one
/// object on standard output.
pub(super) fn print_mistakes(diagnostics: &Diagnostics, screen: &Screen) {
    if screen.json {
        screen.print_json(&json!({ "diagnostics": diagnostics.iter().collect::<Vec<_>>() }));
    } else {
        screen.print_error(&diagnostics.render(screen.errors()));
    }
}

impl Describe for Describer {
    fn describe(
        &self,
        library: &Path,
        environment: &Environment,
    ) -> Result<Vec<ComponentClass>, DescribeError> {
        match &self.0 {
            Ok(host) => host.describe(library, environment),
            Err(e) => Err(DescribeError {
                reason: e.to_string(),
                help: Some(
                    "`driveline validate --no-libraries` checks what can be checked without".into(),
                ),
            }),
        }
    }

    fn together(
        &self,
        libraries: &[PathBuf],
        environment: &Environment,
    ) -> Result<(), (usize, DescribeError)> {
        // If `driveline-host` is missing, this was reported at the first library.
        self.0.as_ref().map_or(Ok(()), |host| host.together(libraries, environment))
    }
}
