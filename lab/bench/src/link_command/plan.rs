// SPDX-License-Identifier: Apache-2.0
//! Entries of a measurement, their comparisons, and their order.

use super::args::{Cpus, Extra, LinkArgs, Size};
use crate::harness::{
    Job, MEMCPY_FROM, MEMCPY_KINDS, MemcpyKind, PROTOCOL, Pace, Payload, Reach, Reliability, Role,
    System, Take, Wait,
};
use crate::left_out::LeftOut;
use crate::metric::{Comparison, Metric};
use crate::peer::MIN_FILLED;
use crate::peers::{Selection, Variant};
use crate::placement::Placement;
use crate::runner::{Kind, Trial};
use crate::stats::Random;
use anyhow::{Context, Result, bail, ensure};
use driveline_graph::ByteSize;
use serde::Serialize;
use std::path::PathBuf;

/// One measured case, repeated in every round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Entry {
    /// Unique within the measurement, and readable.
    pub(super) id: String,
    /// Kind of the entry.
    pub(super) kind: Kind,
    /// System that carries its samples.
    pub(super) system: System,
    /// Common part of the jobs of its processes, without their roles.
    #[serde(skip)]
    pub(super) job: Job,
    /// Entries with which it is compared.
    pub(super) comparisons: Vec<Comparison>,
}

impl Entry {
    fn new(id: String, kind: Kind, job: Job, comparisons: Vec<Comparison>) -> Self {
        Self { id, kind, system: job.system.clone(), job, comparisons }
    }

    /// Returns the engine's trial of this entry.
    #[must_use]
    pub(super) fn trial(&self) -> Trial {
        Trial::new(self.kind, self.job.clone())
    }
}

/// Returns the placement of the ends on a machine with these CPUs, as requested.
///
/// # Errors
/// If a requested CPU may not be used.
pub(super) fn placement(args: &LinkArgs, usable_cpus: Vec<usize>) -> Result<Placement> {
    let first = usable_cpus.first().copied();
    let publisher_cpu = match &args.publisher_cpu {
        Cpus::Auto => first,
        Cpus::Any => None,
        Cpus::These(list) => match list.as_slice() {
            [one] => Some(*one),
            _ => bail!("--publisher-cpu takes one CPU, got {}", list.len()),
        },
    };
    let subscriber_cpus = match &args.subscriber_cpus {
        // The publisher's CPU comes last: subscribers first get one other CPU each.
        Cpus::Auto => {
            let others = usable_cpus.iter().copied().filter(|c| Some(*c) != publisher_cpu);
            others.chain(publisher_cpu).collect()
        }
        Cpus::Any => Vec::new(),
        Cpus::These(list) => list.clone(),
    };
    for cpu in publisher_cpu.iter().chain(&subscriber_cpus) {
        ensure!(
            usable_cpus.contains(cpu),
            "CPU {cpu} cannot be used: this process may run on {usable_cpus:?}"
        );
    }
    Ok(Placement { usable_cpus, publisher_cpu, subscriber_cpus, priority: args.priority })
}

/// All runs of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Links and their floors.
    pub(super) entries: Vec<Entry>,
    /// Requested measurements that are not possible.
    pub(super) left_out: Vec<LeftOut>,
}

impl Plan {
    /// Makes the plan of the requested measurements, with their baselines.
    ///
    /// # Errors
    /// If they cannot be measured on this machine, or are contradictory.
    pub(super) fn new(args: &LinkArgs, placement: &Placement, peers: &Selection) -> Result<Self> {
        ensure!(
            args.processing_us == 0 || args.rate.is_some(),
            "a ping-pong has no processing: add --rate, e.g. --rate 100, or leave out \
             --processing-us"
        );
        ensure!(
            !args.own_tools
                || args.rate.is_none()
                    && args.reach.contains(&Reach::Host)
                    && args.wait.contains(&Wait::Block)
                    && args.take.contains(&Take::Borrow)
                    && args.payload.contains(&Payload::Untouched),
            "own tools measure ping-pongs between processes that sleep, with payloads neither \
             written nor copied: leave out --own-tools or \
             --rate, and have host in --reach, block in --wait, borrow in --take and untouched in \
             --payload"
        );
        let left_out =
            peers.unavailable.iter().map(|(what, reason)| LeftOut::new(what, reason)).collect();
        let mut plan = Self { entries: Vec::new(), left_out };
        for &reach in &args.reach {
            for &wait in &args.wait {
                for &subscribers in &args.subscribers {
                    ensure!(subscribers > 0, "a link has at least one subscriber");
                    ensure!(
                        subscribers <= 512,
                        "{subscribers} subscribers are more than the 512 that one measurement \
                         starts"
                    );
                    ensure!(
                        subscribers == 1 || args.rate.is_some(),
                        "a ping-pong has one subscriber: add --rate, e.g. --rate 100, to measure \
                         one to {subscribers}"
                    );
                    placement.check_spinning(wait, args.pace(), subscribers).context(
                        "use --wait block, fewer --subscribers, or other --subscriber-cpus",
                    )?;
                    plan.add_links(
                        args,
                        placement,
                        peers,
                        Job { reach, wait, subscribers, ..job(args, placement) },
                    )?;
                }
            }
        }
        plan.add_extras(args, placement);
        Ok(plan)
    }

