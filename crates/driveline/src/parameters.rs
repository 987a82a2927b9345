// SPDX-License-Identifier: Apache-2.0
//! Typed parameters of a node.

use crate::error::ParameterError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, RwLock};

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ParameterValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A real number; whole numbers are accepted where one is declared.
    Float(f64),
    /// Text.
    Text(String),
    /// Values in an order.
    List(Vec<ParameterValue>),
    /// Values by name.
    Map(BTreeMap<String, ParameterValue>),
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
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// Reads a value that is written as JSON.
    ///
    /// # Errors
    /// [`ParameterError::Json`] if it is no JSON, or has a null in it.
    pub fn from_json(text: &str) -> Result<Self, ParameterError> {
        serde_json::from_str(text).map_err(|e| ParameterError::Json { text: e.to_string() })
    }

    /// Returns a value within this one by its path of names and indices, e.g. `pid/gains/0`.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Self> {
        path.split('/').try_fold(self, |value, step| match value {
            Self::List(items) => items.get(step.parse::<usize>().ok()?),
            Self::Map(entries) => entries.get(step),
            _ => None,
        })
    }

    /// Converts the value to the type of `declared`, if nothing is lost. All items of a list get
    /// the type of the declared list's first item; missing entries of a map are taken from the
    /// declared map. A map with a name that the declared map lacks is refused. An empty declared
    /// list or map accepts any items.
    #[must_use]
    pub fn coerce(self, declared: &Self) -> Option<Self> {
        match (&self, declared) {
            (Self::Bool(_), Self::Bool(_))
            | (Self::Integer(_), Self::Integer(_))
            | (Self::Float(_), Self::Float(_))
            | (Self::Text(_), Self::Text(_)) => Some(self),
            // 2^53: every whole number up to here is a float exactly.
            (Self::Integer(i), Self::Float(_)) if i.unsigned_abs() <= 1 << 53 => {
                Some(Self::Float(*i as f64))
            }
            (Self::List(_), Self::List(declared)) => {
                let Self::List(items) = self else { return None };
                let of = |item: Self| match declared.first() {
                    Some(first) => item.coerce(first),
                    None => Some(item),
                };
                items.into_iter().map(of).collect::<Option<_>>().map(Self::List)
            }
            (Self::Map(_), Self::Map(declared)) => {
                let Self::Map(entries) = self else { return None };
                let mut merged = declared.clone();
                for (name, value) in entries {
                    let value = match (declared.get(&name), declared.is_empty()) {
                        (Some(declared), _) => value.coerce(declared)?,
                        (None, true) => value,
                        (None, false) => return None,
                    };
                    merged.insert(name, value);
                }
                Some(Self::Map(merged))
            }
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
            Self::Text(v) => f.write_str(v),
            // As JSON, which is YAML as well.
            Self::List(_) | Self::Map(_) => {
                f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
            }
        }
    }
}

/// The parameters of one node: declared with a default, which fixes the type. Shared by clones; any
/// thread.
///
/// Reading takes a short lock: read once at the start of a callback, not per pixel.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    values: Arc<RwLock<BTreeMap<String, Parameter>>>,
}

#[derive(Debug)]
struct Parameter {
    default: ParameterValue,
    value: ParameterValue,
}

/// Converts a new value to the types of the default. Entries of maps that it lacks keep their
/// present values.
fn adopted(
    new: ParameterValue,
    default: &ParameterValue,
    present: &ParameterValue,
) -> Option<ParameterValue> {
    use ParameterValue::Map;
    match (new, default, present) {
        (Map(new), Map(default), Map(present)) if !default.is_empty() => {
            let mut merged = present.clone();
            for (name, value) in new {
                let (default, present) = (default.get(&name)?, present.get(&name)?);
                merged.insert(name, adopted(value, default, present)?);
            }
            Some(Map(merged))
        }
        (new, ..) => new.coerce(default),
    }
}

impl Parameters {
    /// Declares a parameter and its default; a second declaration of the same type changes nothing.
    ///
    /// # Errors
    /// [`ParameterError::Redeclared`] if it exists with another type.
    pub fn declare(&self, name: &str, default: ParameterValue) -> Result<(), ParameterError> {
        let mut values = self.values.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        match values.get(name) {
            None => {
                let value = default.clone();
                values.insert(name.to_owned(), Parameter { default, value });
                Ok(())
            }
            Some(have)
                if std::mem::discriminant(&have.default) == std::mem::discriminant(&default) =>
            {
                Ok(())
            }
            Some(_) => Err(ParameterError::Redeclared { name: name.to_owned() }),
        }
    }

    /// Returns the current value. A part of a list or map can be read by its path, e.g.
    /// `pid/gains/0`.
    ///
    /// # Errors
    /// [`ParameterError::Unknown`] if it was not declared.
    pub fn get(&self, name: &str) -> Result<ParameterValue, ParameterError> {
        let values = self.values.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let value = |name: &str| values.get(name).map(|p| &p.value);
        let within = || name.split_once('/').and_then(|(name, path)| value(name)?.at(path));
        value(name).or_else(within).cloned().ok_or_else(|| unknown(name, values.keys()))
    }

    /// Sets a declared parameter; whole numbers are accepted for real ones.
    ///
    /// # Errors
    /// [`ParameterError`] if it is not declared or of another type; the old value stays.
    pub fn set(&self, name: &str, value: ParameterValue) -> Result<(), ParameterError> {
        let mut values = self.values.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(have) = values.get_mut(name) else { return Err(unknown(name, values.keys())) };
        let given = value.type_name();
        let Parameter { default, value: present } = have;
        *present = adopted(value, default, present).ok_or_else(|| ParameterError::Type {
            name: name.to_owned(),
            declared: default.type_name(),
            given,
        })?;
        Ok(())
    }

