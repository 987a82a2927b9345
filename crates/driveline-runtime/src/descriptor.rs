// SPDX-License-Identifier: Apache-2.0
//! What a component library says about its classes.

use driveline_types::Schema;
use schemars::JsonSchema;
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
    /// What it carries.
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
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ParameterValue {
    /// `true` or `false`.
    Bool(bool),
    /// 64-bit integer.
    Integer(i64),
    /// 64-bit float.
    Float(f64),
    /// Text.
    Text(String),
}

impl ParameterValue {
    /// Name of the type, with its article.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "text",
        }
    }

    /// This value as one of the type of `like`: itself, or an integer as a float where that is exact.
    #[must_use]
    pub fn coerce(&self, like: &ParameterValue) -> Option<ParameterValue> {
        match (self, like) {
            (Self::Integer(i), Self::Float(_)) => {
                const EXACT: i64 = 1 << 53;
                (-EXACT..=EXACT).contains(i).then_some(Self::Float(*i as f64))
            }
            (Self::Bool(_), Self::Bool(_))
            | (Self::Integer(_), Self::Integer(_))
            | (Self::Float(_), Self::Float(_))
            | (Self::Text(_), Self::Text(_)) => Some(self.clone()),
            _ => None,
        }
    }
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(v) => write!(f, "{v}"),
            Self::Integer(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v}"),
            Self::Text(v) => write!(f, "{v:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_become_floats_where_that_is_exact_and_nothing_else_changes_type() {
        use ParameterValue::{Bool, Float, Integer, Text};
        assert_eq!(Integer(3).coerce(&Float(0.0)), Some(Float(3.0)));
        assert_eq!(Integer((1 << 53) + 1).coerce(&Float(0.0)), None);
        assert_eq!(Float(3.0).coerce(&Integer(0)), None);
        assert_eq!(Text("1".into()).coerce(&Integer(0)), None);
        assert_eq!(Bool(true).coerce(&Bool(false)), Some(Bool(true)));
    }

    #[test]
    fn classes_round_trip_through_json_with_types_kept() {
        let text = r#"[{"name":"Lane","parameters":[{"name":"low","default":50},{"name":"high","default":50.5},{"name":"on","default":true},{"name":"path","default":"a"}]}]"#;
        let classes: Vec<ComponentClass> = serde_json::from_str(text).unwrap();
        let types: Vec<_> = classes[0].parameters.iter().map(|p| p.default.type_name()).collect();
        assert_eq!(types, ["an integer", "a number", "a boolean", "text"]);
        let again: Vec<ComponentClass> = serde_json::from_str(&serde_json::to_string(&classes).unwrap()).unwrap();
        assert_eq!(again, classes);
    }
}
