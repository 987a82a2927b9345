// SPDX-License-Identifier: Apache-2.0
//! Observations of a measured graph: named series of observed quantities, and counters. Links
//! report stamps instead ([`crate::harness`]), because at a link the outcome of each sample is
//! known at both ends.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Observed quantity of a series, which determines its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// From the stamp of the source data to the end of the subject's work; nanoseconds.
    Latency,
    /// Part of a latency: data waits for a timer or another input; nanoseconds.
    Idle,
    /// Part of a latency: from publishing to the start of the callback, including conversions;
    /// nanoseconds.
    Communication,
    /// Part of a latency: from the start of the callback to publishing; nanoseconds.
    Computation,
    /// Deviation of a period from its nominal length, in both directions; nanoseconds.
    PeriodDeviation,
    /// Age of the oldest data in an output; nanoseconds.
    Age,
    /// From a fault until samples flow again; nanoseconds.
    Recovery,
    /// From starting the processes until the first result; nanoseconds.
    StartUp,
    /// Processor time used since the point before; nanoseconds.
    Cpu,
    /// Resident memory; bytes.
    ResidentMemory,
    /// Times scheduled since the point before; a number.
    Switches,
    /// Samples lost, replaced or not sent since the point before; a number.
    Drops,
}

impl Quantity {
    /// Returns `ns`, `byte` or `count`.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::ResidentMemory => "byte",
            Self::Switches | Self::Drops => "count",
            Self::Latency
            | Self::Idle
            | Self::Communication
            | Self::Computation
            | Self::PeriodDeviation
            | Self::Age
            | Self::Recovery
            | Self::StartUp
            | Self::Cpu => "ns",
        }
    }
}

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Time, in nanoseconds on `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Value, in the unit of the quantity.
    pub value: u64,
}

/// Observations of one quantity of one subject, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Name of the observed path, module or process.
    pub subject: String,
    /// Observed quantity.
    pub quantity: Quantity,
    /// The observations.
    pub points: Vec<Point>,
}

/// All observations of one run of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// At most one for each subject and quantity.
    pub series: Vec<Series>,
    /// Counters by name, for example `hot path drops` and `fused`.
    pub counters: BTreeMap<String, u64>,
    /// Reasons why the run does not count; empty if it does.
    pub invalid: Vec<String>,
    /// Settings that the machine refused.
    pub unset: Vec<String>,
}

/// Files with [`Observations`]: points as little-endian 64-bit words, time and value in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationFiles {
    /// A file for each series.
    pub series: Vec<SeriesFile>,
    /// See [`Observations::counters`].
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// See [`Observations::invalid`].
    #[serde(default)]
    pub invalid: Vec<String>,
    /// See [`Observations::unset`].
    #[serde(default)]
    pub unset: Vec<String>,
}

/// The file of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesFile {
    /// See [`Series::subject`].
    pub subject: String,
    /// See [`Series::quantity`].
    pub quantity: Quantity,
    /// File of its points.
    pub file: PathBuf,
}

impl Observations {
    /// Adds points to a series, which is made if it does not exist.
    pub fn put(
        &mut self,
        subject: &str,
        quantity: Quantity,
        points: impl IntoIterator<Item = Point>,
    ) {
        match self.series.iter_mut().find(|s| s.subject == subject && s.quantity == quantity) {
            Some(series) => series.points.extend(points),
            None => self.series.push(Series {
                subject: subject.to_owned(),
                quantity,
                points: points.into_iter().collect(),
            }),
        }
    }

    /// Writes the points into files in `directory`.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn write(&self, directory: &Path) -> Result<ObservationFiles> {
        let write_one = |(index, s): (usize, &Series)| {
            let file = directory.join(format!("series-{index}.points"));
            let bytes: Vec<u8> = s
                .points
                .iter()
                .flat_map(|p| [p.time_ns, p.value])
                .flat_map(u64::to_le_bytes)
                .collect();
            std::fs::write(&file, bytes)
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok(SeriesFile { subject: s.subject.clone(), quantity: s.quantity, file })
        };
        let series = self.series.iter().enumerate().map(write_one).collect::<Result<_>>()?;
        Ok(ObservationFiles {
            series,
            counters: self.counters.clone(),
            invalid: self.invalid.clone(),
            unset: self.unset.clone(),
        })
    }
}

impl ObservationFiles {
    /// Reads the points.
    ///
    /// # Errors
    /// The error of the file system, or an error if a file does not have a whole number of points.
    pub fn read(&self) -> Result<Observations> {
        let read_one = |s: &SeriesFile| {
            let bytes = std::fs::read(&s.file)
                .with_context(|| format!("cannot read {}", s.file.display()))?;
            let (words, rest) = bytes.as_chunks::<8>();
            ensure!(
                rest.is_empty() && words.len().is_multiple_of(2),
                "{}: {} bytes are no whole number of points",
                s.file.display(),
                bytes.len()
            );
            let (pairs, _) = words.as_chunks::<2>();
            let points = pairs
                .iter()
                .map(|[t, v]| Point {
                    time_ns: u64::from_le_bytes(*t),
                    value: u64::from_le_bytes(*v),
                })
                .collect();
            Ok(Series { subject: s.subject.clone(), quantity: s.quantity, points })
        };
        let series = self.series.iter().map(read_one).collect::<Result<_>>()?;
        Ok(Observations {
            series,
            counters: self.counters.clone(),
            invalid: self.invalid.clone(),
            unset: self.unset.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_survive_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut o = Observations::default();
        o.put(
            "hot path",
            Quantity::Latency,
            (0..5).map(|i| Point { time_ns: i, value: u64::MAX - i }),
        );
        o.put("hot path", Quantity::Cpu, []);
        o.put("hot path", Quantity::Latency, [Point { time_ns: 9, value: 1 }]);
        o.counters.insert("drops".into(), 3);
        assert_eq!(o.series.len(), 2);
        let files = o.write(dir.path()).unwrap();
        let line = serde_json::to_string(&files).unwrap();
        assert_eq!(serde_json::from_str::<ObservationFiles>(&line).unwrap().read().unwrap(), o);
        std::fs::write(&files.series[0].file, [0; 24]).unwrap();
        assert!(files.read().unwrap_err().to_string().contains("24 bytes"));
    }
}
