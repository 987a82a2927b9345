// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::descriptor::{ComponentClass, Port};
use crate::fixture::*;
use driveline::{ParameterValue, Reach};
use driveline_types::{PayloadKind, Qos, Schema};
use std::path::Path;

#[test]
fn libraries_are_looked_at_in_the_environment_of_their_module() {
    /// Describes a library only if `LD_LIBRARY_PATH` has the right value.
    struct Picky;
    impl Describe for Picky {
        fn describe(
            &self,
            path: &Path,
            environment: &Environment,
        ) -> Result<Vec<ComponentClass>, DescribeError> {
            match environment.get("LD_LIBRARY_PATH").map(String::as_str) {
                Some("/opt/ml") => describe(path),
                _ => Err(DescribeError { reason: "libml.so: cannot open".into(), help: None }),
            }
        }
    }
    let module = |name: &str, environment: &str| {
        format!(
            "  {name}:\n    environment: {{{environment}}}\n    components:\n      of_{name}: \
             {{library: libdemo.so, class: Camera}}\n"
        )
    };
    let text = format!(
        "driveline: 1\nmodules:\n{}{}",
        module("with", "LD_LIBRARY_PATH: /opt/ml"),
        module("without", "")
    );
    let f = Fixture::new(&[("g.yaml", &text)]);
    let loaded = load(
        &f.dir.path().join("g.yaml"),
        &LoadOptions { library_dirs: vec![], ..LoadOptions::new(&Picky) },
    );
    finds(&loaded, &[(10, "libml.so: cannot open", "")]);
}

#[test]
fn a_sound_graph_is_resolved_with_all_defaults() {
    let g = sound(graph(SOUND));
    assert_eq!((g.name.as_str(), g.domain.as_str()), ("comp", "comp"));
    assert_eq!(
        g.modules.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
        ["sensing", "perception"]
    );
    let image = &g.topics[&"camera/image".parse().unwrap()];
    assert_eq!(
        (image.reach, image.max_payload, image.pins, image.loans),
        (Reach::Host, 2 << 20, 8, 2)
    );
    assert_eq!(g.topics[&"lanes".parse().unwrap()].max_payload, 256 << 10);
    let camera = &g.module("sensing").unwrap().components[0];
    assert_eq!(
        camera.outputs[1].topic.as_str(),
        "camera/preview",
        "an unconnected output has a topic of its own"
    );
    assert_eq!(camera.trigger, ResolvedTrigger::Own);
    let lane = &g.module("perception").unwrap().components[0];
    assert_eq!(lane.parameters["gain"], ParameterValue::Float(2.0));
    assert_eq!(lane.parameters["canny_low"], ParameterValue::Integer(50));
    assert_eq!(
        (lane.inputs[0].qos.depth, lane.inputs[0].max_held),
        (4, 3),
        "one sample for the trigger, and one for each of two threads"
    );
    assert_eq!(lane.trigger, ResolvedTrigger::Any { on: vec![0], max_age: None });
    let executors: Vec<_> =
        g.modules.iter().map(|m| (m.executors[0].name.as_str(), m.executors[0].threads)).collect();
    assert_eq!(executors, [("main", 1), ("main", 2)]);
    serde_json::to_string(&g).unwrap();
}

#[test]
fn pins_suffice_for_every_subscription_of_the_graph() {
    let mut text = SOUND.to_owned();
    for i in 0..4 {
        text += &format!(
            "      lane{i}: {{library: libdemo.so, class: Lane, inputs: {{image: {{topic: \
             camera/image, max_held: 5}}}}, outputs: {{lanes: lanes}}}}\n"
        );
    }
    assert_eq!(sound(graph(&text)).topics[&"camera/image".parse().unwrap()].pins, 3 + 4 * 5);
    let declared = text.replace("reach: host, max_payload", "reach: host, pins: 4, max_payload");
    finds(&graph(&declared), &[(5, "raised from 4 to 23", "pins: 23")]);
}

