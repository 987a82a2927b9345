// SPDX-License-Identifier: Apache-2.0
//! Installed, missing and broken peers.

use super::*;
use crate::harness::{Job, Pace, Payload, Reach, Reliability, Role, System, Take, Wait};
use std::collections::BTreeMap;

/// Another process writes the program. A file that this process holds open for writing cannot be
/// started, and a process that is forked meanwhile would hold it open, too.
fn program(dir: &Path, name: &str, script: &str) {
    use std::io::Write;
    let mut child = Command::new("sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(dir.join(name))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    write!(child.stdin.take().unwrap(), "#!/bin/sh\n{script}\n").unwrap();
    assert!(child.wait().unwrap().success());
}

fn variant(name: &str) -> Variant {
    Variant {
        name: name.into(),
        title: name.to_uppercase(),
        reach: vec![Reach::Host],
        waits: vec![WaitKind::Block, WaitKind::SpinThenBlock],
        reliability: vec![Reliability::BestEffort],
        loans: true,
        min_size: 32,
        max_size: 1 << 20,
        max_subscribers: 4,
        keeper: false,
        note: "may tear".into(),
        settings: vec![Setting { name: "depth".into(), value: "1".into(), why: "as all".into() }],
        tuning: false,
        own_tool: String::new(),
        own_tool_wait: WaitKind::Block,
        own_tool_sizes: Vec::new(),
        own_tool_reliability: Vec::new(),
        usual_at_a_rate: false,
        needs_pod: false,
        workloads: Vec::new(),
    }
}

fn description(name: &str) -> Description {
    Description {
        protocol: PROTOCOL,
        name: name.into(),
        title: "A Peer".into(),
        version: "1.2".into(),
        variants: vec![variant("shm"), variant("udp")],
    }
}

fn echo(d: &Description) -> String {
    format!(
        "[ \"$1\" = --describe ] || exit 9\ncat <<'END'\n{}\nEND",
        serde_json::to_string(d).unwrap()
    )
}

fn state<'a>(peers: &'a [Peer], name: &str) -> &'a State {
    &peers.iter().find(|p| p.name == name).unwrap().state
}

