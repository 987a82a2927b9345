// SPDX-License-Identifier: Apache-2.0
//! Values of parameters: the class's defaults, the graph, parameter files and the command line, in
//! that order; later ones win.

use super::diagnostic::{Diagnostic, Place, suggest};
use super::files::Part;
use super::model::ComponentSpec;
use super::resolve::{At, Resolver};
use super::yaml::{Entry, Value};
use crate::descriptor::{ComponentClass, ParameterDecl, ValueRange};
use driveline::ParameterValue;
use std::collections::BTreeMap;

/// Returns the parameters of a class that can be changed while its component runs.
pub(super) fn live(class: &ComponentClass) -> BTreeMap<String, ValueRange> {
    let range = |p: &ParameterDecl| Some(p.live?.and(p.range.unwrap_or_default()));
    class.parameters.iter().filter_map(|p| Some((p.name.clone(), range(p)?))).collect()
}

/// Returns the ranges of a class's parameters that have one.
pub(super) fn ranges(class: &ComponentClass) -> BTreeMap<String, ValueRange> {
    let range = |p: &ParameterDecl| match (p.range, p.live) {
        (Some(range), Some(live)) => Some(range.and(live)),
        (range, live) => range.or(live),
    };
    class.parameters.iter().filter_map(|p| Some((p.name.clone(), range(p)?))).collect()
}

/// Parses a value as `--set` does, for a parameter whose declared value is `declared`. Returns
/// `None` if the value has another type.
#[must_use]
pub fn parameter_from_text(text: &str, declared: &ParameterValue) -> Option<ParameterValue> {
    if let ParameterValue::Text(_) = declared {
        // The text may be in quotes, as `driveline param dump` prints it, or without quotes.
        let quoted = text.starts_with('"').then(|| ParameterValue::from_json(text).ok()).flatten();
        return Some(match quoted {
            Some(value @ ParameterValue::Text(_)) => value,
            _ => ParameterValue::Text(text.to_owned()),
        });
    }
    let (Some(node), faults) = super::yaml::parse(&format!("- {text}")) else { return None };
    let Value::List(items) = node.value else { return None };
    match (items.as_slice(), faults.is_empty()) {
        ([item], true) => parameter_value(&item.value)?.coerce(declared),
        _ => None,
    }
}

/// Reads the values of a parameter file: component, parameter, value.
///
/// # Errors
/// A text for people, if it is not `component: {parameter: value}`.
pub fn parameters_of_file(text: &str) -> Result<Vec<(String, String, ParameterValue)>, String> {
    let (node, faults) = super::yaml::parse(text);
    if let Some(fault) = faults.first() {
        return Err(fault.message.clone());
    }
    let mut all = Vec::new();
    let form = || "the file is not `component: {parameter: value}`".to_owned();
    let Some(node) = node else { return Ok(all) };
    let Value::Map(components) = node.value else { return Err(form()) };
    for (component, entry) in components {
        let Value::Map(values) = entry.value.value else { return Err(form()) };
        for (name, entry) in values {
            let value = parameter_value(&entry.value.value)
                .ok_or_else(|| format!("{component}.{name} is nothing (null)"))?;
            all.push((component.clone(), name, value));
        }
    }
    Ok(all)
}

/// Converts a value of a file to a parameter value; `None` if it contains a null.
fn parameter_value(value: &Value) -> Option<ParameterValue> {
    Some(match value {
        Value::Bool(v) => ParameterValue::Bool(*v),
        Value::Integer(v) => ParameterValue::Integer(*v),
        Value::Float(v) => ParameterValue::Float(*v),
        Value::Text(v) => ParameterValue::Text(v.clone()),
        // This recursion is safe: the YAML reader bounds the depth of nesting.
        Value::List(items) => {
            let items = items.iter().map(|item| parameter_value(&item.value));
            ParameterValue::List(items.collect::<Option<_>>()?)
        }
        Value::Map(entries) => {
            let entry = |(name, entry): (&String, &Entry)| {
                Some((name.clone(), parameter_value(&entry.value.value)?))
            };
            ParameterValue::Map(entries.iter().map(entry).collect::<Option<_>>()?)
        }
        Value::Null => return None,
    })
}

