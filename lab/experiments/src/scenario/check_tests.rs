// SPDX-License-Identifier: Apache-2.0

use super::*;
use driveline_graph::parse_document;
use std::path::Path;

fn parse(text: &str) -> Result<Scenario, String> {
    parse_document(Path::new("mine.yaml"), text.to_owned())
        .map_err(LoadError::from)
        .and_then(|d| check(d, None))
        .map_err(|e| e.to_string())
}

const HEAD: &str = "scenario: 1\nid: X\ntitle: t\nsource: s\nquestion: q\n";

#[test]
fn the_scenario_on_the_page_for_people_can_be_measured() {
    let page = include_str!("../../../../docs/lab.md");
    let mut snippets =
        page.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    assert_eq!(parse(snippets.next().unwrap()).unwrap().cases.len(), 2);
    // The second snippet on the page has no head.
    let several = parse(&format!("{HEAD}{}", snippets.next().unwrap())).unwrap();
    assert_eq!(several.cases.values().next().unwrap().links.len(), 3);
    assert!(snippets.next().is_none());
}

#[test]
fn unused_keys_are_refused() {
    let chain = "chain: {stages: {a: {output: x, work: bytes}, b: {inputs: [x], work: copy}}, \
         edges: {x: 1 MiB}}\n";
    for (rest, says) in [
        (format!("{chain}cases: {{a: {{hogs: 4}}}}\n"), "a chain does not use `hogs`"),
        (
            format!("{chain}link: {{payload: filled}}\ncases: {{a: {{}}}}\n"),
            "a chain does not use `payload`",
        ),
        (
            format!("{chain}cases: {{a: {{}}}}\nvary: {{size: [1 KiB]}}\n"),
            "a chain does not use `size`",
        ),
        (
            format!("{chain}cases: {{a: {{}}}}\npaper: {{vary: {{subscribers: [2]}}}}\n"),
            "a chain does not use `subscribers`",
        ),
        (
            format!("{chain}cases: {{a: {{}}}}\nwatch_every_ms: 100\n"),
            "a chain does not use `watch_every_ms`",
        ),
        (
            "cases: {a: {workload: {name: refsys}, quota_percent: 20}}\n".into(),
            "which has no `quota_percent`",
        ),
        (
            format!("{chain}link: {{driveline_edges: [x]}}\ncases: {{a: {{}}}}\n"),
            "`driveline_edges` goes into `cases.NAME`",
        ),
        (format!("{chain}cases: {{a: {{}}}}\nrun: {{seconds: 5}}\n"), "uses `seconds`"),
    ] {
        let text = parse(&format!("{HEAD}{rest}")).unwrap_err();
        assert!(text.contains(says) && text.contains("mine.yaml:"), "{rest}: {text}");
    }
    for (case, run, says) in [
        ("{measure: at_rest, size: 64, rate_hz: 10}", "", "which does not use `rate_hz`"),
        ("{measure: start_up, size: 64, reach: host}", "", "which does not use `reach`"),
        ("{measure: same_thread, size: 64, wait: spin}", "", "a case without `measure`"),
        ("{measure: at_rest, links: {x: {size: 64}}}", "", "which does not use `links`"),
        ("{measure: same_thread, size: 64, reach: network}", "", "use process or host"),
        ("{measure: start_up, workload: {name: refsys}}", "", "which has no `measure`"),
        ("{links: {x: {size: 64, measure: at_rest}}}", "", "`measure` belongs to the case"),
        ("{measure: rest, size: 64}", "", "cannot be `rest`"),
        ("{measure: at_rest}", "", "'a' has no `size`"),
        ("{measure: start_up, size: 64}", "run: {seconds: 5}\n", "uses `seconds`"),
        ("{measure: same_thread, size: 64}", "run: {seconds: 5}\n", "uses `seconds`"),
        ("{measure: start_up, size: 64}", "run: {messages: 5}\n", "uses `messages`"),
        ("{measure: at_rest, size: 64}", "run: {warm_up: 5}\n", "uses `warm_up`"),
        ("{measure: at_rest, size: 64}", "figure: transport\n", "have their own figures"),
        ("{measure: start_up, size: 64}", "own_tools: true\n", "no case is one"),
        ("{measure: start_up, size: 64}", "link: {measure: at_rest}\n", "goes into `cases.NAME`"),
    ] {
        let text = parse(&format!("{HEAD}cases: {{a: {case}}}\n{run}")).unwrap_err();
        assert!(text.contains(says) && text.contains("mine.yaml:"), "{case} {run}: {text}");
    }
    // Cases with `measure` use the size of `link`; its rate and wait mode do not apply to them.
    parse(&format!(
        "{HEAD}link: {{size: 64, rate_hz: 10, wait: spin}}\ncases: {{a: {{measure: at_rest}}, \
         b: {{measure: same_thread, reach: process}}, c: {{}}}}\nrun: {{seconds: 2, warm_up: \
         5}}\n"
    ))
    .unwrap();
    // Common settings of links do not apply to the workloads next to them.
    parse(&format!(
        "{HEAD}link: {{hogs: 1}}\ncases: {{a: {{workload: {{name: refsys}}}}, b: \
         {{size: 64, rate_hz: 10}}}}\n"
    ))
    .unwrap();
    parse(&format!(
        "{HEAD}{chain}link: {{rate_hz: 10}}\ncases: {{a: {{depth: 2}}}}\nvary: \
         {{reliability: [reliable]}}\n"
    ))
    .unwrap();
}

