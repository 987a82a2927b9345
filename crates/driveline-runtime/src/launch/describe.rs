// SPDX-License-Identifier: Apache-2.0
//! Finds `driveline-host`, and asks it for the classes of a library.

use driveline_graph::descriptor::ComponentClass;
use driveline_graph::{Describe, DescribeError, Environment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Environment variable with the path of the program that runs modules.
pub const HOST: &str = "DRIVELINE_HOST";
const NAME: &str = "driveline-host";
/// Environment variable with the path of the program that carries topics to other hosts.
pub const GATEWAY: &str = "DRIVELINE_GATEWAY";
const GATEWAY_NAME: &str = "driveline-gateway-zenoh";
/// Environment variable with the path of the program that exchanges topics with ROS 2 nodes.
pub const ROS2_GATEWAY: &str = "DRIVELINE_ROS2_GATEWAY";
const ROS2_GATEWAY_NAME: &str = "driveline-gateway-ros2";
const BUILD_GATEWAYS: &str =
    "build it with `make gateways` (into build/bin) and put it next to this program";

/// Longest description of a library that is read.
const MAX_BYTES: usize = 8 << 20;
/// Time for loading a library and everything that it links.
const TIME_OUT: Duration = Duration::from_secs(20);

/// A program of Driveline was not found.
#[derive(Debug, Error)]
pub struct ProgramNotFound {
    /// Its name.
    pub name: &'static str,
    /// Another remedy, as a clause.
    pub remedy: &'static str,
    /// The environment variable that can name it.
    pub variable: &'static str,
    /// Paths that were searched.
    pub searched: Vec<PathBuf>,
    /// True if the variable names it: then only that path was searched.
    pub named: bool,
}

impl fmt::Display for ProgramNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, remedy, variable, searched, named } = self;
        let places =
            searched.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        if *named {
            let what = if searched.iter().any(|p| p.exists()) {
                "that is no file"
            } else {
                "nothing is there"
            };
            write!(
                f,
                "{variable} names {places} as the program {name}, and {what}; correct {variable}, \
                 or unset it and {remedy}"
            )
        } else {
            write!(
                f,
                "the program {name} was not found (searched: {places}); {remedy}, or name it in \
                 {variable}"
            )
        }
    }
}

/// Finds the program that runs modules: the one in [`HOST`], next to this program, in `../libexec`
/// or in `../libexec/driveline`.
///
/// # Errors
/// [`ProgramNotFound`].
pub fn find_host() -> Result<PathBuf, ProgramNotFound> {
    find(NAME, "install Driveline", HOST)
}

/// Finds the program that carries topics to other hosts: the one in [`GATEWAY`], next to this
/// program, in `../libexec` or in `../libexec/driveline`. It is built apart from the others.
///
/// # Errors
/// [`ProgramNotFound`].
pub fn find_gateway() -> Result<PathBuf, ProgramNotFound> {
    find(GATEWAY_NAME, BUILD_GATEWAYS, GATEWAY)
}

/// Finds the program that exchanges topics with ROS 2 nodes: the one in [`ROS2_GATEWAY`], next to
/// this program, in `../libexec` or in `../libexec/driveline`. It is built apart from the others.
///
/// # Errors
/// [`ProgramNotFound`].
pub fn find_ros2_gateway() -> Result<PathBuf, ProgramNotFound> {
    find(ROS2_GATEWAY_NAME, BUILD_GATEWAYS, ROS2_GATEWAY)
}

fn find(
    name: &'static str,
    remedy: &'static str,
    variable: &'static str,
) -> Result<PathBuf, ProgramNotFound> {
    found(
        name,
        remedy,
        variable,
        std::env::var_os(variable).filter(|p| !p.is_empty()).map(PathBuf::from),
    )
}

fn found(
    name: &'static str,
    remedy: &'static str,
    variable: &'static str,
    given: Option<PathBuf>,
) -> Result<PathBuf, ProgramNotFound> {
    let named = given.is_some();
    let searched: Vec<PathBuf> = match given {
        Some(path) => vec![path],
        None => std::env::current_exe()
            .ok()
            .and_then(|exe| exe.canonicalize().ok())
            .and_then(|exe| exe.parent().map(Path::to_owned))
            .map(|bin| {
                vec![
                    bin.join(name),
                    bin.join("../libexec").join(name),
                    bin.join("../libexec/driveline").join(name),
                ]
            })
            .unwrap_or_default(),
    };
    searched.iter().find(|p| p.is_file()).cloned().ok_or(ProgramNotFound {
        name,
        remedy,
        variable,
        searched,
        named,
    })
}

/// Asks `driveline-host` for the classes of a library, or whether several libraries can be loaded
/// into one process. It runs in a separate process, so that a broken library harms no other
/// process. Each call blocks, at most some 20 s.
#[derive(Clone, Debug)]
pub struct HostDescriber {
    host: PathBuf,
    time_out: Duration,
}

