// SPDX-License-Identifier: Apache-2.0
//! Units of systemd that Podman's generator Quadlet turns into services. They need Podman 5.0 or
//! later, because they use the key `Entrypoint=`.

use super::{GRAPH_IN_CONTAINER, Manifest, ManifestError, Role, Service, seconds};
use crate::arguments::{LOG_SIZE, MOST_PROCESSES, cpu_list};
use crate::{CLI_IN_IMAGE, label};
use driveline_graph::Cpus;
use driveline_graph::RestartPolicy;
use std::fmt::Write;

/// A file for `/etc/containers/systemd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Name of the file.
    pub name: String,
    /// Content.
    pub text: String,
}

/// Returns the files. `systemctl start NAME-collector` starts the graph. Stopping that unit also
/// stops all modules.
///
/// # Errors
/// [`ManifestError::Control`].
pub fn quadlet(manifest: &Manifest) -> Result<Vec<Unit>, ManifestError> {
    let unit = |s: &Service| {
        let name = format!("{}-{}.container", manifest.name, s.name);
        Ok(Unit { name, text: text(manifest, s)? })
    };
    manifest.services.iter().map(unit).collect()
}

fn text(manifest: &Manifest, s: &Service) -> Result<String, ManifestError> {
    let mut out = Lines::default();
    let name = |service: &str| format!("{}-{service}.service", manifest.name);
    out.section("Unit");
    let what = match s.role {
        Role::Prepare => "shared directory".to_owned(),
        Role::Collector => "collector".to_owned(),
        Role::Module => format!("module {}", s.name),
    };
    out.key("Description", &literal(&format!("Driveline graph {}: {what}", manifest.graph)));
    if s.role != Role::Prepare {
        out.key("Requires", &name("prepare"));
        out.key("After", &name("prepare"));
    }
    match s.role {
        Role::Module => out.key("PartOf", &name("collector")),
        Role::Collector => {
            let modules = manifest.services.iter().filter(|s| s.role == Role::Module);
            let modules: Vec<_> = modules.map(|s| name(&s.name)).collect();
            out.key("Wants", &modules.join(" "));
        }
        Role::Prepare => {}
    }
    if let Some(max) = s.restart.max.filter(|_| s.restart.policy != RestartPolicy::Never) {
        out.key("StartLimitIntervalSec", &seconds(s.restart.window).to_string());
        // The first start counts too.
        out.key("StartLimitBurst", &(max + 1).to_string());
    }
    out.section("Container");
    container(&mut out, manifest, s);
    out.section("Service");
    if s.role == Role::Prepare {
        out.key("Type", "oneshot");
        out.key("RemainAfterExit", "yes");
        let made: Vec<_> = s.mounts.iter().map(|m| quoted(&m.source.to_string_lossy())).collect();
        out.key("ExecStartPre", &format!("/usr/bin/mkdir -p {}", made.join(" ")));
    }
    let restart = match s.restart.policy {
        RestartPolicy::Never => "no",
        RestartPolicy::OnFailure => "on-failure",
        RestartPolicy::Always => "always",
    };
    out.key("Restart", restart);
    if s.restart.policy != RestartPolicy::Never {
        out.key("RestartSec", &format!("{}ms", s.restart.backoff.as_millis()));
    }
    // More than Podman's own time limit, so that Podman reports a container that it kills.
    out.key("TimeoutStopSec", &(seconds(s.stops_within) + 5).to_string());
    if s.role == Role::Collector {
        out.section("Install");
        out.key("WantedBy", "multi-user.target");
    }
    match out.refused {
        Some(line) => Err(ManifestError::Control { line }),
        None => Ok(out.text),
    }
}