#[test]
fn structural_mistakes_are_all_found_at_their_places() {
    let text = "driveline: 2\nmodule: {}\ntopics:\n  a/b: {reach: hosst, max_payload: 2 MiBs, qos: \
         {dept: 1, depth: x}, pins: 0}\n  'bad name': {}\nmodules:\n  m:\n    executors: {main: \
         {threads: 1.5, schedule: {priority: 300}}}\n    components:\n      c:\n        clas: \
         Lane\n        library: 7\n        inputs: {image: [x], b: {topik: x}}\n        trigger: \
         {kind: al_latest}\n        callback_group: 3\n      d: {library: l, class: C, trigger: \
         {on: x}}\n      e: {library: l, class: C, trigger: {kind: exact, on: x}, parameters: {p: \
         {q: ~}}}\n  n:\n";
    finds(
        &graph(text),
        &[
            (1, "the file has format 2", "this release reads format 1"),
            (2, "unknown key `module` at the top", "did you mean `modules`?"),
            (4, "`reach` cannot be `hosst`", "did you mean `host`?"),
            (4, "\"2 MiBs\" is not a size", "did you mean `2 MiB`?"),
            (4, "unknown key `dept` in `topics.a/b.qos`", "did you mean `depth`?"),
            (4, "`depth` needs an integer, and this is the text \"x\"", ""),
            (4, "`pins` is out of range: 0", "between 1 and 8192"),
            (8, "`threads` needs an integer, and this is the number 1.5", ""),
            (8, "`priority` is out of range: 300", ""),
            (10, "the key `class` is missing in `modules.m.components.c`", ""),
            (11, "unknown key `clas`", "did you mean `class`?"),
            (12, "`library` needs text, and this is the integer 7", "quotes"),
            (13, "`image` needs text or a mapping, and this is a list", ""),
            (13, "the key `topic` is missing", ""),
            (13, "unknown key `topik`", "did you mean `topic`?"),
            (14, "`kind` cannot be `al_latest`", "did you mean `all_latest`?"),
            (15, "`callback_group` needs `mutually_exclusive`", ""),
            (16, "`trigger` needs the key `kind`", "kind: timer"),
            (17, "unknown key `on`", "known keys"),
            (
                17,
                "`q` needs true or false or an integer or a number or text or a list or a mapping, \
                 and this is nothing",
                "",
            ),
            (18, "`n` needs a mapping, and this is nothing", "remove the key"),
        ],
    );
}

#[test]
fn a_graph_that_nothing_can_run_of_is_refused_as_it_is_by_a_run() {
    finds(
        &graph("driveline: 1\n"),
        &[(1, "the graph has no modules, so there is nothing to run", "add `modules:`")],
    );
}

/// Changes to the sound graph, and the findings that they cause.
type Case = (&'static [(&'static str, &'static str)], &'static [(u32, &'static str, &'static str)]);

/// `driveline-host` loads graphs in this way, because its launcher has checked them.
#[test]
fn keys_of_gateways_that_another_process_knows_are_skipped_and_their_pins_are_kept() {
    let mut text = SOUND.replace("driveline: 1\n", "driveline: 1\nbridge: {rules: [a]}\n");
    for i in 0..4 {
        text += &format!(
            "      lane{i}: {{library: libdemo.so, class: Lane, inputs: {{image: {{topic: \
             camera/image, max_held: 5}}}}, outputs: {{lanes: lanes}}}}\n"
        );
    }
    finds(&graph(&text), &[(2, "unknown key `bridge`", "")]);
    let pins = |text: &str, carried: Option<&[&str]>| {
        let f = Fixture::new(&[("g.yaml", text)]);
        let carried = carried.map(|topics| topics.iter().map(|t| (*t).to_owned()).collect());
        let options = LoadOptions {
            library_dirs: vec![],
            registered: Registered::Elsewhere { carried },
            ..LoadOptions::new(&describe)
        };
        let loaded = load(&f.path().join("g.yaml"), &options);
        sound(loaded).topics[&"camera/image".parse().unwrap()].pins
    };
    let needed = 3 + 4 * 5;
    assert_eq!(pins(&text, Some(&[])), needed);
    assert_eq!(pins(&text, Some(&["lanes", "camera/image"])), needed + 1);
    // If the topics are unknown, a gateway may read any topic. This holds only if a key was
    // skipped.
    assert_eq!(pins(&text, None), needed + 1);
    assert_eq!(pins(&text.replace("bridge: {rules: [a]}\n", ""), None), needed);
}

