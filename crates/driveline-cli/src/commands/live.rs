// SPDX-License-Identifier: Apache-2.0
//! The figures of a run as text: a table that renews itself on a terminal, a line now and then elsewhere.

use crate::screen::Screen;
use crate::table::{Align, count, cut, duration, lines};
use driveline_analyze::{Collector, EndToEnd, StageSummary, Summary};
use std::time::{Duration, Instant};

/// Making a summary may take this share of the time, at most.
const SHARE: u32 = 20;

/// A line of the table.
pub(crate) struct Line {
    text: String,
    /// Colour, as a terminal understands it.
    style: &'static str,
}

impl Line {
    pub(crate) fn painted(&self, screen: &Screen) -> String {
        if self.style.is_empty() { self.text.clone() } else { screen.paint(self.style, &self.text) }
    }
}

pub(crate) struct Live {
    table: bool,
    /// Zero shows nothing.
    every: Duration,
    next: Instant,
    /// Lines of the table that are on the screen now.
    shown: usize,
    lines: Vec<Line>,
    /// Frames and time of the last look, for the rate.
    last: Option<(u64, Instant)>,
}

impl Live {
    pub(crate) fn new(table: bool, every: Duration) -> Self {
        Self { table, every, next: Instant::now() + every, shown: 0, lines: Vec::new(), last: None }
    }

    /// Takes the table off the screen, so that something can be printed.
    pub(crate) fn clear(&mut self, screen: &Screen) {
        if self.shown > 0 {
            screen.print(&format!("\x1b[{}A\r\x1b[J", self.shown));
            self.shown = 0;
        }
    }

    pub(crate) fn tick(&mut self, collector: &Collector, screen: &Screen) {
        let now = Instant::now();
        if !self.every.is_zero() && now >= self.next {
            let summary = collector.summary();
            let rate = self.rate(summary.frames_published, now);
            self.next = now + self.every.max(now.elapsed() * SHARE);
            if self.table {
                self.clear(screen);
                self.lines = Self::table(&summary, rate, screen.columns());
                self.lines.truncate(screen.rows().saturating_sub(2));
            } else {
                screen.print(&(Self::line(&summary, rate) + "\n"));
            }
        }
        if self.table && self.shown == 0 && !self.lines.is_empty() {
            screen.print(&self.lines.iter().map(|l| l.painted(screen) + "\n").collect::<String>());
            self.shown = self.lines.len();
        }
    }

    fn rate(&mut self, frames: u64, now: Instant) -> Option<f64> {
        let rate = self.last.map(|(before, at)| frames.saturating_sub(before) as f64 / (now - at).as_secs_f64().max(1e-3));
        self.last = Some((frames, now));
        rate
    }

    /// The whole table.
    pub(crate) fn table(summary: &Summary, rate: Option<f64>, columns: usize) -> Vec<Line> {
        let mut out = vec![Line { text: head(summary, rate), style: "1" }];
        let plain = |text| Line { text, style: "" };
        let table = |mut lines: Vec<String>| {
            let rest = lines.split_off(1);
            lines.into_iter().map(|text| Line { text, style: "2" }).chain(rest.into_iter().map(plain)).collect::<Vec<_>>()
        };
        out.extend(summary.facts.iter().map(|f| format!("{}: {}: {}", f.component, f.name, f.text)).map(plain));
        let head =
            ["COMPONENT", "RUNS", "FAILED", "TRANSMISSION p50", "p99", "PROCESSING p50", "p99", "MISSED"].map(str::to_owned).to_vec();
        let rows = summary.stages.iter().map(|s| stage(s, summary));
        use Align::{Left, Right};
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        out.extend(table(lines(&[Left, Right, Right, Right, Right, Right, Right, Right], &rows)));
        if !summary.end_to_end.is_empty() {
            let mut head = ["END TO END", "AGE p50", "p99", "= COMMUNICATION", "+ COMPUTATION", "+ IDLE"].map(str::to_owned).to_vec();
            head.extend(summary.end_to_end.iter().find_map(|e| e.reaction_distance).map(|r| format!("WAY AT {} km/h p50", r.speed_kmh)));
            let rows: Vec<_> = std::iter::once(head).chain(summary.end_to_end.iter().map(end_to_end)).collect();
            out.extend(table(lines(&[Left, Right, Right, Right, Right, Right, Right], &rows)));
        }
        out.into_iter().map(|l| Line { text: cut(&l.text, columns), ..l }).collect()
    }

