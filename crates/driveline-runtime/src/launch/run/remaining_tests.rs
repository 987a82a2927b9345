// SPDX-License-Identifier: Apache-2.0
//! The end of a run in a simulated world: calls take random times, answers are late, samples wait
//! in queues.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use super::*;
use crate::account::UnreadInput;
use driveline_graph::{LoadOptions, load};
use proptest::prelude::*;
use proptest::test_runner::TestRng;

const PATIENCE: Patience = Patience {
    quiet: Duration::from_millis(300),
    settle: Duration::from_secs(3),
    stuck: Duration::from_secs(30),
};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns the components that still have work after the components `finished` have finished: as
/// `name`, or as `name+` if other components may feed them for ever.
fn left_by(finished: &[&str], modules: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g.yaml");
    let text = format!(
        "driveline: 1\ntopics: {{wide: {{reach: network}}, open: {{external: true}}, echo: \
         {{reach: host}}}}\nmodules:\n{modules}"
    );
    std::fs::write(&path, text).unwrap();
    let describe = |_: &std::path::Path| Ok(Vec::new());
    let options = LoadOptions { modules: Some(Vec::new()), ..LoadOptions::new(&describe) };
    let loaded = load(&path, &options);
    let graph = loaded.graph.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    let finished = finished.iter().map(ToString::to_string).collect();
    let place =
        |name: &str| graph.modules.iter().position(|m| m.name.as_str() == name && name != "away");
    let mut names: Vec<String> = stages(&graph, &finished, place)
        .iter()
        .map(|s| format!("{}{}", s.name, if s.ends { "" } else { "+" }))
        .collect();
    names.sort();
    names
}

fn component(name: &str, inputs: &[&str], outputs: &[&str]) -> String {
    let ports = |of: &[&str]| {
        let all: Vec<_> = of.iter().enumerate().map(|(i, t)| format!("p{i}: {t}")).collect();
        all.join(", ")
    };
    format!(
        "{name}: {{library: lib, class: C, inputs: {{{}}}, outputs: {{{}}}}}",
        ports(inputs),
        ports(outputs)
    )
}

fn one_module(components: &[String]) -> String {
    format!("  m: {{components: {{{}}}}}\n", components.join(", "))
}

#[test]
fn work_ends_where_all_that_is_read_comes_from_finished_components() {
    let chain = one_module(&[
        component("camera", &[], &["image"]),
        component("lane", &["image"], &["lanes"]),
        component("radar", &[], &["echo"]),
        component("filter", &["echo"], &["targets"]),
        component("fusion", &["lanes", "targets"], &["scene"]),
        component("planner", &["scene"], &["plan"]),
    ]);
    assert_eq!(left_by(&["camera"], &chain), ["camera", "fusion+", "lane", "planner+"]);
    assert_eq!(
        left_by(&["camera", "radar"], &chain),
        ["camera", "filter", "fusion", "lane", "planner", "radar"]
    );
    // A finished component leaves no work if others still feed it and nothing reads its topics.
    assert_eq!(left_by(&["planner"], &chain), [""; 0]);
    assert_eq!(left_by(&["lane"], &chain), ["fusion+", "lane+", "planner+"]);
    let ring = one_module(&[
        component("camera", &[], &["image"]),
        component("track", &["image", "state"], &["tracks"]),
        component("model", &["tracks"], &["state"])
            .replace("class: C", "class: C, trigger: {kind: timer, period_ms: 10}"),
        component("outside", &["image", "open"], &["a"]),
        component("hosts", &["image", "wide"], &["b"]),
    ]);
    assert_eq!(
        left_by(&["camera"], &ring),
        ["camera", "hosts+", "model+", "outside+", "track+"],
        "a circle never ends, nor does what comes from outside"
    );
    let apart = format!(
        "  m: {{components: {{{}}}}}\n  away: {{components: {{{}}}}}\n",
        [component("camera", &[], &["image"]), component("fusion", &["image", "echo"], &[])]
            .join(", "),
        component("radar", &[], &["echo"]),
    );
    assert_eq!(left_by(&["camera", "radar"], &apart), ["camera", "fusion+"], "radar is elsewhere");
}

