// SPDX-License-Identifier: Apache-2.0
//! Deployment of the ends of a link, or of the stages of a chain: without containers, in one
//! container, or in a container each.
//!
//! The containers are isolated by namespaces, control groups, no capabilities (for a peer only
//! `ipc_lock`), and the seccomp profile of `driveline deploy seccomp`, if it can be made. Their
//! files are those of this machine, read-only, so that no image must be built, and every end runs
//! the same program as on bare metal. The containers of a peer share one network namespace, in
//! which there is only a loopback interface.

mod engine;

pub use engine::{ENGINE_CPU, ENGINE_MEMORY, ENGINE_START, SupervisorUse};

use crate::observations::Observations;
use anyhow::{Context, Result, bail, ensure};
use driveline_deploy::seccomp;
use driveline_deploy::{EngineKind, ulimits};
use engine::{Engine, Process};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Directories of the system that programs need.
const SYSTEM: [&str; 3] = ["/usr", "/etc", "/opt"];
/// Links into `/usr` of a system whose directories are merged.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Variable with directories of libraries.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Runs a program under a shell that stays until the program has ended. Programs ask the kernel to
/// end them with their parent process ([`crate::child::end_with_starter`]), and the parent of a
/// process that the engine's `exec` starts ends at once. After a success the shell reads its input
/// to the end, at most 5 s, so that the processes of the engine live until the runner has read
/// their processor time and memory.
const UNDER_A_SHELL: &str = r#""$0" "$@"; s=$?; test $s = 0 && timeout 5 cat > /dev/null; exit $s"#;

/// Time in which an engine must start a program.
const START: Duration = Duration::from_secs(30);
/// Interval at which the start of a program is checked.
const CHECK: Duration = Duration::from_millis(5);

/// Deployment of the processes of a run: of the ends of a link, the stages of a chain, or the
/// modules of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deployment {
    /// Processes without containers.
    #[default]
    Bare,
    /// These processes in one container.
    Container,
    /// A container for each process.
    Containers,
    /// A container for each process. The containers have one network, IPC and PID namespace, one
    /// `/dev/shm` and one `/tmp`, as in a pod.
    ContainersInPod,
    /// A container for each process, with a seccomp profile that refuses `futex_waitv`, as Podman's
    /// default profile of 2022 does.
    ContainersWithoutFutexWaitv,
}

impl Deployment {
    /// Returns true if the run has no containers.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        *self == Self::Bare
    }
}

/// The processes that run in containers: ends of links, or stages of a chain.
pub(crate) struct Ends<'a> {
    /// Their programs, and libraries that these load by path.
    pub(crate) programs: &'a [&'a Path],
    /// `true` if one of the programs is a peer's: peers may connect over the loopback interface.
    pub(crate) of_peer: bool,
}

/// The containers of one run. Dropping it removes them.
pub(crate) struct Containers {
    options: Vec<String>,
    namespaces: Vec<String>,
    names: Vec<String>,
    one: Option<String>,
    directory: PathBuf,
    engine: Engine,
}

/// Command that runs a program in a container.
pub(crate) struct Contained {
    pub(crate) command: Command,
    /// Unique word in the command line of the shell that starts the program. By this word, the
    /// shell is found, and the program as its child.
    pub(crate) mark: String,
}

