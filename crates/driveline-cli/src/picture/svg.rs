// SPDX-License-Identifier: Apache-2.0
//! A graph as a picture: boxes are components, coloured by module; pills are topics.

use super::layout::{Layout, Size, layout};
use super::{reach, trigger};
use crate::text::cut;
use driveline_analyze::escape;
use driveline_graph::model::Reach;
use driveline_graph::{ResolvedComponent, ResolvedGraph};
use driveline_terminal::figures::bytes;
use driveline_types::TopicName;
use std::fmt::Write;

/// Fill and line colours of the modules, in turn; readable in print and for most colour-blind
/// people (after Okabe and Ito).
const COLOURS: [(&str, &str); 7] = [
    ("#e3f0fa", "#0072b2"),
    ("#fdf0dc", "#b87400"),
    ("#ddf3ec", "#00795a"),
    ("#f7e6f0", "#a8487f"),
    ("#fbe6dc", "#b84a00"),
    ("#e4f4fc", "#3288b5"),
    ("#f6f3d3", "#7d7400"),
];
const MARGIN: f64 = 20.0;
/// Width to which a wider picture is scaled down, and minimum scale.
const WINDOW: f64 = 1180.0;
const SMALLEST: f64 = 0.75;
const TITLE: f64 = 40.0;
const LEGEND: f64 = 26.0;
/// Maximum length of a label, in characters.
const LABEL: usize = 40;

struct Node<'a> {
    kind: Kind<'a>,
    size: Size,
}

