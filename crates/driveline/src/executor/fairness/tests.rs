// SPDX-License-Identifier: Apache-2.0
//! Executors of 1 to 8 threads in simulated time, with the shipped order of turns.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use super::*;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;

/// Times have no unit here.
type Time = u64;

/// A callback. Its work arrives once per period and then waits: as samples in a queue, or as the
/// single tick of a timer.
#[derive(Clone, Debug)]
struct Plan {
    period: Time,
    takes: Time,
    timer: bool,
}

#[derive(Clone, Debug)]
struct GroupPlan {
    exclusive: bool,
    members: Vec<Plan>,
}

struct Callback {
    plan: Plan,
    group: usize,
    /// Arrival time of the next work, and amount of waiting work.
    arrives: Cell<Time>,
    waiting: Cell<u64>,
}

impl Callback {
    fn arrive(&self, now: Time) {
        while self.arrives.get() <= now {
            self.arrives.set(self.arrives.get() + self.plan.period);
            self.waiting.set(if self.plan.timer { 1 } else { (self.waiting.get() + 1).min(4) });
        }
    }

    fn is_due(&self) -> bool {
        self.waiting.get() > 0
    }
}

struct Simulation {
    callbacks: Vec<Callback>,
    rotation: Rotation,
    gates: Vec<Option<Arc<Gate>>>,
    /// For each thread: end time of its call, and index of the called callback.
    threads: Vec<Option<(Time, usize)>>,
    /// For each due callback: number of calls of each other callback since the due callback became
    /// due.
    waits: HashMap<usize, HashMap<usize, u32>>,
    /// The same since the last call of the due callback's group. Counts only calls that began while
    /// that group's gate was open.
    passed_over: HashMap<usize, HashMap<usize, u32>>,
    calls: Vec<u64>,
}

impl Simulation {
    fn new(plans: &[GroupPlan], threads: usize) -> Self {
        let (mut callbacks, mut turns, mut gates) = (Vec::new(), Vec::new(), Vec::new());
        for plan in plans {
            let gate = plan.exclusive.then(Arc::<Gate>::default);
            let size = if plan.exclusive { plan.members.len() } else { 1 };
            for members in plan.members.chunks(size) {
                let first = callbacks.len();
                for p in members {
                    let (arrives, waiting) = (Cell::new(p.period), Cell::new(0));
                    callbacks.push(Callback {
                        plan: p.clone(),
                        group: turns.len(),
                        arrives,
                        waiting,
                    });
                }
                turns.push(Turns::new(gate.clone(), first..callbacks.len()));
                gates.push(gate.clone());
            }
        }
        let calls = vec![0; callbacks.len()];
        let (waits, passed_over) = (HashMap::new(), HashMap::new());
        Self {
            callbacks,
            rotation: Rotation::new(turns),
            gates,
            threads: vec![None; threads],
            waits,
            passed_over,
            calls,
        }
    }

    fn is_open(&self, group: usize) -> bool {
        self.gates[group].as_ref().is_none_or(|gate| gate.enter() && !gate.leave())
    }

    fn end_calls(&mut self, now: Time) {
        for thread in &mut self.threads {
            if let Some((_, callback)) = thread.take_if(|(ends, _)| *ends <= now)
                && let Some(gate) = &self.gates[self.callbacks[callback].group]
            {
                let _ = gate.leave();
            }
        }
    }

    fn choose(&self) -> Option<usize> {
        let due = |i: usize| self.callbacks[i].is_due().then_some(i);
        self.rotation.search(|turns, part| turns.enter()?.first_due(part, due).ok())
    }