#[test]
fn a_value_of_another_kind_is_refused_with_all_kinds_that_fit() {
    let head = "driveline: 1\nmodules:\n  m:\n";
    finds(
        &graph(&format!("{head}    cpus: x\n    components: {{}}\n")),
        &[(4, "`cpus` needs a number or a list, and this is the text \"x\"", "share of CPU time")],
    );
    let trigger = "{library: l, class: C, trigger: {kind: all_latest, on: [image]}}";
    finds(
        &graph(&format!("{head}    components:\n      c: {trigger}\n")),
        &[(5, "`on` needs text, and this is a list", "without brackets: `image`")],
    );
}

#[test]
fn a_domain_that_no_run_could_join_is_refused() {
    for domain in ["a/b", "my car", "''"] {
        finds(
            &replaced(&[("domain: comp", &format!("domain: {domain}"))]),
            &[(3, "at most 64 letters, digits, '_' and '-'", "")],
        );
    }
}

#[test]
fn of_two_spellings_the_declared_one_is_right() {
    let graph_of = |declared: &str, output: &str, input: &str| {
        let camera =
            format!("camera: {{library: libdemo.so, class: Camera, outputs: {{image: {output}}}}}");
        let lane =
            format!("lane: {{library: libdemo.so, class: Lane, inputs: {{image: {input}}}}}");
        graph(
            &format!(
                "driveline: 1\ntopics:\n  image: {{max_payload: 9}}\n  imag: {{max_payload: \
             9}}\nmodules:\n  m:\n    components:\n      {camera}\n      {lane}\n"
            )
            .replace(&format!("  {declared}: {{max_payload: 9}}\n"), ""),
        )
    };
    let helps = |loaded: &Loaded| -> Vec<String> {
        loaded
            .diagnostics
            .iter()
            .filter(|d| d.message.contains("no component ") && !d.message.contains(" uses "))
            .filter_map(|d| d.help.clone())
            .collect()
    };
    assert_eq!(
        helps(&graph_of("imag", "imag", "image")),
        ["did you mean `image`?", "`imag` is published, but not read: did you mean `image` there?"]
    );
    assert_eq!(
        helps(&graph_of("imag", "image", "imag")),
        ["`imag` is read, but not published: did you mean `image` there?", "did you mean `image`?"]
    );
    assert!(
        helps(&graph_of("none", "image", "imag"))[0]
            .ends_with("one of the two is probably misspelt")
    );
}

#[test]
fn a_port_with_a_misspelt_topic_is_reported() {
    let graph_of = |declared: &str, components: &[&str]| {
        let modules = components
            .iter()
            .enumerate()
            .map(|(i, c)| format!("  m{i}:\n    components:\n      {c}\n"))
            .collect::<String>();
        graph(&format!("driveline: 1\ntopics:\n  camera/img: {declared}\nmodules:\n{modules}"))
    };
    let camera = "camera: {library: libdemo.so, class: Camera, outputs: {image: camera/image}}";
    let lane = "lane: {library: libdemo.so, class: Lane, inputs: {image: camera/image}}";
    let meant = "did you mean `camera/img`? If `camera/image` is right, correct it where \
         `camera/img` is declared";
    let network = "{reach: network, max_payload: 1 MiB}";
    let only_lane = graph_of(network, &[lane]);
    finds(&only_lane, &[(7, "no component publishes the topic `camera/image`", meant)]);
    let related = &only_lane.diagnostics.iter().find(|d| d.place.is_some()).unwrap().related[0];
    assert_eq!(
        (related.place.span.line, related.message.as_str()),
        (3, "`camera/img` is declared here, and no component uses it")
    );
    finds(
        &graph_of(network, &[camera]),
        &[(7, "no component reads the topic `camera/image`", meant)],
    );
    // Only the first of the findings that a correct entry would solve is reported.
    finds(
        &graph_of("{reach: host}", &[camera, lane]),
        &[(10, "reaches only its own process", meant)],
    );
    // Samples from outside of the graph count as published.
    let other = "other: {library: libdemo.so, class: Lane, inputs: {image: camera/img}}";
    let external = "{reach: host, external: true, max_payload: 1 MiB}";
    finds(
        &graph_of(external, &[lane, other]),
        &[(7, "no component publishes the topic `camera/image`", "did you mean `camera/img`?")],
    );
}

