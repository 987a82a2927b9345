// SPDX-License-Identifier: Apache-2.0
//! Beginning of a report: the question, the answer, the most important figures; and the remarks
//! after the picture.

use super::scale::{duration, grouped, percent, significant};
use crate::escape::{escape, sentence};
use crate::quantiles::Quantiles;
use crate::summary::{EndToEnd, SubscriptionSummary, Summary};
use std::fmt::Write;

/// Returns the warnings that the run did not end as it should, that calls failed or that work was
/// not done; empty after a good run.
pub(super) fn banner(s: &Summary) -> String {
    let failed: String = s.failed_of().iter().map(|f| format!("<br>{}", escape(f))).collect();
    let problems: String =
        s.problems.iter().map(|f| format!("<br>{}", sentence(&f.to_string()))).collect();
    match &s.ended {
        Some(e) if !e.ok => {
            let help = e
                .help
                .iter()
                .map(|h| format!("<br><small>{}</small>", sentence(h)))
                .collect::<String>();
            format!(
                "<p class='notice failed' role=alert><b>This run failed.</b> \
                 {}{help}{failed}{problems}</p>",
                sentence(&e.text)
            )
        }
        _ if !failed.is_empty() => format!(
            "<p class='notice failed' role=alert><b>Calls failed in this \
             run.</b>{failed}{problems}</p>"
        ),
        _ if !problems.is_empty() => {
            format!(
                "<p class='notice failed' role=alert><b>This run did not do all of its \
                 work.</b>{problems}</p>"
            )
        }
        _ => String::new(),
    }
}

/// Returns the slowest sink, which decides when the vehicle reacts.
fn slowest(s: &Summary) -> Option<&EndToEnd> {
    s.end_to_end.iter().max_by(|a, b| a.age_us.p50.total_cmp(&b.age_us.p50))
}

/// Answers the reader's main question in one or two sentences.
pub(super) fn answer(s: &Summary) -> String {
    let question = "How old is what the sensors saw when the last component has used it, and where \
                    did that time go?";
    let text = match slowest(s) {
        None => "No component has finished with data that descends from a sensor.".to_owned(),
        Some(e) => {
            // Uses means, because the means of the parts add up. The median is a single sample, and
            // its waits are random.
            let mut parts = [
                ("computation", e.mean.computation_us),
                ("waiting", e.mean.idle_us),
                ("communication", e.mean.communication_us),
            ];
            parts.sort_by(|a, b| b.1.total_cmp(&a.1));
            let parts = parts.map(|(what, us)| format!("{} {what}", duration(us)));
            let [first, second, third] = &parts;
            format!(
                "<b>{}</b> at {}, counted from {} (median of {}; 99 % within {}{}). On average \
                 {first}, {second} and {third}.",
                duration(e.age_us.p50),
                escape(&e.stage),
                escape(&e.origin),
                grouped(e.age_us.n as f64),
                duration(e.age_us.p99),
                few(&e.age_us)
            )
        }
    };
    format!("<p class=question>{question}</p><p class=answer>{text}{}</p>", missed(s))
}

/// Returns sentences on samples that were not processed, with the component that missed most.
fn missed(s: &Summary) -> String {
    let triggers = || s.subscriptions.iter().filter(|x| x.triggers);
    let lost = |x: &SubscriptionSummary| x.missed.saturating_add(x.lost_on_the_way);
    let all = triggers().map(|x| lost(x).saturating_add(x.received)).fold(0, u64::saturating_add);
    let most = triggers().filter(|x| lost(x) > 0).max_by_key(|x| lost(x));
    let least = if triggers().any(|x| x.unknown.is_some()) { "At least " } else { "" };
    let unread = match s.unread_by_triggers {
        0 => String::new(),
        n => format!(
            " {least}{} samples were not read, since the processes that were to work on them \
             were killed or ended unexpectedly.",
            grouped(n as f64)
        ),
    };
    let uncalled = s.uncalled().map(|text| format!(" {text}.")).unwrap_or_default();
    let unknown = match triggers().map(|x| x.uncounted).fold(0, u64::saturating_add) {
        0 => String::new(),
        _ => " How many samples were lost on the way from other hosts is not known in full: see \
              the notes."
            .to_owned(),
    };
    let missed = match most {
        None if all == 0
            || s.not_read_by_triggers > 0
            || s.subscriptions.iter().any(|x| x.unknown.is_some())
            || !s.problems.is_empty()
            || !uncalled.is_empty()
            || !unknown.is_empty() =>
        {
            String::new()
        }
        None => " Every sample that was to be worked on was worked on.".to_owned(),
        Some(most) => format!(
            " {} of {} samples that were to be worked on were not (newer ones had come, or they \
             were lost on the way): {} of them at {}.",
            grouped(s.missed_by_triggers.saturating_add(s.lost_by_triggers) as f64),
            grouped(all as f64),
            grouped(lost(most) as f64),
            escape(&most.stage)
        ),
    };
    let waiting = match s.not_read_by_triggers.saturating_sub(s.unread_by_triggers) {
        0 => String::new(),
        1 => " 1 sample that was to be worked on could still be read at the end, and was not."
            .to_owned(),
        n => format!(
            " {} samples that were to be worked on could still be read at the end, and were not.",
            grouped(n as f64)
        ),
    };
    missed + &unread + &waiting + &uncalled + &unknown
}

