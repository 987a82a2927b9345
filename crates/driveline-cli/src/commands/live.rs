// SPDX-License-Identifier: Apache-2.0
//! The figures of a run as text: a table that is redrawn on a terminal, a line at intervals
//! elsewhere.

use super::figures;
use super::hung::Hung;
use super::live_table::{MAX_NAMED, Recent};
use crate::text::{count, cut};
use driveline_analyze::{Collector, SubscriptionSummary, Summary};
use driveline_runtime::account::note_line;
use driveline_terminal::figures::duration_us;
use driveline_terminal::paragraphs;
use driveline_terminal::screen::Screen;
use std::time::{Duration, Instant};

/// Style of headings: bold.
const HEAD: &str = "1";
/// Style of the heads of columns: faint.
pub(super) const COLUMN_HEADS: &str = "2";
/// No style. Marks a line with a fact, which is left out if the screen has too few rows.
const FACT: &str = "0";
const HUNG: &str = "1;31";
/// A component that calls for attention.
pub(super) const TROUBLE: &str = "31";

/// Number of components above which a line has only totals and the worst components.
const MANY: usize = 8;

/// Making summaries may take at most this fraction of the time: one part in 20.
const SHARE: u32 = 20;

/// A line of the table.
pub(crate) struct Line {
    pub(super) text: String,
    /// Colour, as a terminal understands it.
    pub(super) style: &'static str,
}

impl Line {
    pub(crate) fn painted(&self, screen: &Screen) -> String {
        if self.style.is_empty() { self.text.clone() } else { screen.paint(self.style, &self.text) }
    }
}

pub(crate) struct Live {
    table: bool,
    /// Interval between updates; zero shows nothing.
    every: Duration,
    next: Instant,
    /// Number of lines of the table that are on the screen now.
    shown: usize,
    lines: Vec<Line>,
    began: Option<Instant>,
    /// Number of frames and time at the last summary, for the rate.
    last: Option<(u64, Instant)>,
    recent: Recent,
}

impl Live {
    pub(crate) fn new(table: bool, every: Duration) -> Self {
        Self {
            table,
            every,
            next: Instant::now() + every,
            shown: 0,
            lines: Vec::new(),
            began: None,
            last: None,
            recent: Recent::default(),
        }
    }

    /// Removes the table from the screen, so that something can be printed.
    pub(crate) fn clear(&mut self, screen: &Screen) {
        if self.shown > 0 {
            screen.print(&format!("\x1b[{}A\r\x1b[J", self.shown));
            self.shown = 0;
        }
    }

    /// Shows figures if they are due. `hung` has a line for each component that gives no results.
    /// The duration shown is that of the run, which also grows while no callback ends. `cpu`
    /// returns the modules' use of processors, in one line.
    pub(crate) fn tick(
        &mut self,
        collector: &Collector,
        hung: &Hung,
        cpu: &mut dyn FnMut() -> Option<String>,
        screen: &Screen,
    ) {
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        if !self.every.is_zero() && now >= self.next {
            let mut summary = collector.summary();
            summary.duration_s = (now - began).as_secs_f64();
            let hung = hung.lines(&summary);
            self.recent.push(now - began, &summary);
            let rate = self.rate(summary.frames_published, now);
            self.next = now + self.every.max(now.elapsed() * SHARE);
            if self.table {
                self.clear(screen);
                let mut lines: Vec<Line> = hung
                    .iter()
                    .map(|l| Line { text: cut(l, screen.columns()), style: HUNG })
                    .collect();
                let (columns, rows) = (screen.columns(), screen.rows().saturating_sub(2));
                lines.extend(self.live_table(&summary, rate, cpu(), columns, rows));
                self.lines = Self::fit(lines, rows);
            } else {
                let lines = std::iter::once(self.line(&summary, rate)).chain(hung);
                screen.print(&lines.map(|l| l + "\n").collect::<String>());
            }
        }
        if self.table && self.shown == 0 && !self.lines.is_empty() {
            screen.print(&self.lines.iter().map(|l| l.painted(screen) + "\n").collect::<String>());
            self.shown = self.lines.len();
        }
    }