/// A component of the simulated world.
#[derive(Clone, Debug)]
struct Sim {
    unread: u64,
    /// End of its call.
    until: Option<Duration>,
    calls: u64,
    /// Stages that read what this one publishes: only later stages.
    to: Vec<usize>,
}

fn random(rng: &mut TestRng, below: u64) -> u64 {
    rng.next_u64() % below.max(1)
}

/// Runs stages, each in a process of its own, until the machine says that the run is over. Returns
/// the time of the end, the number of samples and calls that were left, and the work that was cut
/// off.
fn simulate(rng: &mut TestRng, hangs: Option<usize>) -> (Duration, u64, Vec<CutOff>) {
    let count = 2 + random(rng, 5) as usize;
    let stage = |i: usize| Stage {
        process: i,
        name: i.to_string(),
        ends: true,
        timer: false,
        topics: BTreeMap::from([("in".to_owned(), format!("t{i}"))]),
    };
    let mut sims: Vec<Sim> = (0..count)
        .map(|i| Sim {
            unread: if i == 0 { 1 + random(rng, 8) } else { random(rng, 3) },
            until: None,
            calls: 0,
            to: (i + 1..count).filter(|_| random(rng, 2) == 0).collect(),
        })
        .collect();
    let mut machine = Remaining {
        stages: (0..count).map(stage).collect(),
        round: Round { number: 1, ..Round::default() },
        before: None,
        in_flight: false,
        round_at: Duration::ZERO,
        active: Duration::ZERO,
        progress: Duration::ZERO,
        idle: false,
        idle_but_others: false,
    };
    let here: BTreeSet<usize> = (0..count).collect();
    // A question has the time when the module checks its work; an answer has the time when the
    // launcher reads it.
    let mut questions: Vec<(Duration, u64, usize)> = Vec::new();
    let mut answers: Vec<(Duration, u64, usize, ComponentWork)> = Vec::new();
    for step in 0.. {
        let now = ms(step * 5);
        for i in 0..count {
            if sims[i].until.is_some_and(|until| now >= until) {
                sims[i].until = None;
                sims[i].calls += 1;
                for to in sims[i].to.clone() {
                    sims[to].unread += 1;
                }
            }
            if sims[i].until.is_none() && sims[i].unread > 0 && random(rng, 3) > 0 {
                sims[i].unread -= 1;
                let takes = if random(rng, 4) == 0 { 2_000 } else { 20 };
                let takes = if hangs == Some(i) { 1_000_000 } else { random(rng, takes) };
                sims[i].until = Some(now + ms(takes));
            }
        }
        questions.retain(|(at, round, i)| {
            if now < *at {
                return true;
            }
            let sim = &sims[*i];
            let unread =
                (sim.unread > 0).then(|| UnreadInput { input: "in".into(), samples: sim.unread });
            let work = ComponentWork {
                component: i.to_string(),
                calls: sim.calls,
                running: u32::from(sim.until.is_some()),
                unread: unread.into_iter().collect(),
                tick_ms: None,
            };
            answers.push((now + ms(random(rng, 60)), *round, *i, work));
            false
        });
        answers.retain(|(at, round, i, work)| {
            if now >= *at {
                machine.answer(*i, *round, std::slice::from_ref(work));
            }
            now < *at
        });
        if let Some((round, asked)) = machine.ask(now, &here) {
            questions.extend(asked.into_iter().map(|i| (now + ms(random(rng, 60)), round, i)));
        }
        if let Verdict::Over(cut_off) = machine.verdict(now, &here, PATIENCE) {
            let left = sims.iter().map(|s| s.unread + u64::from(s.until.is_some())).sum();
            return (now, left, cut_off);
        }
    }
    unreachable!()
}

