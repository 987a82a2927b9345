// SPDX-License-Identifier: Apache-2.0
//! Puts the commit into the program, because a measured figure proves nothing without the commit of
//! the program.

#[path = "../../tools/commit.rs"]
mod commit;

fn main() {
    commit::put();
}
