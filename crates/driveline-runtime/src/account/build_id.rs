// SPDX-License-Identifier: Apache-2.0
//! Identity of a build: launcher and module processes of one build belong together.

use std::path::PathBuf;
use std::sync::OnceLock;

/// Sources that define the protocol between launcher and module processes, in addition to the keys
/// of graph files.
const SOURCES: [&str; 6] = [
    include_str!("mod.rs"),
    include_str!("contained.rs"),
    include_str!("../heartbeats.rs"),
    include_str!("../host/arguments.rs"),
    include_str!("../host/words.rs"),
    include_str!("../launch/child.rs"),
];

/// Returns the version and eight digits that differ between builds whose launchers and module
/// processes may not understand each other. Computed once.
#[must_use]
pub fn build_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let keys = serde_json::to_string(&driveline_graph::json_schema(&[])).unwrap_or_default();
        let texts = SOURCES.into_iter().chain([keys.as_str()]);
        let hash = texts.map(str::as_bytes).fold(FNV_OFFSET, hash);
        format!("{}-{:08x}", env!("CARGO_PKG_VERSION"), (hash ^ (hash >> 32)) as u32)
    })
}

/// Returns the digest of the contents of a graph's files, and of the assignments of `--set`. Equal
/// for two processes that run the same graph, wherever its files lie; not cryptographic. Reads the
/// files; `None` if one cannot be read.
pub(crate) fn graph_digest(files: &[PathBuf], set: &[String]) -> Option<String> {
    let mut digest = FNV_OFFSET;
    for file in files {
        digest = hash(hash(digest, &std::fs::read(file).ok()?), &[0]);
    }
    digest = set.iter().fold(digest, |digest, s| hash(hash(digest, s.as_bytes()), &[0]));
    Some(format!("{digest:016x}"))
}

fn hash(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

// FNV-1a, 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