#[test]
fn a_topic_that_is_declared_itself_is_not_what_another_declared_one_means() {
    let text = "driveline: 1\ntopics:\n  f: {max_payload: 9}\n  g: {max_payload: 9}\nmodules:\n  \
         m:\n    components:\n      camera: {library: libdemo.so, class: Camera, outputs: {image: \
         f}}\n      lane: {library: libdemo.so, class: Lane, inputs: {image: f}}\n";
    finds(
        &graph(text),
        &[(4, "no component uses the topic `g`", "remove it, or connect a port to it")],
    );
}

#[test]
fn a_declared_name_that_no_topic_can_have_is_refused_and_never_suggested() {
    let loaded = graph(&SOUND.replace("  camera/image: {", "  camera image: {"));
    let all: Vec<&Diagnostic> = loaded.diagnostics.iter().collect();
    let refused = all.iter().find(|d| d.place.as_ref().is_some_and(|p| p.span.line == 5)).unwrap();
    assert!(
        refused.message.contains("\"camera image\"")
            && refused.help.as_deref() == Some("did you mean `camera/image`?"),
        "{all:?}"
    );
    let suggests =
        |d: &&Diagnostic| d.help.as_deref().unwrap_or_default().contains("`camera image`");
    assert!(!all.iter().any(suggests), "{all:?}");
}

#[test]
fn an_impossible_topic_name_is_reported_in_the_order_of_words() {
    let loaded = graph(
        "driveline: 1\ntopics:\n  /abs/name: {}\nmodules:\n  m:\n    components:\n      maker: \
         {library: libdemo.so, class: Maker, outputs: {value: v}}\n      taker: {library: \
         libdemo.so, class: Taker, inputs: {value: v}}\n",
    );
    let found = loaded.diagnostics.iter().next().unwrap();
    assert!(
        found.message.starts_with("the name \"/abs/name\" is not valid: it starts with '/'"),
        "{}",
        found.message
    );
}

#[test]
fn a_scenario_of_the_lab_is_one_finding() {
    let scenario =
        "# A scenario\nscenario: 1\nid: mine\ntitle: t\nsystems: [driveline]\ncases: {a: {}}\n";
    finds(
        &graph(scenario),
        &[(2, "this is a scenario, not a graph", "g.yaml --dry-run` checks it")],
    );
    // In a graph, a key of the other kind of file is an unknown key.
    assert!(
        graph("driveline: 1\nscenario: 1\nmodules: {}\n")
            .diagnostics
            .iter()
            .any(|d| d.message.contains("unknown key `scenario`"))
    );
}

#[test]
fn references_that_lead_nowhere_come_with_a_suggestion() {
    let cases: &[Case] = &[
        (
            &[("class: Lane", "class: Lanes")],
            &[(21, "has no component class `Lanes`", "did you mean `Lane`?")],
        ),
        (
            &[("library: libdemo.so", "library: ./libdemos.so")],
            &[(11, "`./libdemos.so` does not exist", "did you mean `./libdemo.so`?")],
        ),
        (
            &[("callback_group: reentrant", "trigger: {kind: all_latest}")],
            &[(
                22,
                "the key `on` is missing in `modules.perception.components.lane.trigger`",
                "`on: image`",
            )],
        ),
        (
            &[("library: libdemo.so", "library: libdemos.so")],
            &[(11, "`libdemos.so` does not exist", "did you mean `libdemo.so`?")],
        ),
        (
            &[("library: libdemo.so", "library: libbroken.so")],
            &[(11, "cannot be used: it is not a component library", "link it")],
        ),
        (
            &[("{ image: camera/image }", "{ imag: camera/image }")],
            &[(5, "", ""), (13, "has no output `imag`", "did you mean `image`?")],
        ),
        (
            &[("callback_group: reentrant", "executor: mian")],
            &[(22, "no executor `mian`", "did you mean `main`?")],
        ),
        (&[("gain: 2", "gian: 2")], &[(23, "no parameter `gian`", "did you mean `gain`?")]),
        (
            &[("gain: 2", "draw: 2")],
            &[(23, "`draw` of `Lane` is a boolean, and this is an integer", "draw: false")],
        ),
        (
            &[("callback_group: reentrant", "trigger: {kind: all_latest, on: imgae}")],
            &[(22, "the input `imgae`", "did you mean `image`?")],
        ),
        (&[("class: fifo, priority: 50", "class: fifo")], &[(17, "needs a priority", "1 (low)")]),
        (
            &[("class: fifo, priority: 50", "priority: 50")],
            &[(17, "only real-time classes", "fifo")],
        ),
        (
            &[("class: fifo, priority: 50", "class: idle, nice: 3")],
            &[(17, "no nice value", "other")],
        ),
    ];
    for (changes, expected) in cases {
        let loaded = replaced(changes);
        if expected.len() == 1 {
            finds(&loaded, expected);
        } else {
            // A misspelt port also leaves its topic without a publisher.
            let shown = loaded.diagnostics.render(Colour::No);
            assert!(shown.contains(expected[1].1) && shown.contains(expected[1].2), "{shown}");
        }
    }
}

