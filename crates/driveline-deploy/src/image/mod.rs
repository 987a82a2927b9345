// SPDX-License-Identifier: Apache-2.0
//! Images of the files that a module loads: `driveline-host`, the core (`libdriveline.so`), the
//! module's component libraries, and all libraries that these need. The only other files are lists
//! of these files. No base image, no registry, no shell, no package manager; the same files give
//! the same digest everywhere.

mod archive;
mod closure;
mod contents;

pub(crate) use archive::hex;
pub use archive::{Image, Layer};
pub use closure::{ClosureError, Library, needed, parse_ldd};

use crate::engine::{Engine, EngineError};
use crate::{COMPONENTS_IN_IMAGE, HOST_IN_IMAGE};
use archive::Entry;
use closure::LIBRARIES;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Directory of programs in an image.
const PROGRAMS: &str = "/opt/driveline/bin";
/// Paths of the core in builds and installations, relative to the directory of `driveline-host`.
const CORE: [&str; 4] = [
    "libdriveline.so",
    "../lib/libdriveline.so.0",
    "../../lib/libdriveline.so.0",
    "../lib64/libdriveline.so.0",
];

/// An image could not be created.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The libraries that a program or library needs cannot be determined.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Two libraries would have the same name in the image.
    #[error(
        "two libraries are called {name}: {one} and {other}; rename one, or give the module an \
         `image:` of its own"
    )]
    Twice {
        /// Name.
        name: String,
        /// A file.
        one: PathBuf,
        /// Another one.
        other: PathBuf,
    },
    /// The engine does not load the image.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Returns this machine's architecture, in the notation of Go: `amd64`, `arm64`.
#[must_use]
pub fn architecture() -> &'static str {
    archive::architecture()
}

/// Contents of the images of one run. A layer is created once and used for all images that contain
/// it.
#[derive(Debug)]
pub struct Images {
    host: PathBuf,
    version: String,
    revision: Option<String>,
    directory: PathBuf,
    base: Option<(Layer, BTreeSet<PathBuf>)>,
    /// Layers by their files.
    layers: Vec<(BTreeMap<String, PathBuf>, Layer)>,
}

impl Images {
    /// Returns the images of modules that `host` runs. `directory` receives files of the size of
    /// the images; the caller removes it.
    #[must_use]
    pub fn new(host: PathBuf, version: &str, directory: PathBuf) -> Self {
        Self {
            host,
            version: version.to_owned(),
            revision: None,
            directory,
            base: None,
            layers: Vec::new(),
        }
    }

    /// Labels the images with the commit that Driveline was built from.
    #[must_use]
    pub fn of_revision(self, revision: &str) -> Self {
        Self { revision: Some(revision.to_owned()), ..self }
    }

    /// Returns the image of a module with these component libraries. Reads all files and writes
    /// them into layers; blocks.
    ///
    /// # Errors
    /// [`ImageError`].
    pub fn image(&mut self, components: &[PathBuf]) -> Result<Image, ImageError> {
        self.image_with(&[], components)
    }

    /// Returns the image of a collector: `programs` are the command-line tool and the gateways that
    /// it starts; the components are those of all modules, since the graph is checked against them.
    /// Reads all files and writes them into layers; blocks.
    ///
    /// # Errors
    /// [`ImageError`].
    pub fn collector(
        &mut self,
        programs: &[PathBuf],
        components: &[PathBuf],
    ) -> Result<Image, ImageError> {
        self.image_with(programs, components)
    }

    fn image_with(
        &mut self,
        programs: &[PathBuf],
        components: &[PathBuf],
    ) -> Result<Image, ImageError> {
        let (base, in_base) = self.base()?;
        let mut files = BTreeMap::new();
        for program in programs {
            add(&mut files, format!("{PROGRAMS}/{}", file_name(program)), program)?;
            for library in needed(program)? {
                if !in_base.contains(&PathBuf::from(library.in_image())) {
                    add(&mut files, library.in_image(), &library.path)?;
                }
            }
        }
        for component in components {
            let name = file_name(component);
            add(&mut files, format!("{COMPONENTS_IN_IMAGE}/{name}"), component)?;
            for library in needed(component)? {
                if !in_base.contains(&PathBuf::from(library.in_image())) {
                    add(&mut files, library.in_image(), &library.path)?;
                }
            }
        }
        let mut layers = vec![base];
        if !files.is_empty() {
            // Modules with the same libraries share the layer.
            let made = self.layers.iter().find(|(of, _)| *of == files).map(|(_, l)| l.clone());
            let layer = match made {
                Some(layer) => layer,
                None => {
                    let layer = self.layer(&files)?;
                    self.layers.push((files, layer.clone()));
                    layer
                }
            };
            layers.push(layer);
        }
        Ok(Image::new(layers, &self.version, self.revision.as_deref(), archive::architecture()))
    }

