// SPDX-License-Identifier: Apache-2.0
//! Definitions of many packages, and operations that need several of them.

use crate::MAX_TEXT_LEN;
use crate::definition::{Element, Message, Service};
use crate::error::{DefinitionError, Place};
use crate::idl::{self, Interface};
use crate::msg;
use crate::name::{Namespace, TypeName};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Maximum nesting depth of messages. The deepest in ROS 2's own packages is 7.
pub const MAX_NESTING: usize = 32;

/// Maximum number of messages that a message may refer to, directly or indirectly.
pub const MAX_REFERENCES: usize = 1024;

/// Definitions, found by name. They may come in any order: references are looked up when they are
/// used.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    messages: BTreeMap<TypeName, Message>,
    services: BTreeMap<TypeName, Service>,
}

impl Catalog {
    /// Returns a catalog without definitions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message.
    ///
    /// # Errors
    /// If there is a different definition of this name.
    pub fn add_message(&mut self, message: Message) -> Result<(), DefinitionError> {
        match self.messages.get(&message.name) {
            Some(known) if !known.same_as(&message) => Err(DefinitionError::new(
                message.place(0),
                format!("{} is defined differently in {}", message.name, known.file),
                "remove one of them; packages of two ROS 2 releases cannot be mixed",
            )),
            Some(_) => Ok(()),
            None => {
                self.messages.insert(message.name.clone(), message);
                Ok(())
            }
        }
    }

    /// Adds a service, its request and its response.
    ///
    /// # Errors
    /// If there is a different definition of this name.
    pub fn add_service(&mut self, service: Service) -> Result<(), DefinitionError> {
        self.add_message(service.request.clone())?;
        self.add_message(service.response.clone())?;
        self.services.insert(service.name.clone(), service);
        Ok(())
    }

    /// Adds the definitions in an IDL text. `file` is named in errors.
    ///
    /// # Errors
    /// As [`idl::parse_idl`] and [`Catalog::add_message`].
    pub fn add_idl(&mut self, file: &str, text: &str) -> Result<TypeName, DefinitionError> {
        match idl::parse_idl(file, text)? {
            Interface::Message(message) => {
                let name = message.name.clone();
                self.add_message(message).map(|()| name)
            }
            Interface::Service(service) => {
                let name = service.name.clone();
                self.add_service(service).map(|()| name)
            }
        }
    }

    /// Adds the definition in a file. Package and name of `.msg` and `.srv` come from the path,
    /// which ends in `package/msg/Name.msg` or `package/srv/Name.srv`; an `.idl` contains its name.
    /// Blocks on the file.
    ///
    /// # Errors
    /// If the file cannot be read, is of another kind, or has a mistake.
    pub fn add_file(&mut self, path: &Path) -> Result<TypeName, DefinitionError> {
        let file = path.display().to_string();
        let place = || Place { file: file.as_str().into(), line: 0 };
        let text = read(path)
            .map_err(|(problem, remedy)| DefinitionError::new(place(), problem, remedy))?;
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        let (namespace, is_msg) = match extension {
            "msg" => (Namespace::Msg, true),
            "srv" => (Namespace::Srv, false),
            "idl" => return self.add_idl(&file, &text),
            _ => {
                return Err(DefinitionError::new(
                    place(),
                    "neither .msg nor .srv nor .idl",
                    "name a file that defines a message or a service",
                ));
            }
        };
        let part =
            |p: Option<&std::ffi::OsStr>| p.and_then(|p| p.to_str()).unwrap_or_default().to_owned();
        let directory = path.parent();
        let package = part(directory.and_then(Path::parent).and_then(Path::file_name));
        if part(directory.and_then(Path::file_name)) != namespace.as_str() {
            let problem =
                format!("the path does not end in package/{0}/Name.{0}", namespace.as_str());
            return Err(DefinitionError::new(
                place(),
                problem,
                "put it where its package has it: the path gives it its name",
            ));
        }
        let name = TypeName::new(&package, namespace, &part(path.file_stem())).map_err(|e| {
            DefinitionError::new(
                place(),
                e.to_string(),
                "rename the file or its package's directory",
            )
        })?;
        if is_msg {
            self.add_message(msg::parse_msg(&name, &file, &text)?)?;
        } else {
            self.add_service(msg::parse_srv(&name, &file, &text)?)?;
        }
        Ok(name)
    }