#[test]
fn what_would_be_the_same_under_several_names_is_refused() {
    let car = "cases:\n  car: {links: {lidar: {size: 64, rate_hz: 10}, camera: {size: 64}}}\n  \
         one: {size: 64}\n";
    for (rest, mark, says) in [
        ("vary: {copies: [1, 4]}\n", "copies", "write `copies` into single links of `cases.car`"),
        ("quick: {vary: {copies: [4]}}\n", "copies", "the case 'car' has `links`"),
        ("link: {copies: 4}\n", "copies", "write `copies` into single links of `cases.car`"),
        (
            "paper: {vary: {size: [1 KiB, 1 MiB]}}\n",
            "size",
            "each link of the case 'car' says its own `size`",
        ),
    ] {
        let text = parse(&format!("{HEAD}{car}{rest}")).unwrap_err();
        let (marked, text) = marked(&text);
        assert!(
            marked == mark && text.contains(says) && text.contains("mine.yaml:9"),
            "{rest}: {text}"
        );
    }
    // These keys are accepted: one case uses `rate_hz`, `hogs` is a key of whole cases, and the
    // last `run` does not include the case with links.
    for rest in [
        "vary: {rate_hz: [10, 20]}\n",
        "vary: {hogs: [0, 1]}\n",
        "run: {cases: [one]}\nvary: {copies: [1, 4]}\n",
    ] {
        parse(&format!("{HEAD}{car}{rest}")).unwrap();
    }
}

#[test]
fn lengths_of_runs_are_refused_where_no_case_can_use_them() {
    let cases = "cases:\n  pp: {size: 64}\n  open: {size: 64, rate_hz: 10}\n  graph: \
         {workload: {name: refsys}}\n";
    for (rest, mark, says) in [
        ("run: {cases: [pp], seconds: 5}\n", "seconds", "no case of `run` uses `seconds`"),
        ("quick: {cases: [pp], seconds: 5}\n", "seconds", "write `messages`, or give a `rate_hz`"),
        ("paper: {cases: [graph], messages: 5}\n", "messages", "write `seconds`"),
        ("quick: {cases: [graph], warm_up: 5}\n", "warm_up", "a fifth of its `seconds`"),
    ] {
        let text = parse(&format!("{HEAD}{cases}{rest}")).unwrap_err();
        let (marked, text) = marked(&text);
        assert!(
            marked == mark && text.contains(says) && text.contains("mine.yaml:10"),
            "{rest}: {text}"
        );
    }
    // These keys are accepted: at least one case uses each, and the other cases behave as
    // documented.
    for rest in [
        "run: {seconds: 5, warm_up: 3}\n",
        "run: {messages: 5}\n",
        "run: {cases: [pp, graph], seconds: 5, warm_up: 3}\n",
        "run: {cases: [pp], seconds: 5}\nvary: {rate_hz: [10]}\n",
        "run: {cases: [pp], seconds: 5}\nlink: {rate_hz: 10}\n",
        "run: {seconds: 5}\nquick: {cases: [pp]}\n",
    ] {
        parse(&format!("{HEAD}{cases}{rest}")).unwrap();
    }
    parse(&format!(
        "{HEAD}cases: {{a: {{links: {{x: {{size: 1, rate_hz: 10}}}}}}}}\nrun: {{seconds: 5}}\n"
    ))
    .unwrap();
}

