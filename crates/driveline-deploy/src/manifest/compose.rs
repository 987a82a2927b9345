// SPDX-License-Identifier: Apache-2.0
//! Services for `podman-compose`, `docker compose` and `docker-compose`.

use super::{GRAPH_IN_CONTAINER, Manifest, Role, Service, seconds};
use crate::arguments::{LOG_SIZE, MOST_PROCESSES, cpu_list};
use crate::{CLI_IN_IMAGE, label};
use driveline_graph::RestartPolicy;
use driveline_graph::{Cpus, Mount};
use serde_json::{Map, Value, json};

/// Returns the text of the compose file.
#[must_use]
pub fn compose(manifest: &Manifest) -> String {
    let services: Map<String, Value> =
        manifest.services.iter().map(|s| (s.name.clone(), service(manifest, s))).collect();
    let file = json!({ "services": services });
    let head = format!(
        "# Graph '{}', by `driveline deploy compose`: podman-compose up, or docker compose up.\n\
         # Parameters are changed in the graph's own files, which all services read.\n",
        manifest.graph
    );
    head + &super::kubernetes::yaml(&without_variables(file))
}

/// Escapes `$`: compose would replace `$NAME` in every text by an environment variable.
fn without_variables(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace('$', "$$")),
        Value::Array(list) => list.into_iter().map(without_variables).collect(),
        Value::Object(map) => map.into_iter().map(|(k, v)| (k, without_variables(v))).collect(),
        other => other,
    }
}

fn service(manifest: &Manifest, s: &Service) -> Value {
    let mut security = vec!["no-new-privileges:true".to_owned()];
    if let Some(profile) = &manifest.seccomp {
        security.push(format!("seccomp={profile}"));
    }
    let mut service = json!({
        "image": s.image,
        "user": format!("{0}:{0}", s.user),
        "entrypoint": s.command.first().into_iter().collect::<Vec<_>>(),
        "command": s.command.iter().skip(1).collect::<Vec<_>>(),
        "read_only": true,
        "cap_drop": ["ALL"],
        "security_opt": security,
        "network_mode": if s.network { "host" } else { "none" },
        "ipc": "private",
        "pids_limit": MOST_PROCESSES,
        "tmpfs": ["/tmp"],
        "volumes": volumes(manifest, s),
        "restart": restart(s),
        "stop_grace_period": format!("{}s", seconds(s.stops_within)),
        "logging": { "driver": "json-file", "options": { "max-size": LOG_SIZE } },
        "labels": { (label::GRAPH): manifest.graph, (label::MODULE): s.name },
    });
    let Some(keys) = service.as_object_mut() else { return service };
    let mut put = |key: &str, value: Value| drop(keys.insert(key.to_owned(), value));
    if !s.environment.is_empty() {
        put("environment", json!(s.environment));
    }
    if !s.capabilities.is_empty() {
        put("cap_add", json!(s.capabilities));
    }
    if !s.groups.is_empty() {
        // As text, because older versions do not accept numbers.
        let groups: Vec<_> = s.groups.iter().map(u32::to_string).collect();
        put("group_add", json!(groups));
    }
    if !s.devices.is_empty() {
        put("devices", json!(s.devices));
    }
    match &s.cpus {
        Some(Cpus::Quota(quota)) => put("cpus", json!(quota)),
        Some(Cpus::Set(set)) => put("cpuset", json!(cpu_list(set))),
        None => {}
    }
    if let Some(memory) = s.memory {
        put("mem_limit", json!(memory));
        put("memswap_limit", json!(memory));
    }
    // Modules have no dependencies: Podman does not restart a container whose dependency has ended,
    // and modules wait for the collector's socket themselves.
    if s.role == Role::Collector {
        let mut depends = json!({ "prepare": { "condition": "service_completed_successfully" } });
        // Services stop in reverse order: the collector is first and stops the modules in order.
        for module in manifest.services.iter().filter(|s| s.role == Role::Module) {
            depends[&module.name] = json!({ "condition": "service_started" });
        }
        put("depends_on", depends);
        let test = ["CMD", CLI_IN_IMAGE, "health"];
        let check = json!({
            "test": test, "interval": "10s", "timeout": "5s", "retries": 3, "start_period": "60s",
        });
        put("healthcheck", check);
    }
    service
}

fn volumes(manifest: &Manifest, s: &Service) -> Vec<String> {
    let text = |m: &Mount| {
        let rights = if m.writable { "" } else { ":ro" };
        format!("{}:{}{rights}", m.source.display(), m.target.display())
    };
    let mut volumes: Vec<String> = s.mounts.iter().map(text).collect();
    if s.reads_graph {
        for file in &manifest.files {
            let source = file.source.display();
            volumes.push(format!("{source}:{GRAPH_IN_CONTAINER}/{}:ro", file.name));
        }
    }
    volumes
}

fn restart(s: &Service) -> String {
    match (s.restart.policy, s.restart.max) {
        (RestartPolicy::Never, _) => "no".to_owned(),
        (RestartPolicy::OnFailure, Some(max)) => format!("on-failure:{max}"),
        (RestartPolicy::OnFailure, None) => "on-failure".to_owned(),
        (RestartPolicy::Always, _) => "always".to_owned(),
    }
}
