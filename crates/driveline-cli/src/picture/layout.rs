// SPDX-License-Identifier: Apache-2.0
//! Layered layout of a directed graph, from left to right (after Sugiyama, Tagawa and Toda 1981).
//!
//! Steps: break cycles; assign layers by the longest path; give long edges a bend in each layer
//! that they cross; order the layers so that few edges cross; set vertical positions so that edges
//! are straight where possible.

/// Space between two layers, and between two nodes of a layer.
const LAYER_GAP: f64 = 40.0;
const NODE_GAP: f64 = 22.0;
/// Height that an edge occupies where it crosses a layer.
const BEND: f64 = 6.0;
/// Number of rounds of ordering; fitting takes twice as many. More rounds change nothing in graphs
/// that are small enough to be read.
const ROUNDS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A laid-out graph.
#[derive(Debug)]
pub(super) struct Layout {
    /// Centre of each node.
    pub(super) nodes: Vec<(f64, f64)>,
    /// Points of each edge, from the side of its source to the side of its target.
    pub(super) edges: Vec<Vec<(f64, f64)>>,
    pub(super) size: Size,
}

/// A node, or the bend of an edge in a layer.
struct Item {
    size: Size,
    layer: usize,
    before: Vec<usize>,
    after: Vec<usize>,
    y: f64,
}

pub(super) fn layout(sizes: &[Size], edges: &[(usize, usize)]) -> Layout {
    let forward = break_circles(sizes.len(), edges);
    let layers = assign_layers(sizes.len(), &forward);
    let mut items: Vec<Item> = sizes
        .iter()
        .zip(&layers)
        .map(|(&size, &layer)| Item { size, layer, before: Vec::new(), after: Vec::new(), y: 0.0 })
        .collect();
    // Items that each edge goes through, from left to right.
    let mut chains = Vec::new();
    for &(from, to) in &forward {
        let mut chain = vec![from];
        for layer in layers[from] + 1..layers[to] {
            items.push(Item {
                size: Size { width: 0.0, height: BEND },
                layer,
                before: Vec::new(),
                after: Vec::new(),
                y: 0.0,
            });
            chain.push(items.len() - 1);
        }
        chain.push(to);
        for pair in chain.windows(2) {
            items[pair[0]].after.push(pair[1]);
            items[pair[1]].before.push(pair[0]);
        }
        chains.push(chain);
    }
    let mut rows: Vec<Vec<usize>> =
        vec![Vec::new(); items.iter().map(|i| i.layer + 1).max().unwrap_or(0)];
    for (i, item) in items.iter().enumerate() {
        rows[item.layer].push(i);
    }
    order(&mut rows, &items);
    fit(&rows, &mut items);
    place(&rows, &items, sizes, edges, &forward, &chains)
}

/// Reverses edges that close a cycle. Edges of a node to itself stay.
fn break_circles(nodes: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (i, (from, _)) in edges.iter().enumerate() {
        out[*from].push(i);
    }
    let mut state = vec![State::New; nodes];
    let mut result = edges.to_vec();
    // Nodes without incoming edges come first, so that a cycle is cut where data enters it.
    let mut starts: Vec<usize> = (0..nodes).collect();
    starts.sort_by_key(|n| edges.iter().any(|(_, to)| to == n));
    for start in starts {
        if state[start] != State::New {
            continue;
        }
        state[start] = State::Open;
        let mut stack = vec![(start, 0)];
        while let Some((node, next)) = stack.last_mut() {
            match out[*node].get(*next) {
                None => {
                    state[*node] = State::Done;
                    stack.pop();
                }
                Some(&edge) => {
                    *next += 1;
                    let to = edges[edge].1;
                    match state[to] {
                        State::New => {
                            state[to] = State::Open;
                            stack.push((to, 0));
                        }
                        State::Open => result[edge] = (edges[edge].1, edges[edge].0),
                        State::Done => {}
                    }
                }
            }
        }
    }
    result
}

