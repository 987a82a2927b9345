// SPDX-License-Identifier: Apache-2.0
//! `driveline mode`: shows the mode of a run, or switches to one (`docs/protocols/modes.md`).

use super::control::{AGAIN, ASK, Found, LINE, NAME, called, select, span};
use crate::arguments::Mode;
use crate::exit;
use crate::text::cut;
use driveline_runtime::launch::control::{
    Ask, AskError, LastSwitch, ModeStatus, RunSocket, RunStatus, Verb,
};
use driveline_terminal::screen::Screen;
use std::time::{Duration, Instant};

pub(crate) fn mode(arguments: &Mode, screen: &Screen) -> u8 {
    let found = match select(&arguments.which, ASK) {
        Ok(found) => found,
        // A completion script expects names only, so an error prints nothing.
        Err(_) if arguments.names => return exit::FAILED,
        Err(missing) => return missing.print(screen),
    };
    if !arguments.names {
        found.warn(screen);
    }
    let Some(status) = &found.run.mode else {
        if !arguments.names {
            screen.error(format!("{}: its graph has no section `modes:`", called(&found.run)));
        }
        return exit::FAILED;
    };
    if arguments.names {
        let names: String = status.names.iter().map(|n| cut(n, NAME) + "\n").collect();
        screen.print(&names);
        return exit::DONE;
    }
    match &arguments.mode {
        Some(mode) => switch(&found, mode, arguments.timeout, screen),
        None if screen.json => {
            screen.print_json(status);
            exit::DONE
        }
        None => {
            screen.print(&format!("{}: {}\n", called(&found.run), lines(status).join("\n")));
            exit::DONE
        }
    }
}

/// Formats the modes of a run, for users.
pub(super) fn lines(status: &ModeStatus) -> Vec<String> {
    let listed = |names: &[String]| {
        if names.is_empty() {
            return "none".to_owned();
        }
        names.iter().map(|n| cut(n, NAME)).collect::<Vec<_>>().join(", ")
    };
    let latched = if status.latched { ", latched" } else { "" };
    let mut lines = vec![match &status.current {
        Some(mode) => {
            format!("mode '{}' for {}{latched}", cut(mode, NAME), span(status.since_ms))
        }
        None => "in no mode yet".to_owned(),
    }];
    lines[0] +=
        &format!("; active: {}; inactive: {}", listed(&status.active), listed(&status.inactive));
    if !status.missing.is_empty() {
        lines.push(format!("not active: {}", listed(&status.missing)));
    }
    if let Some(s) = &status.switch {
        let waits = if s.waits_for.is_empty() {
            String::new()
        } else {
            format!(": waits for {}", cut(&s.waits_for, LINE))
        };
        lines.push(format!(
            "switch to '{}' in flight ({}), requested by {}{waits}",
            cut(&s.mode, NAME),
            cut(&s.stage, NAME),
            cut(&s.cause, LINE)
        ));
    }
    if let Some(last) = &status.last_switch {
        lines.push(format!("last switch, {} ago: {}", span(last.ago_ms), told(last)));
        lines.extend(last.failed.iter().map(|why| format!("  {}", cut(why, LINE))));
    }
    lines
}

fn told(last: &LastSwitch) -> String {
    let (mode, cause) = (cut(&last.mode, NAME), cut(&last.cause, LINE));
    match &last.from {
        Some(from) if *from == last.mode => {
            format!("'{mode}' stays after {} ms, requested by {cause}", last.took_ms)
        }
        Some(from) => {
            let from = cut(from, NAME);
            format!("'{from}' → '{mode}' in {} ms, requested by {cause}", last.took_ms)
        }
        None => format!("'{mode}' in {} ms, requested by {cause}", last.took_ms),
    }
}

/// Result of a switch.
enum Ending {
    Entered(LastSwitch),
    /// As `Entered`, but without these components, because their module is not ready.
    Incomplete(LastSwitch, Vec<String>),
    Other(LastSwitch),
    /// A later request replaced this one; the text says what became of it.
    Replaced(String),
}

fn switch(found: &Found, mode: &str, timeout: Duration, screen: &Screen) -> u8 {
    let run = &found.run;
    let asked = match found.socket.ask(Ask::mode(mode), ASK) {
        Ok(answer) => answer,
        Err(AskError::Refused { text, .. }) => {
            screen.error(format!("{}: {}", called(run), cut(&text, LINE)));
            return exit::FAILED;
        }
        Err(e) => {
            screen.error(format!("{}: {e}", called(run)));
            return exit::FAILED;
        }
    };
    match wait(&found.socket, &asked, mode, timeout) {
        Ok(Ending::Entered(last)) if !screen.json && was_last(run, &last) => {
            screen.print(&format!("{} was already in mode '{}'\n", called(run), cut(mode, NAME)));
            exit::DONE
        }
        Ok(ending) => print(run, mode, &ending, screen),
        Err(text) => {
            screen.error(format!("{}: {}", called(run), cut(&text, LINE)));
            exit::FAILED
        }
    }
}

