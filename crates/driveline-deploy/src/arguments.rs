// SPDX-License-Identifier: Apache-2.0
//! Converts the settings of a container to the arguments of an engine.

use crate::engine::EngineKind;
use driveline_graph::{Cpus, Mount};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Maximum size of the output that the engine keeps for a container.
pub(crate) const LOG_SIZE: &str = "10m";
/// Maximum number of processes and threads of a container.
pub(crate) const MOST_PROCESSES: u32 = 4096;

/// Settings of a container, without the defaults of its image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Container {
    /// Name, unique on this engine.
    pub name: String,
    /// Host name inside the container.
    pub hostname: String,
    /// Image.
    pub image: String,
    /// User and group id.
    pub user: u32,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// Files and directories of the host.
    pub mounts: Vec<Mount>,
    /// CPUs.
    pub cpus: Option<Cpus>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// Devices.
    pub devices: Vec<String>,
    /// Groups that the devices belong to.
    pub groups: Vec<u32>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Seccomp profile; `None` for the engine's own.
    pub seccomp: Option<PathBuf>,
    /// True if its threads request real-time scheduling.
    pub real_time: bool,
    /// True if the user of rootless Podman is the same inside and outside the container. Docker has
    /// no such option.
    pub keep_user: bool,
    /// Resource limits, such as `nofile=1024:4096` (soft and hard limit).
    pub ulimits: Vec<String>,
}

/// Returns the arguments that start a container in the background with minimal rights: no root
/// user, no capability (except `SYS_NICE` for real-time threads, with Podman), a read-only root, no
/// network, and its own namespaces. The engine removes it at its end and never restarts it.
#[must_use]
pub fn run_arguments(kind: EngineKind, container: &Container) -> Vec<String> {
    let c = container;
    let mut a: Vec<String> =
        ["run", "--detach", "--rm", "--pull", "never"].map(str::to_owned).into();
    let mut option = |name: &str, value: String| {
        a.push(format!("--{name}"));
        a.push(value);
    };
    option("name", c.name.clone());
    option("hostname", c.hostname.clone());
    option("user", format!("{0}:{0}", c.user));
    option("cap-drop", "all".into());
    option("security-opt", "no-new-privileges".into());
    if let Some(profile) = &c.seccomp {
        option("security-opt", format!("seccomp={}", profile.display()));
    }
    option("network", "none".into());
    option("ipc", "private".into());
    option("pids-limit", MOST_PROCESSES.to_string());
    for limit in &c.ulimits {
        option("ulimit", limit.clone());
    }
    let log = if kind == EngineKind::Podman { "k8s-file" } else { "json-file" };
    option("log-driver", log.into());
    option("log-opt", format!("max-size={LOG_SIZE}"));
    if c.keep_user && kind == EngineKind::Podman {
        option("userns", "keep-id".into());
    }
    if c.real_time && kind == EngineKind::Podman {
        // Podman makes it an ambient capability for a user that is not root; Docker does not.
        option("cap-add", "SYS_NICE".into());
    }
    if kind == EngineKind::Docker {
        // Podman mounts these by default with a read-only root.
        option("tmpfs", "/tmp:rw,nosuid,nodev,size=64m".into());
        option("tmpfs", "/run:rw,nosuid,nodev,size=16m".into());
    }
    match &c.cpus {
        Some(Cpus::Quota(quota)) => option("cpus", quota.to_string()),
        Some(Cpus::Set(set)) => option("cpuset-cpus", cpu_list(set)),
        None => {}
    }
    if let Some(memory) = c.memory {
        option("memory", memory.to_string());
        // Otherwise the same amount could be swapped out, which would hide the memory use of a
        // module.
        option("memory-swap", memory.to_string());
    }
    for device in &c.devices {
        option("device", device.clone());
    }
    for group in &c.groups {
        option("group-add", group.to_string());
    }
    for mount in &c.mounts {
        option("mount", mount_text(mount));
    }
    for (name, value) in &c.environment {
        option("env", format!("{name}={value}"));
    }
    for (name, value) in &c.labels {
        option("label", format!("{name}={value}"));
    }
    a.push("--read-only".into());
    // Overrides the entry point of the image.
    a.push(format!("--entrypoint={}", c.command.first().map_or("", String::as_str)));
    a.push(c.image.clone());
    a.extend(c.command.iter().skip(1).cloned());
    a
}