#[test]
fn mistakes_are_explained_with_their_line() {
    for (rest, line, says) in [
        ("cases: {}\n", 6, "nothing to measure"),
        ("cases: {a: {sise: 1}}\n", 6, "did you mean `size`"),
        ("cases: {a: {size: 1 XB}}\n", 6, "is not a size"),
        ("cases:\n  a: {size: 64, wait: poll}\n", 7, "use block, spin"),
        ("cases:\n  a: {size: 64}\nquick: {cases: [b]}\n", 8, "no case 'b'"),
        ("cases:\n  a: {links: {x: {size: 1, hogs: 2}}}\n", 7, "move it up"),
        ("cases:\n  a: {rate_hz: 30}\n", 7, "'a' has no `size`"),
        ("cases: {a: {links: {x: {size: 1}, y: {}}}}\n", 6, "'y' has no `size`"),
        ("cases: {a: {size: 64}}\nlink: {links: {x: {}}}\n", 7, "`links` goes into `cases.NAME`"),
        ("cases:\n  a: {size: 64}\nrun: {messages: 1, seconds: 1}\n", 8, "not both"),
        ("cases:\n  a: {size: 64, subscribers: 0}\n", 7, "subscribers"),
        ("cases: {a: {size: 64}}\nvary: {rate_hz: [0]}\n", 7, "must be between 0.01 and"),
        ("cases: {a: {size: 64}}\nvary: {rate_hz: [10, -5]}\n", 7, "must be between 0.01 and"),
        ("cases: {a: {size: 64}}\nquick: {vary: {subscribers: [0]}}\n", 7, "between 1 and 512"),
        ("cases: {a: {size: 64}}\nvary: {copies: [1000000000]}\n", 7, "between 1 and 256"),
        ("cases: {a: {size: 64}}\nvary: {subscribers: []}\n", 7, "`subscribers` is an empty list"),
        (
            "cases: {a: {size: 64}}\nquick: {systems: []}\n",
            7,
            "name at least one, or remove the key",
        ),
        (
            "cases: {a: {size: 64}}\nvary: {payload: [filled, fill]}\n",
            7,
            "`payload[1]` cannot be `fill`",
        ),
        ("cases:\n  a: {size: 64, rate: 30}\n", 7, "did you mean `rate_hz`?"),
        ("cases: {a: {size: 64}}\nvary: {hogs: [65]}\n", 7, "out of range: 65"),
        ("cases: {a: {size: 64}}\nvary: {depth: [0]}\n", 7, "between 1 and 1024"),
        ("cases: {a: {size: 64}}\nvary: {priority: [100]}\n", 7, "out of range: 100"),
        ("cases: {a: {size: 64}}\nvary: {quota_percent: [0]}\n", 7, "between 1 and 10000"),
        ("cases: {a: &a {size: 64}, b: {<<: *a}}\n", 6, "merge keys"),
        ("cases: {a: {size: 64}}\n---\nscenario: 1\n", 7, "a second document"),
        ("cases:\n  a: {links: {front camera: {size: 1}}}\n", 7, "cannot be a topic"),
        ("cases:\n  a: {size: 64, loss_percent: 1}\n", 7, "add `reach: network`"),
        ("link: {cable_mbit: 100}\ncases: {a: {size: 64}}\n", 6, "`cable_mbit` is about the cable"),
        ("cases: {a: {size: 64}}\nvary: {loss_percent: [0, 2]}\n", 7, "add `reach: network`"),
        ("cases: {a: {size: 64}}\nvary: {delay_ms: [0, 5]}\n", 7, "add `reach: network`"),
        (
            "cases: {a: {size: 64}}\nvary: {cable_mbit: [10, 100]}\n",
            7,
            "`cable_mbit` is about the cable",
        ),
        ("cases:\n  a: {size: 64, delay_ms: 5}\n", 7, "`delay_ms` is about the cable"),
        ("cases: {a: {size: 64, reach: network, delay_ms: 501}}\n", 6, "between 0 and 500"),
        (
            "cases: {a: {size: 64, reach: network}}\nvary: {delay_ms: [5, 501]}\n",
            7,
            "between 0 and 500",
        ),
        (
            "cases:\n  a: {links: {b: {size: 1, delay_ms: 5}}}\n",
            7,
            "belongs to the case as a whole",
        ),
    ] {
        let text = parse(&format!("{HEAD}{rest}")).unwrap_err();
        assert!(
            text.contains(says) && text.contains(&format!("mine.yaml:{line}")),
            "{rest}: {text}"
        );
    }
    let text =
        parse(&format!("{HEAD}cases: {{a: {{size: 64}}}}\nvary: {{rate_hz: [1e-300, 1e300]}}\n"))
            .unwrap_err();
    assert!(
        text.contains("out of range: 1e-300\n") && text.contains("out of range: 1e300\n"),
        "{text}"
    );
    assert!(
        parse(&format!("{HEAD}cases: {{a: {{}}}}\n").replace("id: X", "id: a b"))
            .unwrap_err()
            .contains("letters, digits")
    );
    assert!(
        parse(&HEAD.replace("scenario: 1", "scenario: 2"))
            .unwrap_err()
            .contains("this release reads format 1")
    );
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once_in_the_order_of_its_lines() {
    let peers = driveline_bench::peers::discover(None).unwrap();
    let text = HEAD.replace("id: X", "id: a b")
        + "systems: [drivline]
cases:
  a: {size: 64, wait: poll}
  b: {links: {x: {size: 1, hogs: 2}, y: {}}}
  c: {workload: {name: refsys, parameters: {thread: 5, threads: many}}, hogs: 1}
quick: {cases: [d], messages: 1, seconds: 1}
";
    let document = parse_document(Path::new("mine.yaml"), text).unwrap();
    let LoadError::File(found) = check(document, Some(&peers)).unwrap_err() else {
        panic!("it is a file")
    };
    let rendered: Vec<(u32, &str)> =
        found.iter().map(|d| (d.place.as_ref().unwrap().span.line, d.message.as_str())).collect();
    let expected = [
        (2, "'a b' is no id"),
        (6, "'drivline'"),
        (8, "'poll'"),
        (9, "`hogs` belongs to the case as a whole"),
        (9, "'y' has no `size`"),
        (10, "no parameter 'thread'"),
        (10, "parameter 'threads'"),
        (10, "which has no `hogs`"),
        (11, "there is no case 'd'"),
        (11, "not both"),
    ];
    assert_eq!(rendered.len(), expected.len(), "{rendered:#?}");
    for ((line, said), (at, says)) in rendered.iter().zip(expected) {
        assert!(*line == at && said.contains(says), "{at}: {says} in {rendered:#?}");
    }
    let text = parse(&format!(
        "{HEAD}cases: {{a: {{size: 64, wait: poll}}}}\nrun: {{seconds: 5}}\nanswer: fairness\n"
    ))
    .unwrap_err();
    for rendered in
        ["'poll'", "no case of `run` uses `seconds`", "`fairness` is about several subscribers"]
    {
        assert!(text.contains(rendered), "{rendered}: {text}");
    }
}

/// Returns the marked part of the text, and the whole.
fn marked(text: &str) -> (&str, &str) {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|l| l.trim_start_matches([' ', '|']).starts_with('^'))
        .unwrap_or_else(|| panic!("{text}"));
    let from = lines[at].find('^').unwrap();
    (lines[at - 1].get(from..from + lines[at].matches('^').count()).unwrap(), text)
}