    fn add_links(
        &mut self,
        args: &LinkArgs,
        placement: &Placement,
        peers: &Selection,
        base: Job,
    ) -> Result<()> {
        let subscribers = base.subscribers;
        let floor = self.add_floor(&base);
        for &Size(size) in &args.size {
            for &take in &args.take {
                for &payload in &args.payload {
                    if payload == Payload::Filled {
                        ensure!(
                            size >= MIN_FILLED,
                            "a filled payload needs at least {MIN_FILLED} bytes, for its sequence \
                             number and checksum: leave out --size {size} or --payload filled"
                        );
                    }
                    let job = Job { size, take, payload, ..base.clone() };
                    let figure =
                        if subscribers > 1 { Metric::LastSubscriber } else { Metric::Transport };
                    let mut comparisons =
                        vec![Comparison { metric: figure, to: floor.clone(), of: figure }];
                    if subscribers > 1 && args.subscribers.contains(&1) {
                        comparisons.push(Comparison {
                            metric: figure,
                            to: link_id(&Job { subscribers: 1, ..job.clone() }),
                            of: Metric::Transport,
                        });
                    }
                    if take == Take::Copy && size >= MEMCPY_FROM {
                        let to =
                            self.add_memcpy(args, placement, MemcpyKind::FromSharedSlots, size);
                        comparisons.push(Comparison { metric: Metric::Copy, to, of: Metric::Copy });
                    }
                    if payload == Payload::Filled && size >= MEMCPY_FROM {
                        let to =
                            self.add_memcpy(args, placement, MemcpyKind::IntoSharedSlots, size);
                        comparisons.push(Comparison { metric: Metric::Fill, to, of: Metric::Copy });
                    }
                    self.add_peers(args, peers, &job, &floor, figure);
                    self.add(Entry::new(link_id(&job), Kind::Link, job, comparisons));
                }
            }
        }
        Ok(())
    }

    /// Adds the same link for every peer that supports it.
    fn add_peers(
        &mut self,
        args: &LinkArgs,
        peers: &Selection,
        link: &Job,
        floor: &str,
        figure: Metric,
    ) {
        for (system, variant) in peers.systems() {
            let job = Job { system, ..link.clone() };
            if let Some(reason) = variant.refuses(&job) {
                let left_out = LeftOut::new(link_id(&job), format!("{} {reason}", job.system));
                if !self.left_out.contains(&left_out) {
                    self.left_out.push(left_out);
                }
                continue;
            }
            let comparisons = vec![
                Comparison { metric: figure, to: floor.to_owned(), of: figure },
                Comparison { metric: figure, to: link_id(link), of: figure },
            ];
            if job.may_have_own_tool() {
                self.add_own_tool(args, &job, variant);
            }
            self.add(Entry::new(link_id(&job), Kind::Link, job, comparisons));
        }
    }

