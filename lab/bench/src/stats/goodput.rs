// SPDX-License-Identifier: Apache-2.0
//! Goodput: payload per second.

use super::percentile::Runs;

/// Goodput of a stream, computed from the mean time between arrivals. A percentile of these times
/// would hide stalls and losses; they lengthen the mean.
#[derive(Clone, Copy, Debug)]
pub struct Goodput<'a> {
    /// Nanoseconds from one arrival to the next.
    pub between_arrivals: &'a Runs,
    /// Payload bytes of each arrival.
    pub size: usize,
}

/// Minimum number of times between arrivals: a short burst does not show the goodput.
pub(super) const NEEDS: u64 = 60;

impl Goodput<'_> {
    /// Returns the goodput of all runs together, in bytes per second; `None` with fewer than 60
    /// times between arrivals, or if they took no time.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        self.of(&(0..self.between_arrivals.count()).collect::<Vec<_>>())
            .filter(|_| self.between_arrivals.samples() >= NEEDS)
    }

    /// Returns the goodput of each run, in bytes per second; runs without samples are left out.
    #[must_use]
    pub fn each(&self) -> Vec<f64> {
        (0..self.between_arrivals.count()).filter_map(|run| self.of(&[run])).collect()
    }

    /// Returns the goodput of a choice of runs together; a run may be chosen several times.
    pub(super) fn of(&self, chosen: &[usize]) -> Option<f64> {
        let between_ns = self.between_arrivals.mean_of(chosen).filter(|ns| *ns > 0.0)?;
        Some(self.size as f64 * 1e9 / between_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_by_how_long_it_is() {
        // Each microsecond 1 kB arrives. In the last run, the last arrival comes after a stall of a
        // millisecond.
        let runs =
            Runs::new(vec![vec![1_000; 10], vec![], [vec![1_000; 9], vec![991_000]].concat()]);
        let goodput = Goodput { between_arrivals: &runs, size: 1_000 };
        assert_eq!(goodput.each(), [1e9, 1e7]);
        assert_eq!(goodput.bytes_per_s(), None, "too few to say so of all");
        let runs = Runs::new(
            (0..3)
                .flat_map(|_| [vec![1_000; 10], vec![], [vec![1_000; 9], vec![991_000]].concat()])
                .collect(),
        );
        let goodput = Goodput { between_arrivals: &runs, size: 1_000 };
        // The rate of all runs together is 20 kB in 1.01 ms.
        assert!((goodput.bytes_per_s().unwrap() - 20_000.0 / 1.01e-3).abs() < 1e-3);
        assert_eq!(
            Goodput { between_arrivals: &Runs::new(vec![vec![]]), size: 1 }.bytes_per_s(),
            None
        );
    }
}
