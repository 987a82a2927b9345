// SPDX-License-Identifier: Apache-2.0
//! Completion scripts, run in their shells.

use crate::fixture::{Fixture, GRAPH};
use crate::skipped::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Completes a command line in a shell, with the script that the command prints. Some functions of
/// the shell exist only at a terminal; the test replaces them by functions that print their
/// arguments.
fn completed(f: &Fixture, shell: &str, prepare: &str, call: &str) -> Option<String> {
    std::fs::write(f.path("script"), f.run(&["completion", shell]).1).unwrap();
    let directory = Path::new(env!("CARGO_BIN_EXE_driveline")).parent().unwrap().display();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap_or_default());
    let text = format!("{prepare}\nsource ./script\n{call}\n");
    let out = Command::new(shell)
        .args(if shell == "zsh" { ["-f", "-c"] } else { ["--norc", "-c"] })
        .arg(text)
        .current_dir(f.path("."))
        .envs(f.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", path)
        .output();
    let out = match out {
        Ok(out) => out,
        Err(e) => {
            skipped("names for the Tab key", &format!("{shell}: {e}"), "install it");
            return None;
        }
    };
    assert!(out.status.success(), "{shell}: {out:?}");
    Some(String::from_utf8(out.stdout).unwrap())
}

#[test]
fn the_tab_key_names_modules_and_parameters_in_bash_and_zsh() {
    // A graph with a gateway's section has names as well.
    let f = Fixture::new(&format!("{GRAPH}network: {{host: car}}\n"));
    for (line, names) in [
        ("run g.yaml --module ", "rest source"),
        ("validate g.yaml --module s", "rest source"),
        ("run g.yaml --set ", "counter.limit="),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let quoted = words.iter().map(|w| format!("'{w}'")).collect::<Vec<_>>().join(" ");
        let call = format!(
            "COMP_WORDS=(driveline {quoted}); COMP_CWORD={}; _driveline_with_names driveline; \
             echo \"${{COMPREPLY[*]}}\"",
            words.len()
        );
        let Some(shown) = completed(&f, "bash", "compopt() { :; }", &call) else { return };
        let wanted = if line.ends_with(" s") { "source" } else { names };
        assert!(shown.contains(wanted), "{line:?} in bash: {shown}");
        let kind = if line.contains("--set") { "parameters" } else { "modules" };
        let call = format!(
            "words=(driveline {quoted}); CURRENT={}; _driveline_names {kind}",
            words.len() + 1
        );
        let prepare = "compdef() { :; }; compadd() { print -r -- \"$@\" : $names; }";
        let Some(shown) = completed(&f, "zsh", prepare, &call) else { return };
        assert!(shown.contains(names), "{line:?} in zsh: {shown}");
    }
}

/// Removes the directory of a domain when the test ends.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn domains_of_this_user_are_names_for_the_tab_key() {
    let name = format!("for-tab-{}", std::process::id());
    let place = match driveline_shm::domain::prepare(Some(&name)) {
        Ok(path) => Place(path),
        Err(e) => return skipped("names of domains", &e.to_string(), "run it as a named user"),
    };
    let f = Fixture::new(GRAPH);
    let names = || f.run(&["complete", "domains"]);
    let has_it = |out: &str| out.lines().any(|line| line == name);
    let (code, out, err) = names();
    assert!(code == 0 && err.is_empty() && has_it(&out), "{name}: {out}{err}");
    drop(place);
    assert!(!has_it(&names().1), "its directory is gone");
}

#[test]
fn zsh_asks_for_names_where_a_value_is_one() {
    let f = Fixture::new(GRAPH);
    let zsh = f.run(&["completion", "zsh"]).1;
    assert!(zsh.starts_with("#compdef driveline\n"), "zsh finds it by its first line");
    for (value, names) in [
        ("'*--module=[", "modules"),
        ("'*--set=[", "parameters"),
        ("'--domain=[", "domains"),
        ("'--run=[", "runs"),
        ("':topic -- ", "topics"),
        ("':module -- ", "modules"),
        ("':parameter -- ", "parameters"),
        ("'::mode -- ", "modes"),
    ] {
        let mut lines = zsh.lines().filter(|line| line.starts_with(value)).peekable();
        assert!(lines.peek().is_some(), "{value}");
        for line in lines {
            assert!(line.ends_with(&format!(": _driveline_names {names}' \\")), "{line}");
        }
    }
    assert!(zsh.contains("'*:graphs -- "), "options are completed after a graph file");
}
