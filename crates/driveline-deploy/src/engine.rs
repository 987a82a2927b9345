// SPDX-License-Identifier: Apache-2.0
//! Podman or Docker, controlled by its command line.

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use thiserror::Error;

/// Time for an engine to answer to a first, short question.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Podman, which needs no daemon.
    Podman,
    /// Docker.
    Docker,
}

impl EngineKind {
    const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Returns the name of its program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// A working container engine.
#[derive(Clone, Debug)]
pub struct Engine {
    kind: EngineKind,
    program: PathBuf,
    /// Directory in which its commands run.
    directory: PathBuf,
}

/// Reason why there is no working engine, or why a command of the engine failed.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No engine is installed.
    #[error(
        "no container engine was found: install podman (`apt-get install podman`) or docker, or \
         name one with --engine"
    )]
    None,
    /// The named engine is unknown or not installed.
    #[error(
        "--engine {0}: this is no program whose name begins with podman or docker, in PATH or at \
         this path"
    )]
    Unknown(String),
    /// The engine does not work.
    #[error("{program} does not work: {text}; `{program} info` says more")]
    Broken {
        /// The program.
        program: String,
        /// Output of the engine.
        text: String,
    },
    /// The engine refused a command.
    #[error("`{command}` failed: {text}")]
    Refused {
        /// The command, shortened.
        command: String,
        /// Output of the engine.
        text: String,
    },
    /// The engine's answer cannot be parsed.
    #[error("the output of `{command}` cannot be parsed: {source}")]
    Answer {
        /// The command.
        command: String,
        /// Cause.
        source: serde_json::Error,
    },
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
}

/// Properties of an image, according to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFacts {
    /// Id: digest of the image's configuration, the same in every engine.
    pub id: String,
    /// Digest of its manifest, if the engine has one.
    pub digest: Option<String>,
    /// Architecture, in the words of Go: `amd64`, `arm64`.
    pub architecture: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedImage {
    id: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    repo_digests: Option<Vec<String>>,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    config: Option<InspectedConfig>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedConfig {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Engine {
    /// Returns the engine of this name, or the first one that works: Podman, then Docker. Runs the
    /// program of each engine that it tries, and waits for its answer, at most 60 s.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn find(named: Option<&str>) -> Result<Self, EngineError> {
        let Some(name) = named else {
            let mut first_broken = None;
            for kind in EngineKind::ALL {
                let Some(program) = in_path(kind.name()) else { continue };
                match Self::new(kind, program).answering() {
                    Ok(engine) => return Ok(engine),
                    Err(e) => drop(first_broken.get_or_insert(e)),
                }
            }
            return Err(first_broken.unwrap_or(EngineError::None));
        };
        let file = Path::new(name).file_name().unwrap_or(OsStr::new(name)).to_string_lossy();
        let kind = EngineKind::ALL.into_iter().find(|k| file.starts_with(k.name()));
        let program = if name.contains('/') {
            std::path::absolute(name).ok().filter(|p| p.is_file())
        } else {
            in_path(name)
        };
        match (kind, program) {
            (Some(kind), Some(program)) => Self::new(kind, program).answering(),
            _ => Err(EngineError::Unknown(name.to_owned())),
        }
    }

    fn new(kind: EngineKind, program: PathBuf) -> Self {
        Self { kind, program, directory: "/".into() }
    }

    /// Sets the directory in which its commands run. Podman's monitor of a container writes a file
    /// `oom` into it when the container reaches its memory limit.
    #[must_use]
    pub fn in_directory(self, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..self }
    }

    /// Returns an engine that runs no commands, for tests.
    #[cfg(test)]
    pub(crate) fn of_kind(kind: EngineKind) -> Self {
        Self::new(kind, kind.name().into())
    }

    /// Returns the kind of the engine.
    #[must_use]
    pub fn kind(&self) -> EngineKind {
        self.kind
    }

    /// Returns the command with these arguments, to show or to start.
    #[must_use]
    pub fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.directory).stdin(Stdio::null());
        // Ctrl-C on a terminal must stop the launcher only, not the engine.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    fn answering(self) -> Result<Self, EngineError> {
        let version = ["version", "--format", "{{.Client.Version}} {{.Server.Version}}"];
        let arguments: Vec<&str> = match self.kind {
            EngineKind::Podman => vec!["info", "--format", "{{.Version.Version}}"],
            // The client would answer even without its daemon.
            EngineKind::Docker => version.to_vec(),
        };
        match self.ask_within(&arguments, Some(ANSWERS_WITHIN)) {
            Ok(_) => Ok(self),
            Err(EngineError::Refused { text, .. }) => {
                Err(EngineError::Broken { program: self.program.display().to_string(), text })
            }
            Err(e) => Err(e),
        }
    }

    /// Runs a command and returns its output. Blocks.
    ///
    /// # Errors
    /// [`EngineError`], with its standard error.
    pub fn ask<S: AsRef<str>>(&self, arguments: &[S]) -> Result<String, EngineError> {
        self.ask_within(arguments, None)
    }

    fn ask_within<S: AsRef<str>>(
        &self,
        arguments: &[S],
        within: Option<Duration>,
    ) -> Result<String, EngineError> {
        let arguments: Vec<String> = arguments.iter().map(|a| a.as_ref().to_owned()).collect();
        let program = || self.program.display().to_string();
        let out = output(self.command(&arguments), within)
            .map_err(|source| EngineError::Start { program: program(), source })?;
        let Some(out) = out else {
            let within = within.unwrap_or_default().as_secs();
            let text = format!("it did not answer within {within} s");
            return Err(EngineError::Broken { program: program(), text });
        };
        if out.status.success() {
            return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
        }
        Err(EngineError::Refused {
            command: shortened(self.kind, &arguments),
            text: said(&out.stderr),
        })
    }

    /// Returns the properties of an image; `None` if there is no image of this name. Blocks.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn image(&self, name: &str) -> Result<Option<ImageFacts>, EngineError> {
        match self.ask(&["image", "inspect", name]) {
            Ok(text) => {
                let command = format!("{} image inspect {name}", self.kind.name());
                facts_of(&text).map_err(|source| EngineError::Answer { command, source })
            }
            Err(EngineError::Refused { text, .. }) if is_missing(&text) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Loads an image from an archive. Blocks.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn load(&self, archive: &Path) -> Result<(), EngineError> {
        self.ask(&["load", "--quiet", "--input", &archive.display().to_string()]).map(drop)
    }
}