fn reason(peers: &[Peer], name: &str) -> String {
    match state(peers, name) {
        State::Broken { reason, .. } => reason.clone(),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_is_there_is_found_and_what_is_no_good_says_why() {
    let dir = tempfile::tempdir().unwrap();
    program(dir.path(), "fastdds", &echo(&description("fastdds")));
    program(dir.path(), "own", &echo(&description("own")));
    program(dir.path(), "other", &echo(&description("another")));
    program(
        dir.path(),
        "loud",
        &echo(&Description { title: "\u{1b}[2Jgone".into(), ..description("loud") }),
    );
    program(dir.path(), "garbage", "echo hello");
    program(dir.path(), "fails", "exit 3");
    program(
        dir.path(),
        "endless",
        "while :; do echo '                                                                '; done",
    );
    program(dir.path(), "latin", "printf '\\344'");
    program(dir.path(), "future", &echo(&Description { protocol: 99, ..description("future") }));
    let with = |change: fn(&mut Variant)| {
        let mut d = description("odd");
        d.variants.iter_mut().take(1).for_each(change);
        d
    };
    let odd: [(&str, Description, &str); 5] = [
        ("driveline", description("driveline"), "no name of this program's own"),
        (
            "up",
            Description { name: "up".into(), ..with(|v| v.name = "../x".into()) },
            "a variant cannot be called",
        ),
        (
            "twice",
            Description { name: "twice".into(), ..with(|v| v.name = "udp".into()) },
            "two variants 'udp'",
        ),
        (
            "small",
            Description { name: "small".into(), ..with(|v| v.min_size = v.max_size + 1) },
            "carries nothing",
        ),
        (
            "nowhere",
            Description { name: "nowhere".into(), ..with(|v| v.reach.clear()) },
            "carries nothing",
        ),
    ];
    odd.iter().for_each(|(file, d, _)| program(dir.path(), file, &echo(d)));
    std::fs::write(dir.path().join("README"), "no program").unwrap();
    let peers = discover(Some(dir.path())).unwrap();
    let State::Installed { description, .. } = state(&peers, "fastdds") else {
        panic!("fastdds is not installed")
    };
    assert_eq!(description.version, "1.2");
    assert!(matches!(state(&peers, "own"), State::Installed { .. }));
    assert!(reason(&peers, "other").contains("calls itself 'another'"));
    assert!(
        reason(&peers, "loud").contains("control characters")
            && !reason(&peers, "loud").contains('\u{1b}')
    );
    assert!(reason(&peers, "garbage").contains("docs/protocols/harness.md"));
    assert_eq!(reason(&peers, "endless"), "its description is longer than 1 MiB");
    assert!(reason(&peers, "latin").contains("cannot be read"));
    assert!(reason(&peers, "fails").contains("exit status: 3"));
    assert!(reason(&peers, "future").contains("version 99"));
    odd.iter().for_each(|(file, _, why)| {
        assert!(reason(&peers, file).contains(why), "{file}: {}", reason(&peers, file))
    });
    // The papers measure ROS 2 in these two ways. Here, both are peers that are not installed.
    for (name, how) in [("ros2_inter", "between processes"), ("ros2_intra", "within a process")] {
        let described =
            |text: &str| text.contains("build/peers") && text.contains(how) && text.contains(name);
        let missing = matches!(
            state(&peers, name),
            State::NotInstalled { how_to_add } if described(how_to_add)
        );
        assert!(missing, "{name}");
    }
    assert!(!peers.iter().any(|p| p.name == "README"));
    let text = details(&peers, usize::MAX);
    for words in [
        "fastdds: eProsima Fast DDS 1.2",
        "fastdds/shm: SHM (may tear)",
        "depth = 1: as all",
        "rti_connext: RTI Connext DDS, not installed",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn a_peer_that_hangs_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    program(dir.path(), "hangs", "exec sleep 1000");
    let text = format!(
        "{:#}",
        describe(&dir.path().join("hangs"), Duration::from_millis(50)).unwrap_err()
    );
    assert!(text.contains("did not describe itself"), "{text}");
}

#[test]
fn a_directory_that_is_not_there_is_an_error_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{:#}", discover(Some(&dir.path().join("none"))).unwrap_err());
    let named = format!(
        "DRIVELINE_PEERS names {}/none, which does not exist: name another directory, or unset it",
        dir.path().display()
    );
    assert_eq!(text, named);
    // Without a directory, all peers of the catalogue are listed as not installed.
    assert!(discover(None).unwrap().iter().all(|p| matches!(p.state, State::NotInstalled { .. })));
}

#[test]
fn peers_are_chosen_by_name_by_variant_or_all() {
    let installed = |name: &str| Peer {
        name: name.into(),
        title: name.into(),
        state: State::Installed { program: name.into(), description: description(name) },
    };
    let absent = Peer {
        name: "ros2".into(),
        title: "ROS 2".into(),
        state: State::NotInstalled { how_to_add: "build it".into() },
    };
    let peers = [installed("a"), installed("b"), absent];
    let systems = |names: &[&str]| {
        let s = select(&peers, &names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
        (s.systems().map(|(s, _)| s.to_string()).collect::<Vec<_>>(), s.unavailable)
    };
    assert_eq!(systems(&["a/udp", "b/shm", "b/shm", "a"]).0, ["a/udp", "a/shm", "b/shm"]);
    assert_eq!(systems(&["all"]).0.len(), 4);
    assert_eq!(systems(&["all"]).1, [("ros2".to_owned(), "not installed: build it".to_owned())]);
    let error = |name: &str| format!("{:#}", select(&peers, &[name.to_owned()]).unwrap_err());
    assert!(
        error("other")
            .contains("there is no peer 'other': known are a, b, ros2. Peers are in the directory"),
        "{}",
        error("other")
    );
    assert!(
        error("a/tcp").contains("the peer a has no variant 'tcp': it has: `shm`, `udp`"),
        "{}",
        error("a/tcp")
    );
    // A name with one or two wrong letters gets a suggestion.
    assert_eq!(error("rso2"), "there is no peer 'rso2': did you mean `ros2`?");
    assert_eq!(error("a/smh"), "the peer a has no variant 'smh': did you mean `shm`?");
    let system = |name| {
        misnamed(&peers, name, &["driveline"]).map(|(message, help)| format!("{message}: {help}"))
    };
    assert_eq!(
        system("drivline").as_deref(),
        Some("there is no system 'drivline': did you mean `driveline`?")
    );
    assert!(
        ["all", "driveline", "a", "a/udp", "ros2", "ros2/any"]
            .into_iter()
            .all(|name| system(name).is_none())
    );
}

#[test]
fn variants_for_tuning_are_measured_only_when_they_are_named() {
    let peer = |name: &str, variants: Vec<Variant>| Peer {
        name: name.into(),
        title: name.into(),
        state: State::Installed {
            program: name.into(),
            description: Description { variants, ..description(name) },
        },
    };
    let small = Variant { tuning: true, own_tool: "perf".into(), ..variant("udp_500") };
    let peers = [peer("a", vec![variant("udp"), small.clone()]), peer("b", vec![small])];
    let chosen = |names: &[&str]| {
        let s = select(&peers, &names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
        (s.systems().map(|(s, _)| s.to_string()).collect::<Vec<_>>(), s.unavailable.len())
    };
    // A peer with only tuning variants is listed as unavailable.
    assert_eq!(chosen(&["all"]), (vec!["a/udp".to_owned()], 1));
    assert_eq!(chosen(&["a"]), (vec!["a/udp".to_owned()], 0));
    assert_eq!(
        chosen(&["a/udp_500", "all"]),
        (vec!["a/udp_500".to_owned(), "a/udp".to_owned()], 1)
    );
    assert!(table(&peers, usize::MAX).contains("1.2 · udp, 1 for tuning\n"));
    assert!(details(&peers, usize::MAX).contains(
        "a/udp_500: UDP_500 (may tear) [tuning: measured only when it is named] [its \
                 own latency tool: perf]"
    ));
    // Descriptions without the new keys keep their meaning.
    let mut old = serde_json::to_value(variant("udp")).unwrap();
    old.as_object_mut().unwrap().retain(|k, _| {
        !["tuning", "usual_at_a_rate", "workloads"].contains(&k.as_str())
            && !k.starts_with("own_tool")
    });
    assert_eq!(serde_json::from_value::<Variant>(old).unwrap(), variant("udp"));
}

fn job() -> Job {
    Job {
        protocol: PROTOCOL,
        role: Role::Publisher,
        system: System::Peer { name: "a".into(), variant: "shm".into() },
        reach: Reach::Host,
        domain_dir: PathBuf::new(),
        topic: "link".into(),
        size: 64,
        wait: Wait::SpinThenBlock(5),
        take: Take::Borrow,
        payload: Payload::Untouched,
        pace: Pace::RateHz(10.0),
        warm_up: 1,
        messages: 1,
        depth: 1,
        reliability: Reliability::BestEffort,
        subscribers: 4,
        index: 0,
        publisher_cpu: None,
        subscriber_cpus: vec![],
        priority: 0,
        processing_us: 0,
        answer_timeout_ms: 10_000,
        lose_every: 0,
        raw_dir: PathBuf::new(),
    }
}

#[test]
fn an_own_tool_stands_next_to_its_link() {
    let tool = Variant {
        own_tool: "perf".into(),
        own_tool_wait: WaitKind::Spin,
        own_tool_sizes: vec![1024, 4096],
        ..variant("shm")
    };
    let link = Job {
        pace: Pace::PingPong,
        wait: Wait::Spin,
        size: 4096,
        take: Take::Borrow,
        payload: Payload::Untouched,
        ..job()
    };
    assert!(tool.has_own_tool_for(&link));
    for other in [
        Job { size: 64, ..link.clone() },
        Job { wait: Wait::Block, ..link.clone() },
        Job { pace: Pace::RateHz(10.0), ..link.clone() },
        Job { payload: Payload::Filled, ..link.clone() },
        Job { reach: Reach::Process, ..link.clone() },
    ] {
        assert!(!tool.has_own_tool_for(&other), "{other:?}");
    }
    let any_size = Variant { own_tool_sizes: Vec::new(), ..tool.clone() };
    assert!(any_size.has_own_tool_for(&Job { size: 64, ..link.clone() }));
    // A tool that stops after a loss measures only reliable links.
    let reliable = Variant { own_tool_reliability: vec![Reliability::Reliable], ..tool.clone() };
    assert!(!reliable.has_own_tool_for(&link));
    assert!(reliable.has_own_tool_for(&Job { reliability: Reliability::Reliable, ..link.clone() }));
    assert!(!Variant { own_tool: String::new(), ..tool }.has_own_tool_for(&link));
}

#[test]
fn a_workload_runs_with_the_parameters_that_a_variant_has_for_it() {
    let runs = RunsWorkload {
        name: "fusion".into(),
        only: BTreeMap::from([("trigger".into(), vec!["approximate".into()])]),
        why: "it goes by times".into(),
        missing: String::new(),
    };
    let with = |trigger: &str| serde_json::json!({"trigger": trigger, "queue": 3});
    assert_eq!(runs.refuses(&with("approximate")), None);
    assert_eq!(
        runs.refuses(&with("first_channel")).unwrap(),
        "cannot have the trigger first_channel: it goes by times"
    );
    let without = RunsWorkload { missing: "install it".into(), ..runs.clone() };
    assert_eq!(without.refuses(&with("approximate")).unwrap(), "install it");
    let described = |runs: &RunsWorkload| {
        let fusing = Variant { workloads: vec![runs.clone()], ..variant("tcp") };
        settings(&Description { variants: vec![fusing], ..description("ros1") })
    };
    assert!(described(&runs).contains("[runs the workload fusion]"));
    assert!(described(&without).contains("[does not run the workload fusion: install it]"));
}

#[test]
fn what_a_variant_cannot_do_is_said() {
    let job = job();
    let v = variant("shm");
    assert_eq!(v.refuses(&job), None);
    for (job, words) in [
        (Job { reach: Reach::Process, ..job.clone() }, "threads of one process"),
        (Job { wait: Wait::Spin, ..job.clone() }, "cannot wait as 'spin'"),
        (Job { reliability: Reliability::Reliable, ..job.clone() }, "not reliable"),
        (Job { size: 31, ..job.clone() }, "32 to 1048576 bytes"),
        (Job { subscribers: 5, ..job.clone() }, "at most 4"),
        (Job { pace: Pace::PingPong, ..job.clone() }, "one subscriber"),
    ] {
        assert!(v.refuses(&job).unwrap().contains(words), "{words}");
    }
}