fn assign_layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; nodes];
    // Without cycles, the longest path has fewer edges than there are nodes.
    for _ in 0..nodes {
        let mut changed = false;
        for &(from, to) in edges.iter().filter(|(from, to)| from != to) {
            if layers[to] < layers[from] + 1 {
                layers[to] = layers[from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    // Move each source to the right, next to the nodes that it feeds.
    for node in 0..nodes {
        let is_source = !edges.iter().any(|(from, to)| *to == node && from != to);
        let nearest = edges
            .iter()
            .filter(|(from, to)| *from == node && from != to)
            .map(|(_, to)| layers[*to])
            .min();
        if let (true, Some(nearest)) = (is_source, nearest) {
            layers[node] = nearest - 1;
        }
    }
    layers
}

fn crossings(rows: &[Vec<usize>], items: &[Item]) -> usize {
    let mut position = vec![0; items.len()];
    for row in rows {
        for (i, &item) in row.iter().enumerate() {
            position[item] = i;
        }
    }
    let mut count = 0;
    for row in rows {
        let edges: Vec<(usize, usize)> = row
            .iter()
            .flat_map(|&i| items[i].after.iter().map(move |&a| (i, a)))
            .map(|(i, a)| (position[i], position[a]))
            .collect();
        for (k, a) in edges.iter().enumerate() {
            count += edges[k + 1..]
                .iter()
                .filter(|b| (a.0 < b.0 && a.1 > b.1) || (a.0 > b.0 && a.1 < b.1))
                .count();
        }
    }
    count
}

/// Orders each row by the mean position of its neighbours, alternately in the previous and the next
/// row; keeps the best order.
fn order(rows: &mut Vec<Vec<usize>>, items: &[Item]) {
    let mut position: Vec<f64> = vec![0.0; items.len()];
    let note = |row: &[usize], position: &mut Vec<f64>| {
        for (i, &item) in row.iter().enumerate() {
            position[item] = i as f64;
        }
    };
    rows.iter().for_each(|row| note(row, &mut position));
    let mut best = (crossings(rows, items), rows.clone());
    for round in 0..ROUNDS {
        let forward = round % 2 == 0;
        let layers: Vec<usize> =
            if forward { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for layer in layers {
            let mean = |item: usize| {
                let neighbours = if forward { &items[item].before } else { &items[item].after };
                let sum: f64 = neighbours.iter().map(|n| position[*n]).sum();
                if neighbours.is_empty() { position[item] } else { sum / neighbours.len() as f64 }
            };
            let mut keyed: Vec<(f64, usize)> = rows[layer].iter().map(|&i| (mean(i), i)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[layer] = keyed.into_iter().map(|(_, i)| i).collect();
            note(&rows[layer], &mut position);
        }
        let now = crossings(rows, items);
        if now < best.0 {
            best = (now, rows.clone());
        }
    }
    *rows = best.1;
}

/// Gives every item a vertical position near the mean of its neighbours', in the order of its row
/// and without overlaps.
fn fit(rows: &[Vec<usize>], items: &mut [Item]) {
    for row in rows {
        let mut y = 0.0;
        for &i in row {
            items[i].y = y + items[i].size.height / 2.0;
            y += items[i].size.height + NODE_GAP;
        }
    }
    for round in 0..ROUNDS * 2 {
        let forward = round % 2 == 0;
        let each: Vec<&Vec<usize>> =
            if forward { rows.iter().collect() } else { rows.iter().rev().collect() };
        for row in each {
            // Distance that each item must keep from the first of its row.
            let mut offset = 0.0;
            let mut wishes = Vec::new();
            for (k, &i) in row.iter().enumerate() {
                if k > 0 {
                    offset +=
                        (items[row[k - 1]].size.height + items[i].size.height) / 2.0 + NODE_GAP;
                }
                let all = items[i].before.iter().chain(&items[i].after);
                let (sum, n) = all.fold((0.0, 0.0), |(sum, n), &o| (sum + items[o].y, n + 1.0));
                let wish = if n > 0.0 { sum / n } else { items[i].y };
                // Bends pull hardest: a long edge should be straight.
                let weight = if items[i].size.width == 0.0 { 4.0 } else { 1.0 };
                wishes.push((wish - offset, weight, offset));
            }
            for (&i, y) in row.iter().zip(in_order(&wishes)) {
                items[i].y = y;
            }
        }
    }
}

/// Least-squares fit of a rising sequence (pool adjacent violators). Each of `wishes` has a wanted
/// position less the item's offset, a weight, and the offset, which is added to the result.
fn in_order(wishes: &[(f64, f64, f64)]) -> Vec<f64> {
    // Blocks of items that move together: mean wish, weight, number of items.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for &(wish, weight, _) in wishes {
        blocks.push((wish, weight, 1));
        while let [.., a, b] = blocks.as_slice()
            && a.0 > b.0
        {
            let weight = a.1 + b.1;
            let joined = ((a.0 * a.1 + b.0 * b.1) / weight, weight, a.2 + b.2);
            blocks.truncate(blocks.len() - 2);
            blocks.push(joined);
        }
    }
    let levels = blocks.iter().flat_map(|b| std::iter::repeat_n(b.0, b.2));
    levels.zip(wishes).map(|(level, w)| level + w.2).collect()
}

fn place(
    rows: &[Vec<usize>],
    items: &[Item],
    sizes: &[Size],
    edges: &[(usize, usize)],
    forward: &[(usize, usize)],
    chains: &[Vec<usize>],
) -> Layout {
    let top =
        items.iter().map(|i| i.y - i.size.height / 2.0).fold(f64::INFINITY, f64::min).min(1e9);
    let mut centres = Vec::new();
    let mut x = 0.0;
    for row in rows {
        let width = row.iter().map(|&i| items[i].size.width).fold(0.0, f64::max);
        centres.push(x + width / 2.0);
        x += width + LAYER_GAP;
    }
    let widths: Vec<f64> = rows
        .iter()
        .map(|row| row.iter().map(|&i| items[i].size.width).fold(0.0, f64::max))
        .collect();
    let at = |i: usize| (centres[items[i].layer], items[i].y - top);
    let routed = edges.iter().zip(forward).zip(chains).map(|((edge, forward), chain)| {
        let mut points = Vec::new();
        for (k, &i) in chain.iter().enumerate() {
            let (x, y) = at(i);
            // An edge crosses a layer horizontally over its whole width, so that it does not touch
            // the layer's nodes.
            let half = if items[i].size.width == 0.0 {
                widths[items[i].layer]
            } else {
                items[i].size.width
            } / 2.0;
            points.extend((k > 0).then_some((x - half, y)));
            points.extend((k + 1 < chain.len()).then_some((x + half, y)));
        }
        if edge != forward {
            points.reverse();
        }
        points
    });
    let edges = routed.collect();
    let height = items.iter().map(|i| i.y + i.size.height / 2.0 - top).fold(0.0, f64::max);
    let nodes = (0..sizes.len()).map(at).collect();
    Layout { nodes, edges, size: Size { width: (x - LAYER_GAP).max(0.0), height } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Size = Size { width: 100.0, height: 40.0 };

    fn overlap(l: &Layout, sizes: &[Size]) -> bool {
        let apart = |a: usize, b: usize| {
            let (p, q) = (l.nodes[a], l.nodes[b]);
            (p.0 - q.0).abs() >= (sizes[a].width + sizes[b].width) / 2.0 - 1e-6
                || (p.1 - q.1).abs() >= (sizes[a].height + sizes[b].height) / 2.0 - 1e-6
        };
        (0..sizes.len()).any(|a| (0..a).any(|b| !apart(a, b)))
    }

    #[test]
    fn a_chain_is_a_straight_line() {
        let l = layout(&[BOX; 3], &[(0, 1), (1, 2)]);
        assert!(l.nodes[0].0 < l.nodes[1].0 && l.nodes[1].0 < l.nodes[2].0);
        assert!(l.nodes.iter().all(|n| (n.1 - l.nodes[0].1).abs() < 1e-6), "{:?}", l.nodes);
        assert_eq!(l.size, Size { width: 300.0 + 2.0 * LAYER_GAP, height: 40.0 });
    }

    #[test]
    fn nodes_never_overlap_and_circles_end() {
        let edges =
            [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4), (4, 0), (2, 2), (5, 4), (0, 4)];
        let sizes = [BOX; 6];
        let l = layout(&sizes, &edges);
        assert!(!overlap(&l, &sizes), "{:?}", l.nodes);
        assert_eq!(l.edges.len(), edges.len());
        let back = |e: &Vec<(f64, f64)>| e[0].0 > e[e.len() - 1].0;
        assert!(
            edges.iter().zip(&l.edges).any(|(pair, points)| pair.0 != pair.1 && back(points)),
            "an edge closes the circle by running back"
        );
    }

    #[test]
    fn edges_that_need_not_cross_do_not() {
        // Two chains given in mixed order.
        let edges = [(0, 3), (1, 2)];
        let l = layout(&[BOX; 4], &edges);
        assert!((l.nodes[0].1 < l.nodes[1].1) == (l.nodes[3].1 < l.nodes[2].1));
    }

    #[test]
    fn nothing_gives_an_empty_picture() {
        let l = layout(&[], &[]);
        assert!(l.nodes.is_empty() && l.size == Size { width: 0.0, height: 0.0 });
    }
}