fn container(out: &mut Lines, manifest: &Manifest, s: &Service) {
    out.key("ContainerName", &format!("{}-{}", manifest.name, s.name));
    out.key("HostName", &s.name);
    out.key("Image", &s.image);
    out.key("Pull", "never");
    out.key("User", &s.user.to_string());
    out.key("Group", &s.user.to_string());
    if let Some((program, arguments)) = s.command.split_first() {
        out.key("Entrypoint", program);
        out.key("Exec", &arguments.iter().map(|a| quoted(a)).collect::<Vec<_>>().join(" "));
    }
    out.key("ReadOnly", "true");
    out.key("DropCapability", "all");
    for capability in &s.capabilities {
        out.key("AddCapability", &format!("CAP_{capability}"));
    }
    out.key("NoNewPrivileges", "true");
    if let Some(profile) = &manifest.seccomp {
        out.key("SeccompProfile", &literal(profile));
    }
    out.key("Network", if s.network { "host" } else { "none" });
    out.key("PidsLimit", &MOST_PROCESSES.to_string());
    out.key("StopTimeout", &seconds(s.stops_within).to_string());
    out.key("LogDriver", "k8s-file");
    out.key("PodmanArgs", &format!("--log-opt max-size={LOG_SIZE} --ipc private"));
    match &s.cpus {
        Some(Cpus::Quota(quota)) => out.key("PodmanArgs", &format!("--cpus {quota}")),
        Some(Cpus::Set(set)) => {
            out.key("PodmanArgs", &format!("--cpuset-cpus {}", cpu_list(set)));
        }
        None => {}
    }
    if let Some(memory) = s.memory {
        out.key("PodmanArgs", &format!("--memory {memory} --memory-swap {memory}"));
    }
    for device in &s.devices {
        out.key("AddDevice", &literal(device));
    }
    for group in &s.groups {
        out.key("GroupAdd", &group.to_string());
    }
    for (name, value) in &s.environment {
        out.key("Environment", &quoted(&format!("{name}={value}")));
    }
    for mount in &s.mounts {
        let rights = if mount.writable { "" } else { ":ro" };
        let text = format!("{}:{}{rights}", mount.source.display(), mount.target.display());
        out.key("Volume", &literal(&text));
    }
    for file in manifest.files.iter().filter(|_| s.reads_graph) {
        let source = file.source.display();
        let text = format!("{source}:{GRAPH_IN_CONTAINER}/{}:ro", file.name);
        out.key("Volume", &literal(&text));
    }
    let labels = [(label::GRAPH, manifest.graph.as_str()), (label::MODULE, &s.name)];
    for (name, value) in labels {
        out.key("Label", &quoted(&format!("{name}={value}")));
    }
    if s.role == Role::Collector {
        out.key("HealthCmd", &format!("[\"{CLI_IN_IMAGE}\",\"health\"]"));
        out.key("HealthInterval", "10s");
        out.key("HealthStartPeriod", "60s");
        out.key("HealthRetries", "3");
    }
}

/// Escapes `%`, which systemd would replace.
fn literal(text: &str) -> String {
    text.replace('%', "%%")
}

/// Quotes a word for systemd.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    // systemd would replace `%` and `$`.
    let word = literal(word).replace('$', "$$");
    if !word.is_empty() && word.chars().all(|c| plain(c) || c == '%' || c == '$') {
        return word;
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

#[derive(Default)]
struct Lines {
    text: String,
    /// First line that no unit can contain.
    refused: Option<String>,
}

impl Lines {
    fn section(&mut self, name: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}[{name}]");
    }

    fn key(&mut self, name: &str, value: &str) {
        let line = format!("{name}={value}");
        // A line break would begin another key.
        if line.chars().any(char::is_control) {
            self.refused.get_or_insert_with(|| line.escape_debug().to_string());
        }
        let _ = writeln!(self.text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_begins_no_other_key() {
        let mut lines = Lines::default();
        lines.key("Environment", "50%");
        assert_eq!(lines.refused, None);
        lines.key("Environment", &quoted("A=a\n[Service]\nExecStartPre=/bin/id"));
        let refused = lines.refused.unwrap();
        assert!(refused.starts_with("Environment=") && !refused.contains('\n'), "{refused}");
        assert_eq!(literal("/maps/50%h"), "/maps/50%%h");
    }

    #[test]
    fn words_reach_the_program_as_they_are() {
        assert_eq!(quoted("a=b"), "a=b");
        assert_eq!(quoted("two words"), "\"two words\"");
        assert_eq!(quoted("50%"), "50%%");
        assert_eq!(quoted("a\"b\\"), "\"a\\\"b\\\\\"");
        assert_eq!(quoted(""), "\"\"");
    }
}
