// SPDX-License-Identifier: Apache-2.0
//! Generated graph texts: loading never panics, and each text gives a graph or an error.
use super::*;
use proptest::prelude::*;

fn yaml_like() -> impl Strategy<Value = String> {
    let keys = [
        "driveline",
        "modules",
        "topics",
        "components",
        "a",
        "class",
        "library",
        "inputs",
        "trigger",
        "kind",
        "qos",
        "depth",
        "pins",
    ];
    let values = [
        "1",
        "",
        "{}",
        "[]",
        "x",
        "host",
        "any",
        "{kind: any}",
        "{depth: 0}",
        "-3",
        "1.5",
        "2 MiB",
        "*a",
        "&a {b: c}",
        "libdemo.so",
        "Lane",
    ];
    let line = (
        0usize..5,
        proptest::sample::select(keys.to_vec()),
        proptest::sample::select(values.to_vec()),
    );
    proptest::collection::vec(line, 0..25).prop_map(|lines| {
        let mut text = String::from("driveline: 1\n");
        for (depth, key, value) in lines {
            text += &format!("{}{key}: {value}\n", "  ".repeat(depth));
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn graph_like_text_gives_findings_or_a_graph(text in yaml_like()) {
        let loaded = graph(&text);
        prop_assert_eq!(loaded.graph.is_none(), loaded.diagnostics.errors() > 0);
        let _ = loaded.diagnostics.render(Colour::Yes);
    }

    #[test]
    fn a_sound_graph_with_a_slip_never_panics(
        at in 0usize..SOUND.len(),
        with in "\\PC?|\\n|  ",
        cut in 0usize..12,
    ) {
        let end = (at + cut).min(SOUND.len());
        let loaded = graph(&format!("{}{with}{}", &SOUND[..at], &SOUND[end..]));
        prop_assert_eq!(loaded.graph.is_none(), loaded.diagnostics.errors() > 0);
    }

    #[test]
    fn any_assignment_is_taken_or_refused(
        argument in "\\PC{0,30}|lane\\.(gain|model|draw)=\\PC{0,20}",
    ) {
        let f = Fixture::new(&[("g.yaml", SOUND)]);
        let _ = f.load_with(&[&argument], None);
    }
}
