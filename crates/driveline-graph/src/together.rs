// SPDX-License-Identifier: Apache-2.0
//! Checks that the libraries of a module can be loaded into one process: each can be loaded alone,
//! but perhaps not together.

use super::diagnostic::Diagnostic;
use super::files::Part;
use super::library::{DescribeError, Environment};
use super::resolve::{At, Resolver};
use super::resolved::ResolvedModule;
use std::path::{Path, PathBuf};

/// Message of protobuf before it ends the program: the code of one `.proto` file was loaded twice.
const TWICE: &str = "File already exists in database: ";

/// A library of a module, and the first component that names it.
struct Named<'a> {
    path: &'a Path,
    component: &'a str,
}

impl Named<'_> {
    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Resolver<'_> {
    /// Loads the libraries of a module together, in a separate process. Reports two libraries that
    /// cannot be loaded together.
    pub(super) fn together(&mut self, document: usize, module: &ResolvedModule) {
        let mut named: Vec<Named<'_>> = Vec::new();
        for c in &module.components {
            if !named.iter().any(|n| n.path == c.library) {
                named.push(Named { path: &c.library, component: c.name.as_str() });
            }
        }
        if named.len() < 2 {
            return;
        }
        let paths: Vec<PathBuf> = named.iter().map(|n| n.path.to_owned()).collect();
        let Err((second, error)) = self.options.describe.together(&paths, &module.environment)
        else {
            return;
        };
        let Some(last) = named.get(second) else { return };
        let first = self.culprit(&paths, second, &module.environment);
        let others = first.map_or(&named[..second], |first| std::slice::from_ref(&named[first]));
        let names = others.iter().map(|n| format!("`{}`", n.name())).collect::<Vec<_>>().join(", ");
        let (reason, help) = explained(&error);
        let at = |component| At { document, module: module.name.as_str(), component };
        let place = self.place(&at(last.component), &["library"], Part::Value);
        let mut d = Diagnostic::error(format!(
            "the libraries {names} and `{}` of the module `{}` cannot be loaded into one process: \
             {reason}",
            last.name(),
            module.name
        ))
        .at(place);
        for other in others {
            d = d.related(
                "loaded before it",
                self.place(&at(other.component), &["library"], Part::Value),
            );
        }
        self.files.error(d.help(help));
    }

    /// Returns the index of the earlier library that prevents the library `second` from being
    /// loaded, if one alone prevents it.
    fn culprit(
        &self,
        paths: &[PathBuf],
        second: usize,
        environment: &Environment,
    ) -> Option<usize> {
        if second == 1 {
            return Some(0);
        }
        (0..second).find(|&first| {
            let pair = [paths[first].clone(), paths[second].clone()];
            self.options.describe.together(&pair, environment).is_err()
        })
    }
}

/// The reason and the remedy, for people.
fn explained(error: &DescribeError) -> (String, String) {
    let proto =
        error.reason.lines().find_map(|line| line.split_once(TWICE)).map(|(_, name)| name.trim());
    match proto {
        Some(proto) => (
            format!("both contain the code of `{proto}`, which protobuf accepts once in a process"),
            format!(
                "put the code of `{proto}` into a shared library of its own and link both to it \
                 (CMake: `driveline_add_messages(my_msgs {proto})`, then `target_link_libraries(… \
                 my_msgs)`), or put the components into two modules"
            ),
        ),
        None => {
            let help = error.help.clone().unwrap_or_else(|| {
                "put the components into two modules, which are two processes".to_owned()
            });
            (error.reason.clone(), help)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Describe, LoadOptions, Loaded, load};
    use super::*;
    use crate::descriptor::ComponentClass;
    use crate::fixture::{Fixture, describe, finds};

    /// Two of its libraries cannot be loaded together.
    struct Quarrel(&'static str);

    impl Describe for Quarrel {
        fn describe(
            &self,
            _: &Path,
            _: &Environment,
        ) -> Result<Vec<ComponentClass>, DescribeError> {
            describe(Path::new("libdemo.so"))
        }

        fn together(
            &self,
            paths: &[PathBuf],
            environment: &Environment,
        ) -> Result<(), (usize, DescribeError)> {
            assert_eq!(environment["A"], "1", "as the module has it");
            let at = |name: &str| paths.iter().position(|p| p.ends_with(name));
            match (at("libdemo.so"), at("libbroken.so")) {
                (Some(first), Some(second)) => Err((
                    first.max(second),
                    DescribeError { reason: self.0.to_owned(), help: None },
                )),
                _ => Ok(()),
            }
        }
    }

    fn graph_of(reason: &'static str, libraries: &[&str]) -> Loaded {
        let component = |(i, library): (usize, &&str)| {
            format!("      c{i}: {{library: {library}, class: Camera}}\n")
        };
        let components: String = libraries.iter().enumerate().map(component).collect();
        let text = format!(
            "driveline: 1\nmodules:\n  m:\n    environment: {{A: \"1\"}}\n    \
             components:\n{components}"
        );
        let f = Fixture::new(&[("g.yaml", &text), ("libthird.so", "")]);
        load(
            &f.path().join("g.yaml"),
            &LoadOptions { library_dirs: vec![], ..LoadOptions::new(&Quarrel(reason)) },
        )
    }

    #[test]
    fn two_libraries_with_the_code_of_one_proto_file_are_named_with_the_remedy() {
        let protobuf = "[libprotobuf ERROR x.cc:642] File already exists in database: \
             own.proto\n[libprotobuf FATAL y.cc:1984] CHECK failed";
        let loaded =
            graph_of(protobuf, &["libdemo.so", "libthird.so", "libdemo.so", "libbroken.so"]);
        finds(
            &loaded,
            &[(
                9,
                "the libraries `libdemo.so` and `libbroken.so` of the module `m` cannot be loaded \
                 into one process: both contain the code of `own.proto`",
                "driveline_add_messages(my_msgs own.proto)",
            )],
        );
        let related: Vec<_> =
            loaded.diagnostics.iter().flat_map(|d| &d.related).map(|r| r.place.span.line).collect();
        assert_eq!(related, [6]);
    }

    #[test]
    fn whatever_else_keeps_two_from_one_process_is_said_with_the_way_out() {
        finds(
            &graph_of("was killed by SIGSEGV", &["libbroken.so", "libdemo.so"]),
            &[(7, "into one process: was killed by SIGSEGV", "two modules")],
        );
        assert_eq!(graph_of("", &["libdemo.so", "libthird.so"]).diagnostics.errors(), 0);
        assert_eq!(graph_of("", &["libdemo.so", "libdemo.so"]).diagnostics.errors(), 0);
    }
}
