// SPDX-License-Identifier: Apache-2.0
//! Generates Rust types of protobuf messages for Driveline, in build scripts. Needs no `protoc`.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), driveline_build::Error> {
//!     driveline_build::Protos::new().compile(&["proto/trajectory.proto"], &["proto"])
//! }
//! ```
//!
//! ```text
//! // src/lib.rs, for messages of package `planning`
//! pub mod planning {
//!     include!(concat!(env!("OUT_DIR"), "/planning.rs"));
//! }
//! ```
//!
//! Every message implements `driveline::types::ProtobufMessage`. The crate that includes the
//! generated code needs no dependency besides `driveline`, and `prost-types` if messages use
//! `google.protobuf` types such as `Timestamp`.

mod definition;

pub use definition::definition;

use driveline_types::Schema;
use heck::{ToSnakeCase, ToUpperCamelCase};
use prost_types::{DescriptorProto, FileDescriptorSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason why messages could not be generated.
#[derive(Debug, Error)]
pub enum Error {
    /// A `.proto` file is missing or has a mistake.
    #[error(transparent)]
    Proto(#[from] protox::Error),
    /// A message refers to something that is not in the set of files.
    #[error("message '{message}' refers to '{missing}', which no file defines")]
    Missing {
        /// The message.
        message: String,
        /// Type to which the message refers.
        missing: String,
    },
    /// A definition is longer than peers accept.
    #[error(
        "the definition of message '{message}' with all that it refers to is {len} bytes; peers \
         accept {}: split the message",
        Schema::MAX_DEFINITION_LEN
    )]
    TooLong {
        /// The message.
        message: String,
        /// Length in bytes.
        len: usize,
    },
    /// Code generation failed, or it ran outside a build script.
    #[error("cannot write Rust code of the messages: {0}")]
    Generate(#[from] std::io::Error),
}

/// Generates Rust code for a set of `.proto` files.
pub struct Protos {
    types_path: String,
    out_dir: Option<PathBuf>,
}

impl Default for Protos {
    fn default() -> Self {
        Self { types_path: "::driveline::types".into(), out_dir: None }
    }
}

impl Protos {
    /// Creates a generator. Its code finds `driveline_types` as `::driveline::types` and is written
    /// to `OUT_DIR`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Rust path under which the generated code finds `driveline_types`.
    #[must_use]
    pub fn types_path(mut self, path: impl Into<String>) -> Self {
        self.types_path = path.into();
        self
    }

    /// Directory to write to instead of the build script's `OUT_DIR`.
    #[must_use]
    pub fn out_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(path.into());
        self
    }

    /// Writes `PACKAGE.rs` for each package of `files` (`_.rs` for files without a package). Has
    /// Cargo run the build script again when one of `files`, or a file in `includes`, changes.
    ///
    /// # Errors
    /// [`enum@Error`] with file and line of a mistake in a `.proto` file.
    pub fn compile(
        self,
        files: &[impl AsRef<Path>],
        includes: &[impl AsRef<Path>],
    ) -> Result<(), Error> {
        let set = protox::compile(files, includes)?;
        for path in files.iter().map(AsRef::as_ref).chain(includes.iter().map(AsRef::as_ref)) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        let out_dir = match self.out_dir {
            Some(dir) => dir,
            None => std::env::var_os("OUT_DIR")
                .map(PathBuf::from)
                .ok_or_else(|| std::io::Error::other("OUT_DIR is not set"))?,
        };
        let generated: BTreeSet<String> = files
            .iter()
            .filter_map(|f| {
                name_in_set(f.as_ref(), &includes.iter().map(AsRef::as_ref).collect::<Vec<_>>())
            })
            .collect();
        let mut implementations: BTreeMap<String, String> = BTreeMap::new();
        for file in set.file.iter().filter(|f| generated.contains(f.name())) {
            let text = implementations.entry(file.package().to_owned()).or_default();
            for message in &file.message_type {
                implement(&set, &self.types_path, file.package(), &[], message, text)?;
            }
        }
        let wanted = FileDescriptorSet {
            file: set.file.into_iter().filter(|f| generated.contains(f.name())).collect(),
        };
        prost_build::Config::new()
            .prost_path(format!("{}::prost", self.types_path))
            .out_dir(&out_dir)
            .compile_fds(wanted)?;
        for (package, text) in implementations {
            let path = out_dir.join(if package.is_empty() {
                "_.rs".to_owned()
            } else {
                format!("{package}.rs")
            });
            let code = std::fs::read_to_string(&path)?;
            std::fs::write(&path, code + &text)?;
        }
        Ok(())
    }
}

/// The name that a file has in imports: its path below the include directory.
fn name_in_set(file: &Path, includes: &[&Path]) -> Option<String> {
    let below = |include: &&Path| file.strip_prefix(include).ok().map(Path::to_path_buf);
    includes
        .iter()
        .find_map(below)
        .or_else(|| Some(file.to_path_buf()))
        .and_then(|p| p.to_str().map(str::to_owned))
}

