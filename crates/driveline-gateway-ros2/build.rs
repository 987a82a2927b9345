// SPDX-License-Identifier: Apache-2.0
//! Puts the commit into the program, so that a measurement can name the gateway's commit.

#[path = "../../tools/commit.rs"]
mod commit;

fn main() {
    commit::put();
}
