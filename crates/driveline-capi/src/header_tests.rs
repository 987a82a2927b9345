// SPDX-License-Identifier: Apache-2.0
//! Checks that the committed C header is generated from this source.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = root.join("../../sdk/cpp/include/driveline/driveline.h");
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings =
        cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text =
        String::from_utf8(text).unwrap().replace("// # Safety\n", "// What the caller promises:\n");
    assert!(text.contains("dl_publisher_publish("), "cbindgen found no functions");
    if std::env::var_os("DRIVELINE_UPDATE_HEADER").is_some() {
        std::fs::write(&committed, &text).unwrap();
    }
    let have = std::fs::read_to_string(&committed).unwrap_or_default();
    let first = have.lines().zip(text.lines()).position(|(a, b)| a != b).map_or(0, |i| i + 1);
    assert!(
        have == text,
        "driveline.h differs from the source, first in line {first}: run DRIVELINE_UPDATE_HEADER=1 \
         cargo test -p driveline-capi header"
    );
}