    /// Returns the files that define a package: those in `msg/` and `srv/` of its directory, which
    /// is installed under `share/` or is part of a source tree. An `.idl` counts only if there is
    /// no `.msg` or `.srv` of its name. Blocks on the directories.
    ///
    /// # Errors
    /// If a directory exists and cannot be listed.
    pub fn files_of(directory: &Path) -> Result<Vec<PathBuf>, DefinitionError> {
        let mut files = Vec::new();
        for (kind, extension) in [("msg", "msg"), ("srv", "srv")] {
            let within = directory.join(kind);
            let paths: std::io::Result<BTreeSet<_>> = std::fs::read_dir(&within)
                .and_then(|listing| listing.map(|e| e.map(|e| e.path())).collect());
            let paths = match paths {
                Ok(paths) => paths,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => {
                    let place = Place { file: within.display().to_string().into(), line: 0 };
                    return Err(DefinitionError::new(
                        place,
                        format!("cannot be listed: {e}"),
                        "check the path and its permissions",
                    ));
                }
            };
            let is = |path: &Path, of: &str| path.extension().is_some_and(|e| e == of);
            let wanted = |path: &&PathBuf| {
                is(path, extension)
                    || (is(path, "idl") && !paths.contains(&path.with_extension(extension)))
            };
            files.extend(paths.iter().filter(wanted).cloned());
        }
        Ok(files)
    }

    /// Adds all definitions of a package, in the files that [`Catalog::files_of`] returns, and
    /// returns their number. Blocks on files.
    ///
    /// # Errors
    /// As [`Catalog::add_file`] and [`Catalog::files_of`].
    pub fn add_package(&mut self, directory: &Path) -> Result<usize, DefinitionError> {
        let files = Self::files_of(directory)?;
        for path in &files {
            self.add_file(path)?;
        }
        Ok(files.len())
    }

    /// Returns the definition of a message, also of a service's request or response.
    #[must_use]
    pub fn message(&self, name: &TypeName) -> Option<&Message> {
        self.messages.get(name)
    }

    /// Returns the definition of a service.
    #[must_use]
    pub fn service(&self, name: &TypeName) -> Option<&Service> {
        self.services.get(name)
    }

    /// Returns all messages, by name; requests and responses too.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.values()
    }

    /// Returns all services, by name.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values()
    }

    /// Returns the message and its references, each before the messages that refer to it, so that
    /// the message itself is last.
    pub(crate) fn closure(&self, name: &TypeName) -> Result<Vec<&Message>, DefinitionError> {
        let Some(root) = self.messages.get(name) else {
            let place = Place { file: name.to_string().into(), line: 0 };
            return Err(DefinitionError::missing(
                place,
                "is not defined",
                "add the directory of its package",
                name,
            ));
        };
        let mut done = BTreeSet::new();
        let mut out = Vec::new();
        // Messages being visited, each with the index of the next field to visit.
        let mut open: Vec<(&Message, usize)> = vec![(root, 0)];
        while let Some((message, at)) = open.pop() {
            let Some(field) = message.fields.get(at) else {
                if done.insert(&message.name) {
                    out.push(message);
                }
                continue;
            };
            open.push((message, at + 1));
            let Element::Nested(name) = &field.ty.element else { continue };
            let error = |problem: String, remedy: &str| {
                Err(DefinitionError::new(message.place(field.line), problem, remedy))
            };
            let Some(next) = self.messages.get(name) else {
                let problem = format!("the type {name} of '{}' is not defined", field.name);
                let remedy = "add its package's directory, or write package/Name for a type of \
                     another package";
                return Err(DefinitionError::missing(
                    message.place(field.line),
                    problem,
                    remedy,
                    name,
                ));
            };
            if done.contains(name) {
                continue;
            }
            if open.iter().any(|(m, _)| m.name == *name) {
                return error(
                    format!("{name} contains itself through '{}'", field.name),
                    "a message cannot; break the circle",
                );
            }
            if open.len() > MAX_NESTING {
                return error(
                    format!("messages nested more than {MAX_NESTING} deep"),
                    "flatten them",
                );
            }
            if out.len() + open.len() > MAX_REFERENCES {
                return error(format!("more than {MAX_REFERENCES} messages in one"), "split it");
            }
            open.push((next, 0));
        }
        Ok(out)
    }
}

