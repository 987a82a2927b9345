// SPDX-License-Identifier: Apache-2.0
//! Deployment of the ends of a link: without containers, in one container, or in a container each.
//!
//! The containers have the isolation: namespaces, control groups, no capabilities, the seccomp
//! profile of `driveline deploy seccomp`. Their files are those of this machine, read-only, so that
//! no image must be built, and every end runs the same program as on bare metal.

use anyhow::{Context, Result, bail, ensure};
use driveline_deploy::EngineKind;
use driveline_deploy::seccomp;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Directories of the system that programs need.
const SYSTEM: [&str; 3] = ["/usr", "/etc", "/opt"];
/// Links into `/usr` of a system whose directories are merged.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Runs a program under a shell that stays. Programs ask the kernel to end them with their parent
/// process ([`crate::child::end_with_starter`]), and the parent of an engine's `exec` ends at once.
const UNDER_A_SHELL: &str = r#""$0" "$@"; exit $?"#;

/// Deployment of the ends of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deployment {
    /// A process for each end.
    #[default]
    Bare,
    /// These processes in one container.
    Container,
    /// A container for each process.
    Containers,
}

impl Deployment {
    /// Returns true if the run has no containers.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        *self == Self::Bare
    }
}

/// The containers of one run. Dropping it removes them.
pub(crate) struct Containers {
    options: Vec<String>,
    names: Vec<String>,
    one: Option<String>,
    directory: PathBuf,
}

impl Containers {
    /// Makes the container for all ends, if the deployment has one, and starts it; blocks.
    /// `shared`: directory of the run, which all containers see. `program`: program of the ends.
    pub(crate) fn new(deployment: Deployment, shared: &Path, program: &Path) -> Result<Self> {
        let directory = shared.join("containers");
        let root = directory.join("root");
        std::fs::create_dir_all(&root)
            .with_context(|| format!("cannot make {}", root.display()))?;
        for name in MERGED {
            let usr = Path::new("usr").join(name);
            if Path::new("/").join(&usr).exists() {
                symlink(&usr, root.join(name))?;
            }
        }
        let mut options: Vec<String> =
            ["--rm", "--network", "none", "--ipc", "private", "--cap-drop", "all"]
                .map(str::to_owned)
                .into();
        options.extend(["--security-opt".into(), "no-new-privileges".into()]);
        options.extend(["--log-driver".into(), "none".into(), "--shm-size".into(), "1g".into()]);
        if let Ok(profile) = seccomp::profile(EngineKind::Podman) {
            let path = directory.join("seccomp.json");
            std::fs::write(&path, profile)?;
            options.extend(["--security-opt".into(), format!("seccomp={}", path.display())]);
        }
        let mut mount = |path: &Path, rights: &str| {
            options.extend(["--volume".into(), format!("{0}:{0}:{rights}", path.display())]);
        };
        SYSTEM.iter().map(Path::new).filter(|p| p.exists()).for_each(|p| mount(p, "ro"));
        let of_program = program.parent().unwrap_or(Path::new("/"));
        if !of_program.starts_with("/usr") {
            mount(of_program, "ro");
        }
        mount(shared, "rw");
        options.extend(["--rootfs".into(), root.display().to_string()]);
        let mut containers = Self { options, names: Vec::new(), one: None, directory };
        if deployment == Deployment::Container {
            let name = containers.next_name()?;
            let mut command = Command::new("podman");
            command.args(["run", "--detach", "--name", &name]).args(&containers.options);
            command.args(["sleep", "infinity"]).stdout(Stdio::null());
            let out = command.output().context("cannot start podman")?;
            ensure!(
                out.status.success(),
                "podman cannot start a container: {}",
                String::from_utf8_lossy(&out.stderr).trim()
            );
            containers.one = Some(name);
        }
        Ok(containers)
    }

    /// Returns a command for a program in the one container, or in a new one. The program reads
    /// this command's input and writes to its output.
    pub(crate) fn command(&mut self, program: &Path) -> Result<Command> {
        let mut command = Command::new("podman");
        if let Some(one) = &self.one {
            command.args(["exec", "--interactive", one]);
        } else {
            let name = self.next_name()?;
            command.args(["run", "--interactive", "--name", &name]).args(&self.options);
        }
        command.args(["sh", "-c", UNDER_A_SHELL]).arg(program);
        Ok(command)
    }

    fn next_name(&mut self) -> Result<String> {
        let id = driveline::types::EndpointId::random().context("no random number")?;
        let name = format!("driveline-bench-{id}");
        self.names.push(name.clone());
        Ok(name)
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        // Killing podman's own process would leave its container.
        let remove = ["rm", "--force", "--ignore", "--time", "0"];
        let _ = Command::new("podman")
            .args(remove)
            .args(&self.names)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns the reason why containers cannot run on this machine, or `None`. It starts one to find
/// out, once in a process; blocks.
#[must_use]
pub fn containers_refused() -> Option<String> {
    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
    KNOWN.get_or_init(|| tried().err().map(|e| format!("{e:#}"))).clone()
}

fn tried() -> Result<()> {
    let id = driveline::types::EndpointId::random()?;
    let directory = std::env::temp_dir().join(format!("driveline-bench-{id}"));
    std::fs::create_dir(&directory)?;
    let tried = Containers::new(Deployment::Containers, &directory, Path::new("/usr/bin/true"))
        .and_then(|mut containers| {
            let out = containers.command(Path::new("true"))?.output().context(
                "podman cannot be started; install it: apt-get install podman runc netavark \
                 catatonit",
            )?;
            if out.status.success() {
                return Ok(());
            }
            bail!("podman runs no container: {}", String::from_utf8_lossy(&out.stderr).trim())
        });
    let _ = std::fs::remove_dir_all(&directory);
    tried
}
