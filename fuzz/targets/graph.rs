// SPDX-License-Identifier: Apache-2.0
//! Graph files: any text loads as a graph or gives printable diagnostics.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use driveline_gateway::registered;
use driveline_graph::descriptor::ComponentClass;
use driveline_graph::{Colour, Describe, DescribeError, Environment, LoadOptions, load};
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::LazyLock;

/// Describes no library.
struct Blind;

impl Describe for Blind {
    fn describe(&self, _: &Path, _: &Environment) -> Result<Vec<ComponentClass>, DescribeError> {
        Err(DescribeError { reason: "the fuzzer loads no libraries".into(), help: None })
    }
}

static DIRECTORY: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a directory"));

fuzz_target!(|text: &str| {
    let path = DIRECTORY.path().join("g.yaml");
    std::fs::write(&path, text).expect("a file");
    let options = LoadOptions {
        library_dirs: Vec::new(),
        registered: registered(),
        ..LoadOptions::new(&Blind)
    };
    let loaded = load(&path, &options);
    assert_eq!(loaded.graph.is_none(), loaded.diagnostics.errors() > 0);
    let _ = loaded.diagnostics.render(Colour::No);
});
