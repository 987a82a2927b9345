// SPDX-License-Identifier: Apache-2.0
//! Arguments of `driveline-host`.

use super::run::HostOptions;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Default time for a module to stop.
const STOP_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// Usage text of `driveline-host`.
pub const USAGE: &str = "\
usage: HOST run --graph GRAPH --module NAME [--set component.parameter=value]...
                [--stop-within-ms N] [--carried TOPIC,TOPIC...] [--default-user UID]
                [--account-stdin | --account-socket PATH] [--control PATH]
       HOST contain --account-socket PATH ...
       HOST hold --launcher-socket PATH
       HOST describe LIBRARY
       HOST load LIBRARY...

run       runs one module of a graph in this process until SIGINT, SIGTERM or its own end;
          what has not stopped after 5 s (--stop-within-ms) is left behind; with --default-user,
          modules run as the users that the graph names, and as this one where it names none;
          if the launcher dies, its socket (--control) is removed; --carried names the topics of
          which a gateway may hold one sample; without it, and if the graph has keys of gateways,
          these are all topics that leave the process
contain   is the first process of a container: starts `run` with the same arguments, passes on
          signals, reports to the launcher what the module prints, what memory the container
          uses, and how the module ends
hold      is the first process of a container into which modules are started one by one; ends on
          SIGTERM
describe  prints the component classes of a library as JSON
load      loads libraries into one process, and says at which one that fails

People usually want `driveline run GRAPH`, which starts this program for each module.";

pub(super) enum Command {
    Run(HostOptions),
    /// Arguments for `run`, and the options parsed from them.
    Contain(Vec<OsString>, HostOptions),
    Hold(PathBuf),
    Describe {
        library: PathBuf,
    },
    Load {
        libraries: Vec<PathBuf>,
    },
    Help,
}

pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut rest = arguments.into_iter();
    let command = rest.next().ok_or("error: no command given")?;
    match command.to_str() {
        Some("run") => {}
        Some("contain") => {
            let arguments: Vec<OsString> = std::iter::once("run".into()).chain(rest).collect();
            return match parse(arguments.clone())? {
                Command::Run(options) if options.account_socket.is_some() => {
                    Ok(Command::Contain(arguments, options))
                }
                _ => Err("error: `contain` needs `--account-socket`".to_owned()),
            };
        }
        Some("hold") => {
            return match (rest.next(), rest.next(), rest.next()) {
                (Some(option), Some(path), None) if option == "--launcher-socket" => {
                    Ok(Command::Hold(path.into()))
                }
                _ => Err("error: `hold` needs `--launcher-socket PATH` only".to_owned()),
            };
        }
        Some("describe") => {
            let library = rest.next().ok_or("error: `describe` needs the path of a library")?;
            return match rest.next() {
                None => Ok(Command::Describe { library: library.into() }),
                Some(more) => Err(format!("error: unexpected argument {more:?}")),
            };
        }
        Some("load") => return Ok(Command::Load { libraries: rest.map(PathBuf::from).collect() }),
        Some("--help" | "-h" | "help") => return Ok(Command::Help),
        _ => return Err(format!("error: unknown command {command:?}")),
    }
    let (mut graph, mut module, mut set, mut account_stdin, mut control) =
        (None, None, Vec::new(), false, None);
    let (mut account_socket, mut carried, mut default_user) = (None, None, None);
    let mut stop_within = STOP_WITHIN;
    while let Some(argument) = rest.next() {
        let name = argument.to_str().unwrap_or_default().to_owned();
        let mut value = || rest.next().ok_or(format!("error: `{name}` needs a value"));
        let text = |v: OsString| v.into_string().map_err(|v| format!("error: {v:?} is not UTF-8"));
        match name.as_str() {
            "--graph" => graph = Some(PathBuf::from(value()?)),
            "--module" => module = Some(text(value()?)?),
            "--set" => set.push(text(value()?)?),
            "--carried" => {
                let topics = text(value()?)?;
                let named = topics.split(',').filter(|topic| !topic.is_empty());
                carried = Some(named.map(str::to_owned).collect());
            }
            "--account-stdin" => account_stdin = true,
            "--account-socket" => account_socket = Some(PathBuf::from(value()?)),
            "--control" => control = Some(PathBuf::from(value()?)),
            "--default-user" => {
                let given = text(value()?)?;
                let user = given.parse().map_err(|_| {
                    format!("error: `--default-user` needs a user id, not {given:?}")
                })?;
                default_user = Some(user);
            }
            "--stop-within-ms" => {
                let given = text(value()?)?;
                let ms = given.parse().map_err(|_| {
                    format!("error: `--stop-within-ms` needs milliseconds, not {given:?}")
                })?;
                stop_within = Duration::from_millis(ms);
            }
            _ => return Err(format!("error: unexpected argument {argument:?}")),
        }
    }
    let graph = graph.ok_or("error: `--graph` is missing")?;
    let module = module.ok_or("error: `--module` is missing")?;
    if account_stdin && account_socket.is_some() {
        return Err("error: give `--account-stdin` or `--account-socket`, not both".to_owned());
    }
    Ok(Command::Run(HostOptions {
        graph,
        module,
        set,
        carried,
        account_stdin,
        account_socket,
        default_user,
        control,
        stop_within,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn commands_are_understood() {
        let Ok(Command::Run(o)) = parsed(
            "run --graph g.yaml --set a.b=1 --module m --set c.d=x --stop-within-ms 70 \
             --account-stdin --control d/c",
        ) else {
            panic!()
        };
        assert_eq!(
            (o.graph, o.module, o.set, o.account_stdin),
            ("g.yaml".into(), "m".into(), vec!["a.b=1".into(), "c.d=x".into()], true)
        );
        assert_eq!(o.control, Some("d/c".into()));
        assert_eq!((o.stop_within, o.carried), (Duration::from_millis(70), None));
        for (given, topics) in [("a/b,c", vec!["a/b".to_owned(), "c".to_owned()]), (",", vec![])] {
            let Ok(Command::Run(o)) =
                parsed(&format!("run --graph g --module m --carried {given}"))
            else {
                panic!()
            };
            assert_eq!(o.carried, Some(topics));
        }
        assert!(matches!(
            parsed("describe libx.so"),
            Ok(Command::Describe { library }) if library.as_os_str() == "libx.so"
        ));
        assert!(matches!(
            parsed("load a.so b.so"), Ok(Command::Load { libraries }) if libraries.len() == 2
        ));
        assert!(matches!(parsed("--help"), Ok(Command::Help)));
        assert!(matches!(parsed("hold --launcher-socket s"), Ok(Command::Hold(_))));
        let Ok(Command::Contain(run, o)) =
            parsed("contain --graph g --module m --account-socket d/s")
        else {
            panic!()
        };
        assert_eq!((run[0].to_str(), run.len()), (Some("run"), 7));
        assert_eq!(o.account_socket, Some("d/s".into()));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, word) in [
            ("", "no command"),
            ("walk", "walk"),
            ("run --graph g", "--module"),
            ("run --module m", "--graph"),
            ("run --graph", "needs a value"),
            ("run --graph g --module m --stop-within-ms soon", "soon"),
            ("run --graph g --module m --default-user me", "user id"),
            ("run --graph g --module m extra", "extra"),
            ("describe", "path of a library"),
            ("describe a b", "\"b\""),
            ("hold", "--launcher-socket"),
            ("hold --launcher-socket s on", "only"),
            ("contain --graph g --module m", "--account-socket"),
            ("run --graph g --module m --account-stdin --account-socket s", "not both"),
        ] {
            let Err(e) = parsed(line) else { panic!("{line}") };
            assert!(e.contains(word), "{line}: {e}");
        }
    }
}