    /// One line.
    fn line(summary: &Summary, rate: Option<f64>) -> String {
        let stages = summary.stages.iter().filter(|s| s.runs > 0).map(|s| format!("{} {}", s.stage, duration(s.processing_us.p50)));
        let ends = summary.end_to_end.iter().map(|e| {
            let metres = e.reaction_distance.map(|r| format!(" ({:.1} m)", r.p50_m)).unwrap_or_default();
            format!("{} → {} {}{metres}", e.origin, e.stage, duration(e.age_us.p50))
        });
        format!("{} | {}", head(summary, rate), stages.chain(ends).collect::<Vec<_>>().join(", "))
    }
}

fn head(summary: &Summary, rate: Option<f64>) -> String {
    let rate = rate.map(|r| format!(" ({r:.1}/s)")).unwrap_or_default();
    let frames = count(summary.frames_published, "frame");
    let failed = if summary.failed() > 0 { format!(", {}", count(summary.failed(), "failure")) } else { String::new() };
    format!("{}: {:.1} s, {frames} published{rate}, {} missed{failed}", summary.graph, summary.duration_s, summary.missed())
}

fn stage(s: &StageSummary, summary: &Summary) -> Vec<String> {
    let missed: u64 = summary.subscriptions.iter().filter(|i| i.stage == s.stage).map(|i| i.missed).sum();
    let quantiles = |q: &driveline_analyze::Quantiles| {
        if q.n == 0 { ["-".to_owned(), "-".to_owned()] } else { [duration(q.p50), duration(q.p99)] }
    };
    let [t50, t99] = quantiles(&s.transmission_us);
    let [p50, p99] = quantiles(&s.processing_us);
    vec![s.stage.clone(), s.runs.to_string(), s.failed.to_string(), t50, t99, p50, p99, missed.to_string()]
}

fn end_to_end(e: &EndToEnd) -> Vec<String> {
    let mut row = vec![format!("{} → {}", e.origin, e.stage), duration(e.age_us.p50), duration(e.age_us.p99)];
    row.extend([e.p50.communication_us, e.p50.computation_us, e.p50.idle_us].map(duration));
    row.extend(e.reaction_distance.map(|r| format!("{:.2} m", r.p50_m)));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_analyze::{RunFacts, StageFacts, StageInput, StageRecord};
    use driveline_types::header::Arrival;
    use driveline_types::{Lineage, MonotonicNs, SampleHeader, TopicName};

    fn run() -> Collector {
        let topic: TopicName = "camera/image".parse().unwrap();
        let camera = StageFacts { name: "camera".into(), inputs: vec![], outputs: vec![topic.clone()] };
        let lane = StageFacts { name: "lane".into(), inputs: vec![("image".into(), topic.clone())], outputs: vec![] };
        let facts = RunFacts { graph: "demo".into(), speed_kmh: Some(36.0), stages: vec![camera, lane], ..RunFacts::default() };
        let mut run = Collector::new(facts);
        let (at, start, end) = (MonotonicNs(1_000_000), MonotonicNs(1_050_000), MonotonicNs(21_050_000));
        let mut header = SampleHeader { sequence: 3, publish_time: at, ..SampleHeader::default() };
        Lineage::start(at).stamp(&mut header, topic.id(), Some(at), 7);
        let input = StageInput { input: "image", topic: topic.id(), arrival: Arrival::Triggered, header: &header, missed: 2, fresh: true };
        run.add(&StageRecord { stage: "lane", start, end, failed: true, inputs: &[input], ..StageRecord::default() });
        run
    }

    #[test]
    fn the_table_shows_stages_and_where_the_age_went() {
        let table: Vec<String> = Live::table(&run().summary(), Some(25.0), 200).into_iter().map(|l| l.text).collect();
        let table = table.join("\n");
        for part in [
            "demo: 0.0 s, 3 frames published (25.0/s), 2 missed, 1 failure",
            "50.0 µs",
            "20.0 ms",
            "camera/image → lane",
            "WAY AT 36 km/h",
            "0.20 m",
        ] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
        assert!(Live::table(&run().summary(), None, 30).iter().all(|l| l.text.chars().count() <= 30));
    }

    #[test]
    fn the_line_says_the_same_in_short() {
        let line = Live::line(&run().summary(), None);
        assert!(line.contains("lane 20.0 ms") && line.contains("camera/image → lane 20.1 ms (0.2 m)"), "{line}");
    }
}
