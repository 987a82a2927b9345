// SPDX-License-Identifier: Apache-2.0
//! An SVG chart: frame, axes, lines and bars. Colours come from the page's style sheet, so they
//! follow light and dark.

use super::scale::Scale;
use crate::escape::escape;
use std::fmt::Write;

/// Maximum number of series with their own colour; more could not be distinguished.
pub(super) const MAX_SERIES: usize = 6;

/// An axis: its scale and labels.
pub(super) struct Axis<'a> {
    pub(super) scale: Scale,
    pub(super) title: &'a str,
    pub(super) label: fn(f64) -> String,
}

/// A chart under construction. Lengths are in SVG units; the page scales it to its width.
pub(super) struct Chart<'a> {
    width: f64,
    height: f64,
    x: Axis<'a>,
    y: Axis<'a>,
    body: String,
}

const LEFT: f64 = 58.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

impl<'a> Chart<'a> {
    pub(super) fn new(width: f64, height: f64, x: Axis<'a>, y: Axis<'a>) -> Self {
        Self { width, height, x, y, body: String::new() }
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.scale.place(x) * (self.width - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        self.height - BOTTOM - self.y.scale.place(y) * (self.height - TOP - BOTTOM)
    }

    /// Draws a line through points.
    pub(super) fn line(&mut self, series: usize, points: impl Iterator<Item = (f64, f64)>) {
        self.path(series, points, Shape::Straight);
    }

    /// Draws a line that keeps its value until the next point.
    pub(super) fn steps(&mut self, series: usize, points: impl Iterator<Item = (f64, f64)>) {
        self.path(series, points, Shape::Steps);
    }

    fn path(&mut self, series: usize, points: impl Iterator<Item = (f64, f64)>, shape: Shape) {
        let mut d = String::new();
        for (x, y) in points {
            let (px, py) = (self.px(x), self.py(y));
            let _ = match (d.is_empty(), shape) {
                (true, _) => write!(d, "M{px:.1} {py:.1}"),
                (false, Shape::Straight) => write!(d, "L{px:.1} {py:.1}"),
                (false, Shape::Steps) => write!(d, "H{px:.1}V{py:.1}"),
            };
        }
        let _ = write!(self.body, r#"<path class="line s{}" d="{d}"/>"#, series % MAX_SERIES);
    }

    /// Draws a vertical bar from the x axis, with `hint` when pointed at.
    pub(super) fn bar(&mut self, class: &str, from_x: f64, to_x: f64, y: f64, hint: &str) {
        let (left, right, top, bottom) =
            (self.px(from_x), self.px(to_x), self.py(y), self.height - BOTTOM);
        let (w, h) = ((right - left - 1.0).max(0.5), bottom - top);
        let hint = escape(hint);
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{left:.1}" y="{top:.1}" width="{w:.1}" height="{h:.1}"><title>{hint}</title></rect>"#
        );
    }

    /// Draws an invisible strip over the whole height that shows `hint` when pointed at.
    pub(super) fn hover(&mut self, from_x: f64, to_x: f64, hint: &str) {
        let (left, right) = (self.px(from_x), self.px(to_x));
        let (w, h, hint) = ((right - left).max(0.5), self.height - TOP - BOTTOM, escape(hint));
        let _ = write!(
            self.body,
            r#"<rect class="hover" x="{left:.1}" y="{TOP}" width="{w:.1}" height="{h:.1}"><title>{hint}</title></rect>"#
        );
    }

    /// Returns the finished picture; `name` is its text for screen readers.
    pub(super) fn finish(self, name: &str) -> String {
        let (w, h) = (self.width, self.height);
        let mut axes = String::new();
        let base = h - BOTTOM;
        for tick in self.y.scale.ticks() {
            let (y, label) = (self.py(tick), escape(&(self.y.label)(tick)));
            let right = w - RIGHT;
            let _ = write!(axes, r#"<path class="grid" d="M{LEFT} {y:.1}H{right}"/>"#);
            let _ = write!(
                axes,
                r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{label}</text>"#,
                LEFT - 7.0,
                y + 4.0
            );
        }
        for tick in self.x.scale.ticks() {
            let (x, label) = (self.px(tick), escape(&(self.x.label)(tick)));
            let _ = write!(axes, r#"<path class="axis" d="M{x:.1} {base}v4"/>"#);
            let _ = write!(
                axes,
                r#"<text class="tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
                base + 17.0
            );
        }
        let (mid, right) = ((LEFT + w - RIGHT) / 2.0, w - RIGHT);
        let _ = write!(axes, r#"<path class="axis" d="M{LEFT} {base}H{right}"/>"#);
        let _ = write!(
            axes,
            r#"<text class="title" x="{mid}" y="{:.1}" text-anchor="middle">{}</text>"#,
            h - 8.0,
            escape(self.x.title)
        );
        let _ = write!(
            axes,
            r#"<text class="title" transform="translate(13 {:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            (TOP + base) / 2.0,
            escape(self.y.title)
        );
        format!(
            r#"<div class="wide"><svg viewBox="0 0 {w} {h}" role="img" aria-label="{}">{axes}{}</svg></div>"#,
            escape(name),
            self.body
        )
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Straight,
    Steps,
}

/// One row of [`stacked_rows`].
pub(super) struct Row {
    pub(super) label: String,
    pub(super) emphasised: bool,
    /// Class and length of each part.
    pub(super) parts: Vec<(&'static str, f64)>,
    /// Text after the bar.
    pub(super) end: String,
}

/// Returns horizontal stacked bars on one scale from zero. Bars longer than `most` are cut off, so
/// that they do not make all others invisible. The rows are HTML, not an SVG picture, so that a
/// narrow page can put the words above their bar instead of cutting them off.
pub(super) fn stacked_rows(
    rows: &[Row],
    most: f64,
    part_hint: fn(&str, f64) -> String,
    name: &str,
) -> String {
    // A negative part has no length; the figures show it.
    let length = |r: &Row| r.parts.iter().map(|p| p.1.max(0.0)).sum::<f64>();
    let longest = rows.iter().map(length).fold(0.0, f64::max).min(most);
    let scale = Scale::exactly(0.0, longest);
    let mut body = String::new();
    for row in rows {
        let strong = if row.emphasised { " strong" } else { "" };
        let mut left = 100.0;
        let mut bar = String::new();
        for &(class, length) in &row.parts {
            let percent = (scale.place(length) * 100.0).min(left);
            left -= percent;
            // Parts too thin to be seen would only displace the others.
            if percent > 0.005 {
                let hint = escape(&part_hint(class, length));
                let _ = write!(
                    bar,
                    r#"<i class="{class}" style="width:{percent:.3}%" title="{hint}"></i>"#
                );
            }
        }
        let (label, mut end) = (escape(&row.label), escape(&row.end));
        if length(row) > longest {
            end.push_str(" (bar cut off)");
        }
        let _ = write!(
            body,
            r#"<li class="row{strong}"><span class="what">{label}</span><span class="bar">{bar}</span><span class="end">{end}</span></li>"#
        );
    }
    format!(r#"<ul class="bars" aria-label="{}">{body}</ul>"#, escape(name))
}

/// Draws names next to their colours.
pub(super) fn legend<'a>(entries: impl Iterator<Item = (String, &'a str)>) -> String {
    let items: String = entries
        .map(|(class, name)| format!(r#"<li><i class="{class}"></i>{}</li>"#, escape(name)))
        .collect();
    format!(r#"<ul class="legend">{items}</ul>"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_extreme_bar_is_cut_off_and_the_others_stay_visible() {
        let row = |length: f64| Row {
            label: String::new(),
            emphasised: false,
            parts: vec![("communication", length / 4.0), ("idle", length * 3.0 / 4.0)],
            end: format!("{length} us"),
        };
        let rows = [row(20.0), row(40.0), row(30.0), row(4e7)];
        let page = stacked_rows(&rows, 80.0, |_, _| String::new(), "ages");
        assert!(page.contains("width:12.500%") && page.contains("width:37.500%"), "{page}");
        assert_eq!(page.matches("(bar cut off)").count(), 1, "{page}");
        assert!(page.contains("40000000 us (bar cut off)"), "{page}");
        let page = stacked_rows(&rows, f64::INFINITY, |_, _| String::new(), "ages");
        assert!(!page.contains("cut off") && page.contains("width:75.000%"), "{page}");
    }
}
