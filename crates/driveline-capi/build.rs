// SPDX-License-Identifier: Apache-2.0
//! Gives the shared library its SONAME: the number changes when the C ABI breaks.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdriveline.so.0");
}
