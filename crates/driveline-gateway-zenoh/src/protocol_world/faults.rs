// SPDX-License-Identifier: Apache-2.0
//! Faults and their times.

use super::{Event, FAULTS, LASTS, MS, Random, S, SETTLES, World};
use driveline_types::EndpointId;
use std::collections::BTreeSet;

pub(super) struct Fault {
    pub(super) begins: u64,
    /// Duration.
    lasts: u64,
    what: What,
    /// True from the start of the fault until it has been undone. False if it had no effect.
    goes_on: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A link carries nothing.
    Cut([usize; 2]),
    /// All links of a host carry nothing.
    Alone(usize),
    /// A gateway dies. It starts again at the end of the fault.
    Crash(usize),
    /// A computer loses its processes. They start again at the end of the fault.
    Reboot(usize),
    /// A gateway is stopped.
    Stall(usize),
    /// A link loses this percentage of messages.
    Loss([usize; 2], u64),
    /// A link is slow, in milliseconds, and reorders.
    Slow([usize; 2], u64),
    /// A connection looks whole, and nothing arrives.
    Broken([usize; 2]),
    /// Publishers come and go. The gateway may miss an end.
    Publishers(usize, bool),
}

/// Returns the faults of a seed, in the order in which they begin.
pub(super) fn schedule(hosts: usize, random: &mut Random) -> Vec<Fault> {
    let last = LASTS - SETTLES;
    let count = FAULTS + random.below(20) as usize;
    let mut faults: Vec<Fault> = (0..count)
        .map(|_| {
            let begins = random.between(5 * S, last);
            let host = random.below(hosts as u64) as usize;
            let other = (host + 1 + random.below(hosts as u64 - 1) as usize) % hosts;
            let what = match random.below(100) {
                0..=17 => What::Cut([host, other]),
                18..=25 => What::Alone(host),
                26..=37 => What::Crash(host),
                38..=42 => What::Reboot(host),
                43..=54 => What::Stall(host),
                55..=66 => What::Loss([host, other], random.between(1, 60)),
                67..=76 => What::Slow([host, other], random.between(20, 3_000)),
                77..=81 => What::Broken([host, other]),
                _ => What::Publishers(host, random.chance(85)),
            };
            // The fault is shorter than a lease, about as long, or longer than the time for which
            // state is remembered.
            let lasts = match random.below(10) {
                0..=3 => random.between(50, 1_500) * MS,
                4..=7 => random.between(1_500, 8_000) * MS,
                _ => random.between(8_000, 90_000) * MS,
            };
            Fault { begins, lasts: lasts.min(last - begins), what, goes_on: false }
        })
        .collect();
    faults.sort_by_key(|fault| fault.begins);
    faults
}

fn cut(world: &mut World, ends: [usize; 2]) {
    world.network.link(ends).cuts += 1;
    for (connection, end) in world.network.all_of(ends[0]) {
        if world.network.connections[&connection].ends[1 - end] == ends[1] {
            [0, 1].into_iter().for_each(|end| world.watch_lease(connection, end));
        }
    }
}

fn mend(world: &mut World, ends: [usize; 2]) {
    world.network.link(ends).cuts -= 1;
    if world.network.is_cut(ends) {
        return;
    }
    let between = world
        .network
        .connections
        .iter()
        .filter(|(_, c)| c.ends == ends || [c.ends[1], c.ends[0]] == ends);
    let between: Vec<(u64, [bool; 2])> = between.map(|(n, c)| (*n, c.open)).collect();
    for (connection, open) in between {
        for (to, message) in world.network.take_held(connection) {
            let delay = world.network.link_delay(ends, &mut world.random);
            world.plan(world.now + delay, Event::Arrives { connection, to, message });
        }
        // One end has closed the connection meanwhile, and the other one is notified.
        (0..2).filter(|end| !open[*end]).for_each(|end| world.notify_other_end(connection, end));
    }
}

fn others(world: &World, host: usize) -> Vec<usize> {
    (0..world.computers.len()).filter(|other| *other != host).collect()
}

pub(super) fn begin(world: &mut World, n: usize) {
    let (what, lasts) = (world.faults[n].what, world.faults[n].lasts);
    let mut goes_on = true;
    match what {
        What::Cut(ends) => cut(world, ends),
        What::Alone(host) => {
            others(world, host).into_iter().for_each(|other| cut(world, [host, other]));
        }
        What::Crash(host) if world.computers[host].gateway.is_some() => world.crash(host),
        What::Reboot(host) if world.computers[host].gateway.is_some() => {
            world.crash(host);
            for id in living(world, host) {
                world.end_source(id, false);
            }
        }
        What::Crash(_) | What::Reboot(_) => goes_on = false,
        What::Stall(host) => {
            let computer = &mut world.computers[host];
            goes_on = computer.gateway.is_some() && computer.stalled.is_none();
            if goes_on {
                computer.stalled = Some(Vec::new());
                for (connection, end) in world.network.all_of(host) {
                    world.watch_lease(connection, 1 - end);
                }
            }
        }
        What::Loss(ends, percent) => world.network.link(ends).loss = percent,
        What::Slow(ends, ms) => world.network.link(ends).delay[1] += ms * MS,
        What::Broken([host, other]) => {
            for (connection, end) in world.network.all_of(host) {
                let c = world.network.connections.get_mut(&connection).expect("open");
                c.broken |= c.ends[1 - end] == other;
            }
        }
        What::Publishers(host, heard) => {
            let living = living(world, host);
            if living.len() > 3 || (!living.is_empty() && world.random.chance(40)) {
                let one = living[world.random.below(living.len() as u64) as usize];
                world.end_source(one, heard);
            } else {
                let topic = world.random.below(2) as usize;
                world.new_source(host, topic);
            }
        }
    }
    world.faults[n].goes_on = goes_on;
    if goes_on {
        world.plan(world.now + lasts, Event::Over(n));
    }
}

fn living(world: &World, host: usize) -> Vec<EndpointId> {
    world.sources.iter().filter(|(_, s)| s.alive && s.host == host).map(|(id, _)| *id).collect()
}

pub(super) fn end(world: &mut World, n: usize) {
    if !std::mem::take(&mut world.faults[n].goes_on) {
        return;
    }
    match world.faults[n].what {
        What::Cut(ends) => mend(world, ends),
        What::Alone(host) => {
            others(world, host).into_iter().for_each(|other| mend(world, [host, other]));
        }
        What::Crash(host) => world.start(host, BTreeSet::new()),
        What::Reboot(host) => {
            world.start(host, BTreeSet::new());
            (0..2).for_each(|topic| world.new_source(host, topic));
        }
        What::Stall(host) => {
            for event in world.computers[host].stalled.take().unwrap_or_default() {
                world.happens(event);
            }
            world.poll(host);
        }
        What::Loss(ends, _) => world.network.link(ends).loss = 0,
        What::Slow(ends, ms) => {
            let delay = &mut world.network.link(ends).delay[1];
            *delay -= ms * MS;
        }
        What::Broken(_) | What::Publishers(..) => {}
    }
}
