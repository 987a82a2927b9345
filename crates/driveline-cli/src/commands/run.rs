// SPDX-License-Identifier: Apache-2.0
//! `driveline run`.

mod already;
mod ending;
mod show;

use super::deployed::{Deployed, Prepared};
use super::describer::{describer, load_options};
use super::domains::DomainPlace;
use super::other_runs;
use super::rights;
use crate::arguments::Run;
use crate::exit;
use crate::process::{self};
use already::{another_domain, names_directory, not_running_already};
use driveline_analyze::Ended;
use driveline_gateway::network::GatewayConfig;
use driveline_gateway::ros2::Ros2GatewayConfig;
use driveline_graph::{LoadOptions, Loaded, load};
use driveline_runtime::domain;
use driveline_runtime::launch::control::{ClaimError, claim};
use driveline_runtime::launch::{self, Interrupt, Interrupter, LaunchOptions};
use driveline_terminal::screen::Screen;
use serde_json::json;
use show::Show;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time to wait for modules that others start, for example by hand.
const ATTACHED_WITHIN: Duration = Duration::from_secs(600);

pub(crate) fn run(arguments: &Run, screen: &Screen) -> u8 {
    match prepared(arguments, screen) {
        Ok(code) => code,
        Err(text) => {
            screen.error(text);
            exit::FAILED
        }
    }
}

