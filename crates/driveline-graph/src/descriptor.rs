// SPDX-License-Identifier: Apache-2.0
//! Classes of a component library.

use driveline::ParameterValue;
use driveline_types::Schema;
use serde::{Deserialize, Serialize};

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
    /// Value unless the graph says otherwise.
    pub default: ParameterValue,
    /// One line for people.
    #[serde(default)]
    pub doc: String,
    /// The parameter can be changed while the component runs, within this range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveRange>,
}

/// Range of a parameter that can be changed while its component runs. Of a list, it holds for each
/// item; it means nothing for text, booleans and maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveRange {
    /// Least value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Greatest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl LiveRange {
    /// Returns the reason why a value is out of the range; `None` if it is within.
    #[must_use]
    pub fn mistake(&self, value: &ParameterValue) -> Option<String> {
        let number = match value {
            ParameterValue::Integer(i) => *i as f64,
            ParameterValue::Float(f) => *f,
            ParameterValue::List(items) => return items.iter().find_map(|i| self.mistake(i)),
            _ => return None,
        };
        let low = self.min.filter(|min| number < *min).map(|min| format!("{value} is below {min}"));
        low.or_else(|| {
            self.max.filter(|max| number > *max).map(|max| format!("{value} is above {max}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_round_trip_through_json_with_types_kept() {
        let text = r#"[{"name":"Lane","parameters":[{"name":"low","default":50},{"name":"high","default":50.5},{"name":"on","default":true},{"name":"path","default":"a"}]}]"#;
        let classes: Vec<ComponentClass> = serde_json::from_str(text).unwrap();
        let types: Vec<_> = classes[0].parameters.iter().map(|p| p.default.type_name()).collect();
        assert_eq!(types, ["an integer", "a number", "a boolean", "text"]);
        let again: Vec<ComponentClass> =
            serde_json::from_str(&serde_json::to_string(&classes).unwrap()).unwrap();
        assert_eq!(again, classes);
    }
}
