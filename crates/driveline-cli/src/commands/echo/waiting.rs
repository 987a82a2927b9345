// SPDX-License-Identifier: Apache-2.0
//! Reason why no sample arrives.

use super::super::absent::{End, Runs};
use super::super::domains::{DomainPlace, Other, elsewhere};
use super::super::services::of_service;
use super::super::survey::ask;
use super::{NAME, REASON};
use crate::text::{count, cut};
use driveline_graph::closest;
use driveline_shm::Subscription;
use driveline_terminal::screen::Screen;
use driveline_types::TopicName;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time after which the reason is shown, once, if the first sample has not arrived.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of names in one line.
const MOST_NAMED: usize = 5;

pub(super) struct Waiting<'a> {
    topic: &'a TopicName,
    domain: Option<&'a str>,
    place: &'a DomainPlace,
    timeout: Option<Duration>,
    screen: &'a Screen,
    since: Instant,
    /// True once a sample has arrived, or the reason or the end of the last publisher was shown.
    settled: bool,
    told: bool,
    /// True after the first sample.
    heard: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(
        topic: &'a TopicName,
        domain: Option<&'a str>,
        place: &'a DomainPlace,
        timeout: Option<Duration>,
        screen: &'a Screen,
    ) -> Self {
        Self {
            topic,
            domain,
            place,
            timeout,
            screen,
            since: Instant::now(),
            settled: false,
            told: false,
            heard: false,
        }
    }

    /// Notes that a sample has arrived.
    pub(super) fn came(&mut self) {
        self.since = Instant::now();
        self.settled = true;
        self.told = false;
        self.heard = true;
    }

    /// Reports that the last publisher is gone, after all its samples are printed.
    pub(super) fn is_alone(&mut self, node: &str, pid: Option<u32>) {
        let process = pid.map(|p| format!(" (process {p})")).unwrap_or_default();
        self.screen.print_error(&format!(
            "'{}' has no publisher any more: '{node}'{process} is gone; waiting for the next\n",
            self.topic
        ));
        self.settled = true;
        self.told = true;
    }

    /// Returns true if the reason or the end of the last publisher was reported, and no sample has
    /// arrived since.
    pub(super) fn has_reported(&self) -> bool {
        self.told
    }

    /// Checks for how long no sample has arrived. Shows the reason once, if no first sample has
    /// arrived within [`PATIENCE`].
    ///
    /// # Errors
    /// If no sample has arrived within the time-out of the command.
    pub(super) fn look(&mut self, subscriptions: &[Subscription]) -> Result<(), String> {
        let waited = self.since.elapsed();
        if let Some(timeout) = self.timeout.filter(|t| waited >= *t) {
            let no = if self.heard { "no further sample" } else { "no sample" };
            return Err(format!(
                "{no} of '{}' came within {} s: {}",
                self.topic,
                timeout.as_secs_f64(),
                self.why(subscriptions)
            ));
        }
        if !self.settled && waited >= PATIENCE {
            self.settled = true;
            self.told = true;
            let why = self.why(subscriptions);
            self.screen.print_error(&format!("waiting for '{}': {why}\n", self.topic));
        }
        Ok(())
    }

    fn why(&self, subscriptions: &[Subscription]) -> String {
        let participants = match ask(self.domain, self.screen) {
            Ok((_, participants)) => participants,
            Err(text) => return text,
        };
        let published = participants.iter().flat_map(|p| p.publishers.iter().map(move |i| (p, i)));
        let topic = self.topic.as_str();
        let there: Vec<_> = published.clone().filter(|(_, i)| i.topic == topic).collect();
        let refusals: BTreeSet<String> = subscriptions
            .iter()
            .flat_map(|s| s.refusal_source()())
            .map(|r| cut(&r, REASON))
            .collect();
        if there.is_empty() && refusals.is_empty() {
            let runs = Runs::ask(self.domain);
            if let Some(why) = runs.why(topic, End::Publisher) {
                return format!("no process publishes it in {} now: {why}", self.place);
            }
            let hint: String = elsewhere(self.place, true)
                .iter()
                .filter(|o| o.topics.contains(topic))
                .map(Other::hint)
                .collect();
            let known: BTreeSet<String> = published.map(|(_, i)| cut(&i.topic, NAME)).collect();
            let names = runs.topics();
            let names = names.iter().chain(&known).map(String::as_str);
            let near = closest(topic, names.filter(|name| *name != topic));
            if let Some(near) = near.filter(|_| hint.is_empty()) {
                return format!(
                    "no process publishes it in {}: did you mean '{near}'?",
                    self.place
                );
            }
            let known = match known.len() {
                0 => String::new(),
                n => {
                    let more = if n > MOST_NAMED {
                        format!(" and {} more", n - MOST_NAMED)
                    } else {
                        String::new()
                    };
                    format!(
                        "; topics there: {}{more}",
                        known.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join(", ")
                    )
                }
            };
            let place = self.place;
            if let Some(service) = of_service(topic, &participants) {
                return format!("no process publishes it in {place}: {service}");
            }
            return format!(
                "no process publishes it in {place}, unless with `reach: process`, which other \
                 processes cannot see{known}{hint}"
            );
        }
        if !refusals.is_empty() {
            return refusals.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join("; ");
        }
        let names: Vec<String> = there
            .iter()
            .take(MOST_NAMED)
            .map(|(p, i)| {
                let before = count(i.stats.published, "sample");
                format!(
                    "'{}' (process {}) is there, with {before} so far",
                    cut(&i.node, NAME),
                    p.pid_in_its_namespace
                )
            })
            .collect();
        let names = names.join(", ");
        if subscriptions.iter().any(|s| s.matched() > 0) {
            format!("{names}, and has published nothing since this command listens")
        } else {
            format!(
                "{names}, and does not answer: a process that is suspended or far too busy cannot"
            )
        }
    }
}
