// SPDX-License-Identifier: Apache-2.0
//! Quantities as people write them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// A number of bytes: an integer, or text such as `64 KiB`, `2 MiB`, `1 GiB`, `500 kB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Reason why a text is not a size.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ByteSizeError {
    /// It cannot be parsed.
    #[error(
        "{0:?} is not a size; write a number of bytes, or a number with kB, MB, GB, KiB, MiB or \
         GiB, such as `2 MiB`"
    )]
    Text(String),
    /// It is more than [`ByteSize::MAX`].
    #[error("{0} is too large; at most 1024 GiB are possible")]
    TooLarge(String),
}

impl ByteSize {
    /// Largest size that is accepted: 1 TiB.
    pub const MAX: u64 = 1 << 40;
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(s: &str) -> Result<Self, ByteSizeError> {
        let text = || s.chars().take(40).collect();
        let bad = || ByteSizeError::Text(text());
        let t = s.trim();
        let split = t.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(t.len());
        let (number, unit) = t.split_at(split);
        let unit = unit.trim();
        let factor = UNITS.iter().find(|(u, _)| *u == unit).map(|(_, f)| *f);
        let factor = if unit.is_empty() { Some(1) } else { factor }.ok_or_else(bad)?;
        // An `f64` represents whole numbers exactly only up to 2^53, far beyond the maximum.
        let number: f64 = number.parse().map_err(|_| bad())?;
        let bytes = number * factor as f64;
        if bytes > Self::MAX as f64 {
            return Err(ByteSizeError::TooLarge(text()));
        }
        if bytes.fract() != 0.0 || !(1.0..=Self::MAX as f64).contains(&bytes) {
            return Err(bad());
        }
        Ok(Self(bytes as u64))
    }
}

/// Returns the intended size of a text with a wrong unit: `1 mib` is `1 MiB`.
pub(super) fn meant(text: &str) -> Option<String> {
    const LONG: [(&str, &str); 6] = [
        ("kilobyte", "kB"),
        ("megabyte", "MB"),
        ("gigabyte", "GB"),
        ("kibibyte", "KiB"),
        ("mebibyte", "MiB"),
        ("gibibyte", "GiB"),
    ];
    let t = text.trim();
    let (number, unit) = t.split_at(t.find(|c: char| !(c.is_ascii_digit() || c == '.'))?);
    let unit = unit.trim().to_lowercase();
    let unit = unit.strip_suffix('s').unwrap_or(&unit);
    let short = UNITS.iter().map(|(u, _)| *u).find(|u| u.to_lowercase() == unit);
    let known = short.or_else(|| LONG.iter().find(|(long, _)| *long == unit).map(|(_, u)| *u))?;
    let meant = format!("{number} {known}");
    meant.parse::<ByteSize>().ok().map(|_| meant)
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{} {unit}", self.0 / factor);
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(d)? {
            Either::Number(n) if (1..=Self::MAX).contains(&n) => Ok(Self(n)),
            Either::Number(n) if n > Self::MAX => {
                Err(de::Error::custom(ByteSizeError::TooLarge(n.to_string())))
            }
            Either::Number(n) => Err(de::Error::custom(ByteSizeError::Text(n.to_string()))),
            Either::Text(t) => t.parse().map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of bytes: an integer, or text such as `64 KiB`, `2 MiB`, `1 \
                 GiB`, `500 kB`.",
            "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": Self::MAX },
                { "type": "string", "format": "byte-size", "pattern": "^[0-9]+([.][0-9]+)? \
                     *(B|kB|MB|GB|KiB|MiB|GiB)?$" },
            ],
        })
    }
}

/// A duration in milliseconds; fractions are permitted.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(pub f64);

impl Milliseconds {
    /// Returns the duration, to the nanosecond; `None` if it is not in the range of the schema.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        let ns = (self.0 * 1e6).round();
        (1.0..=86_400_000.0 * 1e6).contains(&ns).then(|| Duration::from_nanos(ns as u64))
    }
}

impl JsonSchema for Milliseconds {
    fn schema_name() -> Cow<'static, str> {
        "Milliseconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A length of time in milliseconds; fractions are fine. At most one day.",
            "type": "number", "minimum": 0.000_001, "maximum": 86_400_000,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_written() {
        for (text, bytes) in [
            ("1", 1),
            ("64 KiB", 65536),
            ("2 MiB", 2 << 20),
            ("2MiB", 2 << 20),
            ("1.5 KiB", 1536),
            ("500 kB", 500_000),
            (" 3 B ", 3),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "0", "-1", "1.5", "2 mib", "MiB", "1e3", "9999 GiB", "1..2 kB", "1 MiB x"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
        let refused = |text: &str| text.parse::<ByteSize>().unwrap_err().to_string();
        assert_eq!(
            refused("99999999999 GiB"),
            "99999999999 GiB is too large; at most 1024 GiB are possible"
        );
        assert!(refused("many").contains("\"many\" is not a size; write a number"));
    }

    #[test]
    fn the_size_that_a_wrong_unit_means_is_suggested() {
        for (text, size) in [
            ("1 mib", "1 MiB"),
            ("1 MegaByte", "1 MB"),
            ("2 MiBs", "2 MiB"),
            ("1.5kib", "1.5 KiB"),
            ("3 gibibytes", "3 GiB"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(size), "{text}");
        }
        for text in ["many", "1 parsec", "1.2.3 mib", "9999 gib", ""] {
            assert_eq!(meant(text), None, "{text}");
        }
    }

    #[test]
    fn milliseconds_become_nanoseconds() {
        assert_eq!(Milliseconds(33.333_333).duration(), Some(Duration::from_nanos(33_333_333)));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e30] {
            assert_eq!(Milliseconds(bad).duration(), None);
        }
    }

    proptest! {
        #[test]
        fn sizes_round_trip(bytes in 1u64..=ByteSize::MAX) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }

        #[test]
        fn any_text_is_a_size_or_not(text in "\\PC{0,20}") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