impl HostDescriber {
    /// Creates a describer with the program at `host`.
    #[must_use]
    pub fn new(host: PathBuf) -> Self {
        Self { host, time_out: TIME_OUT }
    }
}

impl Describe for HostDescriber {
    fn describe(
        &self,
        library: &Path,
        environment: &Environment,
    ) -> Result<Vec<ComponentClass>, DescribeError> {
        let plain = |reason: String| DescribeError { reason, help: None };
        let mut command = Command::new(&self.host);
        command
            .arg("describe")
            .arg(library)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().map_err(|e| DescribeError {
            reason: format!("cannot start {}: {e}", self.host.display()),
            help: Some(format!(
                "it loads libraries on behalf of this program; {HOST} can name another one"
            )),
        })?;
        let seen = watch(child, self.time_out).map_err(plain)?;
        let said = String::from_utf8_lossy(&seen.err);
        let said = said.trim();
        if !seen.status.success() {
            let how = super::death::how_it_ended(seen.status);
            let reason = if said.is_empty() {
                format!("asked for its classes, the host {how}")
            } else {
                said.to_owned()
            };
            let help = seen.status.code().is_none().then(|| {
                "code that runs when the library is loaded crashes; look for global objects"
                    .to_owned()
            });
            return Err(DescribeError { reason, help });
        }
        serde_json::from_slice(&seen.out).map_err(|e| DescribeError {
            reason: format!("its description is not understood: {e}"),
            help: Some("build the library and Driveline from the same release".into()),
        })
    }

    fn together(
        &self,
        paths: &[PathBuf],
        environment: &Environment,
    ) -> Result<(), (usize, DescribeError)> {
        self.tried_together(paths, environment)
    }
}

impl HostDescriber {
    fn tried_together(
        &self,
        paths: &[PathBuf],
        environment: &Environment,
    ) -> Result<(), (usize, DescribeError)> {
        let first = |reason: String| (0, DescribeError { reason, help: None });
        let mut command = Command::new(&self.host);
        command
            .arg("load")
            .args(paths)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|e| first(format!("cannot start {}: {e}", self.host.display())))?;
        let seen = watch(child, self.time_out).map_err(first)?;
        if seen.status.success() {
            return Ok(());
        }
        // One line for each library that it loads; libraries may print as well.
        let out = String::from_utf8_lossy(&seen.out);
        let begun = out
            .lines()
            .filter(|line| paths.iter().any(|p| line.strip_prefix("loading ") == p.to_str()))
            .count();
        let said = String::from_utf8_lossy(&seen.err);
        let how = super::death::how_it_ended(seen.status);
        let reason = match (said.trim(), seen.status.code()) {
            ("", _) => format!("the process that loads them {how}"),
            (said, Some(_)) => said.to_owned(),
            (said, None) => format!("{said}; the process that loads them {how}"),
        };
        Err((begun.saturating_sub(1), DescribeError { reason, help: None }))
    }
}

pub(super) struct Seen {
    pub(super) status: std::process::ExitStatus,
    pub(super) out: Vec<u8>,
    pub(super) err: Vec<u8>,
}

/// Reads both outputs of a process until they end, within bounds of time and size.
pub(super) fn watch(mut child: Child, time_out: Duration) -> Result<Seen, String> {
    let deadline = Instant::now() + time_out;
    let result = collect(&mut child, deadline);
    if result.is_err() {
        let _ = child.kill();
    }
    // Normally the process ends with its outputs. If it runs on, it is killed 1 s after the
    // time-out.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline + Duration::from_secs(1) => {
                std::thread::sleep(Duration::from_millis(2))
            }
            Ok(None) => {
                let _ = child.kill();
                break child.wait().map_err(|e| e.to_string())?;
            }
            Err(e) => return Err(e.to_string()),
        }
    };
    let (out, err) = result?;
    Ok(Seen { status, out, err })
}

