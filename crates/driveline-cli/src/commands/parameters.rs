// SPDX-License-Identifier: Apache-2.0
//! `driveline param` and `driveline log-level`: show and change parameters, and change log levels,
//! during a run (`docs/protocols/control.md`).

use super::control::{AGAIN, ASK, Found, LINE, NAME, called, select};
use super::survey::print_table;
use crate::arguments::{LogLevel, Param};
use crate::exit;
use crate::text::cut;
use driveline_graph::parameters_of_file;
use driveline_runtime::launch::control::{
    Ask, ChangeAsk, ChangeState, ParameterStatus, ParametersStatus, RunStatus, Verb, find,
};
use driveline_shm::domain;
use driveline_terminal::screen::Screen;
use driveline_terminal::table::Align;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

pub(crate) fn param(arguments: &Param, screen: &Screen) -> u8 {
    let which = match arguments {
        Param::List { which }
        | Param::Dump { which }
        | Param::Get { which, .. }
        | Param::Set { which, .. }
        | Param::Load { which, .. } => which,
    };
    let found = match select(which, ASK) {
        Ok(found) => found,
        Err(missing) => return missing.print(screen),
    };
    found.warn(screen);
    let outcome = match arguments {
        Param::List { .. } => parameters(&found).map(|all| list(&all.parameters, screen)),
        Param::Dump { .. } => parameters(&found).map(|all| {
            if screen.json {
                screen.print_json(&by_component(&all.parameters));
            } else {
                screen.print(&dump(&all.parameters));
            }
        }),
        Param::Get { parameter, .. } => get(&found, parameter, screen),
        Param::Set { parameter, value, .. } => {
            let (component, name) = parameter;
            change(&found, component, parameter_ask(component, name, value)).and_then(|()| {
                if screen.json {
                    return get(&found, parameter, screen);
                }
                screen.print(&format!("{component}.{name} is {} now\n", cut(value, LINE)));
                Ok(())
            })
        }
        Param::Load { file, .. } => return load(&found, file, screen),
    };
    told(&found, outcome, screen)
}

pub(crate) fn log_level(arguments: &LogLevel, screen: &Screen) -> u8 {
    let found = match select(&arguments.which, ASK) {
        Ok(found) => found,
        Err(missing) => return missing.print(screen),
    };
    found.warn(screen);
    let LogLevel { module, level, .. } = arguments;
    let ask = Ask::change(ChangeAsk::Log { module: module.clone(), filter: level.clone() });
    let outcome = change(&found, module, ask).map(|()| {
        if screen.json {
            screen.print_json(&json!({ "module": module, "level": level }));
        } else {
            screen.print(&format!("module '{module}' logs by '{}' now\n", cut(level, LINE)));
        }
    });
    told(&found, outcome, screen)
}

fn told(found: &Found, outcome: Result<(), String>, screen: &Screen) -> u8 {
    match outcome {
        Ok(()) => exit::DONE,
        Err(text) => {
            screen.error(format!("{}: {}", called(&found.run), cut(&text, LINE)));
            exit::FAILED
        }
    }
}

fn parameters(found: &Found) -> Result<ParametersStatus, String> {
    let run = found.socket.ask(Verb::Param, ASK).map_err(|e| e.to_string())?;
    run.parameters.ok_or_else(|| "its launcher is of another version and has no parameters".into())
}

/// Parameters of the domain's runs, for a completion script.
pub(super) fn names_of_runs(domain: Option<&str>) -> BTreeSet<String> {
    let sockets = domain::existing(domain).ok().flatten().and_then(|dir| find(&dir).ok());
    let runs = sockets.into_iter().flatten().filter_map(|s| s.ask(Verb::Param, ASK).ok());
    let all = runs.filter_map(|run| run.parameters).flat_map(|all| all.parameters);
    all.map(|p| cut(&format!("{}.{}", p.component, p.name), NAME)).collect()
}

