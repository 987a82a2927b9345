// SPDX-License-Identifier: Apache-2.0
//! Built-in experiments.

/// A scenario file inside the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its id.
    pub id: &'static str,
    /// Its text, as a template.
    pub text: &'static str,
}

macro_rules! files {
    ($($id:literal),* $(,)?) => {
        &[$(Builtin { id: $id, text: include_str!(concat!("../../scenarios/", $id, ".yaml")) }),*]
    };
}

/// Returns all built-in experiments, in the order of the papers.
#[must_use]
pub fn builtin() -> &'static [Builtin] {
    files![
        "headline", "basics", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "W10", "W11",
        "W12", "W13", "W14", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "B1", "B1C", "B2", "B2C",
        "B3", "F", "K1", "K2", "K3", "refsys",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load;

    #[test]
    fn every_built_in_scenario_loads_under_its_id() {
        for b in builtin() {
            assert_eq!(load(b.id).unwrap_or_else(|e| panic!("{e}")).id, b.id);
        }
    }

    #[test]
    fn every_scenario_file_is_built_in() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")).unwrap();
        let mut ids: Vec<_> = files
            .map(|f| f.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut known: Vec<_> = builtin().iter().map(|b| b.id.to_owned()).collect();
        ids.sort();
        known.sort();
        assert_eq!(ids, known);
    }
}