fn implement(
    set: &FileDescriptorSet,
    types: &str,
    package: &str,
    outer: &[&str],
    message: &DescriptorProto,
    out: &mut String,
) -> Result<(), Error> {
    if message.options.as_ref().is_some_and(|o| o.map_entry()) {
        return Ok(());
    }
    let mut path = outer.to_vec();
    path.push(message.name());
    let mut parts = path.clone();
    if !package.is_empty() {
        parts.insert(0, package);
    }
    let full_name = parts.join(".");
    let text = definition(set, &full_name)?;
    if text.len() > Schema::MAX_DEFINITION_LEN {
        return Err(Error::TooLong { message: full_name, len: text.len() });
    }
    // prost puts nested messages into a module with the outer message's name.
    let rust: String = outer.iter().map(|o| module_name(o) + "::").collect::<String>()
        + &identifier(message.name().to_upper_camel_case());
    let _ = writeln!(
        out,
        "impl {types}::ProtobufMessage for {rust} {{\n    const NAME: &'static str = \
         {full_name:?};\n    const DEFINITION: &'static str = {text:?};\n}}"
    );
    message
        .nested_type
        .iter()
        .try_for_each(|inner| implement(set, types, package, &path, inner, out))
}

fn module_name(message: &str) -> String {
    identifier(message.to_snake_case())
}

/// Returns the identifier that prost generates for a name: raw if the name is a keyword, or with an
/// underscore if the keyword cannot be raw.
fn identifier(name: String) -> String {
    const KEYWORDS: &str = " abstract as async await become box break const continue do dyn else \
                            enum false final fn for gen if impl in let loop macro match mod move \
                            mut override priv pub ref return static struct trait true try type \
                            typeof unsafe unsized use virtual where while yield ";
    if ["crate", "extern", "self", "Self", "super"].contains(&name.as_str()) {
        name + "_"
    } else if KEYWORDS.contains(&format!(" {name} ")) {
        format!("r#{name}")
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generate(proto: &str) -> Result<String, Error> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        std::fs::write(dir.path().join("a.proto"), proto).unwrap();
        Protos::new()
            .out_dir(dir.path().join("out"))
            .compile(&[dir.path().join("a.proto")], &[dir.path()])?;
        Ok(std::fs::read_to_string(dir.path().join("out/demo.v1.rs")).unwrap())
    }

    #[test]
    fn nested_messages_are_implemented_and_map_entries_are_not() {
        let code = generate(
            r#"syntax = "proto3"; package demo.v1;
               message Type { message Part2D { uint32 n = 1; } map<string, Part2D> parts = 1; }"#,
        )
        .unwrap();
        assert!(code.contains("impl ::driveline::types::ProtobufMessage for Type {"), "{code}");
        assert!(
            code.contains("impl ::driveline::types::ProtobufMessage for r#type::Part2D {"),
            "{code}"
        );
        assert!(
            code.contains("pub mod r#type {") && code.contains("pub struct Part2D"),
            "prost names them as expected: {code}"
        );
        assert_eq!(code.matches("ProtobufMessage for").count(), 2);
    }

    #[test]
    fn keywords_are_named_as_prost_names_them() {
        let keywords = ["Loop", "Where", "Async", "Dyn", "Gen", "Super", "Self", "Crate", "Yield"];
        let messages: String =
            keywords.iter().map(|k| format!("message {k} {{ message Part {{}} }}")).collect();
        let code = generate(&format!("syntax = \"proto3\"; package demo.v1; {messages}")).unwrap();
        let mut found = 0;
        for line in code.lines() {
            let Some((_, name)) = line.split_once("ProtobufMessage for ") else { continue };
            let name = name.trim_end_matches(" {");
            let wanted = match name.split_once("::") {
                Some((module, _)) => format!("pub mod {module} {{"),
                None => format!("pub struct {name} "),
            };
            assert!(code.contains(&wanted), "{wanted} is not in {code}");
            found += 1;
        }
        assert_eq!(found, 2 * keywords.len());
    }

    #[test]
    fn mistakes_are_reported_with_their_place() {
        let e = generate("syntax = \"proto3\";\npackage demo.v1;\nmessage A { Missing m = 1; }")
            .unwrap_err();
        assert!(format!("{e:?}").contains("Missing"), "{e:?}");
    }

    #[test]
    fn definitions_that_peers_would_refuse_are_refused_here() {
        let fields: String =
            (1..1200).map(|i| format!("uint64 a_field_with_a_long_name_{i} = {i};")).collect();
        let e =
            generate(&format!("syntax = \"proto3\"; package demo.v1; message Long {{ {fields} }}"))
                .unwrap_err();
        assert!(matches!(&e, Error::TooLong { message, .. } if message == "demo.v1.Long"), "{e}");
    }
}
