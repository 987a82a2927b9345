// SPDX-License-Identifier: Apache-2.0
//! Single plots. Times are in seconds, so that axes label them with the right prefix.

use super::look::{Look, Looks};
use crate::analysis::{CaseResult, Criterion, Figure, Measure};
use crate::further::layers_of;
use driveline_bench::harness::Pace;
use driveline_bench::observations::Quantity;
use driveline_graph::ByteSize;
use plotly::box_plot::BoxPlot;
use plotly::common::TickMode;
use plotly::common::{
    DashType, ErrorData, ErrorType, Line, LineShape, Marker, MarkerSymbol, Mode, Orientation, Title,
};
use plotly::layout::{Axis, AxisType, BarMode, BoxMode};
use plotly::{Bar, Layout, Plot, Scatter};

/// Colours of the parts of stacked bars (deliveries, layers, stages), after Paul Tol's muted
/// scheme.
const MUTED: [&str; 7] =
    ["#44aa99", "#ddcc77", "#cc6677", "#88909a", "#7a6fc4", "#117733", "#882255"];

fn s(ns: f64) -> f64 {
    // Six digits are more than a screen shows, and keep the page small.
    let x = ns / 1e9;
    format!("{x:.5e}").parse().unwrap_or(x)
}

pub(super) fn time_axis(title: &str) -> Axis {
    Axis::new()
        .title(Title::with_text(title))
        .type_(AxisType::Log)
        .tick_format("~s")
        .tick_suffix("s")
        .hover_format(".4s")
        .auto_margin(true)
}

pub(super) fn names_axis() -> Axis {
    Axis::new().auto_margin(true).auto_range(true).type_(AxisType::Category)
}

fn plot(layout: Layout) -> Plot {
    let mut p = Plot::new();
    p.set_layout(layout);
    p
}