    /// Adds the latency tool of the peer's middleware.
    fn add_own_tool(&mut self, args: &LinkArgs, link: &Job, variant: &Variant) {
        if !args.own_tools {
            return;
        }
        if variant.own_tool.is_empty() {
            let reason = if variant.note.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has none ({})", variant.note)
            };
            let left_out = LeftOut::new(format!("own latency tool of {}", link.system), reason);
            if !self.left_out.contains(&left_out) {
                self.left_out.push(left_out);
            }
            return;
        }
        if !variant.has_own_tool_for(link) {
            let reason = format!(
                "{} measures other sizes, readers that wait in another way, or reliable links only",
                variant.own_tool
            );
            self.left_out
                .push(LeftOut::new(format!("own latency tool next to {}", link_id(link)), reason));
            return;
        }
        self.add(Entry::new(
            format!("own tool {} · {}", variant.own_tool, link_id(link)),
            Kind::OwnTool,
            link.clone(),
            Vec::new(),
        ));
    }

    /// Adds the floor of a link, and the same floor once more: this shows how much two equal cases
    /// differ on this machine.
    fn add_floor(&mut self, link: &Job) -> String {
        let system = link.floor();
        let name = if system == System::Futex { "futex" } else { "spinning word" };
        let reliability = Reliability::BestEffort;
        // A shared word loses nothing, so readers do not wait forever.
        let job = Job {
            system,
            size: 0,
            take: Take::Borrow,
            payload: Payload::Untouched,
            reliability,
            lose_every: 0,
            ..link.clone()
        };
        let id = format!("floor: {name} · {}", shape(&job));
        let figure = if link.subscribers > 1 { Metric::LastSubscriber } else { Metric::Transport };
        let again = Comparison { metric: figure, to: id.clone(), of: figure };
        self.add(Entry::new(id.clone(), Kind::Floor, job.clone(), Vec::new()));
        self.add(Entry::new(format!("{id} · again (A/A)"), Kind::Floor, job, vec![again]));
        id
    }

    fn add_memcpy(
        &mut self,
        args: &LinkArgs,
        placement: &Placement,
        kind: MemcpyKind,
        size: usize,
    ) -> String {
        let id = format!("floor: memcpy {} · {}", kind.label(), ByteSize(size as u64));
        let Trial { kind, job, .. } = Trial::memcpy(&Job { size, ..job(args, placement) }, kind);
        self.add(Entry::new(id.clone(), kind, job, Vec::new()));
        id
    }

    fn add_extras(&mut self, args: &LinkArgs, placement: &Placement) {
        let sizes: Vec<usize> = args.size.iter().map(|s| s.0).collect();
        if args.wants(Extra::Memcpy) {
            for &size in sizes.iter().filter(|s| **s >= MEMCPY_FROM) {
                for kind in MEMCPY_KINDS {
                    self.add_memcpy(args, placement, kind, size);
                }
            }
        }
        let plain = job(args, placement);
        if args.reach.contains(&Reach::Process) {
            for &size in &sizes {
                let job = Job {
                    role: Role::SameThread,
                    reach: Reach::Process,
                    size,
                    wait: Wait::Block,
                    ..plain.clone()
                };
                self.add(Entry::new(
                    format!(
                        "driveline · publish to callback on one thread · {}",
                        ByteSize(size as u64)
                    ),
                    Kind::SameThread,
                    job,
                    Vec::new(),
                ));
            }
        }
        if !args.reach.contains(&Reach::Host) {
            return;
        }
        let smallest = sizes.iter().copied().min().unwrap_or(64);
        if args.wants(Extra::Idle) {
            let job = Job { size: smallest, wait: Wait::Block, ..plain.clone() };
            self.add(Entry::new(
                format!("driveline · at rest for {} s · blocked reader", args.idle_seconds),
                Kind::Idle,
                job,
                Vec::new(),
            ));
        }
        if args.wants(Extra::StartUp) {
            let largest = sizes.iter().copied().max().unwrap_or(64);
            let mut start_sizes = vec![smallest, largest];
            start_sizes.dedup();
            for size in start_sizes {
                let job = Job {
                    size,
                    wait: Wait::Block,
                    pace: Pace::RateHz(1000.0),
                    warm_up: 0,
                    messages: 1,
                    processing_us: 0,
                    ..plain.clone()
                };
                self.add(Entry::new(
                    format!("driveline · start-up · {}", ByteSize(size as u64)),
                    Kind::StartUp,
                    job,
                    Vec::new(),
                ));
            }
        }
    }

    /// Adds an entry if it is new.
    fn add(&mut self, entry: Entry) {
        if self.entries.iter().all(|e| e.id != entry.id) {
            self.entries.push(entry);
        }
    }

    /// The order of one round.
    #[must_use]
    pub(super) fn order(&self, seed: u64, round: u64) -> Vec<usize> {
        Random::order_of_round(seed, round, self.entries.len())
    }
}

fn job(args: &LinkArgs, placement: &Placement) -> Job {
    Job {
        protocol: PROTOCOL,
        role: Role::Publisher,
        system: System::Driveline,
        topic: "link".into(),
        reliability: args.reliability(),
        reach: Reach::Host,
        domain_dir: PathBuf::new(),
        size: 0,
        wait: Wait::Block,
        take: Take::Borrow,
        payload: Payload::Untouched,
        pace: args.pace(),
        warm_up: args.warm_up,
        messages: args.messages,
        depth: args.depth,
        subscribers: 1,
        index: 0,
        publisher_cpu: placement.publisher_cpu,
        subscriber_cpus: placement.subscriber_cpus.clone(),
        priority: args.priority,
        processing_us: args.processing_us,
        // The runner sets it.
        answer_timeout_ms: 0,
        lose_every: args.lose_every,
        raw_dir: PathBuf::new(),
    }
}