fn prepared(arguments: &Run, screen: &Screen) -> Result<u8, String> {
    // With `--deploy`, signals are caught only after the images are built: until then, Ctrl-C ends
    // this command at once.
    let early = if arguments.deploy.is_none() { Some(signals()?) } else { None };
    let host = launch::find_host();
    let describer = describer();
    let modules = Some(arguments.modules.clone()).filter(|m| !m.is_empty());
    // Without `driveline-host`, libraries cannot be checked. This is reported once, and only if the
    // graph itself has no errors.
    let looks_into_none = arguments.no_libraries || (host.is_err() && modules.is_none());
    let looked_into = if looks_into_none { Some(Vec::new()) } else { modules.clone() };
    let options = LoadOptions {
        set: arguments.set.clone(),
        modules: looked_into,
        ..load_options(&describer)
    };
    let Loaded { graph, diagnostics, .. } = load(&arguments.graph, &options);
    if early.as_ref().is_some_and(|(interrupt, _)| interrupt.was_asked()) {
        // The signal also ended the process that was checking a library, so findings about that
        // library are not reported.
        return Ok(ended_before_its_start(screen));
    }
    if screen.json && graph.is_none() {
        screen.print_json_line(
            &json!({ "kind": "diagnostics", "diagnostics": diagnostics.iter().collect::<Vec<_>>() })
        );
    } else {
        screen.print_error(&diagnostics.render(screen.errors()));
    }
    let Some(mut graph) = graph else { return Ok(exit::GRAPH) };
    // A run that has only gateways needs no `driveline-host`.
    let host = if graph.modules.is_empty() {
        host.unwrap_or_default()
    } else {
        host.map_err(|e| e.to_string())?
    };
    graph.modules.retain(|m| {
        modules.as_ref().is_none_or(|wanted| wanted.iter().any(|w| w == m.name.as_str()))
    });
    if let Some(directory) = &arguments.report {
        // Checked now, because after the run it would be too late.
        writable(directory)?;
    }
    let domain_name = arguments.domain.as_deref().unwrap_or(&graph.domain);
    // If modules are deployed, no signal is caught yet: building images can take long, and Ctrl-C
    // must end it.
    let deployed = match Deployed::prepare(arguments, &graph, &host, screen)? {
        Prepared::Bare => None,
        Prepared::Deployed(deployed) => Some(deployed),
        Prepared::Mistakes => return Ok(exit::GRAPH),
    };
    let domain_dir = match &deployed {
        Some(deployed) => deployed.domain(),
        None => domain::prepare_for(domain_name, graph.domain_group).map_err(|e| e.to_string())?,
    };
    // In containers, other users have access only to mounted directories.
    if deployed.is_none()
        && let Some(text) = rights::without_effect(&graph, &domain_dir)
    {
        screen.print_error(&format!("{text}\n"));
    }
    let (interrupt, interrupter) = early.map_or_else(signals, Ok)?;
    let mut gateways = Vec::new();
    if let Some(config) = GatewayConfig::of_graph(&graph, domain_name, &domain_dir) {
        let program = launch::find_gateway().map_err(|e| e.to_string())?;
        gateways.push(config.launched_by(program).map_err(|e| e.to_string())?);
    }
    if let Some(config) = Ros2GatewayConfig::of_graph(&graph, domain_name, &domain_dir) {
        let program = launch::find_ros2_gateway().map_err(|e| e.to_string())?;
        gateways.push(config.launched_by(program).map_err(|e| e.to_string())?);
    }
    let beside: Vec<_> = gateways.iter().map(|g| g.name).collect();
    let place = match &deployed {
        Some(_) => DomainPlace::Directory(domain_dir.display().to_string()),
        None if graph.domain_group.is_some() => {
            DomainPlace::Directory(domain_dir.display().to_string())
        }
        None => DomainPlace::of(Some(domain_name))?,
    };
    let names: Vec<String> = graph.modules.iter().map(|m| m.name.to_string()).collect();
    // Checked before the domain lists this run itself.
    let other_runs = other_runs::with_topics_of(&graph, &domain_dir);
    for text in &other_runs {
        screen.print_error(&format!("warning: {text}\n"));
    }
    let control = claim(&domain_dir, place.name(), &graph.name, &names).map_err(|e| match e {
        ClaimError::Os(e) => {
            format!("cannot make the control socket of the run in {}: {e}", domain_dir.display())
        }
        ClaimError::Taken(taken) => {
            let how = match taken.pid.filter(|pid| process::is_stopped(*pid)) {
                Some(pid) => format!("it is suspended: `kill -CONT {pid}` lets it go on"),
                None => format!("`driveline stop --run '{}'` ends that run", taken.graph),
            };
            format!("{taken}; {how}, or {}", another_domain(names_directory()))
        }
    })?;
    // Modules whose launcher is gone have no control socket, so `claim` does not find them.
    not_running_already(&graph, &domain_dir)?;
    // The control socket is removed after the reports are written: only then does `driveline stop`
    // return.
    let control = Some(Arc::new(control));
    let mut options = LaunchOptions {
        modules,
        gateways,
        control,
        set: arguments.set.clone(),
        placement: deployed.as_ref().map(Deployed::placement),
        ..LaunchOptions::new(host, domain_dir)
    };
    if arguments.attach.is_some() {
        options.ready_within = ATTACHED_WITHIN;
    }
    let mut show = Show::new(arguments, &graph, &beside, interrupter, screen);
    show.collector.facts_mut().notes.extend(other_runs);
    show.domain(&place);
    let outcome = launch::run(&graph, &options, &interrupt, &mut show);
    show.live.clear(screen);
    if let Some(deployed) = deployed {
        deployed.end(&mut show.collector.facts_mut().modules, screen);
    }
    match outcome {
        Ok(outcome) => show.end(arguments, &outcome),
        Err(e) => {
            let text = e.to_string();
            let ended = Ended {
                reason: "not_started",
                ok: false,
                module: None,
                exit_code: None,
                signal: None,
                text: text.clone(),
                help: None,
            };
            show.collector.facts_mut().ended = Some(ended);
            show.write(arguments)?;
            Err(text)
        }
    }
}

fn signals() -> Result<(Interrupt, Interrupter), String> {
    Interrupt::on_signals().map_err(|e| format!("cannot listen for signals: {e}"))
}

/// Prints the end of a run for which Ctrl-C came while the graph was checked.
fn ended_before_its_start(screen: &Screen) -> u8 {
    let end = "ended as asked";
    if screen.json {
        screen.print_json_line(&json!({ "kind": "end", "end": end, "exit_code": exit::DONE }));
    } else {
        screen.print(&format!("{end}\n"));
    }
    exit::DONE
}

/// Creates the directory of a report and checks that files can be created in it.
fn writable(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    if std::fs::metadata(directory).is_ok_and(|m| !m.is_dir()) {
        return Err(format!(
            "--report {shown}: this is a file; name the directory into which report.html and \
             summary.json are to go"
        ));
    }
    std::fs::create_dir_all(directory)
        .map_err(|e| format!("--report {shown}: the directory cannot be made: {e}"))?;
    let rights = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(directory, rights)
        .map_err(|e| format!("--report {shown}: no files can be made there: {e}"))
}
