// SPDX-License-Identifier: Apache-2.0
//! Puts the commit into the program, so that it can be told which one carried what was measured.

#[path = "../../tools/commit.rs"]
mod commit;

fn main() {
    commit::put();
}