/// The bounds are those that publishers and subscriptions check. So a start accepts every value
/// that `validate` permits.
#[test]
fn a_module_with_a_domain_directory_of_its_own_is_noticed() {
    let own = "  sensing:\n    environment: {DRIVELINE_DOMAIN_DIR: /tmp/x}\n";
    finds(
        &replaced(&[("  sensing:\n", own)]),
        &[(9, "puts the module `sensing` into a domain of its own", "remove it here")],
    );
}

#[test]
fn mappings_are_listed_among_possible_values() {
    finds(
        &graph("driveline: 1\ntopics:\n  t: {reach: host, access: bob}\nmodules: {}\n"),
        &[(3, "`access` cannot be `bob`", "`own_user`, `anyone`, `{ users: [NUMBER] }`")],
    );
}

#[test]
fn bounds_are_those_of_the_endpoints() {
    use driveline_types::limits::{MAX_HELD, MAX_LOANS, MAX_PINS};
    let text = |pins: u32, loans: u32, held: u32, depth: u32, ms: u32| {
        graph(&format!(
            "driveline: 1\ntopics:\n  t: {{pins: {pins}, loans: {loans}, qos: {{depth: {depth}, \
             deadline_ms: {ms}, lifespan_ms: {ms}, lease_ms: {ms}}}}}\nmodules:\n  m:\n    \
             components:\n      c: {{library: l, class: C, inputs: {{x: {{topic: t, max_held: \
             {held}}}}}}}\n"
        ))
    };
    let problems = |loaded: Loaded| loaded.diagnostics.render(Colour::No);
    let fine = problems(text(MAX_PINS, MAX_LOANS, MAX_HELD, Qos::MAX_DEPTH, 1));
    assert!(!fine.contains("out of range"), "{fine}");
    let wrong = problems(text(MAX_PINS + 1, MAX_LOANS + 1, MAX_HELD + 1, Qos::MAX_DEPTH + 1, 0));
    for key in ["pins", "loans", "max_held", "depth", "deadline_ms", "lifespan_ms", "lease_ms"] {
        assert!(wrong.contains(&format!("`{key}` is out of range")), "{key}: {wrong}");
    }
}

#[test]
fn type_mismatch_and_objects_beyond_a_process_are_errors() {
    let two = |extra: &str| {
        format!(
            "driveline: 1\ntopics: {{t: {{{extra}}}}}\nmodules:\n  m:\n    components:\n      a: \
             {{library: libdemo.so, class: Maker, outputs: {{value: t}}}}\n      b: {{library: \
             libdemo.so, class: Taker, inputs: {{value: t}}}}\n"
        )
    };
    sound(graph(&two("")));
    finds(
        &graph(&two("reach: host")),
        &[(2, "carries objects (`a.value`)", "remove `reach: host`")],
    );
    let wrong = two("max_payload: 1")
        .replace("class: Taker, inputs: {value: t}", "class: Lane, inputs: {image: t}");
    finds(
        &graph(&wrong),
        &[(
            7,
            "the output `a.value` publishes object `demo/Value`, and the input `b.image` expects \
             bytes `demo/Image`",
            "connect `b.image` to a topic of `demo/Image`; or `a.value` to another topic",
        )],
    );
}