    /// All parameters, by name.
    #[must_use]
    pub fn list(&self) -> BTreeMap<String, ParameterValue> {
        let values = self.values.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        values.iter().map(|(name, p)| (name.clone(), p.value.clone())).collect()
    }
}

fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> ParameterError {
    // A typing error leaves most characters in place.
    let near = |other: &&String| {
        let same = name.chars().zip(other.chars()).filter(|(a, b)| a == b).count();
        let reversed = name.chars().rev().zip(other.chars().rev()).filter(|(a, b)| a == b).count();
        same.max(reversed) * 2 >= name.chars().count().max(other.chars().count())
    };
    let suggestion = names.into_iter().find(near).cloned();
    ParameterError::Unknown { name: name.to_owned(), suggestion }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_fixes_the_type() {
        let p = Parameters::default();
        p.declare("rate_hz", ParameterValue::Float(10.0)).unwrap();
        p.set("rate_hz", ParameterValue::Integer(25)).unwrap();
        assert_eq!(p.get("rate_hz").unwrap(), ParameterValue::Float(25.0));
        let e = p.set("rate_hz", ParameterValue::Text("fast".into())).unwrap_err();
        assert_eq!(e.to_string(), "parameter 'rate_hz' is a number, but text was given");
        assert_eq!(p.get("rate_hz").unwrap(), ParameterValue::Float(25.0));
    }

    fn value(json: &str) -> ParameterValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn lists_and_maps_keep_the_types_of_their_default() {
        let as_declared = |given: &str, declared: &str| {
            value(given).coerce(&value(declared)).map(|v| v.to_string())
        };
        assert_eq!(as_declared("[1,2]", "[0.5]").as_deref(), Some("[1.0,2.0]"));
        assert_eq!(as_declared("[]", "[0.5]").as_deref(), Some("[]"));
        assert_eq!(as_declared("[1,\"a\"]", "[]").as_deref(), Some("[1,\"a\"]"));
        assert_eq!(as_declared("[1,\"a\"]", "[0.5]"), None);
        let gains = r#"{"i":0.5,"p":1.5}"#;
        assert_eq!(as_declared(r#"{"p":2}"#, gains).as_deref(), Some(r#"{"i":0.5,"p":2.0}"#));
        assert_eq!(as_declared(r#"{"q":2}"#, gains), None, "a name that is not declared");
        assert_eq!(as_declared(r#"{"q":2}"#, "{}").as_deref(), Some(r#"{"q":2}"#));
        assert_eq!(as_declared("{}", "[]"), None);
    }

    #[test]
    fn values_keep_the_types_of_the_default_after_any_value() {
        let p = Parameters::default();
        p.declare("gains", value("[0.5]")).unwrap();
        p.set("gains", value("[]")).unwrap();
        p.set("gains", value(r#"["fast"]"#)).unwrap_err();
        p.set("gains", value("[2]")).unwrap();
        assert_eq!(p.get("gains").unwrap(), value("[2.0]"));
        p.declare("any", value("{}")).unwrap();
        p.set("any", value(r#"{"a":1}"#)).unwrap();
        p.set("any", value(r#"{"b":"x"}"#)).unwrap();
        assert_eq!(p.get("any").unwrap(), value(r#"{"b":"x"}"#));
        // Entries that a new value lacks keep their present value.
        p.declare("pid", value(r#"{"gains":[0.5],"p":1.5}"#)).unwrap();
        p.set("pid", value(r#"{"gains":[1,2]}"#)).unwrap();
        p.set("pid", value(r#"{"p":2}"#)).unwrap();
        assert_eq!(p.get("pid").unwrap(), value(r#"{"gains":[1.0,2.0],"p":2.0}"#));
        p.set("pid", value(r#"{"q":2}"#)).unwrap_err();
    }

    #[test]
    fn a_part_of_a_value_is_read_by_its_path() {
        let p = Parameters::default();
        p.declare("pid", value(r#"{"gains":[1.5,2.5],"on":true}"#)).unwrap();
        assert_eq!(p.get("pid/gains/1").unwrap(), ParameterValue::Float(2.5));
        assert_eq!(p.get("pid/on").unwrap(), ParameterValue::Bool(true));
        for name in ["pid/gains/2", "pid/gains/x", "pid/off", "pid/", "other/on"] {
            assert!(p.get(name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_comes_with_a_suggestion() {
        let p = Parameters::default();
        p.declare("canny_low", ParameterValue::Integer(50)).unwrap();
        assert_eq!(
            p.get("cany_low").unwrap_err().to_string(),
            "there is no parameter 'cany_low'; did you mean 'canny_low'?"
        );
    }

    #[test]
    fn untagged_values_keep_their_type() {
        for (text, value) in [
            ("true", ParameterValue::Bool(true)),
            ("3", ParameterValue::Integer(3)),
            ("3.5", ParameterValue::Float(3.5)),
            ("\"x\"", ParameterValue::Text("x".into())),
            (
                "[1,2.5]",
                ParameterValue::List(vec![ParameterValue::Integer(1), ParameterValue::Float(2.5)]),
            ),
        ] {
            assert_eq!(serde_json::from_str::<ParameterValue>(text).unwrap(), value);
        }
    }
}
