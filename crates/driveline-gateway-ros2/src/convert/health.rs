// SPDX-License-Identifier: Apache-2.0
//! `diagnostic_msgs/msg/DiagnosticArray`, only towards ROS.
//!
//! One status for the run, one for each module and gateway, and one for each component, with names
//! as `diagnostic_aggregator` groups them: `graph`, `graph/module`, `graph/module/component`.

use super::{ConvertError, Result, ToRos, header};
use driveline_msgs::TextError;
use driveline_msgs::proto::{
    ComponentHealth, HealthFault, ModuleHealth, RunHealth, TopicEndHealth,
};
use driveline_rosidl::cdr::{ByteOrder, Encoder};
use prost::Message;

/// `level` of a `DiagnosticStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok = 0,
    Warn = 1,
    Error = 2,
}

struct Status {
    level: Level,
    name: String,
    message: String,
    values: Vec<(String, String)>,
}

/// States of a component's publishers and subscriptions that need no attention.
const CALM_ENDS: [&str; 3] = ["off", "waiting", "flowing"];

pub(super) fn sample(
    payload: &[u8],
    stamps_ahead_ns: Option<i64>,
    max_len: usize,
) -> Result<ToRos<'static>> {
    let run = RunHealth::decode(payload).map_err(|e| ConvertError::Payload(e.to_string()))?;
    let own = run.header.clone().unwrap_or_default();
    let (sec, nanosec) = header::stamp(own.source_time_ns, stamps_ahead_ns)?;
    let mut to = Encoder::new(ByteOrder::Little);
    to.number(sec);
    to.number(nanosec);
    to.string(b"")?;
    let all = statuses(&run);
    to.length(all.len())?;
    let mut len = 0_usize;
    for status in &all {
        // Checked before allocating.
        let texts = status.values.iter().map(|(key, value)| 16 + key.len() + value.len());
        len = len
            .saturating_add(32 + status.name.len() + status.message.len() + texts.sum::<usize>());
        if len > max_len {
            return Err(ConvertError::TooLong { len, max: max_len });
        }
        to.number(status.level as u8);
        text(&mut to, "name", &status.name)?;
        text(&mut to, "message", &status.message)?;
        // `hardware_id` is empty: a run is no hardware.
        to.string(b"")?;
        to.length(status.values.len())?;
        for (key, value) in &status.values {
            text(&mut to, "key", key)?;
            text(&mut to, "value", value)?;
        }
    }
    Ok(ToRos::of(to.finish(), &[], &[]))
}

fn text(to: &mut Encoder, field: &'static str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(ConvertError::Text(TextError::ZeroByte { field }));
    }
    Ok(to.string(text.as_bytes())?)
}

fn statuses(run: &RunHealth) -> Vec<Status> {
    let mut all = vec![Status {
        level: Level::Ok,
        name: run.graph.clone(),
        message: or(&run.reason, &run.phase),
        values: values([
            ("phase", run.phase.clone()),
            ("ready", run.ready.to_string()),
            ("mode", run.mode.clone()),
            ("shortened", if run.is_shortened { "true".into() } else { String::new() }),
        ]),
    }];
    for module in &run.modules {
        let name = format!("{}/{}", run.graph, module.name);
        all.extend(module.components.iter().map(|c| of_component(&name, c)));
        all.push(of_module(name, module));
    }
    let worst = all.iter().map(|s| s.level).max().unwrap_or(Level::Ok);
    let not_ready = if run.ready { Level::Ok } else { Level::Warn };
    if let Some(whole) = all.first_mut() {
        whole.level = worst.max(not_ready);
    }
    all
}

fn of_module(name: String, m: &ModuleHealth) -> Status {
    let level = match (m.ready, m.state.as_str()) {
        (true, _) => Level::Ok,
        (false, "down" | "restarting") => Level::Error,
        (false, _) => Level::Warn,
    };
    let mut values = values([
        ("state", m.state.clone()),
        ("since_ms", m.since_ms.to_string()),
        ("pid", if m.pid == 0 { String::new() } else { m.pid.to_string() }),
        ("restarts", m.restarts.to_string()),
    ]);
    fault(&mut values, "", m.last_fault.as_ref());
    for e in &m.executors {
        values.push((format!("executor {}", e.name), or(&e.busy, &e.state)));
    }
    Status { level, name, message: or(&m.reason, &m.state), values }
}

fn of_component(module: &str, c: &ComponentHealth) -> Status {
    let troubled: Vec<&TopicEndHealth> =
        c.ends.iter().filter(|e| !CALM_ENDS.contains(&e.state.as_str())).collect();
    let level = match c.state.as_str() {
        "down" => Level::Error,
        "starting" => Level::Warn,
        _ if !troubled.is_empty() => Level::Warn,
        _ => Level::Ok,
    };
    let message = match troubled.first() {
        Some(end) => format!("{}: '{}' is {}", c.state, end.topic, end.state),
        None => c.state.clone(),
    };
    let mut values = values([
        ("state", c.state.clone()),
        ("since_ms", c.since_ms.to_string()),
        ("executor", c.executor.clone()),
        ("calls", c.calls.to_string()),
        ("failed", c.failed.to_string()),
        ("overruns", c.overruns.to_string()),
    ]);
    fault(&mut values, "", c.last_fault.as_ref());
    for e in &c.ends {
        let mut own = |key: &str, value: String| values.push((format!("{} {key}", e.port), value));
        own("topic", e.topic.clone());
        own("state", e.state.clone());
        own("rate_hz", e.rate_hz.to_string());
        if e.min_hz > 0.0 {
            own("min_hz", e.min_hz.to_string());
        }
        if e.max_hz > 0.0 {
            own("max_hz", e.max_hz.to_string());
        }
        own("samples", e.samples.to_string());
        own("missed", e.missed.to_string());
        own("deadlines_missed", e.deadlines_missed.to_string());
        fault(&mut values, &format!("{} ", e.port), e.last_fault.as_ref());
    }
    Status { level, name: format!("{module}/{}", c.name), message, values }
}

fn or(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

/// Returns the pairs whose value is not empty.
fn values<const N: usize>(all: [(&str, String); N]) -> Vec<(String, String)> {
    let given = all.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn fault(values: &mut Vec<(String, String)>, prefix: &str, fault: Option<&HealthFault>) {
    if let Some(fault) = fault {
        values.push((format!("{prefix}last_fault"), fault.text.clone()));
        values.push((format!("{prefix}last_fault_ago_ms"), fault.ago_ms.to_string()));
    }
}