impl Containers {
    /// Makes and starts the container for all ends, or the one whose namespaces the others share,
    /// if the deployment has such a container. Blocks. `shared`: directory of the run, which all
    /// containers see.
    pub(crate) fn new(deployment: Deployment, shared: &Path, ends: &Ends<'_>) -> Result<Self> {
        let directory = shared.join("containers");
        let (root, temporary) = (directory.join("root"), directory.join("tmp"));
        for path in [&root, &temporary] {
            std::fs::create_dir_all(path)
                .with_context(|| format!("cannot make {}", path.display()))?;
        }
        for name in MERGED {
            let usr = Path::new("usr").join(name);
            if Path::new("/").join(&usr).exists() {
                symlink(&usr, root.join(name))?;
            }
        }
        let mut options: Vec<String> =
            ["--rm", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
                .map(str::to_owned)
                .into();
        options.extend(["--log-driver".into(), "none".into()]);
        options.extend(ulimits().into_iter().flat_map(|limit| ["--ulimit".into(), limit]));
        if ends.of_peer {
            // Zenoh locks its pools, which are larger than the usual limit, into memory.
            options.extend(["--cap-add".into(), "ipc_lock".into()]);
        }
        let profile = if deployment == Deployment::ContainersWithoutFutexWaitv {
            Some(seccomp::profile_without_call(EngineKind::Podman)?)
        } else {
            seccomp::profile(EngineKind::Podman).ok()
        };
        if let Some(profile) = profile {
            let path = directory.join("seccomp.json");
            std::fs::write(&path, profile)?;
            options.extend(["--security-opt".into(), format!("seccomp={}", path.display())]);
        }
        if let Ok(directories) = std::env::var(LIBRARY_PATH) {
            options.extend(["--env".into(), format!("{LIBRARY_PATH}={directories}")]);
        }
        let in_pod = deployment == Deployment::ContainersInPod;
        let mut mount = |from: &Path, to: &Path, rights: &str| {
            let volume = format!("{}:{}:{rights}", from.display(), to.display());
            options.extend(["--volume".into(), volume]);
        };
        if in_pod {
            mount(&temporary, Path::new("/tmp"), "rw");
        }
        for path in read_only(ends.programs) {
            mount(&path, &path, "ro");
        }
        mount(shared, shared, "rw");
        if !in_pod {
            options.extend(["--tmpfs".into(), "/tmp:mode=1777".into()]);
        }
        options.extend(["--rootfs".into(), root.display().to_string()]);
        let ipc = if in_pod { "shareable" } else { "private" };
        // Size 0 sets no limit for `/dev/shm`. The plan of the experiment (in the crate
        // `driveline-lab`) has checked that the machine has enough memory.
        let own = ["--network", "none", "--ipc", ipc, "--shm-size", "0"];
        let namespaces = own.map(str::to_owned).into();
        let (names, engine) = (Vec::new(), Engine::default());
        let mut containers = Self { options, namespaces, names, one: None, directory, engine };
        if deployment == Deployment::Container {
            containers.one = Some(containers.start_idle()?);
        } else if in_pod || ends.of_peer {
            let first = containers.start_idle()?;
            let common = format!("container:{first}");
            let own = ["--network", &common, "--ipc", "private", "--shm-size", "0"];
            let in_a_pod = ["--network", &common, "--ipc", &common, "--pid", &common];
            let namespaces = if in_pod { in_a_pod } else { own };
            containers.namespaces = namespaces.map(str::to_owned).into();
        }
        Ok(containers)
    }

    /// Starts a container in which no program runs yet, and returns its name.
    fn start_idle(&mut self) -> Result<String> {
        let name = self.next_name()?;
        let mut command = Command::new("podman");
        command.args(["run", "--detach", "--name", &name]).args(&self.namespaces);
        command.args(&self.options).args(["sleep", "infinity"]).stdout(Stdio::null());
        let out = self.engine.run(&mut command).context("cannot start podman")?;
        ensure!(
            out.status.success(),
            "podman cannot start a container: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
        Ok(name)
    }

    /// Returns a command for a program in the one container, or in a new one. The program reads
    /// this command's input and writes to its output.
    pub(crate) fn command(&mut self, program: &Path) -> Result<Contained> {
        let mut command = Command::new("podman");
        if let Some(one) = &self.one {
            command.args(["exec", "--interactive", one]);
        } else {
            let name = self.next_name()?;
            command.args(["run", "--interactive", "--name", &name]);
            command.args(&self.namespaces).args(&self.options);
        }
        let mark = random_name("end")?;
        command.args(["sh", "-c", &format!(": {mark}; {UNDER_A_SHELL}")]).arg(absolute(program));
        Ok(Contained { command, mark })
    }

    /// Waits until the engine has started a program, and returns the program's process id.
    /// `client`: id of the engine's client, the process of the command. `None` if `ended` returned
    /// true before: a later wait for the client reports why. Blocks at most 30 s.
    ///
    /// # Errors
    /// If the program does not run after that time.
    pub(crate) fn started(
        &mut self,
        mark: &str,
        client: u32,
        ended: impl Fn() -> bool,
    ) -> Result<Option<u32>> {
        let deadline = Instant::now() + START;
        loop {
            let all = Process::all();
            let end = engine::end(&all, mark);
            if end.is_some() {
                self.engine.add([client].into_iter().chain(engine::supervisors(&all, &self.names)));
                return Ok(end);
            }
            if ended() {
                return Ok(None);
            }
            ensure!(Instant::now() < deadline, "podman did not start it within {START:?}");
            std::thread::sleep(CHECK);
        }
    }

    /// Reads the use of processor time and memory by the engine's processes.
    pub(crate) fn read_use(&mut self) {
        self.engine.read();
    }

    /// Adds the use of processor time and memory by the engine's processes, as last read.
    pub(crate) fn report(&self, observations: &mut Observations) {
        self.engine.report(observations);
    }

    fn next_name(&mut self) -> Result<String> {
        let name = random_name("bench")?;
        self.names.push(name.clone());
        Ok(name)
    }
}

/// Returns a name that no other container and no other end has.
fn random_name(of: &str) -> Result<String> {
    let id = driveline::types::EndpointId::random().context("no random number")?;
    Ok(format!("driveline-{of}-{id}"))
}

impl Drop for Containers {
    fn drop(&mut self) {
        // Killing podman's own process would leave its container. The first container comes last,
        // because podman removes none whose namespaces others use.
        let (first, others) = self.names.split_at(self.names.len().min(1));
        for names in [others, first].into_iter().filter(|names| !names.is_empty()) {
            let _ = Command::new("podman")
                .args(["rm", "--force", "--ignore", "--time", "0"])
                .args(names)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns the directories that programs need: the system's, their own, and those of their
/// libraries.
fn read_only(programs: &[&Path]) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = Vec::new();
    let path = std::env::var(LIBRARY_PATH).unwrap_or_default();
    let own = programs.iter().flat_map(|program| directories_of(program));
    let all = SYSTEM.iter().map(PathBuf::from).chain(own);
    for directory in all.chain(path.split(':').map(PathBuf::from)) {
        let is_seen = directories.iter().any(|seen| directory.starts_with(seen));
        if directory.parent().is_some() && directory.is_absolute() && directory.is_dir() && !is_seen
        {
            directories.push(directory);
        }
    }
    directories
}

/// Returns the directories of a program and of its libraries.
fn directories_of(program: &Path) -> Vec<PathBuf> {
    let libraries = Command::new("ldd").arg(program).stdin(Stdio::null()).output();
    let text = libraries.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    let libraries = text.iter().flat_map(|t| t.lines()).filter_map(library_directory);
    let own = [Some(absolute(program)), program.canonicalize().ok()];
    let own = own.iter().flatten().filter_map(|path| path.parent().map(Path::to_owned));
    own.chain(libraries).collect()
}

/// Returns the absolute path of a program; a name without a directory stays a name.
fn absolute(program: &Path) -> PathBuf {
    let is_name = program.parent().is_none_or(|parent| parent.as_os_str().is_empty());
    let path = std::path::absolute(program).ok().filter(|_| !is_name);
    path.unwrap_or_else(|| program.to_owned())
}

/// Returns the directory of the library in a line of `ldd`; `None` for the directories [`MERGED`],
/// which are part of `/usr`.
fn library_directory(line: &str) -> Option<PathBuf> {
    let path = Path::new(line.split_once(" => ")?.1.split(" (").next()?);
    let in_usr = MERGED.iter().any(|name| path.starts_with(Path::new("/").join(name)));
    path.parent().filter(|_| path.is_absolute() && !in_usr).map(Path::to_owned)
}

/// Returns the reason why a deployment is impossible on this machine, or `None`; blocks as
/// [`containers_refused`].
#[must_use]
pub fn deployment_refused(deployment: Deployment) -> Option<String> {
    if deployment.is_bare() {
        return None;
    }
    containers_refused().or_else(|| {
        let refuses = deployment == Deployment::ContainersWithoutFutexWaitv;
        refuses.then(|| seccomp::profile_without_call(EngineKind::Podman).err())?.map(|e| {
            format!("{e}; install the package golang-github-containers-common, which has it")
        })
    })
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
    let ends = Ends { programs: &[Path::new("/usr/bin/true")], of_peer: false };
    let tried =
        Containers::new(Deployment::Containers, &directory, &ends).and_then(|mut containers| {
            let out = containers.command(Path::new("true"))?.command.output().context(
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

#[cfg(test)]
#[path = "../../../tools/skipped.rs"]
mod skipped;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_outside_the_system_need_a_directory() {
        for (line, directory) in [
            ("\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f00)", None),
            ("\tlibown.so => /srv/lib/libown.so (0x00007f00)", Some("/srv/lib")),
            ("\tlibgone.so => not found", None),
            ("\tlinux-vdso.so.1 (0x00007ffd)", None),
            ("\tstatically linked", None),
        ] {
            assert_eq!(library_directory(line).as_deref(), directory.map(Path::new), "{line}");
        }
    }

    /// Number of `futex_waitv`, and the call of it without a valid argument.
    const CALL: &str = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); \
         libc.syscall(449, 0, 0, 0, 0, 0); print(ctypes.get_errno())";

    #[test]
    fn a_profile_refuses_the_call_and_the_other_allows_it() {
        let without = Deployment::ContainersWithoutFutexWaitv;
        if let Some(reason) = deployment_refused(without) {
            let remedy = "`make test-containers` installs Podman";
            super::skipped::skipped("profiles with and without futex_waitv", &reason, remedy);
            return;
        }
        // EINVAL from the kernel, ENOSYS from the profile.
        for (deployment, error) in [(Deployment::Containers, "22"), (without, "38")] {
            let dir = tempfile::tempdir().unwrap();
            let program = Path::new("/usr/bin/python3");
            let ends = Ends { programs: &[program], of_peer: false };
            let mut containers = Containers::new(deployment, dir.path(), &ends).unwrap();
            let mut command = containers.command(program).unwrap().command;
            let out = command.args(["-c", CALL]).output().unwrap();
            let errors = String::from_utf8_lossy(&out.stderr);
            assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), error, "{errors}");
        }
    }

    #[test]
    fn directories_are_mounted_once_and_by_absolute_paths() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real/program"), dir.path().join("link/program"));
        for path in [&real, &link] {
            std::fs::create_dir(path.parent().unwrap()).unwrap();
        }
        std::fs::write(&real, "").unwrap();
        symlink(&real, &link).unwrap();
        let mounted = read_only(&[&link]);
        assert!(mounted.iter().all(|path| path.is_absolute()), "{mounted:?}");
        for wanted in [Path::new("/usr"), real.parent().unwrap(), link.parent().unwrap()] {
            assert_eq!(mounted.iter().filter(|path| *path == wanted).count(), 1, "{mounted:?}");
        }
        assert_eq!(read_only(&[Path::new("/usr/bin/true")]), read_only(&[Path::new("true")]));
        assert_eq!(absolute(Path::new("true")), Path::new("true"));
        assert!(absolute(Path::new("peers/test")).ends_with("peers/test"));
        assert!(absolute(Path::new("peers/test")).is_absolute());
    }
}
