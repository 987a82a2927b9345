// SPDX-License-Identifier: Apache-2.0
//! Gateway as a program: source of its configuration, report of its start, and causes of its end.
//!
//! `driveline run` starts it with `--account-stdin`. Standard input is then a socket: the first
//! line is the configuration, and the end of the socket ends the gateway. Started by hand, the
//! program reads the configuration from a file. In both cases, a signal (SIGTERM, SIGINT, SIGHUP)
//! ends the gateway, and so does an error after which it cannot continue.

use super::line_limit::{LineLimit, LineVerdict};
use driveline_graph::{clean, closest};
use driveline_runtime::account::Record;
use driveline_runtime::launch::Build;
use driveline_runtime::launch::control::remove_of_dead_launcher;
use serde::de::DeserializeOwned;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Version of Driveline, which all its programs share.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum length of a configuration, in bytes.
const MAX_CONFIG_LEN: u64 = 4 << 20;
/// Exit code for invalid arguments, as of `driveline`.
const MISUSED: u8 = 2;
/// Argument with which a run starts the program.
pub(super) const FROM_RUN: &str = "--account-stdin";
/// Period at which log lines are collected.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of log lines per minute.
const NOTICES: u32 = 512;

/// Gateway that can be a program. Dropping it ends it.
pub trait Gateway: Sized {
    /// Configuration of the gateway.
    type Config: DeserializeOwned;
    /// Error at its start.
    type Error: Display;
    /// Commit that it was built from, for `--version`.
    const COMMIT: &'static str;
    /// Purpose of the gateway, and keys of its configuration.
    const ABOUT: &'static str;
    /// Returns environment variables that its libraries read: names and values. Existing values are
    /// kept. A launcher has set them already.
    #[must_use]
    fn environment(_config: &Self::Config) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// Starts it; returns once it takes part.
    ///
    /// # Errors
    /// Text for the person who started it.
    fn start(config: Self::Config) -> Result<Self, Self::Error>;

    /// Returns the line that reports its start.
    fn greeting(&self) -> String;

    /// Returns the log lines since the last call.
    fn take_notices(&self) -> Vec<String>;