    /// Loads an image into the engine if it does not have it, and returns its name there. Blocks.
    ///
    /// # Errors
    /// [`ImageError`].
    pub fn provide(
        &self,
        engine: &Engine,
        image: &Image,
        repository: &str,
    ) -> Result<String, ImageError> {
        let name = format!("{repository}:{}", &image.id()[..12]);
        if engine.image(&name)?.is_some_and(|facts| facts.id == image.id()) {
            return Ok(name);
        }
        let path = self.directory.join("image.tar");
        image
            .write(&path, &name)
            .map_err(|source| ImageError::File { path: path.clone(), source })?;
        let loaded = engine.load(&path);
        let _ = std::fs::remove_file(&path);
        loaded?;
        Ok(name)
    }

    /// Returns the layer that all images contain, and the paths of its files: `driveline-host`, the
    /// core, and the libraries that these need.
    fn base(&mut self) -> Result<(Layer, BTreeSet<PathBuf>), ImageError> {
        if let Some(base) = &self.base {
            return Ok(base.clone());
        }
        let mut files = BTreeMap::new();
        add(&mut files, HOST_IN_IMAGE.to_owned(), &self.host)?;
        let mut roots = vec![self.host.clone()];
        if let Some(core) = core_of(&self.host) {
            add(&mut files, format!("{LIBRARIES}/libdriveline.so.0"), &core)?;
            roots.push(core);
        }
        for root in &roots {
            for library in needed(root)? {
                add(&mut files, library.in_image(), &library.path)?;
            }
        }
        let layer = self.layer(&files)?;
        let base = (layer, files.keys().map(PathBuf::from).collect());
        self.base = Some(base.clone());
        Ok(base)
    }

    fn layer(&self, files: &BTreeMap<String, PathBuf>) -> Result<Layer, ImageError> {
        let mut entries: Vec<Entry> = Vec::new();
        for (name, path) in files {
            entries.push(Entry::file(name, path));
        }
        let failed = |source| ImageError::File { path: self.directory.clone(), source };
        let list = contents::spdx(files, &self.version).map_err(failed)?;
        entries.push(Entry::text(&contents::name(files), list));
        Layer::write(&self.directory, entries).map_err(failed)
    }
}

/// Finds the core as `driveline-host` itself does.
fn core_of(host: &Path) -> Option<PathBuf> {
    let directory = host.parent()?;
    CORE.iter().map(|p| directory.join(p)).find(|p| p.is_file())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn add(files: &mut BTreeMap<String, PathBuf>, name: String, path: &Path) -> Result<(), ImageError> {
    let same = |a: &Path, b: &Path| {
        a == b || a.canonicalize().ok().is_some_and(|a| Some(a) == b.canonicalize().ok())
    };
    match files.get(&name) {
        Some(other) if !same(other, path) => {
            Err(ImageError::Twice { name, one: other.clone(), other: path.to_owned() })
        }
        _ => {
            files.insert(name, path.to_owned());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_of(files: &[(&str, &str)], components: &[&str]) -> (Image, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let mut images = Images::new(dir.path().join("host"), "1.0", dir.path().to_owned());
        let components: Vec<_> = components.iter().map(|c| dir.path().join(c)).collect();
        (images.image(&components).unwrap(), dir)
    }

    #[test]
    fn the_same_files_give_the_same_image_and_a_change_only_that_of_its_module() {
        let files = [("host", "host"), ("lane.so", "lane"), ("camera.so", "camera")];
        let lane = |text| {
            let files = [files[0], ("lane.so", text), files[2]];
            (image_of(&files, &["lane.so"]).0, image_of(&files, &["camera.so"]).0)
        };
        let (before, after) = (lane("lane"), lane("another lane"));
        assert_eq!(before.0.id(), lane("lane").0.id());
        assert_ne!(before.0.id(), after.0.id());
        assert_eq!(before.1.id(), after.1.id());
        assert_eq!(before.0.layers()[0], after.0.layers()[0], "the base is shared");
    }

    #[test]
    fn two_components_of_one_name_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for d in ["a", "b"] {
            std::fs::create_dir(dir.path().join(d)).unwrap();
            std::fs::write(dir.path().join(d).join("x.so"), d).unwrap();
        }
        std::fs::write(dir.path().join("host"), "").unwrap();
        let mut images = Images::new(dir.path().join("host"), "1", dir.path().to_owned());
        let both = [dir.path().join("a/x.so"), dir.path().join("b/x.so")];
        let text = images.image(&both).unwrap_err().to_string();
        assert!(text.contains("a/x.so") && text.contains("b/x.so"), "{text}");
    }
}
