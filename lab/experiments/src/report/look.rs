// SPDX-License-Identifier: Apache-2.0
//! Colour, dash and symbol of a system, the same in every plot of a page.

use crate::analysis::{Analysis, CaseResult};
use crate::archive::Role;
use plotly::common::{DashType, Line, Marker, MarkerSymbol};
use std::collections::BTreeMap;

/// Colour of Driveline.
const OURS: &str = "#3a7fd5";
/// Colours of peers: hues that colour-blind readers can distinguish (after Paul Tol's bright
/// scheme), readable on white and on black. More systems differ by dash and symbol.
const PEERS: [&str; 5] = ["#e0566b", "#2f9147", "#b59f25", "#2fa7cf", "#aa4c8f"];
const DASHES: [DashType; 5] =
    [DashType::Solid, DashType::Dash, DashType::Dot, DashType::DashDot, DashType::LongDash];
const SYMBOLS: [MarkerSymbol; 5] = [
    MarkerSymbol::Circle,
    MarkerSymbol::Square,
    MarkerSymbol::Diamond,
    MarkerSymbol::TriangleUp,
    MarkerSymbol::X,
];
/// Colour of the machine's floors.
const FLOOR: &str = "#8a8f98";

/// Colour and line of a system.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) colour: &'static str,
    dash: DashType,
    symbol: MarkerSymbol,
    width: f64,
}

impl Look {
    pub(super) fn line(&self) -> Line {
        Line::new().color(self.colour).dash(self.dash.clone()).width(self.width)
    }

    /// Returns a variation for the nth of several lines of the same system.
    pub(super) fn nth(self, n: usize) -> Self {
        let turn = (n / (PEERS.len() + 1)) % DASHES.len();
        let colour = (n % (PEERS.len() + 1))
            .checked_sub(1)
            .and_then(|i| PEERS.get(i))
            .copied()
            .unwrap_or(self.colour);
        Self {
            colour,
            dash: DASHES.get(turn).cloned().unwrap_or(DashType::Solid),
            width: 1.8,
            ..self
        }
    }

    pub(super) fn marker(&self) -> Marker {
        Marker::new().color(self.colour).symbol(self.symbol.clone()).size(8)
    }
}

/// Looks of all systems.
pub(super) struct Looks {
    peers: BTreeMap<String, usize>,
}

impl Looks {
    /// Assigns looks in the order in which systems first appear, so that they are the same on the
    /// whole page.
    pub(super) fn of(a: &Analysis) -> Self {
        let mut peers = BTreeMap::new();
        for c in a.experiments.iter().flat_map(|e| e.measured()).filter(|c| !c.is_driveline()) {
            let next = peers.len();
            peers.entry(c.case.system.to_string()).or_insert(next);
        }
        Self { peers }
    }

    pub(super) fn look(&self, c: &CaseResult) -> Look {
        let plain =
            Look { colour: OURS, dash: DashType::Solid, symbol: MarkerSymbol::Circle, width: 3.0 };
        match (c.case.role, c.is_driveline()) {
            (Role::Floor, _) if c.case.is_copy() => {
                Look { colour: FLOOR, dash: DashType::DashDot, width: 1.5, ..plain }
            }
            (Role::Floor | Role::Control, _) => {
                Look { colour: FLOOR, dash: DashType::Dot, width: 1.5, ..plain }
            }
            (_, true) => plain,
            _ => {
                let index = self.peers.get(&c.case.system.to_string()).copied().unwrap_or(0);
                let turn = index / PEERS.len() % DASHES.len();
                let pick = |i: usize| {
                    (
                        PEERS.get(i).copied().unwrap_or(FLOOR),
                        DASHES.get(turn).cloned(),
                        SYMBOLS.get(turn).cloned(),
                    )
                };
                let (colour, dash, symbol) = pick(index % PEERS.len());
                Look {
                    colour,
                    dash: dash.unwrap_or(DashType::Solid),
                    symbol: symbol.unwrap_or(MarkerSymbol::Circle),
                    width: 1.8,
                }
            }
        }
    }
}
