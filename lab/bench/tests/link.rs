// SPDX-License-Identifier: Apache-2.0
//! The benchmark as a program, with small numbers: checks its function, not its speed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

use serde_json::Value;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn bench(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_driveline-bench-link"))
        .arg("link")
        .args(args.split_whitespace())
        .output()
        .unwrap()
}

/// Maximum number of attempts until the hypervisor takes no time during a measurement.
const ATTEMPTS: usize = 20;

fn measured(args: &str) -> Value {
    for attempt in 1.. {
        let out = bench(&format!(
            "{args} --json --rounds 2 --messages 20 --warm-up 5 --publisher-cpu any \
             --subscriber-cpus any"
        ));
        let (stdout, stderr) =
            (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        let m: Value =
            serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stderr}\n{stdout}"));
        if attempt < ATTEMPTS && out.status.code() == Some(1) && taken_away(&m) {
            continue;
        }
        assert_eq!(out.status.code(), Some(0), "{stderr}\n{stdout}");
        return m;
    }
    unreachable!()
}

/// Returns true if runs are invalid because the hypervisor took their time, and for no other
/// reason.
fn taken_away(m: &Value) -> bool {
    let runs: Vec<&Value> = cases(m).flat_map(|c| c["runs"].as_array().unwrap()).collect();
    let mut reasons = runs.iter().flat_map(|r| r["invalid"].as_array().unwrap());
    runs.iter().all(|r| r["failure"].is_null())
        && reasons.all(|r| r.as_str().unwrap().contains("% of the processor time"))
}

fn cases(m: &Value) -> impl Iterator<Item = &Value> {
    m["cases"].as_array().unwrap().iter()
}

fn case<'a>(m: &'a Value, id: &str) -> &'a Value {
    cases(m).find(|c| c["id"] == id).unwrap_or_else(|| {
        panic!("no case '{id}' in {:?}", cases(m).map(|c| &c["id"]).collect::<Vec<_>>())
    })
}

