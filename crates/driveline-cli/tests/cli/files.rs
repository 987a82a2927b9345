// SPDX-License-Identifier: Apache-2.0
//! Commands about graphs and libraries, and the command line itself: tests that need no run.

use crate::fixture::{Fixture, GRAPH};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

#[test]
fn a_valid_graph_is_called_valid() {
    let f = Fixture::new(GRAPH);
    let (code, out, err) = f.run(&["validate", "g.yaml"]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (0, "g.yaml: valid (2 modules, 3 components, 2 topics)\n", "")
    );
    let json = f.json(&["validate", "g.yaml", "--json"]);
    assert_eq!(
        (&json[0]["graph"], &json[0]["valid"], &json[0]["errors"]),
        (&"g.yaml".into(), &true.into(), &0.into())
    );
}

#[test]
fn mistakes_are_explained_with_place_and_remedy() {
    let f = Fixture::new(
        &GRAPH.replace("class: Relay", "class: Rely").replace("limit: 20", "limt: 20"),
    );
    let (code, out, _) = f.run(&["validate", "g.yaml"]);
    assert_eq!(code, 3);
    for part in [
        "error: the class `Counter` has no parameter `limt`\n --> g.yaml:9:60",
        "= help: did you mean `limit`?",
        "error: the library `lib` has no component class `Rely`\n  --> g.yaml:12:36",
        "= help: did you mean `Relay`?",
        "g.yaml: 2 errors, 0 warnings",
    ] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
    assert!(!out.contains('\x1b'), "no colours in a pipe");
    let json = f.json(&["validate", "g.yaml", "--json"]);
    let first = &json[0]["diagnostics"][0];
    assert_eq!(
        (&first["place"]["line"], &first["place"]["column"], &first["severity"]),
        (&Value::from(9), &Value::from(60), &Value::from("error"))
    );
    assert_eq!(f.run(&["run", "g.yaml"]).0, 3);
}

#[test]
fn a_part_that_cannot_be_read_hides_mistakes_of_connections_and_the_verdict_says_so() {
    let f = Fixture::new(&GRAPH.replace("  a: {reach: host,", "  z: {raech: host,"));
    let (code, out, _) = f.run(&["validate", "g.yaml"]);
    assert_eq!(code, 3);
    let verdict =
        "g.yaml: 1 error, 0 warnings; connections are checked when every part can be read";
    assert!(out.trim_end().ends_with(verdict) && !out.contains("`a`"), "{out}");
}

#[test]
fn several_graphs_get_a_verdict_each_and_the_exit_code_of_the_worst() {
    let f = Fixture::new(GRAPH);
    std::fs::write(f.path("bad.yaml"), GRAPH.replace("class: Relay", "class: Rely")).unwrap();
    let (code, out, _) = f.run(&["validate", "g.yaml", "bad.yaml", "none.yaml", "g.yaml"]);
    assert_eq!(code, 3);
    let verdicts: Vec<&str> = out.lines().filter(|l| l.contains(".yaml: ")).collect();
    let valid = "g.yaml: valid (2 modules, 3 components, 2 topics)";
    assert_eq!(verdicts[0], valid);
    assert!(
        verdicts.contains(&"bad.yaml: 1 error, 0 warnings")
            && verdicts.contains(&"none.yaml: 1 error, 0 warnings"),
        "{out}"
    );
    assert_eq!(verdicts.last(), Some(&valid), "the ones after a bad one are looked at as well");
    assert_eq!(f.run(&["validate", "g.yaml", "g.yaml"]).0, 0);
    let json = f.json(&["validate", "g.yaml", "bad.yaml", "--json"]);
    let each: Vec<_> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (v["graph"].as_str().unwrap(), v["valid"].as_bool().unwrap()))
        .collect();
    assert_eq!(each, [("g.yaml", true), ("bad.yaml", false)]);
    assert_eq!(f.run(&["validate"]).0, 2);
}