impl Resolver<'_> {
    /// Reports assignments to components that do not exist.
    pub(super) fn unknown_assignments(&mut self) {
        for a in &self.assignments {
            if !self.components.contains_key(&a.component) {
                let help =
                    suggest(&a.component, "components", self.components.keys().map(String::as_str));
                let mut d = Diagnostic::error(format!(
                    "there is no component `{}` whose parameter could be set",
                    a.component
                ))
                .help(help);
                if let Some(site) = a.component_site {
                    d = d.at(self.files.sources.place(site));
                }
                self.files.found.push(d);
            }
        }
    }

    /// Returns every parameter of the class with its value; without the class, the parameters that
    /// are set.
    pub(super) fn parameters(
        &mut self,
        at: &At<'_>,
        spec: &ComponentSpec,
        class: Option<&ComponentClass>,
    ) -> BTreeMap<String, ParameterValue> {
        let mut values: BTreeMap<String, ParameterValue> = class
            .map(|c| c.parameters.iter().map(|p| (p.name.clone(), p.default.clone())).collect())
            .unwrap_or_default();
        for (name, value) in &spec.parameters {
            let key = self.place(at, &["parameters", name], Part::Key);
            let place = self.place(at, &["parameters", name], Part::Value);
            self.assign(&mut values, class, name, value.clone(), Some((key, place)), None);
        }
        for i in 0..self.assignments.len() {
            let a = &self.assignments[i];
            if a.component != at.component {
                continue;
            }
            let places = a
                .parameter_site
                .zip(a.value_site)
                .map(|(k, v)| (self.files.sources.place(k), self.files.sources.place(v)));
            let (name, argument) = (a.parameter.clone(), a.argument.clone());
            let value = match parameter_value(&a.value.value) {
                Some(value) => value,
                None => {
                    let message =
                        format!("`{name}` is nothing (null), and a parameter has a value");
                    let mut d = Diagnostic::error(message);
                    if let Some((_, place)) = places {
                        d = d.at(place);
                    }
                    self.files.error(d);
                    continue;
                }
            };
            self.assign(&mut values, class, &name, value, places, argument);
        }
        values
    }

    fn assign(
        &mut self,
        values: &mut BTreeMap<String, ParameterValue>,
        class: Option<&ComponentClass>,
        name: &str,
        value: ParameterValue,
        places: Option<(Place, Place)>,
        argument: Option<String>,
    ) {
        let from = argument
            .as_ref()
            .map_or_else(String::new, |a| format!(" (from `--set {}`)", super::yaml::shorten(a)));
        let (key, place) = places.unzip();
        let report = |d: Diagnostic, place: Option<Place>| match place {
            Some(p) => d.at(p),
            None => d,
        };
        let Some(class) = class else {
            values.insert(name.to_owned(), value);
            return;
        };
        let Some(declared) = class.parameters.iter().find(|p| p.name == name) else {
            let help = suggest(
                name,
                &format!("parameters of `{}`", class.name),
                class.parameters.iter().map(|p| p.name.as_str()),
            );
            let d = Diagnostic::error(format!(
                "the class `{}` has no parameter `{name}`{from}",
                class.name
            ))
            .help(help);
            return self.files.error(report(d, key));
        };
        // On the command line, a value that looks like a number, list or map stays the same text if
        // the parameter's default is text.
        let raw = argument.as_deref().and_then(|a| a.split_once('=')).map(|(_, text)| text.trim());
        let value = match (&value, &declared.default, raw) {
            (_, default @ ParameterValue::Text(_), Some(raw)) => {
                parameter_from_text(raw, default).unwrap_or(value)
            }
            _ => value,
        };
        let given = value.type_name();
        match value.coerce(&declared.default) {
            Some(value) => {
                if let Some(mistake) = declared.mistake(&value) {
                    let message =
                        format!("the parameter `{name}` of `{}`: {mistake}{from}", class.name);
                    let help =
                        format!("write a value like the default, `{name}: {}`", declared.default);
                    self.files.error(report(Diagnostic::error(message).help(help), place));
                }
                values.insert(name.to_owned(), value);
            }
            None => {
                let message = format!(
                    "the parameter `{name}` of `{}` is {}, and this is {}{from}",
                    class.name,
                    declared.default.type_name(),
                    given
                );
                let help =
                    format!("write a value like the default, `{name}: {}`", declared.default);
                self.files.error(report(Diagnostic::error(message).help(help), place));
            }
        }
    }
}