/// Returns CPU numbers in the format of engines and the kernel.
pub(crate) fn cpu_list(set: &[u32]) -> String {
    set.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn mount_text(mount: &Mount) -> String {
    let rights = if mount.writable { "" } else { ",readonly" };
    let [source, target] = [("source", &mount.source), ("target", &mount.target)]
        .map(|(key, path)| field(&format!("{key}={}", path.display())));
    format!("type=bind,{source},{target}{rights}")
}

/// Quotes a field of an option that engines read as a line of CSV.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> Container {
        Container {
            name: "driveline-1-lane".into(),
            hostname: "lane".into(),
            image: "localhost/lane:1".into(),
            user: 1001,
            command: vec!["/opt/host".into(), "contain".into(), "--module".into(), "lane".into()],
            mounts: vec![
                Mount { source: "/a".into(), target: "/b".into(), writable: false },
                Mount { source: "/c".into(), target: "/c".into(), writable: true },
            ],
            ..Container::default()
        }
    }

    fn line(kind: EngineKind, c: &Container) -> String {
        format!(" {} ", run_arguments(kind, c).join(" "))
    }

    #[test]
    fn a_container_has_no_more_rights_than_it_needs() {
        for kind in [EngineKind::Podman, EngineKind::Docker] {
            let line = line(kind, &container());
            for right in [
                " --user 1001:1001 ",
                " --cap-drop all ",
                " --security-opt no-new-privileges ",
                " --read-only ",
                " --network none ",
                " --ipc private ",
                " --rm ",
                " --detach ",
                " --pull never ",
                " --log-opt max-size=10m ",
                " --mount type=bind,source=/a,target=/b,readonly ",
                " --mount type=bind,source=/c,target=/c ",
                " --entrypoint=/opt/host localhost/lane:1 contain --module lane ",
            ] {
                assert!(line.contains(right), "{right:?} is not in {line}");
            }
            for word in ["privileged", "cap-add", "restart", "--pid host", "--ipc host"] {
                assert!(!line.contains(word), "{word:?} is in {line}");
            }
        }
    }

    #[test]
    fn keys_of_the_graph_become_options() {
        let c = Container {
            cpus: Some(Cpus::Set(vec![2, 3])),
            memory: Some(1 << 20),
            devices: vec!["/dev/video0".into(), "nvidia.com/gpu=all".into()],
            groups: vec![44],
            environment: [("A".to_owned(), "b c".to_owned())].into(),
            seccomp: Some("/x/seccomp.json".into()),
            ulimits: vec!["nofile=1024:4096".into()],
            ..container()
        };
        let line = line(EngineKind::Podman, &c);
        for part in [
            " --cpuset-cpus 2,3 ",
            " --memory 1048576 --memory-swap 1048576 ",
            " --device /dev/video0 --device nvidia.com/gpu=all --group-add 44 ",
            " --env A=b c ",
            " --security-opt seccomp=/x/seccomp.json ",
            " --ulimit nofile=1024:4096 ",
        ] {
            assert!(line.contains(part), "{part:?} is not in {line}");
        }
        let quota = Container { cpus: Some(Cpus::Quota(1.5)), ..container() };
        assert!(run_arguments(EngineKind::Docker, &quota).join(" ").contains(" --cpus 1.5 "));
    }

    #[test]
    fn users_are_kept_by_podman_and_are_those_of_the_host_in_docker() {
        let c = Container { keep_user: true, ..container() };
        assert!(line(EngineKind::Podman, &c).contains(" --userns keep-id "));
        assert!(!line(EngineKind::Docker, &c).contains("userns"));
    }

    #[test]
    fn real_time_is_the_only_capability_and_only_where_the_engine_gives_it() {
        let c = Container { real_time: true, ..container() };
        assert!(line(EngineKind::Podman, &c).contains(" --cap-add SYS_NICE "));
        assert!(!line(EngineKind::Docker, &c).contains("cap-add"));
    }
}