fn parameter_ask(component: &str, name: &str, value: &str) -> Ask {
    Ask::change(ChangeAsk::Parameter {
        component: component.to_owned(),
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

/// Describes why a change is not made yet. `place`: the component or the module.
fn pending(found: &Found, place: &str) -> String {
    let processes = found.socket.ask(Verb::Status, ASK).map(|run| run.processes);
    let suspended = processes
        .into_iter()
        .flatten()
        .find(|p| p.suspended && (p.name == place || p.components.iter().any(|c| c == place)));
    match suspended {
        Some(module) => format!(
            "the change is not made yet: module '{}' is suspended and makes it when it goes on \
             (`kill -CONT {}`)",
            cut(&module.name, NAME),
            module.pid.unwrap_or_default()
        ),
        None => format!(
            "the change is not made yet: a call in '{}' runs for long; the change follows it, and \
             is an event of the run",
            cut(place, NAME)
        ),
    }
}

/// Requests a change and waits until it is made. `place`: the component or the module.
fn change(found: &Found, place: &str, ask: Ask) -> Result<(), String> {
    let refusal = |e: driveline_runtime::launch::control::AskError| e.to_string();
    let mut run: RunStatus = found.socket.ask(ask, ASK).map_err(refusal)?;
    let number = run.change;
    let end = Instant::now() + ASK;
    loop {
        let changes = run.parameters.map(|p| p.changes).unwrap_or_default();
        let state = changes.into_iter().find(|c| Some(c.number) == number).map(|c| c.state);
        match state {
            Some(ChangeState::Done) => return Ok(()),
            Some(ChangeState::Refused { error }) => return Err(error),
            Some(ChangeState::Pending) if Instant::now() < end => {}
            Some(ChangeState::Pending) => return Err(pending(found, place)),
            None => return Err("it does not know the change any more".into()),
        }
        std::thread::sleep(AGAIN);
        run = found.socket.ask(Verb::Param, ASK).map_err(refusal)?;
    }
}

fn get(found: &Found, (component, name): &(String, String), screen: &Screen) -> Result<(), String> {
    let all = parameters(found)?.parameters;
    let parameter = all.iter().find(|p| p.component == *component && p.name == *name);
    let Some(parameter) = parameter else {
        return Err(format!(
            "there is no parameter {component}.{name}; `driveline param list` has all"
        ));
    };
    if screen.json {
        screen.print_json(parameter);
    } else {
        screen.print(&format!("{}\n", text(&parameter.value)));
    }
    Ok(())
}

/// Formats a value as users write it.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list(all: &[ParameterStatus], screen: &Screen) {
    if screen.json {
        return screen.print_json(&all);
    }
    let head = ["PARAMETER", "VALUE", "SET BY", "CHANGEABLE", "RANGE"].map(str::to_owned).to_vec();
    let row = |p: &ParameterStatus| {
        let range = match (&p.min, &p.max) {
            (None, None) => String::new(),
            (min, max) => {
                let end = |n: &Option<String>| n.clone().unwrap_or_default();
                format!("{}..{}", end(min), end(max))
            }
        };
        let set_by = match &p.mode {
            Some(mode) => format!("mode {mode}"),
            None if p.set => "command".to_owned(),
            None => "start".to_owned(),
        };
        let changeable = if p.live { "yes" } else { "no" };
        let name = format!("{}.{}", p.component, p.name);
        let value = cut(&text(&p.value), NAME);
        vec![cut(&name, NAME), value, cut(&set_by, NAME), changeable.into(), cut(&range, NAME)]
    };
    let rows: Vec<_> = std::iter::once(head).chain(all.iter().map(row)).collect();
    print_table(&[Align::Left; 5], &rows, screen);
}

/// Returns the values by component and name.
fn by_component(all: &[ParameterStatus]) -> Map<String, Value> {
    let mut components: Map<String, Value> = Map::new();
    for p in all {
        let values = components.entry(p.component.clone()).or_insert_with(|| json!({}));
        if let Value::Object(values) = values {
            values.insert(p.name.clone(), p.value.clone());
        }
    }
    components
}

/// Formats the values as a parameter file: YAML, with each value in JSON.
fn dump(all: &[ParameterStatus]) -> String {
    let components = by_component(all);
    let key = |name: &str| Value::from(name).to_string();
    let mut out = String::new();
    for (component, values) in &components {
        out += &format!("{}:\n", key(component));
        for (name, value) in values.as_object().into_iter().flatten() {
            out += &format!("  {}: {value}\n", key(name));
        }
    }
    out
}

fn load(found: &Found, file: &std::path::Path, screen: &Screen) -> u8 {
    let read = std::fs::read_to_string(file).map_err(|e| e.to_string());
    let wanted = match read.and_then(|text| parameters_of_file(&text)) {
        Ok(wanted) => wanted,
        Err(text) => {
            screen.error(format!("{}: {text}", file.display()));
            return exit::FAILED;
        }
    };
    let all = match parameters(found) {
        Ok(all) => all.parameters,
        Err(text) => return told(found, Err(text), screen),
    };
    let (mut failed, mut unchanged, mut changed) = (false, 0, Vec::new());
    for (component, name, value) in wanted {
        let json = serde_json::to_value(&value).unwrap_or_default();
        let known = all.iter().find(|p| p.component == component && p.name == name);
        if known.is_some_and(|p| p.value == json) {
            unchanged += 1;
            continue;
        }
        // Text is quoted, so that it stays text.
        match change(found, &component, parameter_ask(&component, &name, &json.to_string())) {
            Ok(()) => {
                if !screen.json {
                    let value = cut(&text(&json), LINE);
                    screen.print(&format!("{component}.{name} is {value} now\n"));
                }
                changed.push(format!("{component}.{name}"));
            }
            Err(error) => {
                failed = true;
                screen.error(cut(&error, LINE));
            }
        }
    }
    if screen.json {
        screen.print_json(&json!({ "changed": changed, "unchanged": unchanged }));
    } else if unchanged > 0 {
        screen.print(&format!("{unchanged} had the value of the file already\n"));
    }
    if failed { exit::FAILED } else { exit::DONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(component: &str, name: &str, value: Value) -> ParameterStatus {
        let (component, name) = (component.to_owned(), name.to_owned());
        ParameterStatus {
            component,
            name,
            value,
            live: true,
            min: None,
            max: None,
            set: false,
            mode: None,
        }
    }

    #[test]
    fn a_dump_is_a_parameter_file() {
        let all = [
            status("lane", "gain", json!(1.5)),
            status("lane", "model", json!("a: b # c\n")),
            status("track", "pid", json!({"gains": [1, true], "name": "x"})),
        ];
        let text = dump(&all);
        let read = parameters_of_file(&text).unwrap();
        let back: Vec<_> =
            read.iter().map(|(c, n, v)| status(c, n, serde_json::to_value(v).unwrap())).collect();
        assert_eq!(back, all, "{text}");
    }
}
