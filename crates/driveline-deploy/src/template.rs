// SPDX-License-Identifier: Apache-2.0
//! Files for an image of a user's own component library.

const CONTAINERFILE: &str = include_str!("template/Containerfile");
/// Paths that are not sent to the engine, because the build in the image does not use them.
const IGNORED: &str = "build\n.git\n";

/// Returns names and texts of the files for a library, which is named without `lib` and `.so`.
#[must_use]
pub fn files(library: &str) -> [(&'static str, String); 2] {
    [
        ("Containerfile", CONTAINERFILE.replace("@LIBRARY@", library)),
        (".containerignore", IGNORED.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_library_and_ends_with_the_base_image() {
        let [(name, text), _] = files("lane");
        assert_eq!(name, "Containerfile");
        assert!(text.contains("find /build -name liblane.so") && !text.contains('@'), "{text}");
        let last = text.lines().rfind(|l| l.starts_with("FROM ")).unwrap();
        assert_eq!(last, "FROM ${BASE}");
    }
}
