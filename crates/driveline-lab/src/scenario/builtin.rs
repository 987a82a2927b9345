// SPDX-License-Identifier: Apache-2.0
//! The experiments that come with the program.

/// A scenario file inside the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its id.
    pub id: &'static str,
    /// Its text, to be copied and edited.
    pub text: &'static str,
}

macro_rules! files {
    ($($id:literal),* $(,)?) => {
        &[$(Builtin { id: $id, text: include_str!(concat!("../../scenarios/", $id, ".yaml")) }),*]
    };
}

/// All of them, in the order of the papers.
#[must_use]
pub fn builtin() -> &'static [Builtin] {
    files!["W1", "S1"]
}