#[test]
fn a_unit_after_a_number_is_reported_with_the_number_to_write() {
    let with = |period: &str| {
        graph(&format!(
            "driveline: 1\nmodules:\n  m:\n    components:\n      c: {{library: libdemo.so, class: \
             Camera, trigger: {{kind: timer, period_ms: {period}}}}}\n"
        ))
    };
    for (period, write) in [
        ("20s", "20000"),
        ("20 ms", "20"),
        ("0.5 s", "500"),
        ("250us", "0.25"),
        ("1 min", "60000"),
        ("33.3ms", "33.3"),
    ] {
        let help = format!("Write a plain number, which is in milliseconds: `period_ms: {write}`");
        finds(&with(period), &[(5, "`period_ms` needs a number, and this is the text", &help)]);
    }
    for unknown in ["soon", "20 parsecs", "1.2.3 s"] {
        let loaded = with(unknown);
        finds(&loaded, &[(5, "`period_ms` needs a number, and this is the text", "")]);
        assert!(!loaded.diagnostics.render(Colour::No).contains("plain number"));
    }
}

#[test]
fn circles_need_a_timer_or_another_trigger() {
    let circle = |trigger: &str| {
        format!(
            "driveline: 1\ntopics: {{lanes: {{reach: host, external: true}}}}\nmodules:\n  m:\n    \
             components:\n      f: {{library: libdemo.so, class: Fusion, inputs: {{lanes: lanes, \
             scene: scene}}, outputs: {{scene: scene}}{trigger}}}\n"
        )
    };
    finds(&graph(&circle("")), &[(6, "in a circle without a timer: f → f", "all_latest")]);
    finds(&graph(&circle(", trigger: {kind: all_latest, on: scene}")), &[(6, "f → f", "timer")]);
    sound(graph(&circle(", trigger: {kind: all_latest, on: lanes}")));
    sound(graph(&circle(", trigger: {kind: any, on: [lanes]}")));
    finds(
        &graph(&circle(", trigger: {kind: any, on: [lane]}")),
        &[(6, "the trigger names the input `lane`", "`lanes`")],
    );
    sound(graph(&circle(", trigger: {kind: timer, period_ms: 50}")));
}

#[test]
fn inputs_must_be_connected_and_hold_what_their_trigger_needs() {
    let g = |rest: &str| {
        graph(&format!(
            "driveline: 1\ntopics: {{a: {{reach: host, external: true}}, b: {{reach: host, \
             external: true}}, c: {{reach: host, external: true}}}}\nmodules:\n  m:\n    \
             components:\n      f: {{library: libdemo.so, class: Fusion, outputs: {{scene: c}}, \
             {rest}}}\n"
        ))
    };
    finds(
        &g("inputs: {lanes: a}"),
        &[
            (2, "no component uses the topic `b`", ""),
            (6, "the input `scene` of `f` is not connected", "`scene: TOPIC`"),
        ],
    );
    finds(
        &g("inputs: {lanes: a, scene: {topic: b, max_held: 3}}, trigger: {kind: exact, queue: 5}"),
        &[(6, "needs to hold 7 samples of `scene`, not 3", "raise it to 7")],
    );
    let graph = sound(g(
        "inputs: {scene: b, lanes: a}, trigger: {kind: approximate, queue: 5, max_interval_ms: \
         0.5}",
    ));
    let f = &graph.modules[0].components[0];
    assert_eq!(
        f.inputs.iter().map(|i| i.port.as_str()).collect::<Vec<_>>(),
        ["lanes", "scene"],
        "the class's order counts"
    );
    assert_eq!(f.inputs[0].max_held, 8);
    assert!(matches!(
        f.trigger,
        ResolvedTrigger::Approximate { max_interval: Some(d), .. } if d.as_micros() == 500
    ));
}

