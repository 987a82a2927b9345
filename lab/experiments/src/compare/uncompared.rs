// SPDX-License-Identifier: Apache-2.0
//! Cases of common experiments without a row, by reason.

use std::collections::BTreeMap;

/// Maximum number of names in a warning.
const MOST_NAMED: usize = 3;

/// Reason why a case has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    OnlyInA,
    OnlyInB,
    WithoutSamplesInA,
    WithoutSamplesInB,
    WithoutSamples,
    /// The case has processor time at rest, but no latency.
    AtRest,
    /// The case's headline figure is another one in B.
    OtherFigure,
}

impl Why {
    /// Returns the reason for a case in which A or B has no figure.
    pub(super) fn without_samples(in_a: bool, in_b: bool) -> Self {
        match (in_a, in_b) {
            (true, true) => Self::WithoutSamples,
            (true, false) => Self::WithoutSamplesInA,
            (false, _) => Self::WithoutSamplesInB,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::OnlyInA => "is only in A",
            Self::OnlyInB => "is only in B",
            Self::WithoutSamplesInA => "has no valid samples in A",
            Self::WithoutSamplesInB => "has no valid samples in B",
            Self::WithoutSamples => "has no valid samples in either",
            Self::AtRest => "is measured at rest",
            Self::OtherFigure => "has another figure in A than in B",
        }
    }
}

/// Cases by the reason why they have no row.
#[derive(Default)]
pub(super) struct Uncompared(BTreeMap<Why, Vec<String>>);

impl Uncompared {
    pub(super) fn add(&mut self, why: Why, case: String) {
        self.0.entry(why).or_default().push(case);
    }

    /// Returns a warning for each reason.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(why, cases)| {
            let named =
                cases.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
            let more = cases.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let number = if cases.len() == 1 {
                "1 case".to_owned()
            } else {
                format!("{} cases", cases.len())
            };
            format!("latencies are not compared of what {} ({number}): {named}{more}", why.words())
        })
    }
}