    /// Returns the reason if the gateway cannot continue. The program then ends with this error,
    /// and the launcher can restart it.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns a summary of the run, which is logged once before the gateway ends.
    fn farewell(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Runs the program `name`: reads its arguments, and returns when the gateway has ended.
pub fn serve<G: Gateway>(name: &str) -> ExitCode {
    let usage = || {
        format!(
            "usage: {name} CONFIG.json\n       {name} --version\n\n{} While it runs, `driveline \
             gateway list --explain` says what it carries, and why not.",
            G::ABOUT
        )
    };
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let result = match arguments.as_slice() {
        [flag] if flag == "--help" || flag == "-h" => {
            println!("{}", usage());
            return ExitCode::SUCCESS;
        }
        [flag] if flag == "--version" || flag == "-V" => {
            println!("{name} {}", Build { version: VERSION.into(), commit: G::COMMIT.into() });
            return ExitCode::SUCCESS;
        }
        [flag] if flag == FROM_RUN => from_launcher::<G>(None),
        [flag, control, path] if flag == FROM_RUN && control == "--control" => {
            from_launcher::<G>(Some(Path::new(path)))
        }
        [path] => from_file::<G>(path),
        _ => {
            eprintln!("error: {}", usage());
            return ExitCode::from(MISUSED);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { text, reported }) => {
            // The launcher reports the failure.
            if !reported {
                eprintln!("error: {text}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Reason why the gateway did not start, or ended.
struct Failure {
    text: String,
    /// True if the launcher has been notified.
    reported: bool,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, reported: false }
    }
}

/// Returns when all these variables are set. A process cannot change its own environment safely. So
/// if one is missing, the process executes this program again, with the same process id and open
/// files.
fn with_environment(variables: &[(&str, &str)]) -> Result<(), String> {
    let missing = variables.iter().filter(|(name, _)| std::env::var_os(name).is_none());
    let mut missing = missing.peekable();
    if missing.peek().is_none() {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let program =
        std::env::current_exe().map_err(|e| format!("cannot find this program's own file: {e}"))?;
    let mut again = Command::new(&program);
    again.arg0(arguments.next().unwrap_or_default()).args(arguments).envs(missing.copied());
    Err(format!("cannot start {} again: {}", program.display(), again.exec()))
}

fn parse<C: DeserializeOwned>(text: &str) -> Result<C, String> {
    let refused = |why: String| for_people(format!("the configuration cannot be read: {why}"));
    // serde would also accept a list, as the values of the keys in their order.
    if serde_json::from_str::<Value>(text).is_ok_and(|value| !value.is_object()) {
        return Err(refused("it is no JSON object: `{\"domain\": …}`".into()));
    }
    serde_json::from_str(text).map_err(|e| {
        let why = e.to_string();
        refused(format!("{why}{}", meant(&why)))
    })
}

/// Suggests the intended name: serde's error has the unknown name first, then the valid ones.
fn meant(why: &str) -> String {
    let mut names = why.split('`').skip(1).step_by(2);
    let given = names.next().filter(|_| why.starts_with("unknown "));
    given
        .and_then(|given| closest(given, names))
        .map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}

fn from_file<G: Gateway>(path: &str) -> Result<(), Failure> {
    let read = || {
        let mut text = String::new();
        std::fs::File::open(path)?.take(MAX_CONFIG_LEN + 1).read_to_string(&mut text)?;
        let too_long = text.len() as u64 > MAX_CONFIG_LEN;
        if too_long {
            Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it is longer than {MAX_CONFIG_LEN} bytes"),
            ))
        } else {
            Ok(text)
        }
    };
    let config = parse(&read().map_err(|e| format!("cannot read {path}: {e}"))?)?;
    with_environment(&G::environment(&config))?;
    run::<G>(config, None)
}

/// Runs with a configuration from the launcher. `control`: the launcher's control socket, removed
/// at the end if the launcher has died.
fn from_launcher<G: Gateway>(control: Option<&Path>) -> Result<(), Failure> {
    let stdin = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|e| format!("standard input: {e}"))?;
    let mut launcher = UnixStream::from(stdin);
    let watched = launcher.try_clone().map_err(|e| e.to_string())?;
    let mut reader = BufReader::new(launcher.try_clone().map_err(|e| e.to_string())?);
    let mut line = String::new();
    Read::by_ref(&mut reader)
        .take(MAX_CONFIG_LEN)
        .read_line(&mut line)
        .map_err(|e| format!("no configuration came: {e}"))?;
    let whole = line.ends_with('\n') || (line.len() as u64) < MAX_CONFIG_LEN;
    let config = match if whole {
        parse(&line)
    } else {
        Err(format!("the configuration is longer than {MAX_CONFIG_LEN} bytes"))
    } {
        Ok(config) => config,
        Err(text) => {
            let reported = say(&mut launcher, &Record::Failed { call: None, text: text.clone() });
            return Err(Failure { text, reported });
        }
    };
    let ran = run::<G>(config, Some((launcher, reader)));
    remove_of_dead_launcher(control, &watched);
    ran
}

/// Returns text for a terminal: no control characters except line ends.
fn for_people(text: impl Display) -> String {
    text.to_string().lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// Sends a record. Returns true if it could be written. [`until_end`] notices a launcher that has
/// ended, so callers may ignore the result.
fn say(launcher: &mut UnixStream, record: &Record) -> bool {
    serde_json::to_string(record)
        .is_ok_and(|line| launcher.write_all((line + "\n").as_bytes()).is_ok())
}

fn run<G: Gateway>(
    config: G::Config,
    launcher: Option<(UnixStream, BufReader<UnixStream>)>,
) -> Result<(), Failure> {
    let (ended, wait) = channel();
    listen_for_signals(ended.clone()).map_err(|e| format!("cannot listen for signals: {e}"))?;
    let (mut to_launcher, from_launcher) =
        launcher.map_or((None, None), |(a, b)| (Some(a), Some(b)));
    let gateway = match G::start(config) {
        Ok(gateway) => gateway,
        Err(e) => {
            let text = for_people(e);
            let reported = to_launcher.as_mut().is_some_and(|launcher| {
                say(launcher, &Record::Failed { call: None, text: text.clone() })
            });
            return Err(Failure { text, reported });
        }
    };
    if let Some(reader) = from_launcher {
        std::thread::spawn(move || until_end(reader, &ended));
    }
    log(&gateway.greeting());
    if let Some(launcher) = &mut to_launcher {
        say(launcher, &Record::Ready);
    }
    until_over(&gateway, &wait, to_launcher.as_mut())
}

/// Logs the gateway's lines until it is ended, or cannot continue.
fn until_over<G: Gateway>(
    gateway: &G,
    wait: &Receiver<()>,
    launcher: Option<&mut UnixStream>,
) -> Result<(), Failure> {
    let mut limit = LineLimit::new(NOTICES);
    loop {
        let over = wait.recv_timeout(LOG_EVERY) != Err(RecvTimeoutError::Timeout);
        let failure = gateway.failure().filter(|_| !over);
        at_most(gateway.take_notices(), &mut limit, Instant::now())
            .iter()
            .for_each(|line| log(line));
        if over || failure.is_some() {
            gateway.farewell().iter().for_each(|line| log(line));
        }
        match failure.map(for_people) {
            Some(text) => {
                let reported = launcher.is_some_and(|launcher| {
                    say(launcher, &Record::Failed { call: None, text: text.clone() })
                });
                return Err(Failure { text, reported });
            }
            None if over => return Ok(()),
            None => {}
        }
    }
}

/// Returns the lines to show, and a note on the others.
fn at_most(notices: Vec<String>, limit: &mut LineLimit, now: Instant) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for notice in notices {
        let verdict = limit.line(now);
        shown.extend((verdict != LineVerdict::Withheld).then_some(notice));
        let no_more = "this gateway logs no more lines in this minute; `driveline gateway list` \
             shows its state";
        shown.extend((verdict == LineVerdict::Last).then(|| no_more.to_owned()));
    }
    shown.extend(
        limit
            .withheld(now)
            .map(|lines| format!("{lines} lines were not shown, because there were too many")),
    );
    shown
}

/// Writes a line to standard output. A closed standard output does not end the gateway. Control
/// characters become blanks, because lines contain names of other hosts.
fn log(line: &str) {
    let _ = write_line(&mut io::stdout(), line);
}

fn write_line(out: &mut impl Write, line: &str) -> io::Result<()> {
    writeln!(out, "{}", clean(line))
}

fn listen_for_signals(ended: Sender<()>) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::spawn(move || {
        signals.forever().next();
        let _ = ended.send(());
    });
    Ok(())
}

/// Waits for the end of the launcher, which ends the gateway. A message after the configuration
/// (`go`) is ignored.
fn until_end(mut reader: BufReader<UnixStream>, ended: &Sender<()>) {
    let mut buffer = [0; 64];
    while matches!(reader.read(&mut buffer), Ok(n) if n > 0) {}
    let _ = ended.send(());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::GatewayConfig;

    /// Gateway that fails from its start.
    struct Broken;

    impl Gateway for Broken {
        type Config = GatewayConfig;
        type Error = String;
        const COMMIT: &'static str = "abc";
        const ABOUT: &'static str = "";

        fn start(_: GatewayConfig) -> Result<Self, String> {
            Ok(Self)
        }

        fn greeting(&self) -> String {
            String::new()
        }

        fn take_notices(&self) -> Vec<String> {
            Vec::new()
        }

        fn failure(&self) -> Option<String> {
            Some("it cannot wait".into())
        }
    }

    #[test]
    fn a_gateway_that_cannot_continue_ends_with_the_reason_and_notifies_its_launcher() {
        let (ended, wait) = channel();
        let by_hand = until_over(&Broken, &wait, None).unwrap_err();
        assert_eq!((by_hand.text.as_str(), by_hand.reported), ("it cannot wait", false));
        let (mut launcher, heard) = UnixStream::pair().unwrap();
        assert!(until_over(&Broken, &wait, Some(&mut launcher)).unwrap_err().reported);
        let mut line = String::new();
        BufReader::new(heard).read_line(&mut line).unwrap();
        assert_eq!(
            serde_json::from_str::<Record>(&line).unwrap(),
            Record::Failed { call: None, text: "it cannot wait".into() }
        );
        // A gateway that was asked to end has no failure.
        ended.send(()).unwrap();
        assert!(until_over(&Broken, &wait, None).is_ok());
    }

    #[test]
    fn foreign_names_neither_control_a_terminal_nor_make_lines() {
        let mut out = Vec::new();
        write_line(&mut out, "topic '\x1b[2J\nall is well' is refused").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "topic ' [2J all is well' is refused\n");
    }

    #[test]
    fn log_lines_are_limited_to_a_readable_number() {
        let (mut limit, start) = (LineLimit::new(2), Instant::now());
        let lines = at_most(["a", "b", "c", "d"].map(String::from).into(), &mut limit, start);
        assert!(
            matches!(lines.as_slice(), [a, b, no_more]
                if a == "a" && b == "b" && no_more.contains("gateway list")),
            "{lines:?}"
        );
        let later = at_most(vec!["e".into()], &mut limit, start + Duration::from_secs(60));
        assert_eq!(later, ["e", "2 lines were not shown, because there were too many"]);
    }

    #[test]
    fn an_unreadable_configuration_is_reported_with_a_suggestion() {
        let reported = |text: &str| parse::<GatewayConfig>(text).unwrap_err();
        let misspelt = reported(
            r#"{"domain": "d", "domain_dir": "/d", "network": {"lissten": []}, "topics": []}"#,
        );
        assert!(
            misspelt.contains("unknown field `lissten`")
                && misspelt.contains("did you mean `listen`?"),
            "{misspelt}"
        );
        let strange = reported(r#"{"domain": "d", "colour": 1}"#);
        assert!(
            strange.contains("unknown field `colour`, expected one of `domain`")
                && !strange.contains("did you mean"),
            "{strange}"
        );
        for list in ["[]", "1", "null", "[\"car\", \"/d\", {}, []]"] {
            assert_eq!(
                reported(list),
                "the configuration cannot be read: it is no JSON object: `{\"domain\": …}`",
                "{list}"
            );
        }
        assert!(reported("{").contains("line 1 column 1"), "{}", reported("{"));
    }
}
