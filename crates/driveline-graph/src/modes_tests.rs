// SPDX-License-Identifier: Apache-2.0
//! Keys of modes.

use super::*;
use crate::{ModeOrder, ModeSource};
use std::time::Duration;

fn with_modes(modes: &str) -> Loaded {
    graph(&format!("{SOUND}{modes}"))
}

#[test]
fn keys_and_defaults_are_resolved() {
    let g = sound(with_modes(
        "initial_mode: drive
modes:
  stop: { active: [], latch: true }
  drive:
    active: [lane]
    parameters: { lane: { gain: 3 } }
    entry: { ready: [sensing], rates: { camera/image: 20 }, ages: { camera/image: 100 } }
    enter_within_ms: 200
    fallback: [stop]
    min_dwell_ms: 500
    switched_by: [command, reaction, lane]
    order: deactivate_first
",
    ));
    let modes = g.modes.unwrap();
    assert_eq!(modes.initial, 1);
    let [stop, drive] = &modes.modes[..] else { panic!("{modes:?}") };
    assert_eq!(
        (stop.name.as_str(), stop.latch, stop.enter_within, stop.order, &stop.switched_by),
        ("stop", true, Duration::from_secs(1), ModeOrder::ActivateFirst, &None)
    );
    assert_eq!(drive.active, ["lane"]);
    assert_eq!(drive.parameters["lane"]["gain"], ParameterValue::Float(3.0));
    assert_eq!(drive.ready, ["sensing"]);
    assert_eq!(drive.rates, [("camera/image".parse().unwrap(), 20.0)]);
    assert_eq!(drive.ages, [("camera/image".parse().unwrap(), Duration::from_millis(100))]);
    assert_eq!((drive.fallback.as_slice(), drive.order), (&[0][..], ModeOrder::DeactivateFirst));
    assert_eq!(drive.min_dwell, Duration::from_millis(500));
    let sources =
        [ModeSource::Command, ModeSource::Reaction, ModeSource::Component("lane".to_owned())];
    assert_eq!(drive.switched_by.as_deref(), Some(&sources[..]));
    assert!(modes.is_modal("lane") && !modes.is_modal("camera"));
}

#[test]
fn a_mode_does_not_wait_for_what_only_it_publishes() {
    let modes_of = |graph_text: &str, rates: &str, other: &str| {
        let text = format!(
            "modes:\n  stop: {{ active: [{other}] }}\n  drive: {{ active: [lane], entry: {{ rates: \
             {{ {rates}: 20 }} }} }}\n"
        );
        graph(&format!("{graph_text}{text}"))
    };
    let modes = |rates: &str, other: &str| modes_of(SOUND, rates, other);
    sound(modes("camera/image", ""));
    sound(modes("lanes", "lane"));
    sound(modes("lanes", ""));
    let own = SOUND.replace("lanes: { reach: host, external: true }", "lanes: { reach: host }");
    let shown = modes_of(&own, "lanes", "").diagnostics.render(crate::Colour::No);
    assert!(shown.contains("`lanes` has no samples before the mode is entered"), "{shown}");
}

#[test]
fn a_graph_without_modes_has_none() {
    assert_eq!(sound(graph(SOUND)).modes, None);
}

#[test]
fn reactions_lead_only_to_modes_that_accept_them() {
    for (sources, found) in [("command", 3), ("command, reaction", 0)] {
        let modes = format!(
            "on_launcher_lost: {{ mode: stop }}\nmodes:\n  drive: {{ active: [lane] }}\n  \
             stop: {{ active: [], switched_by: [{sources}] }}\n"
        );
        let keys = "  sensing:\n    restart: { policy: on_failure, on_exhausted: { mode: stop } }\n\
                    \x20   on_hang: { mode: stop }\n";
        let text = format!("{SOUND}{modes}").replacen("  sensing:\n", keys, 1);
        let loaded = graph(&text);
        let shown = loaded.diagnostics.render(Colour::No);
        assert_eq!(loaded.diagnostics.iter().count(), found, "{shown}");
        let text = "this reaction may not switch to mode `stop`";
        assert_eq!(shown.matches(text).count(), found, "{shown}");
    }
}