    /// Gives a free thread a call, if one is due, and checks how long the other due callbacks have
    /// waited.
    fn start_call(&mut self, thread: usize, now: Time) {
        let before: Vec<_> =
            (0..self.callbacks.len()).filter(|&i| self.callbacks[i].is_due()).collect();
        let open: Vec<_> = (0..self.gates.len()).map(|g| self.is_open(g)).collect();
        let Some(chosen) = self.choose() else {
            assert!(
                before.iter().all(|&i| !open[self.callbacks[i].group]),
                "a due call was not found"
            );
            return;
        };
        let group = self.callbacks[chosen].group;
        for &other in before.iter().filter(|&&i| i != chosen) {
            let waits = self.waits.entry(other).or_default().entry(chosen).or_default();
            *waits += 1;
            let same = self.callbacks[other].group == group;
            assert!(
                *waits == 1 || !(same || self.threads.len() == 1),
                "{other} waited for {waits} calls of {chosen}"
            );
            if same {
                self.passed_over.remove(&other);
            } else if open[self.callbacks[other].group] {
                let passes = self.passed_over.entry(other).or_default().entry(chosen).or_default();
                *passes += 1;
                assert!(*passes == 1, "the group of {other} waited for {passes} calls of {chosen}");
            }
        }
        self.waits.remove(&chosen);
        self.passed_over.remove(&chosen);
        let callback = &self.callbacks[chosen];
        callback.waiting.set(callback.waiting.get() - 1);
        self.calls[chosen] += 1;
        self.threads[thread] = Some((now + callback.plan.takes, chosen));
    }

    /// Runs the simulation. Free threads search in rotated order, beginning with an index from
    /// `firsts`, since the kernel may wake threads in any order.
    fn run(&mut self, until: Time, firsts: &[usize]) {
        let mut now = 0;
        let mut round = 0;
        while now < until {
            self.end_calls(now);
            self.callbacks.iter().for_each(|c| c.arrive(now));
            let n = self.threads.len();
            let first = firsts[round % firsts.len()];
            round += 1;
            for thread in (0..n).map(|i| (first + i) % n) {
                if self.threads[thread].is_none() {
                    self.start_call(thread, now);
                }
            }
            let ends = self.threads.iter().flatten().map(|(ends, _)| *ends);
            now = self.callbacks.iter().map(|c| c.arrives.get()).chain(ends).min().unwrap();
        }
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    (1..40u64, 1..60u64, any::<bool>()).prop_map(|(period, takes, timer)| Plan {
        period,
        takes,
        timer,
    })
}

fn group() -> impl Strategy<Value = GroupPlan> {
    (any::<bool>(), prop::collection::vec(plan(), 1..6))
        .prop_map(|(exclusive, members)| GroupPlan { exclusive, members })
}

proptest! {
    /// A due callback waits for at most one call of each other callback of its group. If the
    /// executor has one thread, the same holds for each other callback of the executor. A due group
    /// that is not busy waits for at most one call of each callback of other groups.
    #[test]
    fn every_due_callback_gets_its_turn(
        groups in prop::collection::vec(group(), 1..6),
        threads in 1..=8usize,
        firsts in prop::collection::vec(0..8usize, 1..8),
    ) {
        Simulation::new(&groups, threads).run(600, &firsts);
    }
}

/// A component whose timer overruns by a tenth, with a second timer and an input, next to another
/// component.
#[test]
fn a_timer_that_overruns_leaves_the_others_of_its_group_their_calls() {
    for threads in 1..=8 {
        let plan = |period, takes, timer| Plan { period, takes, timer };
        let fast = GroupPlan { exclusive: true, members: vec![plan(20, 1, true)] };
        let slow = GroupPlan {
            exclusive: true,
            members: vec![plan(20, 1, false), plan(100, 110, true), plan(100, 1, true)],
        };
        let mut simulation = Simulation::new(&[fast, slow], threads);
        simulation.run(8000, &[0, 1, 1, 0, 1]);
        let [_, inputs, plans, beats] = simulation.calls[..] else { panic!() };
        assert!(
            plans > 60 && beats * 5 >= plans * 4 && inputs * 5 >= plans * 4,
            "{threads} threads: {:?}",
            simulation.calls
        );
    }
}