    fn rate(&mut self, frames: u64, now: Instant) -> Option<f64> {
        let rate = self.last.map(|(before, at)| {
            frames.saturating_sub(before) as f64 / (now - at).as_secs_f64().max(1e-3)
        });
        self.last = Some((frames, now));
        rate
    }

    /// Returns the table shown during a run: activity of the components in the last seconds, ages
    /// of the data at the sinks, calls of services, use of processors, and lines on failed calls,
    /// blocked outputs and overruns.
    fn live_table(
        &self,
        summary: &Summary,
        rate: Option<f64>,
        cpu: Option<String>,
        columns: usize,
        rows: usize,
    ) -> Vec<Line> {
        let plain = |style| move |text| Line { text, style };
        let mut out: Vec<Line> =
            wrapped(&head(summary, rate), columns).into_iter().map(plain(HEAD)).collect();
        let cpu: Vec<Line> =
            cpu.iter().flat_map(|cpu| wrapped(cpu, columns)).map(plain("")).collect();
        let ends = figures::ends(summary, columns);
        let services = figures::services(summary, columns);
        let blocked = summary.failed_with_events().into_iter();
        let blocked = blocked.chain(summary.blocked_in_publish()).chain(summary.overruns());
        let blocked: Vec<Line> =
            blocked.flat_map(|text| wrapped(&text, columns)).map(plain(TROUBLE)).collect();
        // If there are many sinks, lines of components take precedence.
        let others = out.len() + cpu.len() + services.len() + blocked.len();
        let room = rows.saturating_sub(others);
        let ends_room = ends.len().min(room / 2);
        out.extend(self.recent.table(summary, columns, room - ends_room));
        out.extend(ends.into_iter().take(ends_room));
        out.extend(services);
        out.extend(cpu);
        out.extend(blocked);
        out.into_iter().map(|l| Line { text: cut(&l.text, columns), ..l }).collect()
    }

    /// Returns the table of the whole run, at most as wide as `columns`.
    pub(crate) fn table(summary: &Summary, rate: Option<f64>, columns: usize) -> Vec<Line> {
        let facts = summary.facts.iter().map(|f| note_line(&f.component, &f.name, &f.text));
        let mut out = vec![];
        out.extend(
            wrapped(&head(summary, rate), columns)
                .into_iter()
                .map(|text| Line { text, style: HEAD }),
        );
        out.extend(facts.flat_map(|f| wrapped(&f, columns)).map(|text| Line { text, style: FACT }));
        out.extend(figures::stages(summary, columns));
        out.extend(figures::ends(summary, columns));
        out.extend(figures::services(summary, columns));
        out.extend(
            summary
                .waits()
                .flat_map(|w| wrapped(w, columns))
                .map(|text| Line { text, style: FACT }),
        );
        out.into_iter().map(|l| Line { text: cut(&l.text, columns), ..l }).collect()
    }

    /// Cuts the table to the number of rows. Facts are dropped first: they were also printed as
    /// lines, when the components reported them.
    fn fit(mut lines: Vec<Line>, rows: usize) -> Vec<Line> {
        if lines.len() > rows {
            lines.retain(|l| l.style != FACT);
        }
        lines.truncate(rows);
        lines
    }