fn shape(job: &Job) -> String {
    let reach = match job.reach {
        Reach::Process => "threads",
        Reach::Host => "processes",
        Reach::Network => "hosts",
    };
    match job.pace {
        Pace::PingPong => format!("{reach} · ping-pong"),
        Pace::RateHz(hz) if job.processing_us > 0 => {
            format!(
                "{reach} · 1→{} at {hz} Hz, each processed for {} µs",
                job.subscribers, job.processing_us
            )
        }
        Pace::RateHz(hz) => format!("{reach} · 1→{} at {hz} Hz", job.subscribers),
    }
}

fn link_id(job: &Job) -> String {
    let take = if job.take == Take::Copy { " · copy" } else { "" };
    let payload = if job.payload == Payload::Filled { " · filled" } else { "" };
    let reliable = if job.reliability == Reliability::Reliable { " · reliable" } else { "" };
    format!(
        "{} · {} · {} · {}{take}{payload}{reliable}",
        job.system,
        shape(job),
        job.wait,
        ByteSize(job.size as u64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        link: LinkArgs,
    }

    fn plan(line: &str) -> Result<Plan> {
        let args = Cli::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))?.link;
        Plan::new(&args, &placement(&args, vec![0, 1])?, &Selection::default())
    }

    fn error(line: &str) -> String {
        format!("{:#}", plan(line).unwrap_err())
    }

    #[test]
    fn every_comparison_names_a_case_of_the_plan() {
        for line in [
            "",
            "--reach process,host --rate 100 --subscribers 1,3 --wait block,spin:50 --size 64,1M",
            "--take borrow,copy --payload untouched,filled --size 64,1k,1M",
            "--extra none --size 64,64",
        ] {
            let plan = plan(line).unwrap();
            let ids: Vec<_> = plan.entries.iter().map(|c| c.id.as_str()).collect();
            let mut unique = ids.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), ids.len(), "{ids:?}");
            for c in plan.entries.iter().flat_map(|c| &c.comparisons) {
                assert!(ids.contains(&c.to.as_str()), "{line}: {c:?} not in {ids:?}");
            }
        }
    }

    #[test]
    fn a_link_has_its_floor_with_the_same_shape_and_a_control() {
        let plan = plan("--size 64 --wait block --rate 20 --subscribers 10 --extra none").unwrap();
        let ids: Vec<_> = plan.entries.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "floor: futex · processes · 1→10 at 20 Hz",
                "floor: futex · processes · 1→10 at 20 Hz · again (A/A)",
                "driveline · processes · 1→10 at 20 Hz · block · 64 B"
            ]
        );
    }

    #[test]
    fn what_means_nothing_is_refused_with_a_remedy() {
        assert!(error("--subscribers 2").contains("--rate 100"));
        assert!(error("--subscribers 2 --rate 10 --wait spin").contains("--wait block"));
        assert!(error("--wait spin --publisher-cpu 1 --subscriber-cpus 1").contains("room for 0"));
        assert!(error("--size 16 --payload filled").contains("at least 32 bytes"));
        assert!(error("--publisher-cpu 7").contains("may run on [0, 1]"));
        assert!(error("--publisher-cpu 0,1").contains("takes one CPU"));
        assert!(error("--subscribers 0").contains("at least one"));
        assert!(error("--processing-us 5").contains("--rate 100"));
    }

    #[test]
    fn subscribers_get_cpus_of_their_own_before_they_share() {
        let args =
            |line: &str| Cli::parse_from(std::iter::once("x").chain(line.split_whitespace())).link;
        let cpus = |line: &str, usable: &[usize]| {
            let p = placement(&args(line), usable.to_vec()).unwrap();
            (p.publisher_cpu, p.subscriber_cpus)
        };
        assert_eq!(cpus("", &[0, 1]), (Some(0), vec![1, 0]));
        assert_eq!(cpus("--publisher-cpu 1", &[0, 1]), (Some(1), vec![0, 1]));
        assert_eq!(cpus("", &[2, 3, 5]), (Some(2), vec![3, 5, 2]));
        assert_eq!(cpus("", &[4]), (Some(4), vec![4]));
        assert_eq!(cpus("--publisher-cpu any --subscriber-cpus any", &[0, 1]), (None, vec![]));
    }

    #[test]
    fn the_order_is_random_but_belongs_to_the_seed() {
        let plan = plan("").unwrap();
        assert_eq!(plan.order(1, 0), plan.order(1, 0));
        assert_ne!(plan.order(1, 0), plan.order(1, 1));
        assert_ne!(plan.order(1, 0), plan.order(2, 0));
    }
}