/// Plots times at each share of samples, with a stretched tail.
pub(super) fn percentiles(times: &str, lines: &[(String, Look, &Figure)]) -> Plot {
    let ticks = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    let text = ["0", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"];
    let x = Axis::new()
        .title(Title::with_text("share of samples that are not later"))
        .type_(AxisType::Log)
        .tick_mode(TickMode::Array)
        .tick_values(ticks.iter().map(|q| 1.0 / (1.0 - q)).collect())
        .tick_text(text.to_vec());
    let mut p = plot(Layout::new().x_axis(x).y_axis(time_axis(times)));
    for (name, look, f) in lines {
        let n = f.percentiles.n as f64;
        let at = |q: f64| if q < 1.0 { (1.0 / (1.0 - q)).min(n) } else { n };
        let x: Vec<f64> = f.curve.iter().map(|(q, _)| (at(*q) * 1e4).round() / 1e4).collect();
        let y: Vec<f64> = f.curve.iter().map(|(_, ns)| s(*ns as f64)).collect();
        let hover = "%{text}: %{y:.4s}s<extra>%{fullData.name}</extra>";
        let shares: Vec<String> = f
            .curve
            .iter()
            .map(
                |(q, _)| {
                    if *q < 1.0 { format!("{} %", trim(q * 100.0)) } else { "greatest".into() }
                },
            )
            .collect();
        p.add_trace(
            Scatter::new(x, y)
                .name(name)
                .mode(Mode::Lines)
                .line(look.line())
                .text_array(shares)
                .hover_template(hover),
        );
    }
    p
}

fn trim(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Plots the share of samples in each bin.
pub(super) fn histogram(times: &str, lines: &[(String, Look, &Figure)]) -> Plot {
    let y = Axis::new().title(Title::with_text("share of samples in bin")).tick_suffix(" %");
    let mut p = plot(Layout::new().x_axis(time_axis(times)).y_axis(y));
    for (name, look, f) in lines {
        let n = f.percentiles.n as f64;
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for b in &f.bins {
            x.push(s((b.low * b.high).sqrt()));
            y.push((b.count as f64 / n * 1e4).round() / 100.0);
        }
        // Draws the line down to the axis after the last bin. The first bin is empty anyway.
        if let Some(b) = f.bins.last() {
            x.push(s(b.high * (b.high / b.low).sqrt()));
            y.push(0.0);
        }
        p.add_trace(
            Scatter::new(x, y).name(name).mode(Mode::Lines).line(look.line().shape(LineShape::Hvh)),
        );
    }
    p
}

/// Plots the share of samples up to each latency.
pub(super) fn ecdf(times: &str, lines: &[(String, Look, &Figure)]) -> Plot {
    let y = Axis::new()
        .title(Title::with_text("share of samples that are not later"))
        .tick_suffix(" %");
    let mut p = plot(Layout::new().x_axis(time_axis(times)).y_axis(y));
    for (name, look, f) in lines {
        let x: Vec<f64> = f.curve.iter().map(|(_, ns)| s(*ns as f64)).collect();
        let y: Vec<f64> = f.curve.iter().map(|(q, _)| (q * 1e6).round() / 1e4).collect();
        p.add_trace(
            Scatter::new(x, y).name(name).mode(Mode::Lines).line(look.line().shape(LineShape::Hv)),
        );
    }
    p
}

/// Plots quartiles, and the 1st and 99th percentiles, for each subscriber. With too few samples,
/// plots minimum and maximum in place of these two percentiles.
pub(super) fn boxes(cases: &[&CaseResult], looks: &Looks) -> Plot {
    let mut p = plot(
        Layout::new().box_mode(BoxMode::Group).x_axis(names_axis()).y_axis(time_axis("latency")),
    );
    for c in cases {
        let at = |f: &Figure, q: f64| {
            f.curve.iter().find(|(share, _)| *share >= q).map_or(0.0, |(_, ns)| s(*ns as f64))
        };
        let of = |q: f64| c.subscribers.iter().map(|r| at(&r.transport, q)).collect::<Vec<_>>();
        let whisker = |enough: f64, of_few: f64| {
            let share = |f: &Figure| if f.percentiles.p99.is_some() { enough } else { of_few };
            c.subscribers.iter().map(|r| at(&r.transport, share(&r.transport))).collect::<Vec<_>>()
        };
        let names: Vec<String> = c.subscribers.iter().map(|r| r.name.clone()).collect();
        let look = looks.look(c);
        let mut boxes: Box<BoxPlot<String, f64>> = BoxPlot::new_xy(names, Vec::new());
        boxes = boxes
            .name(c.name())
            .q1(of(0.25))
            .median(of(0.5))
            .q3(of(0.75))
            .lower_fence(whisker(0.01, 0.0))
            .upper_fence(whisker(0.99, 1.0));
        p.add_trace(boxes.line(Line::new().color(look.colour).width(1.5)).marker(look.marker()));
    }
    p
}

/// Plots a line for each system over the payload size in bytes: median and 99th percentile, or
/// goodput. Each size is one case.
pub(super) fn sizes(
    by: Criterion,
    lines: &[(&CaseResult, Vec<(usize, &CaseResult)>)],
    looks: &Looks,
) -> Plot {
    let mut all: Vec<usize> =
        lines.iter().flat_map(|(_, points)| points.iter().map(|(size, _)| *size)).collect();
    all.sort_unstable();
    all.dedup();
    let x = Axis::new()
        .title(Title::with_text("size of a payload"))
        .type_(AxisType::Log)
        .tick_mode(TickMode::Array)
        .tick_values(all.iter().map(|b| *b as f64).collect())
        .tick_text(all.iter().map(|b| ByteSize(*b as u64).to_string()).collect());
    let y = match by {
        Criterion::Goodput => Axis::new()
            .title(Title::with_text("goodput"))
            .type_(AxisType::Log)
            .tick_suffix(" MB/s")
            .auto_margin(true),
        Criterion::Latency => time_axis("latency: median, thin p99"),
    };
    let mut p = plot(Layout::new().x_axis(x).y_axis(y));
    for (c, points) in lines {
        let look = looks.look(c);
        let x = || points.iter().map(|(size, _)| *size as f64).collect::<Vec<_>>();
        let of = |measure: Measure| {
            move |c: &CaseResult| c.latencies().and_then(|p| measure.of(p)).map(|ns| s(ns as f64))
        };
        let value = |c: &CaseResult| match by {
            Criterion::Goodput => c.goodput_bytes_per_s.map(|b| b / 1e6),
            Criterion::Latency => of(Measure::P50)(c),
        };
        let y = points.iter().map(|(_, c)| value(c)).collect::<Vec<_>>();
        let group = c.name();
        p.add_trace(
            Scatter::new(x(), y)
                .name(&group)
                .legend_group(&group)
                .mode(Mode::LinesMarkers)
                .line(look.line())
                .marker(look.marker()),
        );
        let y = points.iter().map(|(_, c)| of(Measure::P99)(c)).collect::<Vec<_>>();
        if y.iter().any(Option::is_some) {
            let line = look.line().width(1.0);
            p.add_trace(
                Scatter::new(x(), y)
                    .name(format!("{group}, p99"))
                    .legend_group(&group)
                    .show_legend(false)
                    .mode(Mode::Lines)
                    .line(line),
            );
        }
    }
    p
}

/// Name and look of a timeline, its number among those of its system, and its points.
pub(super) type Course = (String, Look, usize, Vec<(f64, f64)>);

/// Plots values over the time of one run: name, look, and points of seconds and values.
pub(super) fn timeline(lines: &[Course], quantity: Quantity) -> Plot {
    let y = match quantity {
        Quantity::Cpu => Axis::new()
            .title(Title::with_text("CPUs in use"))
            .range_mode(plotly::layout::RangeMode::ToZero),
        Quantity::ResidentMemory => Axis::new().title(Title::with_text("resident memory, MiB")),
        Quantity::Drops | Quantity::Switches => {
            Axis::new().title(Title::with_text("number since the point before"))
        }
        _ => time_axis("latency"),
    };
    let x = Axis::new().title(Title::with_text("time in the run")).tick_suffix(" s");
    let mut p = plot(Layout::new().x_axis(x).y_axis(y.auto_margin(true)));
    let dashes =
        [DashType::Solid, DashType::Dot, DashType::Dash, DashType::DashDot, DashType::LongDash];
    for (name, look, nth, points) in lines {
        let value = |v: f64| match quantity {
            Quantity::Latency | Quantity::Age => s(v),
            Quantity::ResidentMemory => (v / f64::from(1 << 20) * 100.0).round() / 100.0,
            _ => (v * 1e4).round() / 1e4,
        };
        let x: Vec<f64> = points.iter().map(|(t, _)| (t * 1e4).round() / 1e4).collect();
        let y: Vec<f64> = points.iter().map(|(_, v)| value(*v)).collect();
        let line = Line::new()
            .color(look.colour)
            .width(1.5)
            .dash(dashes.get(nth % dashes.len()).cloned().unwrap_or(DashType::Solid));
        p.add_trace(Scatter::new(x, y).name(name).mode(Mode::Lines).line(line));
    }
    p
}

/// Plots horizontal bars in parts, one for each name, from top to bottom.
fn stacked(names: &[String], parts: &[(&str, Vec<f64>)], x: Axis) -> Plot {
    let mut y = names_axis().auto_range(true);
    y = y
        .category_order(plotly::layout::CategoryOrder::Array)
        .category_array(names.iter().rev().cloned().collect::<Vec<_>>());
    let mut p = plot(Layout::new().bar_mode(BarMode::Stack).x_axis(x).y_axis(y));
    for (i, (part, values)) in parts.iter().enumerate() {
        if values.iter().all(|v| *v == 0.0) {
            continue;
        }
        let colour = MUTED.get(i % MUTED.len()).copied().unwrap_or(MUTED[0]);
        let bar = Bar::new(values.clone(), names.to_vec())
            .orientation(Orientation::Horizontal)
            .name(*part);
        p.add_trace(bar.marker(Marker::new().color(colour)));
    }
    p
}

/// Plots medians of the parts of a sample's path.
pub(super) fn layers(cases: &[&CaseResult]) -> Plot {
    let names: Vec<String> = cases.iter().map(|c| c.name()).collect();
    let layers: Vec<_> = cases.iter().map(|c| layers_of(c)).collect();
    let part = |i: usize| {
        layers.iter().filter_map(|parts| parts.get(i)).map(|(_, ns)| s(*ns)).collect::<Vec<_>>()
    };
    let names_of_parts = layers.first().map_or(&[][..], |parts| parts.as_slice());
    let columns: Vec<_> =
        names_of_parts.iter().enumerate().map(|(i, (name, _))| (*name, part(i))).collect();
    let x = Axis::new()
        .title(Title::with_text("median"))
        .tick_format("~s")
        .tick_suffix("s")
        .hover_format(".4s");
    stacked(&names, &columns, x)
}

/// Plots the outcome of all due deliveries.
pub(super) fn deliveries(cases: &[&CaseResult]) -> Plot {
    let names: Vec<String> = cases.iter().map(|c| c.name()).collect();
    let mut columns = vec![
        ("in time", Vec::new()),
        ("late", Vec::new()),
        ("lost", Vec::new()),
        ("not sent", Vec::new()),
    ];
    for c in cases {
        for ((_, values), share) in columns.iter_mut().zip(c.totals.shares()) {
            values.push((share * 1e6).round() / 1e4);
        }
    }
    stacked(
        &names,
        &columns,
        Axis::new().title(Title::with_text("of all deliveries that were due")).tick_suffix(" %"),
    )
}

/// Returns true if lateness is defined.
pub(super) fn is_open(c: &CaseResult) -> bool {
    c.case.links.iter().any(|l| l.pace != Pace::PingPong)
        || (c.case.links.is_empty() && c.has_deliveries())
}

/// Plots means of the parts of latencies.
pub(super) fn stages(rows: &[(String, [f64; 3])]) -> Plot {
    let names: Vec<String> = rows.iter().map(|(n, _)| n.clone()).collect();
    let of = |i: usize| {
        rows.iter().map(|(_, parts)| s(parts.get(i).copied().unwrap_or(0.0))).collect::<Vec<_>>()
    };
    let x = Axis::new()
        .title(Title::with_text("mean"))
        .tick_format("~s")
        .tick_suffix("s")
        .hover_format(".4s");
    stacked(&names, &[("idle", of(0)), ("communication", of(1)), ("computation", of(2))], x)
}

/// Point of a plot of ratios: name, ratio, lower and upper bound.
pub(super) type Dot = (String, f64, f64, f64);

/// Plots ratios with their intervals on a logarithmic axis: half and double are equally far from
/// one.
pub(super) fn dots(
    by: Criterion,
    series: &[(String, Look, Option<MarkerSymbol>, Vec<Dot>)],
    rows: &[String],
) -> Plot {
    let title = match by {
        Criterion::Goodput => "times Driveline's goodput",
        Criterion::Latency => "times as long as Driveline",
    };
    let x = Axis::new()
        .title(Title::with_text(title))
        .type_(AxisType::Log)
        .hover_format(".3f")
        .tick_suffix("×");
    let y = names_axis()
        .category_order(plotly::layout::CategoryOrder::Array)
        .category_array(rows.iter().rev().cloned().collect::<Vec<_>>());
    let one = plotly::layout::Shape::new()
        .shape_type(plotly::layout::ShapeType::Line)
        .x_ref("x")
        .y_ref("paper")
        .x0(1.0)
        .x1(1.0)
        .y0(0.0)
        .y1(1.0)
        .line(plotly::layout::ShapeLine::new().color("#8a8f98").width(1.5).dash(DashType::Dot));
    let mut p = plot(Layout::new().x_axis(x).y_axis(y).shapes(vec![one]));
    for (name, look, symbol, dots) in series {
        let x: Vec<f64> = dots.iter().map(|d| d.1).collect();
        let y: Vec<String> = dots.iter().map(|d| d.0.clone()).collect();
        let error = ErrorData::new(ErrorType::Data)
            .symmetric(false)
            .array(dots.iter().map(|d| (d.3 - d.1).max(0.0)).collect())
            .array_minus(dots.iter().map(|d| (d.1 - d.2).max(0.0)).collect())
            .thickness(1.5)
            .width(4);
        let marker =
            symbol.clone().map_or_else(|| look.marker(), |symbol| look.marker().symbol(symbol));
        let text: Vec<String> = dots
            .iter()
            .map(|d| format!("[{}, {}]", crate::table::ratio(d.2), crate::table::ratio(d.3)))
            .collect();
        let trace = Scatter::new(x, y)
            .name(name)
            .mode(Mode::Markers)
            .marker(marker)
            .error_x(error)
            .text_array(text);
        p.add_trace(trace.hover_template("%{y}: %{x:.3f}× %{text}<extra>%{fullData.name}</extra>"));
    }
    p
}