/// Returns the text of a file, or the problem and its remedy. Pipes, which could block forever, and
/// devices, which have no end, are refused.
fn read(path: &Path) -> Result<String, (String, &'static str)> {
    const CHECK: &str = "check the path and its permissions";
    let failed = |e: std::io::Error| (format!("cannot be read: {e}"), CHECK);
    let regular = |m: std::fs::Metadata| {
        if m.is_file() {
            return Ok(());
        }
        let what = if m.is_dir() { "a directory" } else { "not a regular file" };
        Err((
            format!("cannot be read: it is {what}"),
            "put a file with the definition there, or remove it",
        ))
    };
    // Checked once before the file is opened, because opening a device can already have an effect,
    // and once for the opened file.
    std::fs::metadata(path).map_err(failed).and_then(regular)?;
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path).map_err(failed)?;
    file.metadata().map_err(failed).and_then(regular)?;
    let mut bytes = Vec::new();
    file.take(MAX_TEXT_LEN as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        // The end may be in the middle of a character; the text is refused for its length.
        Err(e) if e.as_bytes().len() > MAX_TEXT_LEN => {
            Ok(String::from_utf8_lossy(e.as_bytes()).into_owned())
        }
        Err(e) => Err((format!("cannot be read: {e}"), "it must be a text in UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(texts: &[(&str, &str)]) -> Catalog {
        let mut catalog = Catalog::new();
        for (name, text) in texts {
            let name = name.parse().unwrap();
            catalog.add_message(msg::parse_msg(&name, &name.to_string(), text).unwrap()).unwrap();
        }
        catalog
    }

    fn closure(catalog: &Catalog, name: &str) -> Result<Vec<String>, String> {
        catalog
            .closure(&name.parse().unwrap())
            .map(|l| l.iter().map(|m| m.name.to_string()).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn references_come_first_and_once() {
        let c = catalog(&[
            ("p/A", "B b\nC c\n"),
            ("p/B", "q/C c\nC c2\n"),
            ("p/C", "int8 x\n"),
            ("q/C", "int8 x\n"),
        ]);
        assert_eq!(closure(&c, "p/A").unwrap(), ["q/msg/C", "p/msg/C", "p/msg/B", "p/msg/A"]);
    }

    #[test]
    fn missing_circular_and_too_deep_types_are_reported_with_their_place() {
        let c =
            catalog(&[("p/A", "int8 x\nB b\n"), ("p/B", "A a\n"), ("p/D", "\nHeader header\n")]);
        let told = closure(&c, "p/A").unwrap_err();
        assert!(told.starts_with("p/msg/B:1: p/msg/A contains itself through 'a'"), "{told}");
        assert_eq!(
            c.closure(&"p/D".parse().unwrap()).unwrap_err().missing.as_deref(),
            Some(&"p/Header".parse().unwrap())
        );
        let told = closure(&c, "p/D").unwrap_err();
        assert!(
            told.starts_with("p/msg/D:2: the type p/msg/Header of 'header' is not defined; "),
            "{told}"
        );
        assert!(closure(&c, "p/Missing").unwrap_err().contains("p/msg/Missing: is not defined"));
        let chain: Vec<_> =
            (0..40).map(|i| (format!("p/M{i}"), format!("M{} next\n", i + 1))).collect();
        let texts: Vec<_> = chain
            .iter()
            .map(|(n, t)| (n.as_str(), t.as_str()))
            .chain([("p/M40", "int8 x")])
            .collect();
        assert!(closure(&catalog(&texts), "p/M0").unwrap_err().contains("nested more than 32"));
    }

    #[test]
    fn one_name_has_one_definition() {
        let mut c = catalog(&[("p/A", "int8 x # old\n")]);
        let name = "p/A".parse().unwrap();
        c.add_message(msg::parse_msg(&name, "again", "int8 x\n").unwrap()).unwrap();
        let told = c
            .add_message(msg::parse_msg(&name, "other", "int16 x\n").unwrap())
            .unwrap_err()
            .to_string();
        assert!(told.starts_with("other: p/msg/A is defined differently in p/msg/A; "), "{told}");
    }

    #[test]
    fn packages_are_read_from_their_directories() {
        let share = tempfile::tempdir().unwrap();
        let package = share.path().join("my_pkg");
        for kind in ["msg", "srv"] {
            std::fs::create_dir_all(package.join(kind)).unwrap();
        }
        let write = |at: &str, text: &str| std::fs::write(package.join(at), text).unwrap();
        write("msg/A.msg", "int8 x\n");
        write("msg/A.idl", "not read");
        write("msg/B.idl", "module my_pkg { module msg { struct B { my_pkg::msg::A a; }; }; };");
        write("srv/S.srv", "A a\n---\n");
        write("msg/README.txt", "");
        let mut c = Catalog::new();
        assert_eq!(c.add_package(&package).unwrap(), 3);
        assert_eq!(closure(&c, "my_pkg/B").unwrap(), ["my_pkg/msg/A", "my_pkg/msg/B"]);
        assert!(c.service(&"my_pkg/srv/S".parse().unwrap()).is_some());
        assert!(c.message(&"my_pkg/srv/S_Response".parse().unwrap()).is_some());
        assert_eq!(c.add_package(&share.path().join("none")).unwrap(), 0);
        std::fs::write(share.path().join("A.msg"), "int8 x\n").unwrap();
        let told = c.add_file(&share.path().join("A.msg")).unwrap_err().to_string();
        assert!(told.contains("does not end in package/msg/Name.msg"), "{told}");
        write("msg/Bad.msg", "int8 x\nint9 y\n");
        let told = c.add_package(&package).unwrap_err().to_string();
        assert!(told.contains("my_pkg/msg/Bad.msg:2: "), "{told}");
    }

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let share = tempfile::tempdir().unwrap();
        let msg = share.path().join("my_pkg/msg");
        std::fs::create_dir_all(msg.join("D.msg")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            msg.join("F.msg"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        std::fs::write(msg.join("B.msg"), b"int8 x # \xff\n").unwrap();
        let mut c = Catalog::new();
        for (file, says) in [
            ("D.msg", "it is a directory; put a file with the definition there"),
            ("F.msg", "it is not a regular file; put a file with the definition there"),
            ("N.msg", "; check the path and its permissions"),
            ("B.msg", "; it must be a text in UTF-8"),
        ] {
            let told = c.add_file(&msg.join(file)).unwrap_err().to_string();
            assert!(told.contains(": cannot be read: ") && told.contains(says), "{told}");
        }
        // The last character that is read is cut.
        std::fs::write(msg.join("L.msg"), format!("##{}", "é".repeat(MAX_TEXT_LEN))).unwrap();
        let told = c.add_file(&msg.join("L.msg")).unwrap_err().to_string();
        assert!(told.contains("at most") && !told.contains("UTF-8"), "{told}");
    }
}
