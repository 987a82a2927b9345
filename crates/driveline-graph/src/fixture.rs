// SPDX-License-Identifier: Apache-2.0
//! A library that exists only in tests, and graphs that use it. Tests of the gateways' sections
//! include this file by path and register their sections.

use driveline::ParameterValue;
use driveline_graph::descriptor::{ComponentClass, ParameterDecl, Port, ValueRange};
use driveline_graph::{
    Colour, DescribeError, Diagnostic, LoadOptions, Loaded, ResolvedGraph, load,
};
use driveline_types::{PayloadKind, Schema};
use std::path::Path;
use tempfile::TempDir;

pub(crate) const HEAD: &str = "plain demo/Imu size=8 align=8\n  u64 time @0\n";

pub(crate) fn schema(kind: PayloadKind, name: &'static str) -> Schema {
    let definition = if kind == PayloadKind::Bytes { "" } else { HEAD };
    Schema { kind, name: name.into(), encoding: "demo".into(), definition: definition.into() }
}

pub(crate) fn port(name: &str, kind: PayloadKind, ty: &'static str) -> Port {
    Port { name: name.into(), schema: schema(kind, ty), doc: String::new() }
}

/// The classes of a library that exists only here.
fn classes() -> Vec<ComponentClass> {
    use PayloadKind::{Bytes, Object, Protobuf};
    let class = |name: &str, inputs, outputs| ComponentClass {
        name: name.into(),
        doc: String::new(),
        inputs,
        outputs,
        parameters: Vec::new(),
    };
    let parameter = |name: &str, default| ParameterDecl {
        name: name.into(),
        default,
        doc: String::new(),
        range: None,
        live: None,
    };
    let mut lane = class(
        "Lane",
        vec![port("image", Bytes, "demo/Image")],
        vec![port("lanes", Protobuf, "demo.Lanes")],
    );
    lane.parameters = vec![
        ParameterDecl {
            range: Some(ValueRange::between(0.0, u32::MAX.into())),
            ..parameter("canny_low", ParameterValue::Integer(50))
        },
        parameter("gain", ParameterValue::Float(1.5)),
        parameter("model", ParameterValue::Text(String::new())),
        parameter("draw", ParameterValue::Bool(false)),
        parameter("weights", serde_json::from_str("[0.5]").unwrap()),
        parameter("pid", serde_json::from_str(r#"{"gains": [1.5], "on": true}"#).unwrap()),
    ];
    vec![
        class(
            "Camera",
            vec![],
            vec![port("image", Bytes, "demo/Image"), port("preview", Bytes, "demo/Image")],
        ),
        lane,
        class(
            "Fusion",
            vec![port("lanes", Protobuf, "demo.Lanes"), port("scene", Protobuf, "demo.Scene")],
            vec![port("scene", Protobuf, "demo.Scene")],
        ),
        class("Maker", vec![], vec![port("value", Object, "demo/Value")]),
        class("Taker", vec![port("value", Object, "demo/Value")], vec![]),
    ]
}

pub(crate) fn describe(path: &Path) -> Result<Vec<ComponentClass>, DescribeError> {
    match path.file_name().and_then(|n| n.to_str()) {
        Some("libdemo.so") => Ok(classes()),
        _ => Err(DescribeError {
            reason: "it is not a component library".into(),
            help: Some("link it with driveline".into()),
        }),
    }
}

pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
}

impl Fixture {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for lib in ["libdemo.so", "libbroken.so"] {
            std::fs::write(dir.path().join(lib), "").unwrap();
        }
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn load_with(&self, set: &[&str], modules: Option<&[&str]>) -> Loaded {
        let options = LoadOptions {
            describe: &describe,
            set: set.iter().map(|s| s.to_string()).collect(),
            modules: modules.map(|m| m.iter().map(|s| s.to_string()).collect()),
            library_dirs: vec![],
            registered: crate::registered_in_tests(),
        };
        load(&self.dir.path().join("g.yaml"), &options)
    }

    pub(crate) fn load(&self) -> Loaded {
        self.load_with(&[], None)
    }
}

pub(crate) fn graph(text: &str) -> Loaded {
    Fixture::new(&[("g.yaml", text)]).load()
}

pub(crate) fn sound(loaded: Loaded) -> ResolvedGraph {
    assert_eq!(loaded.diagnostics.iter().count(), 0, "{}", loaded.diagnostics.render(Colour::No));
    loaded.graph.unwrap()
}

/// Checks that the findings are exactly the ones with these line numbers, messages and helps.
#[track_caller]
pub(crate) fn finds(loaded: &Loaded, expected: &[(u32, &str, &str)]) {
    let shown = loaded.diagnostics.render(Colour::No);
    let all: Vec<&Diagnostic> = loaded.diagnostics.iter().collect();
    assert_eq!(all.len(), expected.len(), "{shown}");
    for (d, (line, message, help)) in all.iter().zip(expected) {
        assert_eq!(d.place.as_ref().map_or(0, |p| p.span.line), *line, "{shown}");
        assert!(d.message.contains(message), "{message:?} is not in\n{shown}");
        assert!(
            d.help.as_deref().unwrap_or_default().contains(help),
            "{help:?} is not in\n{shown}"
        );
    }
    assert_eq!(loaded.graph.is_none(), loaded.diagnostics.errors() > 0);
}

pub(crate) const SOUND: &str = r#"driveline: 1
name: comp
domain: comp
topics:
  camera/image: { reach: host, max_payload: 2 MiB, type: demo/Image, qos: {depth: 5} }
  lanes: { reach: host, external: true }
modules:
  sensing:
    components:
      camera:
        library: libdemo.so
        class: Camera
        outputs: { image: camera/image }
  perception:
    environment: { OMP_NUM_THREADS: "1" }
    executors:
      main: { threads: 2, spin_us: 10, schedule: { class: fifo, priority: 50, cpus: [0] } }
    components:
      lane:
        library: libdemo.so
        class: Lane
        callback_group: reentrant
        parameters: { gain: 2 }
        inputs: { image: {topic: camera/image, qos: {depth: 4}} }
        outputs: { lanes: lanes }
"#;

/// The sound graph with changes.
pub(crate) fn replaced(changes: &[(&str, &str)]) -> Loaded {
    let mut text = SOUND.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    graph(&text)
}
