// SPDX-License-Identifier: Apache-2.0
//! The list of an image's files, in SPDX; each layer contains the list of its files.

use super::archive::hex;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// Returns the path of a layer's list in the image: layers must not hide each other's lists.
pub(super) fn name(files: &BTreeMap<String, PathBuf>) -> String {
    let layer = if files.contains_key(crate::HOST_IN_IMAGE) { "base" } else { "module" };
    format!("/opt/driveline/share/{layer}.spdx.json")
}

/// Returns the list. Reads all files.
pub(super) fn spdx(files: &BTreeMap<String, PathBuf>, version: &str) -> io::Result<String> {
    let mut listed = Vec::new();
    for (number, (name, path)) in files.iter().enumerate() {
        let mut hash = Sha256::new();
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        io::copy(&mut File::open(path).map_err(named)?, &mut hash).map_err(named)?;
        listed.push(json!({
            "SPDXID": format!("SPDXRef-File-{number}"),
            "fileName": format!(".{name}"),
            "checksums": [{ "algorithm": "SHA256", "checksumValue": hex(&hash.finalize()) }],
            "licenseConcluded": "NOASSERTION",
            "copyrightText": "NOASSERTION",
        }));
    }
    let list = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": "driveline-module",
        "documentNamespace": format!("urn:driveline:{version}"),
        "creationInfo": { "created": "1970-01-01T00:00:00Z", "creators": ["Tool: driveline"] },
        "files": listed,
    });
    serde_json::to_string_pretty(&list).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_listed_with_its_checksum() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "abc").unwrap();
        let files = [("/opt/a".to_owned(), path)].into();
        let list: serde_json::Value = serde_json::from_str(&spdx(&files, "1").unwrap()).unwrap();
        assert_eq!(list["files"][0]["fileName"], "./opt/a");
        let sum = list["files"][0]["checksums"][0]["checksumValue"].as_str().unwrap();
        assert!(sum.starts_with("ba7816bf"), "{sum}");
        assert!(name(&files).ends_with("module.spdx.json"));
    }
}