#[test]
fn what_is_marked_is_what_is_wrong() {
    let peers = driveline_bench::peers::discover(None).unwrap();
    for (rest, mark, says) in [
        (
            "systems: [driveline, drivline]\ncases: {a: {size: 64}}\n",
            "drivline",
            "did you mean `driveline`?",
        ),
        (
            "quick: {systems: [fastds]}\ncases: {a: {size: 64}}\n",
            "fastds",
            "did you mean `fastdds`?",
        ),
        ("cases: {a: {size: 64, systems: [zenho]}}\n", "zenho", "did you mean `zenoh`?"),
        ("link: {systems: [zenho]}\ncases: {a: {size: 64}}\n", "zenho", "did you mean `zenoh`?"),
        ("systems: [mine]\ncases: {a: {size: 64}}\n", "mine", "known are driveline, driveline_cpp"),
        ("cases:\n  a: {size: 64, wait: spin:5ms}\n", "spin:5ms", "without a unit: spin:5000"),
        ("cases: {a: {size: 64}}\nlink: {wait: blok}\n", "blok", "did you mean block?"),
        ("cases: {a: {size: 64}}\nvary: {wait: [block, poll]}\n", "poll", "use block, spin"),
        ("cases:\n  a: {links: {x: {size: 1, wait: spin:0}}}\n", "spin:0", "use block, spin"),
        ("cases: {a: {workload: {name: refsis}}}\n", "refsis", "did you mean `refsys`?"),
        (
            "cases: {a: {workload: {name: refsys, parameters: {thread: 5}}}}\n",
            "thread",
            "did you mean `threads`?",
        ),
        (
            "cases: {a: {workload: {name: refsys, parameters: {threads: many}}}}\n",
            "many",
            "parameter 'threads'",
        ),
        (
            "cases: {a: {size: 64}}\nvary: {subscribers: 3}\n",
            "3",
            "write a list: `subscribers: [3]`",
        ),
        ("cases: {a: {size: 64}}\nvary: {wait: spin}\n", "spin", "write a list: `wait: [spin]`"),
        (
            "cases:\n  a: {links: {b: {size: 1, delay_ms: 5}}}\n",
            "delay_ms",
            "next to `links` in `cases.a`",
        ),
        ("delay_ms: 5\ncases: {a: {size: 64}}\n", "delay_ms", "`delay_ms` goes into"),
        (
            "links: {a: {}}\ncases: {a: {size: 64}}\n",
            "links",
            "did you mean `link`? `links` goes into `cases.NAME`",
        ),
        (
            "chain:\n  stages:\n    a: {output: x, work: bytes, environment: {map: MAP}, \
             reads: {mop: file}}\n    b: {inputs: [x], work: copy}\n  edges: {x: 1 \
             KiB}\ncases: {a: {}}\n",
            "mop",
            "did you mean `map`?",
        ),
        ("cases: {near: {size: 64}}\nquick: {cases: [nera]}\n", "nera", "did you mean `near`?"),
        (
            "cases: {near: {size: 64}}\npublished: [{system: a, case: nera}]\n",
            "nera",
            "did you mean `near`?",
        ),
    ] {
        let document = parse_document(Path::new("mine.yaml"), format!("{HEAD}{rest}"))
            .map_err(LoadError::from);
        let checked = document.and_then(|d| check(d, Some(&peers)));
        let text = checked.unwrap_err().to_string();
        let (marked, text) = marked(&text);
        assert!(marked == mark && text.contains(says), "{rest}: {text}");
    }
    for (head, says) in [
        (HEAD.replace("scenario: 1", "scenario: 2"), "the file has format 2"),
        (HEAD.replace("scenario: 1\n", ""), "add `scenario: 1` as the first line"),
    ] {
        let text = parse(&format!("{head}cases: {{a: {{size: 64}}}}\n")).unwrap_err();
        assert!(text.contains(says) && text.contains("mine.yaml:1"), "{text}");
    }
}