enum Kind<'a> {
    Component { module: usize, component: &'a ResolvedComponent },
    Topic { name: &'a TopicName },
}

/// Returns the picture as a complete SVG document.
pub(crate) fn svg(graph: &ResolvedGraph) -> String {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    for (m, module) in graph.modules.iter().enumerate() {
        for component in &module.components {
            let below = text_width(&component.class, 6.1).max(text_width(&trigger(component), 6.1));
            let width = text_width(component.name.as_str(), 8.6).max(below) + 20.0;
            nodes.push(Node {
                kind: Kind::Component { module: m, component },
                size: Size { width, height: 62.0 },
            });
        }
    }
    let components = nodes.len();
    for name in graph.topics.keys() {
        let width = text_width(name.as_str(), 6.6).max(text_width(&about(graph, name), 5.5)) + 20.0;
        nodes.push(Node { kind: Kind::Topic { name }, size: Size { width, height: 36.0 } });
    }
    let topic_at =
        |name: &TopicName| graph.topics.keys().position(|t| t == name).map(|i| components + i);
    // Source, target, and true if the edge can trigger the component.
    let mut edges: Vec<(usize, usize, bool)> = Vec::new();
    for (i, (_, component)) in graph.components().enumerate() {
        edges.extend(component.outputs.iter().filter_map(|o| Some((i, topic_at(&o.topic)?, true))));
        let inputs = component.inputs.iter().enumerate();
        edges.extend(inputs.filter_map(|(k, input)| {
            Some((topic_at(&input.topic)?, i, component.trigger.fires_on(k)))
        }));
    }
    let sizes: Vec<Size> = nodes.iter().map(|n| n.size).collect();
    let pairs: Vec<(usize, usize)> = edges.iter().map(|(from, to, _)| (*from, *to)).collect();
    let placed = layout(&sizes, &pairs);
    draw(graph, &nodes, &edges, &placed)
}

fn draw(
    graph: &ResolvedGraph,
    nodes: &[Node<'_>],
    edges: &[(usize, usize, bool)],
    placed: &Layout,
) -> String {
    let title = format!("{} · domain {}", graph.name, graph.domain);
    let legend: f64 = graph.modules.iter().map(|m| text_width(m.name.as_str(), 6.9) + 38.0).sum();
    let width =
        placed.size.width.max(legend).max(text_width(&title, 9.5)).max(470.0) + 2.0 * MARGIN;
    let height = placed.size.height + TITLE + 2.0 * LEGEND + 2.0 * MARGIN;
    // A picture that is wider than a window is scaled down, but not below `SMALLEST`, because it
    // could then not be read. A picture that is still wider scrolls in the window.
    let scale = (WINDOW / width).clamp(SMALLEST, 1.0);
    let mut out = String::new();
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{shown_width:.0}" height="{shown_height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="system-ui, 'DejaVu Sans', sans-serif">
<title>{title}</title>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0.5 8 4 0 7.5z" fill="#5b6570"/></marker></defs>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{MARGIN}" y="{y}" font-size="17" font-weight="600" fill="#1d2329">{title}</text>
<g transform="translate({MARGIN} {top})">
"##,
        shown_width = width * scale,
        shown_height = height * scale,
        title = escape(&title),
        y = MARGIN + 12.0,
        top = MARGIN + TITLE,
    );
    for ((_, _, fires), points) in edges.iter().zip(&placed.edges) {
        let dashes = if *fires { "" } else { r#" stroke-dasharray="5 4""# };
        let _ = writeln!(
            out,
            r##"<path d="{}" fill="none" stroke="#5b6570" stroke-width="1.4"{dashes} marker-end="url(#arrow)"/>"##,
            curve(points)
        );
    }
    for (node, &(x, y)) in nodes.iter().zip(&placed.nodes) {
        draw_node(graph, node, x, y, &mut out);
    }
    out += "</g>\n";
    draw_legend(graph, height, &mut out);
    out += "</svg>\n";
    out
}

fn draw_node(graph: &ResolvedGraph, node: &Node<'_>, x: f64, y: f64, out: &mut String) {
    let Size { width, height } = node.size;
    let (left, top) = (x - width / 2.0, y - height / 2.0);
    match node.kind {
        Kind::Component { module, component } => {
            let (fill, line) = COLOURS[module % COLOURS.len()];
            let tip = format!(
                "{} in module {}, executor {}",
                component.library.display(),
                graph.modules[module].name,
                component.executor
            );
            let _ = writeln!(
                out,
                r##"<g><title>{tip}</title><rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" rx="7" fill="{fill}" stroke="{line}" stroke-width="1.6"/>
<text x="{x:.1}" y="{y1:.1}" font-size="15" font-weight="600" text-anchor="middle" fill="#1d2329">{name}</text>
<text x="{x:.1}" y="{y2:.1}" font-size="11" text-anchor="middle" fill="#4a545e">{class}</text>
<text x="{x:.1}" y="{y3:.1}" font-size="11" text-anchor="middle" fill="#4a545e">{trigger}</text></g>"##,
                tip = escape(&tip),
                y1 = y - 10.0,
                y2 = y + 7.0,
                y3 = y + 22.0,
                name = escape(&cut(component.name.as_str(), LABEL)),
                class = escape(&cut(&component.class, LABEL)),
                trigger = escape(&cut(&trigger(component), LABEL)),
            );
        }
        Kind::Topic { name } => {
            let host = graph.topics.get(name).is_some_and(|t| t.reach >= Reach::Host);
            let (line, stroke) = if host { ("#1d2329", 1.8) } else { ("#a3abb3", 1.0) };
            let _ = writeln!(
                out,
                r##"<g><rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" rx="{r:.1}" fill="#ffffff" stroke="{line}" stroke-width="{stroke}"/>
<text x="{x:.1}" y="{y1:.1}" font-size="12" text-anchor="middle" fill="#1d2329">{label}</text>
<text x="{x:.1}" y="{y2:.1}" font-size="9.5" text-anchor="middle" fill="#66717c">{about}</text></g>"##,
                r = height / 2.0,
                y1 = y - 1.0,
                y2 = y + 11.5,
                label = escape(&cut(name.as_str(), LABEL)),
                about = escape(&about(graph, name)),
            );
        }
    }
}

fn draw_legend(graph: &ResolvedGraph, height: f64, out: &mut String) {
    let y = height - MARGIN - LEGEND;
    let mut x = MARGIN;
    for (i, module) in graph.modules.iter().enumerate() {
        let (fill, line) = COLOURS[i % COLOURS.len()];
        let name = module.name.as_str();
        let _ = writeln!(
            out,
            r##"<rect x="{x:.0}" y="{:.0}" width="14" height="14" rx="3" fill="{fill}" stroke="{line}"/><text x="{:.0}" y="{:.0}" font-size="12" fill="#1d2329">{}</text>"##,
            y - 11.0,
            x + 20.0,
            y,
            escape(name),
        );
        x += text_width(name, 6.9) + 38.0;
    }
    let _ = writeln!(
        out,
        r##"<text x="{MARGIN}" y="{:.0}" font-size="11" fill="#66717c">colour: process · solid arrow: can start the component · dashed: is read · bold outline: reaches the host</text>"##,
        y + LEGEND - 4.0,
    );
}

/// Returns a line through the points that enters and leaves each point horizontally.
fn curve(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        match i.checked_sub(1).map(|b| points[b]) {
            None => drop(write!(path, "M{x:.1} {y:.1}")),
            Some((from_x, from_y)) => {
                let reach = (x - from_x) / 2.0;
                let _ = write!(
                    path,
                    " C{:.1} {from_y:.1} {:.1} {y:.1} {x:.1} {y:.1}",
                    from_x + reach,
                    x - reach
                );
            }
        }
    }
    path
}

fn about(graph: &ResolvedGraph, name: &TopicName) -> String {
    let Some(t) = graph.topics.get(name) else { return String::new() };
    let size =
        if t.max_payload > 0 { format!(" · ≤ {}", bytes(t.max_payload)) } else { String::new() };
    let external = if t.external { " · external" } else { "" };
    format!("{}{size}{external}", reach(t.reach))
}

/// Estimated width of a text. Fonts differ, so boxes have a margin.
fn text_width(text: &str, per_character: f64) -> f64 {
    text.chars().count().min(LABEL) as f64 * per_character
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_start_and_end_where_they_should() {
        assert_eq!(curve(&[(0.0, 1.0), (10.0, 5.0)]), "M0.0 1.0 C5.0 1.0 5.0 5.0 10.0 5.0");
    }
}