fn collect(child: &mut Child, deadline: Instant) -> Result<(Vec<u8>, Vec<u8>), String> {
    let mut open: Vec<(usize, std::fs::File)> = Vec::new();
    open.extend(child.stdout.take().map(|p| (0, std::fs::File::from(OwnedFd::from(p)))));
    open.extend(child.stderr.take().map(|p| (1, std::fs::File::from(OwnedFd::from(p)))));
    let mut texts = [Vec::new(), Vec::new()];
    let mut buffer = vec![0u8; 64 * 1024];
    while !open.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("loading it takes too long".into());
        }
        let left =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds: Vec<PollFd<'_>> =
            open.iter().map(|(_, f)| PollFd::from_borrowed_fd(f.as_fd(), PollFlags::IN)).collect();
        match poll(&mut fds, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.to_string()),
        }
        let ready: Vec<bool> = fds.iter().map(|f| !f.revents().is_empty()).collect();
        let mut at = 0;
        for ready in ready {
            let (which, file) = &mut open[at];
            let ended = ready
                && match file.read(&mut buffer) {
                    Ok(0) | Err(_) => true,
                    Ok(n) => {
                        texts[*which].extend_from_slice(&buffer[..n]);
                        false
                    }
                };
            if texts.iter().any(|t| t.len() > MAX_BYTES) {
                return Err(format!("its description has more than {MAX_BYTES} bytes"));
            }
            if ended {
                open.remove(at);
            } else {
                at += 1;
            }
        }
    }
    let [out, err] = texts;
    Ok((out, err))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_missing_at_the_path_of_its_variable_is_reported_with_the_variable() {
        let told = |path: &str| {
            found("driveline-x", "build it", "DRIVELINE_X", Some(path.into()))
                .unwrap_err()
                .to_string()
        };
        let remedy = "correct DRIVELINE_X, or unset it and build it";
        assert_eq!(
            told("/nope"),
            format!(
                "DRIVELINE_X names /nope as the program driveline-x, and nothing is there; {remedy}"
            )
        );
        assert_eq!(
            told("/proc"),
            format!(
                "DRIVELINE_X names /proc as the program driveline-x, and that is no file; {remedy}"
            )
        );
        let text = found("driveline-x", "build it", "DRIVELINE_X", None).unwrap_err().to_string();
        assert!(
            text.starts_with("the program driveline-x was not found (searched: /")
                && text.ends_with("; build it, or name it in DRIVELINE_X")
        );
    }
    use std::io::Write;

    fn describe(script: &str, time_out: Duration) -> Result<Vec<ComponentClass>, DescribeError> {
        with_host(script, time_out, |host, environment| {
            host.describe(Path::new("libx.so"), environment)
        })
    }

    fn with_host<T>(
        script: &str,
        time_out: Duration,
        ask: impl FnOnce(&HostDescriber, &Environment) -> T,
    ) -> T {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("host");
        // Written by another process: a program that this process holds open for writing cannot be
        // executed by a process forked meanwhile.
        let write = ["-c", r#"cat > "$0" && chmod 755 "$0""#];
        let mut child =
            Command::new("sh").args(write).arg(&host).stdin(Stdio::piped()).spawn().unwrap();
        write!(child.stdin.take().unwrap(), "#!/bin/sh\n{script}\n").unwrap();
        assert!(child.wait().unwrap().success());
        let environment = [("WHERE".to_owned(), "in the module".to_owned())].into();
        ask(&HostDescriber { host, time_out }, &environment)
    }

    #[test]
    fn of_libraries_that_cannot_be_loaded_together_the_last_one_begun_is_named() {
        let load = |script: &str| {
            let paths: Vec<PathBuf> = ["a.so", "b.so", "c.so"].map(PathBuf::from).into();
            with_host(script, Duration::from_secs(20), |host, environment| {
                host.together(&paths, environment)
            })
        };
        assert_eq!(load("test \"$1 $2 $4 $WHERE\" = 'load a.so c.so in the module'"), Ok(()));
        let failed = |script: &str| load(script).map_err(|(at, e)| (at, e.reason)).unwrap_err();
        let (at, reason) = failed(
            "echo 'loading a.so'; echo words of a library; echo 'loading b.so'; echo 'twice' >&2; \
             exit 1",
        );
        assert_eq!((at, reason.as_str()), (1, "twice"));
        let (at, reason) = failed(
            "echo 'loading a.so'; echo 'loading b.so'; echo 'loading c.so'; echo no >&2; kill \
             -SEGV $$",
        );
        assert!(at == 2 && reason.starts_with("no; ") && reason.contains("SIGSEGV"), "{reason}");
        assert!(failed("exit 7").1.contains("code 7"));
    }

    #[test]
    fn descriptions_are_read_and_failures_say_why() {
        let long = Duration::from_secs(20);
        let classes =
            describe("test \"$1 $2\" = 'describe libx.so' && echo '[{\"name\":\"Lane\"}]'", long)
                .unwrap();
        assert_eq!(classes[0].name, "Lane");
        for (script, word) in [
            ("echo 'undefined symbol: foo' >&2; exit 1", "undefined symbol: foo"),
            ("echo '[{]'", "not understood"),
            ("kill -SEGV $$", "SIGSEGV"),
            ("exit 7", "code 7"),
            ("echo \"$WHERE\" >&2; exit 1", "in the module"),
            ("yes", "more than"),
        ] {
            let e = describe(script, long).unwrap_err();
            assert!(e.reason.contains(word), "{script}: {e}");
        }
    }

    #[test]
    fn a_library_that_hangs_is_given_up() {
        assert!(
            describe("exec sleep 60", Duration::from_millis(100))
                .unwrap_err()
                .reason
                .contains("too long")
        );
    }
}
