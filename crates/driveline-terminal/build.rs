// SPDX-License-Identifier: Apache-2.0
//! Puts the commit into the program, because a figure without it proves nothing.

#[path = "../../tools/commit.rs"]
mod commit;

fn main() {
    commit::put();
}
