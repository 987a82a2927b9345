// SPDX-License-Identifier: Apache-2.0
//! Minimum of `max_payload`.

use super::*;

/// A class with two outputs: an image with a head of 80 bytes, and a type with a fixed size of 24
/// bytes.
fn describe_plain(_: &Path) -> Result<Vec<ComponentClass>, DescribeError> {
    let image = "driveline plain 1\ntype demo/Image size 80 align 8\nfield time_ns u64[10] offset \
         0\ntail data u8\n";
    let speeds =
        "driveline plain 1\ntype demo/Speeds size 24 align 8\nfield speeds f64[3] offset 0\n";
    let port = |name: &str, ty: &'static str, definition: &'static str| {
        let schema = Schema { definition: definition.into(), ..schema(PayloadKind::Plain, ty) };
        Port { name: name.into(), schema, doc: String::new() }
    };
    let outputs = vec![port("image", "demo/Image", image), port("speeds", "demo/Speeds", speeds)];
    Ok(vec![ComponentClass {
        name: "Camera".into(),
        doc: String::new(),
        inputs: vec![],
        outputs,
        parameters: vec![],
    }])
}

fn graph_with(image: &str, speeds: &str) -> Loaded {
    let text = format!(
        "driveline: 1\ntopics:\n  image: {{max_payload: {image}, external: true, reach: host}}\n  \
         speeds: {{max_payload: {speeds}, external: true, reach: host}}\nmodules:\n  m:\n    \
         components:\n      camera: {{library: libdemo.so, class: Camera, outputs: {{image: image, \
         speeds: speeds}}}}\n"
    );
    let f = Fixture::new(&[("g.yaml", &text)]);
    load(
        &f.dir.path().join("g.yaml"),
        &LoadOptions { library_dirs: vec![], ..LoadOptions::new(&describe_plain) },
    )
}

#[test]
fn room_for_no_sample_is_refused() {
    sound(graph_with("128 B", "24 B"));
    // The trailing array begins at a multiple of 64.
    finds(
        &graph_with("127 B", "16 B"),
        &[
            (
                3,
                "`max_payload` of the topic `image` is 127 bytes; the head of a sample of its type \
                 `demo/Image` alone takes 128",
                "2 MiB",
            ),
            (
                4,
                "`max_payload` of the topic `speeds` is 16 bytes; a sample of its type \
                 `demo/Speeds` alone takes 24",
                "largest sample",
            ),
        ],
    );
}