    /// Returns the figures in one line.
    fn line(&self, summary: &Summary, rate: Option<f64>) -> String {
        let many = summary.stages.len() > MANY;
        let totals = many.then(|| self.recent.line(summary));
        let stages = summary
            .stages
            .iter()
            .filter(|s| s.runs > 0 && !many)
            .map(|s| format!("{} {}", s.stage, duration_us(s.processing_us.p50)));
        // If there are many sinks, only those with the oldest data.
        let mut ends: Vec<_> = summary.end_to_end.iter().collect();
        let more = if ends.len() > MANY { ends.len() - MAX_NAMED } else { 0 };
        if more > 0 {
            ends.sort_by(|a, b| b.age_us.p50.total_cmp(&a.age_us.p50));
            ends.truncate(MAX_NAMED);
        }
        let ends = ends.into_iter().map(|e| {
            let metres =
                e.reaction_distance.map(|r| format!(" ({:.1} m)", r.p50_m)).unwrap_or_default();
            format!("{} → {} {}{metres}", e.origin, e.stage, duration_us(e.age_us.p50))
        });
        let more = (more > 0).then(|| format!("{more} more ends are younger"));
        let services = summary.services.iter().map(|s| {
            let [failed, timed_out] = [(s.failed(), "failed"), (s.calls.timed_out, "timed out")]
                .map(|(n, what)| match n {
                    0 => String::new(),
                    n => format!(", {n} {what}"),
                });
            format!(
                "{} ({} of {} answered{failed}{timed_out})",
                figures::end_of_service(s),
                s.calls.answered,
                s.calls.calls
            )
        });
        // Medians are labelled `p50`, because the table of the last seconds has means.
        let part = |what: &str, all: Vec<String>| {
            (!all.is_empty()).then(|| format!("{what}{}", all.join(", ")))
        };
        let parts = [
            totals,
            part("processing p50 ", stages.collect()),
            part("age p50 ", ends.chain(more).collect()),
            part("", services.collect()),
        ];
        let figures = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        if figures.is_empty() {
            head(summary, rate)
        } else {
            format!("{} | {figures}", head(summary, rate))
        }
    }
}

/// Returns the sum of one count over all inputs.
fn dropped(summary: &Summary, of: fn(&SubscriptionSummary) -> u64) -> u64 {
    summary.subscriptions.iter().map(of).fold(0, u64::saturating_add)
}

fn head(summary: &Summary, rate: Option<f64>) -> String {
    let rate = rate.map(|r| format!(" ({r:.1}/s)")).unwrap_or_default();
    let sources = count(summary.frames_published, "sample");
    let failed = if summary.failed() > 0 {
        format!(", {}", count(summary.failed(), "failure"))
    } else {
        String::new()
    };
    let (missed, superseded) = (summary.missed_by_triggers, summary.superseded);
    // During a run, unread samples are normal, so only those of killed or crashed processes count.
    let unread = if summary.ended.is_some() {
        summary.not_read_by_triggers
    } else {
        summary.unread_by_triggers
    };
    let unknown = summary.subscriptions.iter().any(|s| s.triggers && s.unknown.is_some());
    let unread = match (unread, unknown) {
        (0, _) => String::new(),
        (unread, true) => format!(", at least {unread} not read"),
        (unread, false) => format!(", {unread} not read"),
    };
    let lost_there = if summary.lost_by_triggers > 0 {
        format!(", {} lost on the way", summary.lost_by_triggers)
    } else {
        String::new()
    };
    let inactive = if summary.inactive > 0 {
        format!(", {} inactive", summary.inactive)
    } else {
        String::new()
    };
    let dropped: String = [
        ("expired", dropped(summary, |s| s.expired)),
        ("corrupt", dropped(summary, |s| s.corrupt)),
        ("refused", dropped(summary, |s| s.refused)),
    ]
    .iter()
    .filter(|(_, n)| *n > 0)
    .map(|(why, n)| format!(", {n} {why}"))
    .collect();
    let lost = format!("{missed} missed by triggers{unread}{lost_there}");
    let lost = format!("{lost}, {superseded} superseded{dropped}{inactive}");
    format!(
        "{}: {:.1} s, {sources} of sources{rate}, {lost}{failed}",
        summary.graph, summary.duration_s
    )
}

