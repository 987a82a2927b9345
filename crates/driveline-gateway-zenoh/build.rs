// SPDX-License-Identifier: Apache-2.0
//! Writes the commit into the program, so that a measurement can name the commit of its gateways.

#[path = "../../tools/commit.rs"]
mod commit;

fn main() {
    commit::put();
}
