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
    files![
        "headline", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "W10", "W11", "W12", "W13", "W14", "S1", "S2", "S3", "S4", "S5",
        "S6", "S7", "B1", "B2", "B3", "F", "K1", "K2", "K3", "refsys",
    ]
}