/// Wraps a text at spaces to lines of at most `columns`; all lines but the first are indented.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    paragraphs::wrapped(text, columns).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_analyze::{Fact, InputFacts, RunFacts, StageFacts, StageInput, StageRecord};
    use driveline_runtime::account::{CallCounters, CallEnd, CallbackCounters, Record};
    use driveline_types::header::Arrival;
    use driveline_types::{Lineage, MonotonicNs, SampleHeader, TopicName};

    fn run() -> Collector {
        let topic: TopicName = "camera/image".parse().unwrap();
        let camera =
            StageFacts { name: "camera".into(), inputs: vec![], outputs: vec![topic.clone()] };
        let lane = StageFacts {
            name: "lane".into(),
            inputs: vec![InputFacts { name: "image".into(), topic: topic.clone(), triggers: true }],
            outputs: vec![],
        };
        let facts = RunFacts {
            graph: "demo".into(),
            speed_kmh: Some(36.0),
            stages: vec![camera, lane],
            ..RunFacts::default()
        };
        let mut run = Collector::new(facts);
        let (at, start, end) =
            (MonotonicNs(1_000_000), MonotonicNs(1_050_000), MonotonicNs(21_050_000));
        let mut header = SampleHeader { sequence: 3, publish_time: at, ..SampleHeader::default() };
        Lineage::start(at).stamp(&mut header, topic.id(), Some(at), 7);
        let input = StageInput {
            input: "image",
            topic: topic.id(),
            arrival: Arrival::Triggered,
            header: &header,
            missed: 2,
            fresh: true,
        };
        run.add(&StageRecord {
            stage: "lane",
            start,
            end,
            inputs: &[input],
            ..StageRecord::default()
        });
        run.add(&StageRecord {
            stage: "lane",
            start: end,
            end,
            failed: true,
            ..StageRecord::default()
        });
        run
    }

    #[test]
    fn samples_that_were_dropped_stand_in_the_head_with_the_reason() {
        let mut run = run();
        let stats = driveline_runtime::account::InputCounters {
            received: 3,
            expired: 4,
            refused: 1,
            ..Default::default()
        };
        let topic: TopicName = "camera/image".parse().unwrap();
        run.set_subscription("lane", "image", topic.id(), stats);
        let text = head(&run.summary(), None);
        assert!(text.contains("superseded, 4 expired, 1 refused"), "{text}");
    }

    #[test]
    fn the_table_shows_stages_and_where_the_age_went() {
        let table: Vec<String> =
            Live::table(&run().summary(), Some(25.0), 200).into_iter().map(|l| l.text).collect();
        let table = table.join("\n");
        for part in [
            "demo: 0.0 s, 3 samples of sources (25.0/s), 2 missed by triggers, 0 superseded, 1 \
             failure",
            "50.0 µs",
            "20.0 ms",
            "camera/image → lane",
            "WAY AT 36 km/h",
            "0.20 m",
        ] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
        assert!(
            Live::table(&run().summary(), None, 30).iter().all(|l| l.text.chars().count() <= 30)
        );
    }

    #[test]
    fn failed_calls_with_events_have_a_line_and_count_as_failures() {
        let mut run = run();
        let stats = CallbackCounters { invocations: 2, failed_events: 3, ..Default::default() };
        run.take("m", &Record::Counters { component: "lane".into(), stats });
        let live = Live::new(true, Duration::from_secs(1));
        let table = live.live_table(&run.summary(), None, None, 80, 50).into_iter().map(|l| l.text);
        let table = table.collect::<Vec<_>>().join("\n");
        assert!(table.contains("superseded, 4\n  failures"), "{table}");
        assert!(table.contains("calls with events (on_event) failed: 3 of lane"), "{table}");
    }

    /// A run with long names and large numbers.
    fn long_run() -> Summary {
        let topic = |t: &str| -> TopicName { t.parse().unwrap() };
        let names = ["camera_front_left", "lane_detection", "vehicle_detection", "tracker"];
        let input = |t| InputFacts { name: "image".into(), topic: t, triggers: true };
        let read = InputFacts {
            name: "read".into(),
            topic: topic("camera/front_left/image"),
            triggers: false,
        };
        let stage = |name: &&str| StageFacts {
            name: (*name).into(),
            inputs: vec![input(topic("camera/front_left/image")), read.clone()],
            outputs: vec![],
        };
        let stages = names.iter().map(stage).collect();
        let mut run = Collector::new(RunFacts {
            graph: "a long name".into(),
            speed_kmh: Some(130.0),
            stages,
            ..RunFacts::default()
        });
        let image = topic("camera/front_left/image");
        let (at, start, end) =
            (MonotonicNs(1_000_000), MonotonicNs(124_456_789), MonotonicNs(924_456_789));
        let mut header = SampleHeader {
            sequence: 123_456,
            publish_time: at,
            trace_id: 7,
            ..SampleHeader::default()
        };
        header.origins.begin(image.id(), at, at);
        let input = StageInput {
            input: "image",
            topic: image.id(),
            arrival: Arrival::Triggered,
            header: &header,
            missed: 0,
            fresh: true,
        };
        for stage in names {
            run.add(&StageRecord { stage, start, end, inputs: &[input], ..StageRecord::default() });
            run.add(&StageRecord {
                stage,
                start: end,
                end,
                failed: true,
                ..StageRecord::default()
            });
            run.set_subscription(
                stage,
                "image",
                image.id(),
                driveline_runtime::account::InputCounters {
                    received: 123_456,
                    missed: 12_345,
                    ..Default::default()
                },
            );
            run.set_subscription(
                stage,
                "read",
                image.id(),
                driveline_runtime::account::InputCounters {
                    received: 123_456,
                    missed: 98_765,
                    ..Default::default()
                },
            );
        }
        run.summary()
    }

    #[test]
    fn the_table_fits_80_columns_and_says_all_of_it() {
        let table: Vec<String> =
            Live::table(&long_run(), Some(1234.5), 80).into_iter().map(|l| l.text).collect();
        assert!(table.iter().all(|l| l.chars().count() <= 80), "{table:#?}");
        let text = table.join("\n");
        assert!(!text.lines().any(|l| l.ends_with('…')), "no figure is cut off\n{text}");
        for part in [
            "TRANSMISSION",
            "PROCESSING",
            "MISSED  SUPERS.",
            "12345    98765",
            "= COMM.",
            "AT 130 km/h",
            "49380 missed by",
            "4 failures",
            " 800 ms",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        // The heads of groups end where their columns end.
        let end = |line: &str, of: &str| {
            line.chars().count() - line.split_once(of).unwrap().1.chars().count()
        };
        let (groups, rows) =
            table.split_at(table.iter().position(|l| l.starts_with("COMPONENT")).unwrap());
        let row = rows.iter().find(|l| l.starts_with("tracker")).unwrap();
        assert_eq!(
            end(groups.last().unwrap(), "PROCESSING"),
            row.rfind(" ms").map(|b| row[..b].chars().count() + 3).unwrap()
        );
    }

    #[test]
    fn an_age_is_followed_by_what_it_is_made_of() {
        let heads = |columns| {
            let mut lines =
                Live::table(&run().summary(), None, columns).into_iter().map(|l| l.text);
            let head = lines.find(|l| l.starts_with("END TO END")).unwrap();
            head.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(
            heads(200).starts_with(
                "END TO END AGE p50 = COMMUNICATION + COMPUTATION + IDLE AGE p99 NEWEST p50 WAY AT"
            ),
            "{}",
            heads(200)
        );
        assert!(
            heads(80).starts_with("END TO END AGE p50 = COMM. + COMP. + IDLE p99 NEWEST AT"),
            "{}",
            heads(80)
        );
        let row = Live::table(&run().summary(), None, 200)
            .into_iter()
            .map(|l| l.text)
            .find(|l| l.starts_with("camera/image → lane"))
            .unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>().join(" "),
            "camera/image → lane 20.1 ms 50.0 µs 20.0 ms 0.00 µs 20.1 ms 20.1 ms 0.20 m"
        );
    }

    #[test]
    fn no_unit_is_broken_from_its_value() {
        let summary = run().summary();
        for columns in 12..120 {
            let lines: Vec<String> =
                Live::table(&summary, Some(25.0), columns).into_iter().map(|l| l.text).collect();
            let units = ["ms", "s", "m", "µs"];
            let torn = lines
                .iter()
                .any(|l| units.contains(&l.trim_start().split([' ', ',']).next().unwrap()));
            assert!(!torn, "{columns}: {lines:#?}");
        }
    }

    #[test]
    fn with_more_room_heads_say_it_in_full() {
        let wide: Vec<String> =
            Live::table(&long_run(), None, 120).into_iter().map(|l| l.text).collect();
        assert!(wide.iter().all(|l| l.chars().count() <= 120));
        let text = wide.join("\n");
        assert!(
            text.contains("TRANSMISSION p50")
                && text.contains("SUPERSEDED")
                && text.contains("vehicle_detection"),
            "{text}"
        );
    }

    #[test]
    fn few_rows_keep_the_figures() {
        let table = Live::table(&run().summary(), None, 80);
        let rows = table.len();
        assert_eq!(Live::fit(Live::table(&run().summary(), None, 80), rows).len(), rows);
        let mut summary = run().summary();
        summary.facts = vec![Fact { component: "x".into(), name: "y".into(), text: "z".into() }];
        let table = Live::table(&summary, None, 80);
        assert!(table.iter().any(|l| l.text == "x: y: z"));
        let fitted = Live::fit(table, rows);
        assert_eq!(fitted.len(), rows);
        assert!(fitted.iter().all(|l| l.text != "x: y: z"));
    }

    #[test]
    fn services_have_a_table_and_a_part_of_the_line() {
        let mut run = run();
        let calls = CallCounters {
            calls: 9,
            answered: 5,
            refused: 1,
            timed_out: 2,
            ..CallCounters::default()
        };
        let of = |end, calls| Record::Service {
            component: "lane".into(),
            service: "map/tile".into(),
            end,
            calls,
        };
        run.take("one", &of(CallEnd::Client, calls));
        run.take(
            "one",
            &of(CallEnd::Server, CallCounters { calls: 1, answered: 1, ..CallCounters::default() }),
        );
        let summary = run.summary();
        let rows: Vec<_> = Live::table(&summary, None, 80).into_iter().map(|l| l.text).collect();
        let rows: Vec<_> =
            rows.iter().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for row in [
            "SERVICE CALLS ANSWERED FAILED TIMED OUT",
            "lane calls map/tile 9 5 1 2",
            "lane serves map/tile 1 1 0 -",
        ] {
            assert!(rows.iter().any(|r| r == row), "{row} is not in {rows:#?}");
        }
        let line = Live::new(false, Duration::ZERO).line(&summary, None);
        let told = "lane calls map/tile (5 of 9 answered, 1 failed, 2 timed out), lane serves \
             map/tile (1 of 1 answered)";
        assert!(line.ends_with(told), "{line}");
    }

    #[test]
    fn the_line_of_many_components_says_that_its_figures_are_means() {
        let line = |n| {
            let mut run = Collector::new(RunFacts::default());
            for i in 0..n {
                let stage = format!("stage_{i}");
                run.add(&StageRecord { stage: &stage, ..StageRecord::default() });
            }
            Live::new(false, Duration::ZERO).line(&run.summary(), None)
        };
        assert!(
            line(MANY + 1).contains(" | last 5 s, means: 9 components, none in trouble"),
            "{}",
            line(MANY + 1)
        );
        assert!(!line(MANY).contains("means"), "{}", line(MANY));
    }

    #[test]
    fn the_line_says_the_same_in_short() {
        let line = Live::new(false, Duration::ZERO).line(&run().summary(), None);
        assert!(
            !Live::new(false, Duration::ZERO)
                .line(&Collector::default().summary(), None)
                .contains('|'),
            "nothing to say, nothing to separate"
        );
        assert!(
            line.contains("lane 20.0 ms") && line.contains("camera/image → lane 20.1 ms (0.2 m)"),
            "{line}"
        );
    }
}