#[test]
fn a_mode_that_nothing_can_request_is_the_initial_one_or_a_fallback() {
    let found = |initial: &str, drive: &str| {
        let modes = format!(
            "initial_mode: {initial}\nmodes:\n  drive: {{ active: [lane]{drive} }}\n  \
             stop: {{ active: [], switched_by: [] }}\n"
        );
        graph(&format!("{SOUND}{modes}")).diagnostics.render(Colour::No)
    };
    assert!(found("drive", "").contains("no source may request it"), "{}", found("drive", ""));
    assert_eq!(found("stop", ""), "");
    assert_eq!(found("drive", ", fallback: [stop]"), "");
}

#[test]
fn a_module_that_stays_down_leads_to_a_mode_that_can_be_entered_without_it() {
    let found = |stop: &str| {
        let modes = format!(
            "modes:\n  drive: {{ active: [lane] }}\n  limp: {{ active: [camera] }}\n  \
             halt: {{ active: [] }}\n  stop: {{ {stop} }}\n"
        );
        let keys =
            "  sensing:\n    restart: { policy: on_failure, on_exhausted: { mode: stop } }\n";
        let loaded = graph(&format!("{SOUND}{modes}").replacen("  sensing:\n", keys, 1));
        loaded.diagnostics.render(Colour::No)
    };
    let cannot = "mode `stop` cannot be entered while `sensing` is down: ";
    for (stop, why) in [
        ("active: [camera]", "`camera` is active in it"),
        ("entry: { ready: [sensing] }", "its `entry` needs this module"),
        ("entry: { ages: { camera/image: 100 } }", "its `entry` needs `camera/image`, which only"),
        ("active: [camera], fallback: [limp]", "`camera` is active in it"),
    ] {
        let shown = found(stop);
        assert!(shown.contains(&format!("{cannot}{why}")), "{stop}: {shown}");
    }
    for stop in ["entry: { ages: { lanes: 100 } }", "active: [camera], fallback: [limp, halt]"] {
        assert_eq!(found(stop), "", "{stop}");
    }
}

#[test]
fn references_are_checked() {
    finds(
        &with_modes(
            "initial_mode: driv
modes:
  drive:
    active: [lane, lan, lane]
    parameters: { lan: { gain: 3 }, lane: { gian: 3, canny_low: high } }
    entry: { ready: [sensin], rates: { camera/imag: 20 }, ages: { scene: 100 } }
    fallback: [drive, stap]
    switched_by: [commands]
  stop: { active: [] }
",
        ),
        &[
            (26, "there is no mode `driv`", "did you mean `drive`?"),
            (29, "there is no component `lan`", "did you mean `lane`?"),
            (29, "`lane` is named twice", "remove one"),
            (30, "there is no component `lan`", "did you mean `lane`?"),
            (30, "`lane` has no parameter `gian`", "did you mean `gain`?"),
            (30, "the parameter `canny_low` is an integer, and this is text", "like `50`"),
            (31, "there is no module `sensin`", "did you mean `sensing`?"),
            (
                31,
                "no component of this graph publishes `camera/imag`",
                "did you mean `camera/image`?",
            ),
            (31, "no component of this graph publishes `scene`", ""),
            (32, "the mode `drive` names itself", "remove it"),
            (32, "there is no mode `stap`", "did you mean `stop`?"),
            (33, "`commands` is neither `command`, `reaction` nor a component", "`command`"),
        ],
    );
}

#[test]
fn a_reaction_names_a_mode_that_exists() {
    let restart = |mode: &str, modes: &str| {
        let keys =
            format!("  sensing:\n    restart: {{policy: never, on_exhausted: {{mode: {mode}}}}}\n");
        graph(&format!("{}{modes}", SOUND.replace("  sensing:\n", &keys)))
    };
    const MODES: &str = "modes:\n  drive: { active: [lane] }\n  stop: { active: [] }\n";
    let g = sound(restart("stop", MODES));
    assert_eq!(g.modules[0].restart.on_exhausted, Some(OnExhausted::Mode("stop".into())));
    finds(&restart("stap", MODES), &[(9, "there is no mode `stap`", "did you mean `stop`?")]);
    finds(&restart("stop", ""), &[(9, "there is no mode `stop`", "declare it under `modes:`")]);
}

#[test]
fn no_more_modes_than_the_limit() {
    let modes: String =
        (0..=crate::MAX_MODES).map(|i| format!("  m{i}: {{ active: [lane] }}\n")).collect();
    finds(
        &with_modes(&format!("modes:\n{modes}")),
        &[(26, "the graph has 65 modes; at most 64 are possible", "remove")],
    );
}