#[test]
fn libraries_can_be_left_alone() {
    let f = Fixture::new(&GRAPH.replace("library: lib", "library: libelsewhere.so"));
    assert_eq!(f.run(&["validate", "g.yaml"]).0, 3);
    assert_eq!(f.run(&["validate", "g.yaml", "--no-libraries"]).0, 0);
    let mut c = f.command(&["validate", "g.yaml"]);
    let out = String::from_utf8(c.env("DRIVELINE_HOST", "/nonexistent").output().unwrap().stdout)
        .unwrap();
    assert!(out.contains("libelsewhere.so` does not exist"), "{out}");
}

#[test]
fn graphs_are_shown_as_text_picture_and_json() {
    let f = Fixture::new(GRAPH);
    let (code, out, _) = f.run(&["graph", "g.yaml"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("    ← in: a (host, at most 8 B)\n    → out: b (host, at most 8 B)\n"),
        "{out}"
    );
    assert_eq!(f.run(&["graph", "g.yaml", "--svg", "g.svg"]).0, 0);
    let svg = std::fs::read_to_string(f.path("g.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    let width: f64 =
        svg.split_once("width=\"").unwrap().1.split_once('"').unwrap().0.parse().unwrap();
    assert!(width <= 1200.0, "{width}");
    for name in ["counter", "relay", "printer", ">a<", ">b<"] {
        assert!(svg.contains(name), "{name}");
    }
    assert_eq!(
        svg.matches("marker-end").count(),
        4,
        "two topics, each with one arrow in and one out"
    );
    assert_eq!(
        f.json(&["graph", "g.yaml", "--json"])["modules"][1]["components"][0]["trigger"]["kind"],
        "any"
    );
}

#[test]
fn what_passes_to_ros2_is_shown_with_its_graph() {
    let f = Fixture::new(&format!(
        "{GRAPH}\nros2:\n  domain_id: 7\n  zenoh: {{}}\n  types: [math]\n  topics: [{{topic: \
         /sensing/**, direction: both}}, {{topic: /b, direction: to_ros}}]\n  \
         services: [{{service: /add, type: math/srv/Add, server: ros}}]\n"
    ));
    std::fs::create_dir_all(f.path("math/srv")).unwrap();
    std::fs::write(f.path("math/srv/Add.srv"), "int64 a\n---\nint64 sum\n").unwrap();
    let (code, out, err) = f.run(&["graph", "g.yaml"]);
    let shown = "ROS 2 on DDS and rmw_zenoh, ROS_DOMAIN_ID 7\n  /sensing/** ↔ topics here (at most \
         256 KiB)\n  /b ← topics here\n  \
                 /add (math/srv/Add): server in ROS 2, clients here\n";
    assert!(code == 0 && out.ends_with(shown), "{out}{err}");
}

#[test]
fn mistakes_are_json_if_the_result_would_be() {
    let f = Fixture::new(&GRAPH.replace("topic: b", "topik: b").replace("name: demo", "nam: demo"));
    let deploy = ["deploy", "compose", "g.yaml", "--json"];
    for command in [&["graph", "g.yaml", "--json"][..], &["doctor", "g.yaml", "--json"], &deploy] {
        let (code, out, err) = f.run(command);
        let found: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        let message = &found["diagnostics"][0]["message"];
        assert!(code != 0 && err.is_empty(), "{command:?} {code}: {err}");
        assert!(message.as_str().unwrap().contains("unknown key `nam`"), "{found}");
    }
}

#[test]
fn libraries_are_described() {
    let f = Fixture::new(GRAPH);
    let (code, out, _) = f.run(&["describe", "lib"]);
    assert_eq!(code, 0);
    assert!(out.contains("Relay  # Passes numbers on.\n  ← in: bytes demo/Count"), "{out}");
    assert_eq!(f.json(&["describe", "lib", "--json"])[0]["parameters"][0]["name"], "limit");
    let (code, _, err) = f.run(&["describe", "none.so"]);
    assert_eq!(code, 1);
    assert!(err.contains("none.so: No such file"), "{err}");
}

#[test]
fn the_committed_schema_is_the_one_that_is_printed() {
    let committed = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/graph.schema.json"),
    )
    .unwrap();
    let committed: Value = serde_json::from_str(&committed).unwrap();
    assert_eq!(
        Fixture::new("").json(&["schema"]),
        committed,
        "run: cargo run -p driveline-cli -- schema > docs/graph.schema.json"
    );
}

#[test]
fn tab_completes_names_that_only_a_graph_or_a_run_knows() {
    let f = Fixture::new(GRAPH);
    let names = |arguments: &[&str]| {
        let (code, out, err) = f.run(&[&["complete"], arguments].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        out
    };
    assert_eq!(names(&["modules", "--graph", "g.yaml"]), "rest\nsource\n");
    let parameters = names(&["parameters", "--graph", "g.yaml"]);
    assert!(parameters.contains("counter.limit=\n") && parameters.contains("relay.keep=\n"));
    for nothing in [&["modules"][..], &["modules", "--graph", "none.yaml"], &["topics"], &["runs"]]
    {
        assert_eq!(names(nothing), "", "{nothing:?}");
    }
    let (_, bash, _) = f.run(&["completion", "bash"]);
    for word in ["complete topics", "complete domains", "complete modules", "complete parameters"] {
        assert!(bash.contains(&format!("({word}")), "{word}");
    }
    assert!(!bash.contains("driveline,complete)"), "hidden commands are not offered");
}

#[test]
fn each_command_has_a_man_page() {
    let f = Fixture::new(GRAPH);
    let (code, out, err) = f.run(&["man", "pages"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let page = std::fs::read_to_string(f.path("pages/driveline.1")).unwrap();
    assert!(page.contains("Exit codes") && page.contains("driveline\\-run(1)"), "{page}");
    for command in ["run", "validate", "topic-echo", "health"] {
        assert!(f.path(&format!("pages/driveline-{command}.1")).exists(), "{command}");
    }
    assert!(!f.path("pages/driveline-man.1").exists(), "hidden commands have none");
}

#[test]
fn completion_help_and_mistakes_on_the_command_line() {
    let f = Fixture::new(GRAPH);
    for shell in ["bash", "zsh", "fish"] {
        let script = f.run(&["completion", shell]).1;
        assert!(
            script.contains("driveline") && script.contains("validate") && script.contains("json"),
            "{shell}"
        );
        assert!(
            !script.contains("bench-peer") && !script.contains("bench-workload"),
            "{shell} is offered what is for other programs"
        );
        let json = f.json(&["completion", shell, "--json"]);
        assert_eq!((&json["shell"], &json["script"]), (&shell.into(), &script.into()));
    }
    let (code, out, _) = f.run(&["--help"]);
    assert_eq!(code, 0);
    assert!(out.contains("Exit codes:") && out.contains("Examples:"));
    for variable in [
        "HOST",
        "GATEWAY",
        "ROS2_GATEWAY",
        "COMPONENT_PATH",
        "DOMAIN",
        "DOMAIN_DIR",
        "LOG",
        "GATEWAY_LOG",
        "PEERS",
    ] {
        assert!(out.contains(&format!("  DRIVELINE_{variable} ")), "{variable} is not in\n{out}");
    }
    for arguments in [["service", "--help"].as_slice(), &["service", "list", "--help"]] {
        assert!(f.run(arguments).1.contains("driveline service list --domain"), "{arguments:?}");
    }
    assert!(f.run(&["run", "--help"]).1.contains("Examples:"));
    assert_eq!(f.run(&["rum"]).0, 2);
    let (code, _, err) = f.run(&["run", "none.yaml"]);
    assert_eq!(code, 3);
    assert!(err.contains("cannot read none.yaml"), "{err}");
    // Errors in the graph are reported before a missing `driveline-host`.
    let without_host = |graph: &str| {
        let Output { status, stderr, .. } =
            f.command(&["run", graph]).env("DRIVELINE_HOST", "/nowhere/host").output().unwrap();
        (status.code().unwrap(), String::from_utf8(stderr).unwrap())
    };
    let (code, err) = without_host("none.yaml");
    assert!(
        code == 3 && err.contains("cannot read none.yaml") && !err.contains("driveline-host"),
        "{err}"
    );
    let (code, err) = without_host("g.yaml");
    assert!(
        code == 1
            && err.starts_with(
                "error: DRIVELINE_HOST names /nowhere/host as the program \
                 driveline-host, and nothing is there"
            )
            && err.lines().count() == 1,
        "{err}"
    );
}

/// Copies the command into a directory of its own, next to a program with this name and text.
fn with_program(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let command = dir.path().join("driveline");
    // Another process writes the files: a child of another test may inherit a file that this
    // process has open for writing, and such a file cannot be started.
    let mut copy = std::process::Command::new("cp");
    let done = copy.arg(env!("CARGO_BIN_EXE_driveline")).arg(&command).status().unwrap();
    assert!(done.success());
    if !text.is_empty() {
        let write = ["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#];
        let path = dir.path().join(name);
        let mut sh = std::process::Command::new("sh");
        assert!(sh.args(write).arg(&path).arg(text).status().unwrap().success());
    }
    (dir, command)
}

fn outcome(command: &mut std::process::Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn bench_is_a_program_next_to_the_command_which_gets_all_arguments_and_gives_its_exit_code() {
    let (_dir, command) = with_program("driveline-bench", r#"echo "$@"; exit 130"#);
    for (line, gets) in [
        ("bench run S1 --quick --json", "run S1 --quick --json"),
        ("--json bench link --size 64", "--json link --size 64"),
        ("bench --help", "--help"),
        ("bench list --show S5", "list --show S5"),
        ("bench", ""),
    ] {
        let ended = outcome(std::process::Command::new(&command).args(line.split(' ')));
        assert_eq!(ended, (130, format!("{gets}\n"), String::new()), "{line}");
    }
}

#[test]
fn a_missing_bench_program_is_reported_with_the_command_to_build_it() {
    let (dir, command) = with_program("driveline-bench", "");
    let mut bench = std::process::Command::new(&command);
    let (code, out, err) = outcome(bench.args(["bench", "list"]).env("PATH", dir.path()));
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("driveline-bench") && err.contains("`make lab`"), "{err}");
    let help = outcome(std::process::Command::new(&command).arg("--help")).1;
    assert!(help.contains("\n  bench ") && !help.contains("bench-peer"), "{help}");
    // Completion works without that program.
    let mut completion = std::process::Command::new(&command);
    let ended = outcome(completion.args(["completion", "bash"]).env("PATH", dir.path()));
    assert!(ended.0 == 0 && ended.1.contains("driveline"), "{ended:?}");
}

#[test]
fn completion_offers_what_bench_describes() {
    let text = concat!(
        r#"test "$1" = command-line && echo '{"name": "driveline-bench", "about": "Measure", "#,
        r#""arguments": [], "commands": [{"name": "link", "about": "A link", "commands": [], "#,
        r#""arguments": [{"name": "peers", "long": "peers", "short": null, "about": "Others", "#,
        r#""takes_value": true, "is_many": true, "values": ["cyclonedds"]}]}]}'"#,
    );
    let (_dir, command) = with_program("driveline-bench", text);
    for shell in ["bash", "zsh", "fish"] {
        let mut completion = std::process::Command::new(&command);
        let (code, script, err) = outcome(completion.args(["completion", shell]));
        assert!(code == 0 && err.is_empty(), "{shell}: {err}");
        assert!(["link", "peers", "cyclonedds"].iter().all(|w| script.contains(w)), "{shell}");
    }
}

#[test]
fn a_scenario_is_no_graph_and_one_line_says_so() {
    let f = Fixture::new(GRAPH);
    let scenario = "scenario: 1\nid: mine\ntitle: A small link\n";
    std::fs::write(f.dir.path().join("mine.yaml"), scenario).unwrap();
    let (code, out, err) = f.run(&["validate", "mine.yaml"]);
    assert!(
        code == 3 && err.is_empty() && out.ends_with("mine.yaml: 1 error, 0 warnings\n"),
        "{code} {out}{err}"
    );
    let help = "`driveline bench run ./mine.yaml --dry-run` checks it";
    assert!(
        out.starts_with("error: this is a scenario, not a graph\n") && out.contains(help),
        "{out}"
    );
}
