// SPDX-License-Identifier: Apache-2.0
//! Values that files have as one word, as texts.

/// As files have it: `best_effort`.
pub(crate) fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// As people read it: `best effort`.
pub(crate) fn spaced<T: serde::Serialize>(value: &T) -> String {
    word(value).replace('_', " ")
}

/// Why published shares of a network are not shown.
pub(crate) const NETWORK_IS_MISSING: &str = "The detector was a plain one, no network: what is published of networks does not belong beside it (COMP_MODEL names one; docs/lab.md).";