/// Returns true if this switch was the last one before the request, which then switched nothing.
fn was_last(before: &RunStatus, last: &LastSwitch) -> bool {
    let known = before.mode.as_ref().and_then(|mode| mode.last_switch.as_ref());
    known.is_some_and(|known| known.number == last.number)
}

/// Waits for the end of the switch that the run's answer names.
fn wait(
    socket: &RunSocket,
    asked: &RunStatus,
    mode: &str,
    timeout: Duration,
) -> Result<Ending, String> {
    let end = Instant::now() + timeout;
    let number = |s: &ModeStatus| {
        let flying = s.switch.as_ref().map(|s| s.number);
        flying.or(s.last_switch.as_ref().map(|l| l.number))
    };
    let mut answer = asked.mode.clone();
    let own = answer.as_ref().and_then(number);
    loop {
        let status = answer.ok_or("it has no modes any more")?;
        match (&status.switch, &status.last_switch) {
            (None, Some(last)) if number(&status) == own => {
                return Ok(match status.missing.as_slice() {
                    _ if last.mode != mode => Ending::Other(last.clone()),
                    [] => Ending::Entered(last.clone()),
                    missing => Ending::Incomplete(last.clone(), missing.to_vec()),
                });
            }
            _ if number(&status) != own => {
                return Ok(Ending::Replaced(later(&status)));
            }
            (switch, _) if Instant::now() >= end => {
                let waits = switch.as_ref().map(|s| s.waits_for.as_str()).filter(|w| !w.is_empty());
                return Err(format!(
                    "the switch to mode '{mode}' has not ended within {} s{}",
                    timeout.as_secs_f64(),
                    waits.map_or_else(String::new, |waits| format!("; it waits for {waits}"))
                ));
            }
            _ => {}
        }
        std::thread::sleep(AGAIN.min(end.saturating_duration_since(Instant::now())));
        answer = match socket.ask(Verb::Mode, ASK) {
            Ok(run) => run.mode,
            Err(e @ AskError::Silent { .. }) if Instant::now() >= end => return Err(e.to_string()),
            Err(AskError::Silent { .. }) => asked.mode.clone(),
            Err(e) => return Err(e.to_string()),
        };
    }
}

/// Describes the newest switch and its cause.
fn later(status: &ModeStatus) -> String {
    match (&status.switch, &status.last_switch) {
        (Some(switch), _) => {
            format!("a switch to mode '{}' is in flight ({})", switch.mode, switch.cause)
        }
        (None, Some(last)) if last.failed.is_empty() => {
            format!("the run is in mode '{}' ({})", last.mode, last.cause)
        }
        (None, Some(last)) => {
            format!(
                "the run is in mode '{}' ({}): {}",
                last.mode,
                last.cause,
                last.failed.join("; ")
            )
        }
        (None, None) => {
            format!("the run is in mode '{}'", status.current.as_deref().unwrap_or("none"))
        }
    }
}

fn print(run: &RunStatus, mode: &str, ending: &Ending, screen: &Screen) -> u8 {
    let done = matches!(ending, Ending::Entered(_));
    match ending {
        Ending::Entered(last) | Ending::Incomplete(last, _) | Ending::Other(last)
            if screen.json =>
        {
            screen.print_json(last);
        }
        Ending::Entered(last) => {
            screen.print(&format!(
                "{} is in mode '{}', {} ms after the request\n",
                called(run),
                cut(mode, NAME),
                last.took_ms
            ));
        }
        Ending::Incomplete(_, missing) => {
            let names: Vec<_> =
                missing.iter().map(|name| format!("'{}'", cut(name, NAME))).collect();
            screen.error(format!(
                "{} is in mode '{}', but without {}: not active (`driveline health` shows its \
                 module)",
                called(run),
                cut(mode, NAME),
                names.join(", ")
            ));
        }
        Ending::Other(last) => {
            let why: Vec<_> = last.failed.iter().map(|w| cut(w, LINE)).collect();
            screen.error(format!(
                "{} is in mode '{}', not '{}': {}",
                called(run),
                cut(&last.mode, NAME),
                cut(mode, NAME),
                why.join("; ")
            ));
        }
        Ending::Replaced(became) => screen.error(format!(
            "{}: a later request took the place of this one: {}",
            called(run),
            cut(became, LINE)
        )),
    }
    if done { exit::DONE } else { exit::FAILED }
}
