// SPDX-License-Identifier: Apache-2.0
//! The engine's seccomp profile, extended by `futex_waitv`, which profiles of 2022 do not allow.
//! Without it, a thread that waits for several publishers needs a helper thread for each, and two
//! wake-ups instead of one.

use crate::engine::EngineKind;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The system call.
const CALL: &str = "futex_waitv";
/// Error number of a system call that the kernel does not know.
const ENOSYS: i32 = 38;
/// Paths of Podman's profile: the administrator's, then the distribution's.
const PLACES: [&str; 2] = ["/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json"];

/// There is no profile to extend.
#[derive(Debug, Error)]
pub enum SeccompError {
    /// The engine's profile is built in, or it has none.
    #[error("{0} has no profile in a file ({searched}): it uses its \
         own", searched = PLACES.join(", "))]
    None(&'static str),
    /// The profile cannot be read.
    #[error("cannot read the profile {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file is not a profile.
    #[error("{0} is no seccomp profile: it has no list `syscalls`")]
    Shape(PathBuf),
}

/// Returns the engine's default profile plus `futex_waitv`, as JSON. For Docker, whose profile is
/// built in, always returns an error; that profile allows the call since release 20.10.10.
///
/// # Errors
/// [`SeccompError`]; then containers run with the engine's own profile, and the report shows how
/// their threads wait.
pub fn profile(kind: EngineKind) -> Result<String, SeccompError> {
    edited(kind, with_call)
}

/// Returns the engine's default profile without `futex_waitv`: the call fails with ENOSYS, as in
/// profiles that do not know it.
///
/// # Errors
/// [`SeccompError`].
pub fn profile_without_call(kind: EngineKind) -> Result<String, SeccompError> {
    edited(kind, without_call)
}

fn edited(kind: EngineKind, edit: fn(&str) -> Option<String>) -> Result<String, SeccompError> {
    if kind == EngineKind::Docker {
        return Err(SeccompError::None("docker"));
    }
    let path = PLACES.iter().map(Path::new).find(|p| p.is_file());
    let path = path.ok_or(SeccompError::None("podman"))?;
    let text = std::fs::read_to_string(path)
        .map_err(|source| SeccompError::Read { path: path.to_owned(), source })?;
    edit(&text).ok_or_else(|| SeccompError::Shape(path.to_owned()))
}

/// Returns the profile with the call allowed; `None` if the text is not a profile.
fn with_call(text: &str) -> Option<String> {
    let mut profile: Value = serde_json::from_str(text).ok()?;
    let rules = profile.get_mut("syscalls")?.as_array_mut()?;
    // This rule, without conditions, comes first: if another rule names the call, the first match
    // counts.
    let rule = json!({ "names": [CALL], "action": "SCMP_ACT_ALLOW" });
    let allows = rules.iter().any(|r| {
        let names = r.get("names").and_then(Value::as_array);
        let named = names.is_some_and(|names| names.iter().any(|n| n == CALL));
        named && r.get("action") == rule.get("action")
    });
    if !allows {
        rules.insert(0, rule);
    }
    serde_json::to_string_pretty(&profile).ok()
}

/// Returns the profile with the call refused; `None` if the text is not a profile.
fn without_call(text: &str) -> Option<String> {
    let mut profile: Value = serde_json::from_str(text).ok()?;
    let rules = profile.get_mut("syscalls")?.as_array_mut()?;
    for rule in rules.iter_mut() {
        if let Some(names) = rule.get_mut("names").and_then(Value::as_array_mut) {
            names.retain(|n| n != CALL);
        }
    }
    rules.retain(|r| r.get("names").and_then(Value::as_array).is_none_or(|n| !n.is_empty()));
    rules.insert(0, json!({ "names": [CALL], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }));
    serde_json::to_string_pretty(&profile).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_added_once_and_nothing_else_changes() {
        let default = concat!(
            r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read"],"#,
            r#""action":"SCMP_ACT_ALLOW"}]}"#,
        );
        let added = with_call(default).unwrap();
        let profile: Value = serde_json::from_str(&added).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        assert_eq!(profile["syscalls"][0]["names"], json!(["futex_waitv"]));
        assert_eq!(profile["syscalls"][1]["names"], json!(["read"]));
        assert_eq!(with_call(&added).unwrap(), added);
    }

    #[test]
    fn the_call_is_refused_and_nothing_else_changes() {
        let newer = concat!(
            r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read","futex_waitv"],"#,
            r#""action":"SCMP_ACT_ALLOW"}]}"#,
        );
        let without = without_call(newer).unwrap();
        let profile: Value = serde_json::from_str(&without).unwrap();
        let refused = json!({"names": [CALL], "action": "SCMP_ACT_ERRNO", "errnoRet": 38});
        assert_eq!(profile["syscalls"][0], refused);
        assert_eq!(profile["syscalls"][1]["names"], json!(["read"]));
        assert_eq!(without_call(&with_call(newer).unwrap()).unwrap(), without);
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        for bad in ["", "[]", "{}", r#"{"syscalls":1}"#] {
            assert_eq!(with_call(bad), None, "{bad}");
            assert_eq!(without_call(bad), None, "{bad}");
        }
        assert!(profile(EngineKind::Docker).unwrap_err().to_string().contains("docker"));
    }
}
