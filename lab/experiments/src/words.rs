// SPDX-License-Identifier: Apache-2.0
//! Values that are one word in files, as texts.

/// Returns the value as in files: `best_effort`.
pub(crate) fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns the value in readable form: `best effort`.
pub(crate) fn spaced<T: serde::Serialize>(value: &T) -> String {
    word(value).replace('_', " ")
}

/// Returns the name of a cell without some of its words; `all` if none remains.
pub(crate) fn cell_without(cell: &str, is_left_out: impl Fn(&str) -> bool) -> String {
    let parts: Vec<&str> = cell.split(" · ").filter(|word| !is_left_out(word)).collect();
    if parts.is_empty() { "all".into() } else { parts.join(" · ") }
}

/// Reason why published shares of a network are not shown.
pub(crate) const NETWORK_IS_MISSING: &str = "The detector was a plain one, no network: published \
     figures of networks are not comparable (COMP_MODEL names one; docs/lab.md).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_out_of_a_cells_name() {
        let handling = |word: &str| matches!(word, "untouched" | "filled");
        assert_eq!(cell_without("camera · block · filled", handling), "camera · block");
        assert_eq!(cell_without("untouched", handling), "all");
    }
}
