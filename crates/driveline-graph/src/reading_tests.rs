// SPDX-License-Identifier: Apache-2.0
//! Content of graph files: text in UTF-8, environment variables.

use super::*;

#[test]
fn variables_are_replaced_in_paths_and_environment_or_refused_before_the_start() {
    let g = sound(replaced(&[
        ("library: libdemo.so", "library: ${DRIVELINE_TEST_NONE:-.}/libdemo.so"),
        ("OMP_NUM_THREADS: \"1\"", "OMP_NUM_THREADS: \"${DRIVELINE_TEST_NONE:-2}\""),
    ]));
    assert_eq!(g.module("perception").unwrap().environment["OMP_NUM_THREADS"], "2");
    for (library, message, help) in [
        ("~/libdemo.so", "`~` is not replaced", "write `${HOME}/libdemo.so`"),
        ("$LIBS/libdemo.so", "`$LIBS` is not replaced", "write `${LIBS}`"),
        ("${DRIVELINE_TEST_NONE}/a.so", "no variable `DRIVELINE_TEST_NONE`", ":-default}"),
    ] {
        let text = format!("class: Lane\n        # {library}");
        let loaded = replaced(&[(
            "        library: libdemo.so\n        class: Lane",
            &format!("        library: {library}\n        {text}"),
        )]);
        finds(&loaded, &[(20, message, help)]);
    }
    let merged = replaced(&[("        class: Lane", "        <<: {class: Lane}")]);
    let shown = merged.diagnostics.render(Colour::No);
    assert!(
        shown.contains("merge keys (`<<`) are not supported") && merged.graph.is_none(),
        "{shown}"
    );
}

#[test]
fn what_is_no_text_file_is_not_read() {
    let f = Fixture::new(&[("g.yaml", "driveline: 1\ninclude: [pipe, /dev/full, picture.png]\n")]);
    let made =
        std::process::Command::new("mkfifo").arg(f.dir.path().join("pipe")).status().unwrap();
    assert!(made.success());
    std::fs::write(f.dir.path().join("picture.png"), b"\x89PNG\r\n\x1a\n\0\0").unwrap();
    let help = "relative to the file";
    let not_read = [
        (2, "it is not a regular file", help),
        (2, "it is not a regular file", help),
        (2, "it is not text; YAML", help),
    ];
    finds(&f.load(), &not_read);
    // The length of a device does not limit how much would be read from it.
    finds(
        &load_path(Path::new("/dev/zero")),
        &[(0, "cannot read /dev/zero: it is not a regular file", "check the path")],
    );
    finds(&load_path(f.dir.path()), &[(0, "it is a directory", "")]);
    std::fs::write(f.dir.path().join("g.yaml"), vec![b' '; yaml::MAX_FILE_BYTES + 1]).unwrap();
    finds(&f.load(), &[(0, "it is longer than the 4194304 bytes that are read", "`include:`")]);
    std::fs::write(f.dir.path().join("g.yaml"), b"driveline: 1\n# caf\xe9\n").unwrap();
    finds(&f.load(), &[(0, "line 2 is not in UTF-8", "save it as UTF-8; `iconv ")]);
    for mark in ["\u{feff}", ""] {
        let text = format!("{mark}driveline: 1\n");
        let utf16 = |to: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(to).collect::<Vec<_>>();
        for bytes in [utf16(u16::to_le_bytes), utf16(u16::to_be_bytes)] {
            std::fs::write(f.dir.path().join("g.yaml"), bytes).unwrap();
            let wanted = if mark.is_empty() {
                (0, "it is not text; YAML", "check the path")
            } else {
                (0, "it is in UTF-16", "`iconv -f UTF-16 -t UTF-8 ")
            };
            finds(&f.load(), &[wanted]);
        }
    }
    let denied = Unreadable::from(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
    assert!(denied.help.unwrap().contains("let this user read"));
    std::fs::write(f.dir.path().join("g.yaml"), vec![b'#'; (4 << 20) + 1]).unwrap();
    finds(&f.load(), &[(0, "it is longer than", "")]);
}

#[test]
fn variables_are_replaced_in_paths_of_other_graph_and_parameter_files() {
    let more = "driveline: 1\nmodules:\n  more:\n    components:\n      maker: {library: \
                libdemo.so, class: Maker}\n";
    let with = |include: &str, parameters: &str| {
        let keys = format!("name: comp\ninclude: ['{include}']\nparams_files: ['{parameters}']");
        let main = SOUND.replace("name: comp", &keys);
        let files = [("g.yaml", main.as_str()), ("m.yaml", more), ("p.yaml", "lane: {gain: 7}\n")];
        Fixture::new(&files).load()
    };
    let g = sound(with("${DRIVELINE_TEST_NONE:-m}.yaml", "./${DRIVELINE_TEST_NONE:-p}.yaml"));
    assert!(g.module("more").is_some(), "the file is included");
    let lane = &g.module("perception").unwrap().components[0];
    assert_eq!(lane.parameters["gain"], ParameterValue::Float(7.0));
    for (path, message, help) in [
        ("~/x.yaml", "`~` is not replaced", "write `${HOME}/x.yaml`"),
        ("$DIR/x.yaml", "`$DIR` is not replaced", "write `${DIR}`"),
        ("${DRIVELINE_TEST_NONE}/x.yaml", "no variable `DRIVELINE_TEST_NONE`", ":-default}"),
    ] {
        finds(&with(path, path), &[(3, message, help), (4, message, help)]);
    }
}
