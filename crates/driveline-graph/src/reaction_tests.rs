// SPDX-License-Identifier: Apache-2.0
//! Keys of budgets, rates, limits and reactions.

use super::*;
use std::time::Duration;

fn with(head: &str, sensing: &str, image_output: &str, lane: &str) -> Loaded {
    let text = SOUND
        .replace("modules:\n", &format!("{head}modules:\n"))
        .replace("  sensing:\n", &format!("  sensing:\n{sensing}"))
        .replace(
            "        outputs: { image: camera/image }\n",
            &format!("        outputs: {{image: {image_output}}}\n"),
        )
        .replace("        class: Lane\n", &format!("        class: Lane\n{lane}"));
    Fixture::new(&[("g.yaml", &text)]).load()
}

#[test]
fn reactions_are_those_of_the_key_or_of_the_module() {
    let plain = sound(with("", "", "camera/image", ""));
    assert_eq!(plain.module("sensing").unwrap().watch, ResolvedWatch::default());
    assert_eq!(plain.on_launcher_lost, OnLauncherLost::Stop);
    let keys = "    on_hang: restart\n    on_rate: stop\n    limits: {memory: 1 MiB, threads: 9, \
         descriptors: 64}\n    on_limit: restart\n";
    let rate = "{topic: camera/image, rate_hz: {min: 9.5}}";
    let g = sound(with("on_launcher_lost: stop\n", keys, rate, "        budget_ms: 2.5\n"));
    let sensing = g.module("sensing").unwrap();
    assert_eq!(sensing.watch.hang, Some((HANG, Reaction::Restart)));
    assert_eq!(sensing.watch.limits.memory, Some(ByteSize(1 << 20)));
    assert_eq!(
        (sensing.watch.limits.threads, &sensing.watch.on_limit),
        (Some(9), &Reaction::Restart)
    );
    let rate = ResolvedRate { min: Some(9.5), max: None, reaction: Reaction::Stop };
    assert_eq!(sensing.components[0].outputs[0].rate, Some(rate));
    let lane = g.components().find(|(_, c)| c.class == "Lane").unwrap().1;
    let budget = ResolvedBudget { time: Duration::from_micros(2500), reaction: Reaction::Event };
    assert_eq!(lane.budget, Some(budget));
}

#[test]
fn a_mode_that_the_graph_does_not_have_is_refused() {
    let rate = "{topic: camera/image, rate_hz: {min: 1}, on_rate: {mode: creep}}";
    let lane = "        budget_ms: 2\n        on_overrun: {mode: creep}\n";
    let keys = "    on_hang: {mode: safe_stop}\n";
    let loaded = with("on_launcher_lost: {mode: safe_stop}\n", keys, rate, lane);
    let shown = loaded.diagnostics.render(Colour::No);
    assert_eq!(shown.matches("there is no mode `safe_stop`").count(), 2, "{shown}");
    assert_eq!(shown.matches("there is no mode `creep`").count(), 2, "{shown}");
    assert!(
        shown.contains("the graph has no modes; write `event`, `restart` or `stop`"),
        "{shown}"
    );
    assert!(shown.contains("the graph has no modes; write `stop`"), "{shown}");
}

#[test]
fn keys_that_cannot_work_are_named() {
    for (sensing, output, lane, wanted) in [
        ("", "{topic: camera/image, rate_hz: {}}", "", "neither `min` nor `max`"),
        (
            "",
            "{topic: camera/image, rate_hz: {min: 3, max: 2}}",
            "",
            "`min: 3` is more than `max: 2`",
        ),
        ("", "{topic: camera/image, on_rate: stop}", "", "no `rate_hz`"),
        ("", "camera/image", "        on_overrun: stop\n", "no `budget_ms`"),
        ("    on_hang: explode\n", "camera/image", "", "explode"),
        ("    on_hang: {mood: x}\n", "camera/image", "", "mood"),
        ("    limits: {memory: 0}\n", "camera/image", "", "memory"),
        ("    limits: {memory: 50}\n", "camera/image", "", "such as `50 MiB`"),
        ("    limits: {cpus: 1}\n", "camera/image", "", "cpus"),
        ("    limits: {threads: 3}\n", "camera/image", "", "always has 4 threads"),
        ("    on_overrun: stop\n", "camera/image", "", "no component of `sensing` has"),
        ("    on_rate: stop\n", "camera/image", "", "no output of `sensing` has"),
        ("    on_deadline: stop\n", "camera/image", "", "no input of `sensing` has"),
    ] {
        let shown = with("", sensing, output, lane).diagnostics.render(Colour::No);
        assert!(shown.contains("error") && shown.contains(wanted), "{wanted} is not in\n{shown}");
    }
}

/// The number that is computed for an input counts like one that is written.
#[test]
fn an_input_may_hold_no_more_than_its_module() {
    let input = |held: &str, limit: u32| {
        let text = SOUND
            .replace(
                "  perception:\n",
                &format!("  perception:\n    limits: {{max_held: {limit}}}\n"),
            )
            .replace("qos: {depth: 4}", &format!("{held}qos: {{depth: 4}}"));
        Fixture::new(&[("g.yaml", &text)]).load()
    };
    for (held, limit, text) in [
        (
            "",
            1,
            "the input `image` may hold 3 samples (1 for its trigger, 2 for calls), its module 1",
        ),
        ("max_held: 5, ", 4, "the input `image` may hold 5 samples, its module 4"),
    ] {
        let found = input(held, limit).diagnostics.render(Colour::No);
        assert!(found.contains(text) && found.contains("lower `max_held` of the input"), "{found}");
    }
    sound(input("", 3));
    sound(input("max_held: 5, ", 5));
}
