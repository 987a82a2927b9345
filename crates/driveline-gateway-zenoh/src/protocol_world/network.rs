// SPDX-License-Identifier: Apache-2.0
//! Links between hosts, and Zenoh's connections over them.

use super::gateway::Message;
use super::{MS, Random};
use std::collections::BTreeMap;

/// Address on which a host listens.
pub(super) fn address(host: usize) -> String {
    format!("tcp/10.0.0.{host}:7450")
}

pub(super) fn host_at(address: &str) -> usize {
    let digit = address.strip_prefix("tcp/10.0.0.").and_then(|rest| rest.split(':').next());
    digit.and_then(|digit| digit.parse().ok()).expect("an address of this world")
}

/// A connection between two gateways. Each end closes it for itself.
pub(super) struct Connection {
    pub(super) ends: [usize; 2],
    /// Number of the gateway's start at each end.
    pub(super) starts: [u64; 2],
    pub(super) open: [bool; 2],
    /// The end that has connected.
    pub(super) made_by: usize,
    /// It looks intact and carries no messages.
    pub(super) broken: bool,
    /// Versions of the tokens that each end has sent.
    pub(super) tokens: [u64; 2],
    /// Messages that TCP keeps while the link is cut.
    held: Vec<(usize, Message)>,
}

/// A link between two hosts.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Number of faults that cut it.
    pub(super) cuts: u32,
    /// Messages lost, in percent.
    pub(super) loss: u64,
    /// Minimum and maximum delay.
    pub(super) delay: [u64; 2],
}

pub(super) struct Network {
    links: BTreeMap<[usize; 2], Link>,
    pub(super) connections: BTreeMap<u64, Connection>,
    made: u64,
    /// Attempts in progress, each with the start that it is meant for.
    pub(super) attempts: BTreeMap<(usize, usize), Option<u64>>,
}

fn pair([a, b]: [usize; 2]) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

impl Network {
    pub(super) fn new(hosts: usize, random: &mut Random) -> Self {
        let mut links = BTreeMap::new();
        for a in 0..hosts {
            for b in a + 1..hosts {
                let shortest = random.between(50_000, 5 * MS);
                let delay = [shortest, shortest + random.between(10_000, 10 * MS)];
                links.insert([a, b], Link { cuts: 0, loss: 0, delay });
            }
        }
        Self { links, connections: BTreeMap::new(), made: 0, attempts: BTreeMap::new() }
    }

    pub(super) fn link(&mut self, ends: [usize; 2]) -> &mut Link {
        self.links.get_mut(&pair(ends)).expect("a link")
    }

    pub(super) fn is_cut(&self, ends: [usize; 2]) -> bool {
        self.links[&pair(ends)].cuts > 0
    }

    pub(super) fn loses(&self, ends: [usize; 2], random: &mut Random) -> bool {
        random.chance(self.links[&pair(ends)].loss)
    }

    pub(super) fn link_delay(&self, ends: [usize; 2], random: &mut Random) -> u64 {
        let [shortest, longest] = self.links[&pair(ends)].delay;
        random.between(shortest, longest)
    }

    /// Delay of a message over a connection. `None`: its link is cut.
    pub(super) fn delay(&self, connection: u64, random: &mut Random) -> Option<u64> {
        let ends = self.connections.get(&connection)?.ends;
        (!self.is_cut(ends)).then(|| self.link_delay(ends, random))
    }

    pub(super) fn connect(&mut self, ends: [usize; 2], starts: [u64; 2]) -> u64 {
        self.made += 1;
        let connection = Connection {
            ends,
            starts,
            open: [true; 2],
            made_by: 0,
            broken: false,
            tokens: [0; 2],
            held: Vec::new(),
        };
        self.connections.insert(self.made, connection);
        self.made
    }

    pub(super) fn close(&mut self, connection: u64, end: usize) {
        if let Some(c) = self.connections.get_mut(&connection) {
            c.open[end] = false;
            c.held.retain(|(to, _)| *to != c.ends[end]);
            if c.open == [false; 2] {
                self.connections.remove(&connection);
            }
        }
    }

    /// Returns true if a host believes to have a connection to another one.
    pub(super) fn has_end(&self, of: usize, to: usize) -> bool {
        self.all_of(of).iter().any(|(c, end)| self.connections[c].ends[1 - end] == to)
    }

    /// Open ends of a host.
    pub(super) fn all_of(&self, host: usize) -> Vec<(u64, usize)> {
        let of = |(n, c): (&u64, &Connection)| {
            let end = c.ends.iter().position(|h| *h == host)?;
            c.open[end].then_some((*n, end))
        };
        self.connections.iter().filter_map(of).collect()
    }

    /// The connection of a host to the gateway with this number.
    pub(super) fn to_start(&self, host: usize, start: u64) -> Option<(u64, usize)> {
        self.all_of(host).into_iter().find(|(c, end)| self.connections[c].starts[1 - end] == start)
    }

    /// Start numbers of the gateways to which this host has an attempt in progress.
    pub(super) fn meeting(&self, host: usize) -> Vec<u64> {
        let of_host = self.attempts.iter().filter(|((from, _), _)| *from == host);
        of_host.filter_map(|(_, start)| *start).collect()
    }

    pub(super) fn hold(&mut self, connection: u64, to: usize, message: Message) {
        if let Some(c) = self.connections.get_mut(&connection) {
            c.held.push((to, message));
        }
    }

    /// Takes the messages that TCP has kept of a connection.
    pub(super) fn take_held(&mut self, connection: u64) -> Vec<(usize, Message)> {
        self.connections
            .get_mut(&connection)
            .map(|c| std::mem::take(&mut c.held))
            .unwrap_or_default()
    }
}