/// Runs a command and returns its output; `None` if it was killed because it took too long.
fn output(mut command: Command, within: Option<Duration>) -> io::Result<Option<Output>> {
    let Some(within) = within else { return command.output().map(Some) };
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pid = Pid::from_child(&child);
    let (done, wait) = mpsc::channel();
    std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || done.send(child.wait_with_output()).is_ok())?;
    match wait.recv_timeout(within) {
        Ok(out) => out.map(Some),
        Err(_) => {
            // The process id is still valid, unless the process ended at this very moment: the
            // thread reaps the process and then sends its output at once.
            let _ = kill_process(pid, Signal::KILL);
            Ok(None)
        }
    }
}

fn facts_of(text: &str) -> Result<Option<ImageFacts>, serde_json::Error> {
    let images: Vec<InspectedImage> = serde_json::from_str(text)?;
    Ok(images.into_iter().next().map(|i| {
        let named = i.repo_digests.unwrap_or_default().into_iter().next();
        let digest = named
            .and_then(|d| d.split_once('@').map(|(_, digest)| digest.to_owned()))
            .or(Some(i.digest).filter(|d| !d.is_empty()));
        let id = i.id.strip_prefix("sha256:").unwrap_or(&i.id).to_owned();
        let labels = i.config.and_then(|c| c.labels).unwrap_or_default();
        ImageFacts { id, digest, architecture: i.architecture, labels }
    }))
}

fn is_missing(text: &str) -> bool {
    let text = text.to_lowercase();
    ["no such image", "image not known", "no such object"].iter().any(|part| text.contains(part))
}

/// Returns the last lines of an output, without the warnings that every command prints.
pub(crate) fn said(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.contains("level=warning"))
        .collect();
    let last = lines.len().saturating_sub(4);
    let text = lines[last..].join("; ");
    if text.is_empty() { "it does not say why".to_owned() } else { text }
}

fn shortened(kind: EngineKind, arguments: &[String]) -> String {
    let all = format!("{} {}", kind.name(), arguments.join(" "));
    let short: String = all.chars().take(120).collect();
    if short.len() < all.len() { format!("{short} …") } else { short }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|d| d.join(name)).find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_an_image_are_read_from_both_engines() {
        let podman = concat!(
            r#"[{"Id":"ab","Digest":"sha256:12","RepoTags":["x"],"#,
            r#""RepoDigests":["localhost/x@sha256:12"],"Architecture":"amd64","#,
            r#""Config":{"Labels":{"a":"b"}}}]"#,
        );
        let docker = concat!(
            r#"[{"Id":"sha256:ab","RepoDigests":[],"Architecture":"arm64","#,
            r#""Config":{"Labels":null}}]"#,
        );
        let facts = facts_of(podman).unwrap().unwrap();
        assert_eq!((facts.id.as_str(), facts.digest.as_deref()), ("ab", Some("sha256:12")));
        assert_eq!(facts.labels["a"], "b");
        let facts = facts_of(docker).unwrap().unwrap();
        assert_eq!(
            (facts.id.as_str(), facts.digest, facts.architecture.as_str()),
            ("ab", None, "arm64")
        );
        assert_eq!(facts_of("[]").unwrap(), None);
    }

    #[test]
    fn a_missing_image_is_no_error_and_another_refusal_is() {
        assert!(is_missing("Error: inspecting object: localhost/x: image not known"));
        assert!(is_missing("Error response from daemon: No such image: x:latest"));
        assert!(!is_missing("permission denied while trying to connect to the docker API"));
    }

    #[test]
    fn what_an_engine_says_is_shortened_to_its_reason() {
        let text = said(b"time=\"x\" level=warning msg=\"CNI\"\n\nError: no space left\n");
        assert_eq!(text, "Error: no space left");
        assert_eq!(said(b""), "it does not say why");
    }

    #[test]
    fn an_engine_that_is_not_there_is_an_error_with_its_name() {
        let text = Engine::find(Some("podman-of-nowhere")).unwrap_err().to_string();
        assert!(text.contains("podman-of-nowhere"), "{text}");
        let text = Engine::find(Some("sh")).unwrap_err().to_string();
        assert!(text.contains("podman or docker"), "{text}");
    }
}
