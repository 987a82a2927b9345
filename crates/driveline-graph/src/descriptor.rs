// SPDX-License-Identifier: Apache-2.0
//! Classes of a component library.

use driveline::ParameterValue;
use driveline_types::Schema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A class of components in a library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComponentClass {
    /// Name, unique in the library.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub doc: String,
    /// Inputs, in the order in which callbacks see them.
    #[serde(default)]
    pub inputs: Vec<Port>,
    /// Outputs, in the order in which the component sees them.
    #[serde(default)]
    pub outputs: Vec<Port>,
    /// Parameters.
    #[serde(default)]
    pub parameters: Vec<ParameterDecl>,
}

/// An input or output of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Name, unique among the class's inputs or outputs.
    pub name: String,
    /// Schema of its samples.
    pub schema: Schema,
    /// One line for people.
    #[serde(default)]
    pub doc: String,
}

/// A parameter of a class. Its type is that of its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterDecl {
    /// Name, unique in the class.
    pub name: String,
    /// Default value.
    pub default: ParameterValue,
    /// One line for people.
    #[serde(default)]
    pub doc: String,
    /// Range of values. It applies to values from the graph and to changes while the component
    /// runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<ValueRange>,
    /// The parameter can be changed by a command while the component runs. This range applies in
    /// addition to `range`, also to values from the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<ValueRange>,
}

impl ParameterDecl {
    /// Returns the reason why a value is out of the declared ranges; `None` if it is within.
    #[must_use]
    pub fn mistake(&self, value: &ParameterValue) -> Option<String> {
        [self.range, self.live].iter().flatten().find_map(|range| range.mistake(value))
    }
}

/// Range of a number. For a list, it applies to each item; it has no meaning for text, booleans and
/// maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValueRange {
    /// Minimum value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Maximum value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl ValueRange {
    /// Creates a range from `min` to `max`; infinity means no bound.
    #[must_use]
    pub fn between(min: f64, max: f64) -> Self {
        let bound = |value: f64| value.is_finite().then_some(value);
        Self { min: bound(min), max: bound(max) }
    }

    /// Returns the intersection of both ranges.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = |a: Option<f64>, b: Option<f64>, tighter: fn(f64, f64) -> f64| match (a, b) {
            (Some(a), Some(b)) => Some(tighter(a, b)),
            (a, b) => a.or(b),
        };
        Self { min: both(self.min, other.min, f64::max), max: both(self.max, other.max, f64::min) }
    }

    /// Returns the reason why a value is out of the range; `None` if it is within.
    #[must_use]
    pub fn mistake(&self, value: &ParameterValue) -> Option<String> {
        let number = match value {
            ParameterValue::Integer(i) => *i as f64,
            ParameterValue::Float(f) => *f,
            ParameterValue::List(items) => return items.iter().find_map(|i| self.mistake(i)),
            _ => return None,
        };
        if number.is_nan() {
            return Some(format!("{value} is not a number"));
        }
        let low = self.min.filter(|min| number < *min).map(|min| format!("{value} is below {min}"));
        low.or_else(|| {
            self.max.filter(|max| number > *max).map(|max| format!("{value} is above {max}"))
        })
    }
}

impl fmt::Display for ValueRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
            (Some(min), None) => write!(f, "at least {min}"),
            (None, Some(max)) => write!(f, "at most {max}"),
            (None, None) => f.write_str("any"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_for_numbers_and_for_items_of_lists() {
        let range = ValueRange::between(0.0, f64::INFINITY).and(ValueRange::between(-5.0, 255.0));
        assert_eq!(range, ValueRange { min: Some(0.0), max: Some(255.0) });
        assert_eq!(range.to_string(), "0 to 255");
        let mistake = |json: &str| range.mistake(&ParameterValue::from_json(json).unwrap());
        for right in ["0", "255", "[0, 255]", "[]", "true", "\"-1\"", "{\"a\": -1}"] {
            assert_eq!(mistake(right), None, "{right}");
        }
        for (wrong, text) in [
            ("-1", "-1 is below 0"),
            ("255.5", "255.5 is above 255"),
            ("[3, 256]", "256 is above 255"),
        ] {
            assert_eq!(mistake(wrong).as_deref(), Some(text));
        }
        let nan = range.mistake(&ParameterValue::Float(f64::NAN)).unwrap();
        assert!(nan.contains("is not a number"), "{nan}");
    }

    #[test]
    fn classes_round_trip_through_json_with_types_kept() {
        let text = concat!(
            r#"[{"name":"Lane","parameters":[{"name":"low","default":50},{"name":"high","#,
            r#""default":50.5},{"name":"on","default":true},{"name":"path","default":"a"}]}]"#,
        );
        let classes: Vec<ComponentClass> = serde_json::from_str(text).unwrap();
        let types: Vec<_> = classes[0].parameters.iter().map(|p| p.default.type_name()).collect();
        assert_eq!(types, ["an integer", "a number", "a boolean", "text"]);
        let again: Vec<ComponentClass> =
            serde_json::from_str(&serde_json::to_string(&classes).unwrap()).unwrap();
        assert_eq!(again, classes);
    }
}
