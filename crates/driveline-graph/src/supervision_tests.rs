// SPDX-License-Identifier: Apache-2.0
//! Keys of supervision.

use super::*;
use std::time::Duration;

/// The sound graph with further keys for its two modules.
fn supervised(sensing: &str, perception: &str) -> Loaded {
    let text = SOUND
        .replace("  sensing:\n", &format!("  sensing:\n{sensing}"))
        .replace("  perception:\n", &format!("  perception:\n{perception}"));
    Fixture::new(&[("g.yaml", &text)]).load()
}

#[test]
fn keys_and_defaults_are_resolved() {
    let keys = "    restart: {policy: on_failure, max: 3, on_exhausted: stop}\n    \
         ready_within_ms: 1500\n    depends_on: [sensing]\n    restart_with: [sensing]\n";
    let g = sound(supervised("", keys));
    let [sensing, perception] = ["sensing", "perception"].map(|m| g.module(m).unwrap());
    assert_eq!(
        (sensing.restart.policy, sensing.restart.on_exhausted.clone(), sensing.ready_within),
        (RestartPolicy::Never, None, None)
    );
    let expected = ResolvedRestart {
        policy: RestartPolicy::OnFailure,
        backoff: Duration::from_millis(100),
        max: Some(3),
        window: Duration::from_secs(60),
        on_exhausted: Some(OnExhausted::Stop),
    };
    assert_eq!(
        (&perception.restart, perception.ready_within),
        (&expected, Some(Duration::from_millis(1500)))
    );
    assert_eq!(
        (perception.depends_on.as_slice(), perception.restart_with.as_slice()),
        (&["sensing".to_owned()][..], &["sensing".to_owned()][..])
    );
}

#[test]
fn a_limit_of_restarts_without_a_policy_restarts_on_failure() {
    let policy = |keys: &str| {
        let keys = format!("    restart: {{{keys}}}\n");
        sound(supervised("", &keys)).module("perception").unwrap().restart.policy
    };
    for keys in ["max: 3", "window_s: 10", "backoff_ms: 0"] {
        assert_eq!(policy(keys), RestartPolicy::OnFailure, "{keys}");
    }
    for keys in ["on_exhausted: stop", "policy: never, max: 3"] {
        assert_eq!(policy(keys), RestartPolicy::Never, "{keys}");
    }
}

#[test]
fn the_values_of_a_reaction_include_a_mode() {
    finds(
        &supervised("    restart: {on_exhausted: end}\n", "    on_hang: continue\n"),
        &[
            (9, "`on_exhausted` cannot be `end`", "`stop`, `continue_without`, `{ mode: NAME }`"),
            (16, "`on_hang` cannot be `continue`", "`event`, `restart`, `stop`, `{ mode: NAME }`"),
        ],
    );
}

#[test]
fn references_must_be_to_other_modules_and_dependencies_without_a_circle() {
    finds(
        &supervised("    depends_on: [sensing]\n", "    restart_with: [sensin]\n"),
        &[
            (9, "the module `sensing` names itself", "remove it"),
            (16, "there is no module `sensin`", "did you mean `sensing`?"),
        ],
    );
    finds(
        &supervised("    depends_on: [perception]\n", "    depends_on: [sensing]\n"),
        &[(16, "would never start: perception → sensing → perception", "remove one `depends_on`")],
    );
    sound(supervised("    restart_with: [perception]\n", "    restart_with: [sensing]\n"));
}

#[test]
fn values_out_of_range_are_named() {
    let loaded = supervised(
        "    restart: {policy: sometimes, max: 0}\n",
        "    restart: {backoff_ms: -1, window_s: 0, on_exhausted: halt}\n",
    );
    let shown = loaded.diagnostics.render(Colour::No);
    for text in [
        "`sometimes`",
        "on_failure",
        "`max`",
        "`backoff_ms`",
        "`window_s`",
        "`halt`",
        "continue_without",
    ] {
        assert!(shown.contains(text), "{text} is not in\n{shown}");
    }
}
