// SPDX-License-Identifier: Apache-2.0
//! Environment variables in the paths of `include`, `params_files` and `library`, and in
//! `environment:` of modules: `${NAME}` and `${NAME:-default}`.

use super::yaml::{Fault, Node, Value};

/// Value of a variable in the environment of the command.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces variables in these paths and environments of a graph file. Returns the variables that
/// cannot be replaced; their text stays.
pub(super) fn expand(root: &mut Node, lookup: Lookup<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for key in ["include", "params_files"] {
        if let Some(Value::List(items)) = value_at(root, key).map(|n| &mut n.value) {
            items.iter_mut().for_each(|item| text(item, true, lookup, &mut faults));
        }
    }
    for module in values(value_at(root, "modules")) {
        for variable in values(value_at(module, "environment")) {
            text(variable, false, lookup, &mut faults);
        }
        for component in values(value_at(module, "components")) {
            if let Some(library) = value_at(component, "library") {
                text(library, true, lookup, &mut faults);
            }
        }
    }
    faults
}

fn value_at<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    match &mut node.value {
        Value::Map(entries) => entries.get_mut(key).map(|e| &mut e.value),
        _ => None,
    }
}

fn values(node: Option<&mut Node>) -> impl Iterator<Item = &mut Node> {
    let entries = match node.map(|n| &mut n.value) {
        Some(Value::Map(entries)) => Some(entries),
        _ => None,
    };
    entries.into_iter().flat_map(|entries| entries.values_mut().map(|e| &mut e.value))
}

fn text(node: &mut Node, is_path: bool, lookup: Lookup<'_>, faults: &mut Vec<Fault>) {
    let Value::Text(text) = &mut node.value else { return };
    match expanded(text, is_path, lookup) {
        Ok(whole) => *text = whole,
        Err((message, help)) => {
            faults.push(Fault { span: node.span, message, help: Some(help), other: None });
        }
    }
}

fn is_name(c: char, first: bool) -> bool {
    c == '_' || c.is_ascii_alphabetic() || !first && c.is_ascii_digit()
}

/// Returns the text with its variables replaced, or message and help. `$$` becomes `$`.
fn expanded(text: &str, is_path: bool, lookup: Lookup<'_>) -> Result<String, (String, String)> {
    if is_path && (text.starts_with("~/") || text == "~") {
        return Err((
            "`~` is not replaced in a graph file".to_owned(),
            format!("write `${{HOME}}{}`", &text[1..]),
        ));
    }
    let mut whole = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        whole.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            whole.push('$');
            rest = after;
        } else if let Some(inside) = rest.strip_prefix('{') {
            let Some((inside, after)) = inside.split_once('}') else {
                let help = "write `${NAME}` or `${NAME:-default}`; `$$` is a `$`";
                return Err(("`${` has no `}`".to_owned(), help.to_owned()));
            };
            whole.push_str(&value(inside, lookup)?);
            rest = after;
        } else {
            let name: String = rest
                .chars()
                .enumerate()
                .take_while(|(i, c)| is_name(*c, *i == 0))
                .map(|(_, c)| c)
                .collect();
            if !name.is_empty() {
                return Err((
                    format!("`${name}` is not replaced in a graph file"),
                    format!("write `${{{name}}}`, or `$${name}` if `${name}` itself is meant"),
                ));
            }
            whole.push('$');
        }
    }
    whole.push_str(rest);
    Ok(whole)
}

/// Value of `NAME` or `NAME:-default`. As in a shell, the default also stands for an empty
/// variable.
fn value(inside: &str, lookup: Lookup<'_>) -> Result<String, (String, String)> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let is_valid = !name.is_empty() && name.chars().enumerate().all(|(i, c)| is_name(c, i == 0));
    if !is_valid {
        return Err((
            format!("`${{{inside}}}` names no environment variable"),
            "write `${NAME}` or `${NAME:-default}`; `$$` is a `$`".to_owned(),
        ));
    }
    match (lookup(name), default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err((
            format!("the environment has no variable `{name}`"),
            format!("set it, or give a default: `${{{name}:-default}}`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, is_path: bool) -> Result<String, (String, String)> {
        let lookup = |name: &str| match name {
            "HOME" => Some("/srv/car".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        expanded(text, is_path, &lookup)
    }

    #[test]
    fn variables_and_defaults_are_replaced() {
        for (text, whole) in [
            ("${HOME}/lib.so", "/srv/car/lib.so"),
            ("${NONE:-/opt/a}/x${EMPTY}", "/opt/a/x"),
            ("${EMPTY:-b}${NONE:-}", "b"),
            ("a$$HOME 5$ $1 ä", "a$HOME 5$ $1 ä"),
            ("plain", "plain"),
        ] {
            assert_eq!(of(text, true).as_deref(), Ok(whole), "{text}");
        }
        assert_eq!(of("~/x", false).as_deref(), Ok("~/x"), "an environment may have it");
    }

    #[test]
    fn what_a_shell_would_replace_is_refused_with_the_remedy() {
        for (text, message, help) in [
            ("~/lib.so", "`~` is not replaced", "write `${HOME}/lib.so`"),
            ("$HOME/lib.so", "`$HOME` is not replaced", "write `${HOME}`, or `$$HOME`"),
            ("${NONE}/x", "no variable `NONE`", "`${NONE:-default}`"),
            ("${a b}", "names no environment variable", "`${NAME:-default}`"),
            ("${HOME", "has no `}`", "`$$` is a `$`"),
        ] {
            let (said, remedy) = of(text, true).unwrap_err();
            assert!(said.contains(message), "{said}");
            assert!(remedy.contains(help), "{remedy}");
        }
    }
}