/// Checks that every run of every case is valid and closed, and that every figure has the expected
/// number of samples.
fn check(m: &Value, samples_per_run: u64) {
    assert_eq!(m["complete"], true);
    for c in cases(m) {
        let runs = c["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2, "{}", c["id"]);
        for r in runs {
            assert_eq!(r["failure"], Value::Null, "{}", c["id"]);
            assert_eq!(r["invalid"].as_array().unwrap().len(), 0, "{}: {}", c["id"], r["invalid"]);
            if c["kind"] == "link" || c["kind"] == "floor" {
                assert_eq!(r["scheduled"], samples_per_run, "{}", c["id"]);
                let not_sent: u64 =
                    r["not_sent"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
                assert_eq!(r["sent"].as_u64().unwrap() + not_sent, samples_per_run, "{}", c["id"]);
                for (got, missed) in
                    r["received"].as_array().unwrap().iter().zip(r["missed"].as_array().unwrap())
                {
                    assert_eq!(
                        got.as_u64().unwrap() + missed.as_u64().unwrap(),
                        r["sent"].as_u64().unwrap(),
                        "{}",
                        c["id"]
                    );
                }
            }
        }
    }
}

#[test]
fn ping_pong_between_processes_with_floors_and_extras() {
    let m = measured(
        "--size 64,64k --wait block --take borrow,copy --payload untouched,filled --idle-seconds 1",
    );
    check(&m, 20);
    let link = case(&m, "driveline · processes · ping-pong · block · 64 KiB · copy · filled");
    for figure in ["transport", "fill_and_transport", "fill", "copy", "read"] {
        assert!(
            link["figures"][figure]["n"].as_u64().unwrap() >= 40,
            "{figure}: {}",
            link["figures"]
        );
    }
    let to: Vec<_> =
        link["ratios"].as_array().unwrap().iter().map(|r| r["to"].as_str().unwrap()).collect();
    assert_eq!(
        to,
        [
            "floor: futex · processes · ping-pong",
            "floor: memcpy from shared slots in turn · 64 KiB",
            "floor: memcpy into shared slots in turn · 64 KiB"
        ]
    );
    assert!(link["ratios"][0]["p50"]["estimate"].as_f64().unwrap() > 0.0);
    // 40 samples are too few for a 99th percentile.
    assert_eq!(
        (&link["figures"]["transport"]["p99"], &link["ratios"][0]["p99"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        case(&m, "driveline · at rest for 1 s · blocked reader")["figures"]["idle_subscriber_cpu"]
            ["n"]
            == 2
    );
    assert!(
        case(&m, "driveline · start-up · 64 B")["figures"]["start_publisher"]["p50"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(
        case(&m, "driveline · start-up · 64 KiB")["figures"]["start_subscriber"]["p50"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(case(&m, "floor: memcpy into one shared slot · 64 KiB")["figures"]["copy"]["n"] == 40);
}

#[test]
fn open_loop_one_to_three_between_processes() {
    let m = measured(
        "--size 1k --wait block --subscribers 1,3 --rate 500 --payload filled --extra none",
    );
    check(&m, 20);
    let link = case(&m, "driveline · processes · 1→3 at 500 Hz · block · 1 KiB · filled");
    assert_eq!(link["runs"][0]["received"].as_array().unwrap().len(), 3);
    assert!(link["runs"][0]["start_up_ns"].as_u64().unwrap() > 0);
    let ratios = link["ratios"].as_array().unwrap();
    assert_eq!(ratios[0]["to"], "floor: futex · processes · 1→3 at 500 Hz");
    assert_eq!(ratios[1]["to"], "driveline · processes · 1→1 at 500 Hz · block · 1 KiB · filled");
    // Every received payload was verified, with the first one and warm-up.
    for r in link["runs"].as_array().unwrap() {
        let received: u64 =
            r["received"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
        assert!(r["verified"].as_u64().unwrap() >= received + 3, "{r}");
    }
}

#[test]
fn inside_one_process_by_threads_and_on_one_thread() {
    let m = measured("--reach process --size 64 --wait block,spin:20 --extra none");
    check(&m, 20);
    assert_eq!(
        case(&m, "driveline · threads · ping-pong · block · 64 B")["figures"]["transport"]["n"],
        40
    );
    assert_eq!(
        case(
            &m,
            "driveline · publish to callback on one thread · 64 \
             B"
        )["figures"]["transport"]["n"],
        40
    );
    let m =
        measured("--reach process --size 64 --wait block --subscribers 2 --rate 500 --extra none");
    check(&m, 20);
}

#[test]
fn a_reader_that_processes_gets_the_newest_and_the_rest_is_counted_as_missed() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("stamps.csv");
    // Samples come ten times as fast as they are processed.
    let m = measured(&format!(
        "--size 64 --wait block --reach process,host --rate 1000 --processing-us 10000 --extra \
         none --raw {}",
        csv.display()
    ));
    check(&m, 20);
    let text = std::fs::read_to_string(csv).unwrap();
    for c in cases(&m).filter(|c| c["kind"] == "link") {
        let id = c["id"].as_str().unwrap();
        assert!(id.contains("each processed for 10000 µs"), "{id}");
        for r in c["runs"].as_array().unwrap() {
            assert!(r["missed"][0].as_u64().unwrap() > 0, "{r}");
            // Processor time, independent of preemption; it is reported for each sample that was
            // sent.
            let (sent, received) =
                (r["sent"].as_f64().unwrap(), r["received"][0].as_f64().unwrap());
            assert!(
                r["subscriber_cpu_ns_per_sample"].as_f64().unwrap() * sent / received >= 9e6,
                "{r}"
            );
        }
        let last = text.lines().rfind(|l| l.starts_with(&format!("\"{id}\","))).unwrap();
        let fields: Vec<_> = last.split(',').collect();
        // Sequence and the stamp "in hand"; the id contains a comma.
        assert_eq!(fields[fields.len() - 9], "26", "{last}");
        assert_ne!(fields[fields.len() - 3], "", "the newest was not read: {last}");
    }
}

#[test]
fn raw_stamps_are_written_for_every_counted_sample() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("raw.csv");
    let m = measured(&format!(
        "--size 64 --wait block --rate 500 --extra none --raw {}",
        path.display()
    ));
    check(&m, 20);
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    let rows: Vec<_> = lines.collect();
    // Two rounds of the link and of its floor, twice for the control.
    assert_eq!(rows.len(), 3 * 2 * 20);
    assert!(rows.iter().all(|r| r.split(',').count() == columns), "{}", rows[0]);
}

#[test]
fn a_seed_repeats_the_order_and_is_recorded() {
    let places = |m: &Value| {
        cases(m)
            .flat_map(|c| {
                c["runs"].as_array().unwrap().iter().map(|r| r["place"].as_u64().unwrap())
            })
            .collect::<Vec<_>>()
    };
    let args = "--reach process --size 64,128,256 --wait block --extra none --seed 5";
    let (a, b) = (measured(args), measured(args));
    assert_eq!((&a["seed"], places(&a)), (&Value::from(5), places(&b)));
}

#[test]
fn the_machine_and_the_rule_are_part_of_the_result() {
    let m = measured("--reach process --size 64 --wait block --extra none");
    for field in ["cpu", "kernel", "clock_source", "governor", "cgroup_cpu_limit"] {
        assert!(m["machine"][field].as_str().is_some_and(|s| !s.is_empty()), "{field}");
    }
    assert!(m["validity_rule"].as_str().unwrap().contains("account does not close"));
    assert!(!m["commit"].as_str().unwrap().is_empty());
    assert_eq!(m["command"][0], "driveline-bench-link");
}

#[test]
fn people_get_a_table() {
    let run = || {
        bench(
            "--reach process --size 64 --wait block --extra none --rounds 1 --messages 10 \
             --warm-up 0",
        )
    };
    let is_taken_away =
        |out: &Output| String::from_utf8_lossy(&out.stdout).contains("% of the processor time");
    let out = (1..ATTEMPTS).map(|_| run()).find(|out| !is_taken_away(out)).unwrap_or_else(run);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{text}");
    for word in [
        "latency in µs",
        "floor: futex · threads · ping-pong",
        "n too small",
        "too few for an interval",
        "seed",
    ] {
        assert!(text.contains(word), "no '{word}' in:\n{text}");
    }
}

#[test]
fn what_cannot_be_measured_is_explained_before_anything_starts() {
    for (args, code, words) in [
        ("--subscribers 3", 2, "add --rate"),
        ("--size 8 --payload filled", 2, "at least 32 bytes"),
        ("--size big", 2, "e.g. 64,1k,4M"),
        ("--wait poll", 2, "spin:US"),
        ("--publisher-cpu 9999", 2, "cannot be used"),
        ("--subscribers 100 --rate 10 --wait spin", 2, "use --wait block"),
        // The request is valid, but the machine is too small.
        ("--size 64G --wait block", 1, "MiB are available"),
    ] {
        let out = bench(args);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args}: {stderr}");
        assert!(stderr.contains(words), "{args}: {stderr}");
        assert!(out.stdout.is_empty());
    }
}

/// Runs the command without the right to real-time priorities, by capability or limit.
fn without_priorities(args: &str) -> Output {
    // Root gets its capabilities back with each program that it starts, unless the bounding set
    // lacks them.
    let bounds: &[&str] = if rustix::process::geteuid().is_root() {
        &["setpriv", "--bounding-set=-sys_nice", "--"]
    } else {
        &[]
    };
    let limits =
        ["prlimit", "--rtprio=0", "--", env!("CARGO_BIN_EXE_driveline-bench-link"), "link"];
    let all: Vec<&str> =
        bounds.iter().copied().chain(limits).chain(args.split_whitespace()).collect();
    Command::new(all[0]).args(&all[1..]).output().unwrap()
}

#[test]
fn a_refused_priority_is_reported_in_every_run_and_by_the_machine() {
    let args = "--size 64 --wait block --extra none --rounds 2 --messages 20 --warm-up 5 \
         --publisher-cpu any --subscriber-cpus any";
    for args in [args.to_owned(), format!("{args} --rate 500 --subscribers 2")] {
        let said = |more: &str| {
            String::from_utf8(without_priorities(&format!("{args} {more}")).stdout).unwrap()
        };
        let m: Value = serde_json::from_str(&said("--priority 60 --json")).unwrap();
        assert_eq!(m["placement"]["priority"], 60);
        let of_links = cases(&m)
            .filter(|c| c["kind"] == "link" || c["kind"] == "floor")
            .flat_map(|c| c["runs"].as_array().unwrap());
        let mut runs = 0;
        for run in of_links {
            let refused = |u: &&Value| {
                u.as_str().is_some_and(|u| {
                    u.starts_with("class Fifo priority 60: ") && u.contains("rtprio limit")
                })
            };
            // Once, whatever the number of ends that report it.
            assert_eq!(run["unset"].as_array().unwrap().iter().filter(refused).count(), 1, "{run}");
            runs += 1;
        }
        assert!(runs >= 4, "{runs} runs");
        let not_allowed = |m: &Value| {
            m["machine"]["not_set"]
                .to_string()
                .contains("real-time scheduling is not allowed to this user")
        };
        assert!(not_allowed(&m), "{}", m["machine"]);
        let table = said("--priority 60");
        assert!(
            table.contains("\nnot set: class Fifo priority 60: ")
                && table.contains("SCHED_FIFO 60"),
            "{table}"
        );
        // Settings that were not requested are not refused.
        let m: Value = serde_json::from_str(&said("--json")).unwrap();
        assert!(not_allowed(&m) && !m["cases"].to_string().contains("Fifo"), "{m}");
    }
}

/// The process is stopped as soon as its first measured process exists.
#[test]
fn an_interruption_leaves_a_valid_partial_result_and_nothing_else() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_driveline-bench-link"))
        .args(
            "link --reach process --size 64 --wait block --extra none --rounds 1000 --messages \
             1000 --json"
                .split(' '),
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    while std::fs::read_to_string(&children).unwrap().trim().is_empty() {
        // time: a pause between polls
        std::thread::sleep(Duration::from_millis(5));
    }
    let target = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(target, rustix::process::Signal::INT).unwrap();
    rustix::process::kill_process(target, rustix::process::Signal::INT).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    let m: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(m["complete"], false);
    assert!(cases(&m).all(|c| c["runs"].as_array().unwrap().len() < 1000));
}

#[test]
fn a_measured_process_that_dies_makes_the_run_invalid_and_is_named() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_driveline-bench-link"))
        .args(
            "link --size 64 --wait block --extra none --rounds 1 --messages 1000 --rate 20 --json"
                .split(' '),
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    // Every measured process of three cases is killed as soon as it is seen: none could end by
    // itself so soon.
    while child.try_wait().unwrap().is_none() {
        for measured in std::fs::read_to_string(&children).unwrap_or_default().split_whitespace() {
            let measured = rustix::process::Pid::from_raw(measured.parse().unwrap()).unwrap();
            let _ = rustix::process::kill_process(measured, rustix::process::Signal::KILL);
        }
        // time: a pause between polls
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{text}");
    let m: Value = serde_json::from_str(&text).unwrap();
    for c in cases(&m) {
        let failure = c["runs"][0]["failure"].as_str().unwrap();
        assert!(failure.contains("ended too early") && failure.contains("signal: 9"), "{failure}");
        assert_eq!(c["figures"].as_object().unwrap().len(), 0);
    }
}

/// The kernel signals a death only to processes that have requested it before.
#[test]
fn a_measured_process_whose_runner_died_before_it_could_ask_for_that_ends() {
    let (input, runner) = std::io::pipe().unwrap();
    drop(runner);
    let out = Command::new(env!("CARGO_BIN_EXE_driveline-bench-link"))
        .arg("bench-peer")
        .stdin(input)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&out.stdout)
            .contains("the process that started this one has ended")
    );
}

#[test]
fn the_hidden_command_explains_itself_when_called_directly() {
    let out = Command::new(env!("CARGO_BIN_EXE_driveline-bench-link"))
        .arg("bench-peer")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stdout).contains("only for the benchmark itself"));
}
