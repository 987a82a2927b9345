// SPDX-License-Identifier: Apache-2.0
//! Lists and maps as values of parameters.

use super::*;

#[test]
fn lists_and_maps_are_values_in_graphs_files_and_arguments() {
    let main = SOUND
        .replace("name: comp", "params_files: [a.yaml]")
        .replace("{ gain: 2 }", "{ weights: [1, 2.5], pid: { on: false } }");
    let f = Fixture::new(&[("g.yaml", &main), ("a.yaml", "lane:\n  pid:\n    gains: [3, 4]\n")]);
    let lane = |f: &Fixture, set: &[&str]| {
        let g = sound(f.load_with(set, None));
        g.module("perception").unwrap().components[0].parameters.clone()
    };
    let p = lane(&f, &[]);
    assert_eq!(p["weights"].to_string(), "[1.0,2.5]");
    // Each value replaces the one before, over the default of the class.
    assert_eq!(p["pid"].to_string(), r#"{"gains":[3.0,4.0],"on":true}"#);
    let p = lane(&f, &["lane.weights=[]", "lane.pid={on: false}", "lane.model=[a, b]"]);
    assert_eq!((p["weights"].to_string(), p["model"].to_string()), ("[]".into(), "[a, b]".into()));
    assert_eq!(p["pid"].to_string(), r#"{"gains":[1.5],"on":false}"#);
    finds(
        &f.load_with(&["lane.weights=[a]", "lane.pid={off: 1}", "lane.weights=[~]"], None),
        &[
            (
                0,
                "the parameter `weights` of `Lane` is a list, and this is a list",
                "weights: [0.5]",
            ),
            (0, "the parameter `pid` of `Lane` is a map, and this is a map", "pid: {"),
            (0, "`weights` is nothing (null)", ""),
        ],
    );
}

#[test]
fn a_number_out_of_the_declared_range_is_refused_before_the_start() {
    finds(
        &replaced(&[("{ gain: 2 }", "{ canny_low: -1 }")]),
        &[(23, "the parameter `canny_low` of `Lane`: -1 is below 0", "canny_low: 50")],
    );
    let f = Fixture::new(&[("g.yaml", SOUND)]);
    sound(f.load_with(&["lane.canny_low=4294967295"], None));
    let beyond = &[(0, "4294967296 is above 4294967295 (from `--set ", "canny_low: 50")];
    finds(&f.load_with(&["lane.canny_low=4294967296"], None), beyond);
    let modes =
        format!("{SOUND}modes:\n  slow:\n    parameters: {{ lane: {{ canny_low: -2 }} }}\n");
    finds(&graph(&modes), &[(28, "the parameter `canny_low` of `Lane`: -2 is below 0", "50")]);
}