#[test]
fn later_assignments_win_and_unknown_ones_are_errors() {
    let main = SOUND.replace("name: comp", "params_files: [a.yaml, b.yaml]");
    let f = Fixture::new(&[
        ("g.yaml", &main),
        ("a.yaml", "lane: {canny_low: 1, gain: 3, model: a}\n"),
        ("b.yaml", "# comment\nlane:\n  canny_low: 2\n"),
    ]);
    let g = sound(f.load_with(&["lane.model=7", "lane.draw=true"], None));
    let p = &g.module("perception").unwrap().components[0].parameters;
    assert_eq!(p["canny_low"], ParameterValue::Integer(2));
    assert_eq!(p["gain"], ParameterValue::Float(3.0));
    assert_eq!(p["model"], ParameterValue::Text("7".into()), "text stays text");
    assert_eq!(p["draw"], ParameterValue::Bool(true));
    for (given, text) in [("1.50", "1.50"), ("007", "007"), ("x # y", "x # y"), ("\"x\"", "x")] {
        let g = sound(f.load_with(&[&format!("lane.model={given}")], None));
        let model = &g.module("perception").unwrap().components[0].parameters["model"];
        assert_eq!(*model, ParameterValue::Text(text.into()), "{given}");
    }

    finds(
        &f.load_with(&["lane", "lain.gain=1", "lane.gian=1", "lane.draw=[x"], None),
        &[
            (0, "`--set lane` is not an assignment", "component.parameter=value"),
            (0, "no component `lain`", "did you mean `lane`?"),
            (0, "no parameter `gian` (from `--set lane.gian=1`)", "did you mean `gain`?"),
            (0, "is a boolean, and this is text", "draw: false"),
        ],
    );
    let f = Fixture::new(&[
        ("g.yaml", &main),
        ("a.yaml", "lane: 5\n"),
        ("b.yaml", "lame:\n  canny_low: 2\nlane: {gain: [1]}\n"),
    ]);
    finds(
        &f.load(),
        &[
            (1, "`lane` needs parameters, and this is the integer 5", "parameter: value"),
            (3, "the parameter `gain` of `Lane` is a number, and this is a list", "gain: 1.5"),
        ],
    );
    std::fs::write(f.dir.path().join("a.yaml"), "").unwrap();
    finds(
        &f.load(),
        &[
            (1, "no component `lame`", "`lane`"),
            (3, "the parameter `gain` of `Lane` is a number, and this is a list", "gain: 1.5"),
        ],
    );
}

#[test]
fn included_files_are_joined_and_conflicts_name_both_places() {
    let sensing = "driveline: 1\ndomain: other\ntopics:\n  t: {reach: host, external: true, \
         max_payload: 1}\nmodules:\n  sensing:\n    components:\n      camera: {library: \
         libdemo.so, class: Camera, outputs: {image: t}}\n";
    let f = Fixture::new(&[
        ("g.yaml", "driveline: 1\ndomain: mine\ninclude: [s.yaml, s.yaml]\n"),
        ("s.yaml", sensing),
    ]);
    let g = sound(f.load());
    assert_eq!((g.domain.as_str(), g.modules.len()), ("mine", 1));

    let clash = "driveline: 1\ninclude: [s.yaml]\nmodules: {sensing: {components: {}}}\n";
    let f = Fixture::new(&[("g.yaml", clash), ("s.yaml", sensing)]);
    let loaded = f.load();
    finds(&loaded, &[(3, "the module `sensing` is defined in two files", "params_files")]);
    let d = loaded.diagnostics.iter().next().unwrap();
    assert_eq!(d.related[0].place.span.line, 6);

    let f = Fixture::new(&[
        ("g.yaml", "driveline: 1\ninclude: [s.yaml, none.yaml]\n"),
        ("s.yaml", "driveline: 1\ninclude: [g.yaml]\n"),
    ]);
    finds(
        &f.load(),
        &[
            (2, "cannot read", "relative to the file"),
            (2, "include each other: g.yaml → s.yaml → g.yaml", "remove one"),
        ],
    );
    finds(
        &load_path(Path::new("/nonexistent/g.yaml")),
        &[(0, "cannot read /nonexistent/g.yaml", "check the path")],
    );
}