/// Marks a 99th percentile of too few samples.
fn few(q: &Quantiles) -> &'static str {
    if q.p99_n_too_small { ", of few samples" } else { "" }
}

/// A figure with its name, an explanation below it, and its exact definition as a hint.
struct Card {
    value: String,
    label: String,
    detail: String,
    meaning: &'static str,
}

/// Returns the most important figures.
pub(super) fn cards(s: &Summary) -> String {
    let mut all = Vec::new();
    let mut card = |value: String, label: String, detail: String, meaning| {
        all.push(Card { value, label, detail, meaning })
    };
    if let Some(e) = slowest(s) {
        card(
            duration(e.age_us.p50),
            format!("end-to-end latency at {}, median", e.stage),
            format!(
                "99 % within {}{}, slowest {}; from the newest data in it {}",
                duration(e.age_us.p99),
                few(&e.age_us),
                duration(e.age_us.max),
                duration(e.newest_age_us.p50)
            ),
            "Age of the oldest sensor data in a result: from the moment the data was valid until \
             this component was done with it. Where a component joins data of different times, the \
             newest of them is younger.",
        );
        if let Some(d) = e.reaction_distance {
            card(
                format!("{} m", significant(d.p50_m)),
                "driven until the result is there, median".to_owned(),
                format!(
                    "at {} km/h; 99 % within {} m",
                    significant(d.speed_kmh),
                    significant(d.p99_m)
                ),
                "Reaction distance: speed of the vehicle times end-to-end latency.",
            );
        }
        card(
            percent(e.mean.communication_us, e.mean.total_us()),
            "of the latency is communication".to_owned(),
            format!(
                "on average {} of {}; {} computation, {} waiting",
                duration(e.mean.communication_us),
                duration(e.mean.total_us()),
                duration(e.mean.computation_us),
                duration(e.mean.idle_us)
            ),
            "Communication: from publishing a sample to the start of the callback that it \
             triggers, and conversions of messages. Waiting: data waited at an input until another \
             event triggered the component.",
        );
    }
    let rate = if s.duration_s > 0.0 { s.frames_published as f64 / s.duration_s } else { 0.0 };
    card(
        grouped(s.frames_published as f64),
        "samples from the sensors".to_owned(),
        format!("{} per second, over {} s", significant(rate), significant(s.duration_s)),
        "Published on the topics of all sources together.",
    );
    let received = s
        .subscriptions
        .iter()
        .filter(|x| x.triggers)
        .fold(0u64, |sum, x| sum.saturating_add(x.received));
    let missed = s
        .missed_by_triggers
        .saturating_add(s.lost_by_triggers)
        .saturating_add(s.not_read_by_triggers);
    card(
        grouped(missed as f64),
        "samples not worked on".to_owned(),
        format!(
            "{} of the samples that were to start a component; newer ones had arrived, or they \
             were lost on the way{}",
            percent(missed as f64, missed.saturating_add(received) as f64),
            match (s.unread_by_triggers, s.not_read_by_triggers) {
                (0, 0) => "",
                (0, _) => ", or the run ended before they were read",
                _ => ", or a process that was to read them had been killed",
            }
        ),
        "The newest sample wins: a component that is slower than its source skips what it has no \
         time for. Samples of inputs that start nothing are not counted here; see Subscriptions.",
    );
    if s.failed() > 0 {
        card(
            grouped(s.failed() as f64),
            "calls failed".to_owned(),
            "see the table of components".to_owned(),
            "Callbacks that reported an error.",
        );
    }
    let cards = all.iter().fold(String::new(), |mut out, c| {
        let (label, detail, meaning) = (escape(&c.label), escape(&c.detail), escape(c.meaning));
        let _ = write!(
            out,
            "<div class=card title='{meaning}'><b>{}</b><span>{label}</span>\
             <small>{detail}</small></div>",
            c.value
        );
        out
    });
    format!("<div class=cards>{cards}</div>")
}

/// Returns remarks for the reader: the notes in a box, then explanations of waits, and the facts.
pub(super) fn remarks(s: &Summary) -> Option<String> {
    let items = |all: &mut dyn Iterator<Item = String>| {
        all.map(|text| format!("<li>{text}</li>")).collect::<String>()
    };
    let limits = items(&mut s.notes.iter().map(|n| sentence(n)));
    let mut out = if limits.is_empty() {
        String::new()
    } else {
        format!("<div class=notice><ul>{limits}</ul></div>")
    };
    let facts = s.facts.iter().map(|f| {
        // If component and note have the same name, show it once.
        let about =
            if f.name == f.component { String::new() } else { format!(", {}", escape(&f.name)) };
        format!("<b>{}</b>{about}: {}", escape(&f.component), escape(&f.text))
    });
    let groups = [
        ("What the oldest data waited for", items(&mut s.waits().map(sentence))),
        ("What ran", items(&mut { facts })),
    ];
    for (heading, list) in groups.iter().filter(|(_, list)| !list.is_empty()) {
        let _ = write!(out, "<h3>{heading}</h3><ul>{list}</ul>");
    }
    (!out.is_empty()).then_some(out)
}
