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

    /// The value as the type of `declared`, if that loses nothing.
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
        }
    }
}

/// The parameters of one node: declared with a default, which fixes the type. Shared by clones; any thread.
///
/// Reading takes a short lock: read once at the start of a callback, not per pixel.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    values: Arc<RwLock<BTreeMap<String, ParameterValue>>>,
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
                values.insert(name.to_owned(), default);
                Ok(())
            }
            Some(have) if std::mem::discriminant(have) == std::mem::discriminant(&default) => {
                Ok(())
            }
            Some(_) => Err(ParameterError::Redeclared { name: name.to_owned() }),
        }
    }

    /// The value now.
    ///
    /// # Errors
    /// [`ParameterError::Unknown`] if it was not declared.
    pub fn get(&self, name: &str) -> Result<ParameterValue, ParameterError> {
        let values = self.values.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        values.get(name).cloned().ok_or_else(|| unknown(name, values.keys()))
    }

    /// Sets a declared parameter; whole numbers are accepted for real ones.
    ///
    /// # Errors
    /// [`ParameterError`] if it is not declared or of another type; the old value stays.
    pub fn set(&self, name: &str, value: ParameterValue) -> Result<(), ParameterError> {
        let mut values = self.values.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(have) = values.get_mut(name) else { return Err(unknown(name, values.keys())) };
        let given = value.type_name();
        *have = value.coerce(have).ok_or_else(|| ParameterError::Type {
            name: name.to_owned(),
            declared: have.type_name(),
            given,
        })?;
        Ok(())
    }

    /// All parameters, by name.
    #[must_use]
    pub fn list(&self) -> BTreeMap<String, ParameterValue> {
        self.values.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> ParameterError {
    // A slip of the finger leaves most characters in place.
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
        ] {
            assert_eq!(serde_json::from_str::<ParameterValue>(text).unwrap(), value);
        }
    }
}