#[test]
fn graphs_beyond_all_measure_are_refused_before_they_are_compared() {
    let list =
        |n: usize, item: &dyn Fn(usize) -> String| (0..n).map(item).collect::<Vec<_>>().join(", ");
    let refused = |text: String, message: &str, help: &str| {
        let loaded = graph(&text);
        assert!(loaded.graph.is_none());
        let first = loaded.diagnostics.iter().next().unwrap();
        assert!(
            first.message.contains(message)
                && first.help.as_deref().unwrap_or_default().contains(help),
            "{first:?}"
        );
        assert!(loaded.diagnostics.iter().count() <= Diagnostics::MOST);
        assert!(loaded.diagnostics.render(Colour::No).len() < 1 << 20);
    };
    let most = "at most";
    refused(
        format!("driveline: 1\ntopics: {{{}}}\n", list(4001, &|i| format!("t{i}: {{}}"))),
        most,
        "several graphs",
    );
    refused(
        format!("driveline: 1\nmodules: {{{}}}\n", list(1001, &|i| format!("m{i}: {{}}"))),
        most,
        "several graphs",
    );
    let component = |i: usize| format!("c{i}: {{library: l, class: C}}");
    refused(
        format!("driveline: 1\nmodules: {{m: {{components: {{{}}}}}}}\n", list(1001, &component)),
        most,
        "several graphs",
    );
    let ports = list(10_001, &|i| format!("p{i}: t"));
    let text = format!(
        "driveline: 1\nmodules: {{m: {{components: {{c: {{library: l, class: C, outputs: \
         {{{ports}}}}}}}}}}}\n"
    );
    refused(text, most, "several graphs");
    refused(
        format!("driveline: 1\ninclude: [{}]\n", list(10_000, &|i| format!("x{i}.yaml"))),
        "cannot read",
        "relative",
    );
    // Each circle is one finding. There can be very many, so only the first ten are reported.
    let component =
        |i: usize| format!("c{i}: {{library: l, class: C, inputs: {{a: t}}, outputs: {{b: t}}}}");
    let text =
        format!("driveline: 1\nmodules: {{m: {{components: {{{}}}}}}}\n", list(100, &component));
    let f = Fixture::new(&[("g.yaml", &text)]);
    assert_eq!(f.load_with(&[], Some(&[])).diagnostics.errors(), 10);
    // The report stays small, however long a line or a name is.
    refused(
        format!("{{driveline: 1, {}}}", list(5000, &|i| format!("key{i}: 1"))),
        "unknown key `key0`",
        "known keys",
    );
    refused(
        format!("driveline: 1\n? {}\n: 1\n", "k".repeat(100_000)),
        "unknown key `kkk",
        "known keys",
    );
}

fn load_path(path: &Path) -> Loaded {
    load(path, &LoadOptions { library_dirs: vec![], ..LoadOptions::new(&describe) })
}

#[test]
fn a_module_can_start_alone_where_the_others_libraries_are_missing() {
    let text = SOUND.replacen("library: libdemo.so", "library: libelsewhere.so", 1);
    let f = Fixture::new(&[("g.yaml", &text)]);
    finds(&f.load(), &[(11, "`libelsewhere.so` does not exist", "searched")]);
    let g = sound(f.load_with(&[], Some(&["perception"])));
    assert_eq!(
        g.topics[&"camera/image".parse().unwrap()].schema.as_ref().unwrap().name,
        "demo/Image"
    );
    finds(
        &f.load_with(&[], Some(&["perceptio"])),
        &[(0, "no module `perceptio`", "did you mean `perception`?")],
    );
}

#[test]
fn component_names_are_unique_in_a_graph() {
    let text = SOUND.replace("      camera:", "      lane:");
    let loaded = graph(&text);
    finds(&loaded, &[(19, "the component `lane` exists twice", "perception_lane")]);
}

#[test]
fn the_graph_in_the_documentation_is_valid() {
    let page = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/graph-files.md"),
    )
    .unwrap();
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let g = sound(Fixture::new(&[("g.yaml", text)]).load_with(&[], Some(&[])));
    assert_eq!((g.modules.len(), g.components().count(), g.topics.len()), (2, 2, 3));
}

#[path = "generated_tests.rs"]
mod generated;
#[path = "parameter_tests.rs"]
mod parameter_values;
#[path = "payload_tests.rs"]
mod payload;

#[path = "reaction_tests.rs"]
mod reaction_keys;
#[path = "reading_tests.rs"]
mod reading;
#[path = "supervision_tests.rs"]
mod supervision_keys;

#[path = "modes_tests.rs"]
mod modes_keys;

#[path = "standby_tests.rs"]
mod standby_keys;

#[path = "topology_tests.rs"]
mod topology;