proptest! {
    #[test]
    fn a_run_ends_when_all_is_worked_on_and_not_before(_ in Just(()).prop_perturb(|(), mut rng| {
        let (_, left, cut_off) = simulate(&mut rng, None);
        assert_eq!((left, cut_off.len()), (0, 0));
    })) {}

    #[test]
    fn what_hangs_is_waited_for_and_then_named(_ in Just(()).prop_perturb(|(), mut rng| {
        let (at, left, cut_off) = simulate(&mut rng, Some(0));
        assert!(left > 0 && at >= PATIENCE.stuck, "{at:?}");
        let first = cut_off.iter().find(|c| c.component == "0").unwrap();
        assert_eq!((first.running, first.silent), (1, false), "{cut_off:?}");
    })) {}
}

fn alone(ends: bool, timer: bool) -> Remaining {
    let topics = BTreeMap::from([("in".to_owned(), "t".to_owned())]);
    Remaining {
        stages: vec![Stage { process: 0, name: "a".into(), ends, timer, topics }],
        round: Round { number: 1, ..Round::default() },
        before: None,
        in_flight: false,
        round_at: Duration::ZERO,
        active: Duration::ZERO,
        progress: Duration::ZERO,
        idle: false,
        idle_but_others: false,
    }
}

/// Answers every round with the given work until the run is over.
fn until_over(
    machine: &mut Remaining,
    work: &mut dyn FnMut() -> ComponentWork,
) -> (Duration, Vec<CutOff>) {
    let here = BTreeSet::from([0]);
    for now in (0..).map(|step| ms(step * 10)) {
        if let Some((round, _)) = machine.ask(now, &here) {
            machine.answer(0, round, &[ComponentWork { component: "a".into(), ..work() }]);
        }
        if let Verdict::Over(cut_off) = machine.verdict(now, &here, PATIENCE) {
            return (now, cut_off);
        }
    }
    unreachable!()
}

#[test]
fn work_that_others_go_on_feeding_is_left_after_a_while() {
    let mut calls = 0;
    let mut busy = || {
        calls += 1;
        let unread = vec![UnreadInput { input: "in".into(), samples: 3 }];
        ComponentWork { calls, running: 1, unread, ..Default::default() }
    };
    assert_eq!(until_over(&mut alone(false, false), &mut busy), (PATIENCE.settle, vec![]));
}

#[test]
fn a_tick_is_waited_for_if_it_comes_soon() {
    let unread = || vec![UnreadInput { input: "in".into(), samples: 1 }];
    let tick = |tick_ms| {
        let mut ticks = 100;
        move || {
            ticks = u64::saturating_sub(ticks, 1);
            if ticks == 0 {
                return ComponentWork::default();
            }
            ComponentWork { unread: unread(), tick_ms: Some(tick_ms), ..Default::default() }
        }
    };
    let (soon, cut_off) = until_over(&mut alone(true, true), &mut tick(1_000));
    assert!(soon > PATIENCE.quiet && cut_off.is_empty(), "{soon:?}");
    let (late, cut_off) = until_over(&mut alone(true, true), &mut tick(60_000));
    assert_eq!((late, cut_off), (PATIENCE.quiet, vec![]));
}

#[test]
fn a_module_that_does_not_respond_is_named_and_one_that_is_gone_is_not_waited_for() {
    let mut machine = alone(true, false);
    let here = BTreeSet::from([0]);
    assert_eq!(machine.ask(Duration::ZERO, &here), Some((1, vec![0])));
    machine.answer(0, 7, &[]);
    assert_eq!(machine.verdict(ms(0), &here, PATIENCE), Verdict::Wait(PATIENCE.quiet));
    let Verdict::Over(cut_off) = machine.verdict(PATIENCE.stuck, &here, PATIENCE) else {
        panic!("it waits for ever")
    };
    assert!(cut_off[0].silent);
    assert_eq!(cut_off[0].to_string(), "component 'a' had work left: its module did not respond");

    let mut machine = alone(true, false);
    let _ = machine.ask(Duration::ZERO, &here);
    let none = BTreeSet::new();
    assert!(matches!(machine.verdict(ms(1), &none, PATIENCE), Verdict::Wait(_)));
    let _ = machine.ask(ms(30), &none);
    assert_eq!(machine.verdict(PATIENCE.quiet, &none, PATIENCE), Verdict::Over(vec![]));
}
