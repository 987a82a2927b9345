// SPDX-License-Identifier: Apache-2.0
//! Images as files that every engine loads (`docker save` format): layers, a configuration, and a
//! list of both. No byte depends on the time or place of their creation.

use crate::{COMPONENTS_IN_IMAGE, HOST_IN_IMAGE};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tar::{Builder, EntryType, Header};

/// Environment variable with the time of files and images, in seconds since 1970; 0 if not set.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// An entry of a layer.
pub(super) struct Entry {
    /// Absolute path in the image.
    name: String,
    from: From,
}

enum From {
    File(PathBuf),
    Text(String),
}

impl Entry {
    pub(super) fn file(name: &str, path: &Path) -> Self {
        Self { name: name.to_owned(), from: From::File(path.to_owned()) }
    }

    pub(super) fn text(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), from: From::Text(text) }
    }
}

/// Files of an image. The file that contains the layer is removed with the last reference to it.
#[derive(Clone, Debug)]
pub struct Layer {
    digest: String,
    file: Arc<LayerFile>,
}

impl PartialEq for Layer {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

#[derive(Debug)]
struct LayerFile(PathBuf);

impl Drop for LayerFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Layer {
    /// Writes a layer into a file in `directory`.
    pub(super) fn write(directory: &Path, mut entries: Vec<Entry>) -> io::Result<Self> {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let path = directory.join(format!("{}.layer", driveline_types::EndpointId::random()?));
        let file = LayerFile(path);
        let mut out = Builder::new(Hashing { out: File::create(&file.0)?, hash: Sha256::new() });
        let mut made = BTreeSet::new();
        for entry in &entries {
            let name = entry.name.trim_start_matches('/');
            make_parents(&mut out, name, &mut made)?;
            put(&mut out, name, &entry.from)?;
        }
        let Hashing { hash, .. } = out.into_inner()?;
        Ok(Self { digest: hex(&hash.finalize()), file: Arc::new(file) })
    }

    /// Returns the SHA-256 of the layer.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

struct Hashing<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(epoch());
    header
}

fn make_parents<W: Write>(
    out: &mut Builder<W>,
    name: &str,
    made: &mut BTreeSet<String>,
) -> io::Result<()> {
    for (at, _) in name.match_indices('/') {
        let parent = &name[..at];
        if made.insert(parent.to_owned()) {
            let mut header = header(EntryType::Directory, 0o755, 0);
            out.append_data(&mut header, format!("{parent}/"), io::empty())?;
        }
    }
    Ok(())
}

fn put<W: Write>(out: &mut Builder<W>, name: &str, from: &From) -> io::Result<()> {
    match from {
        From::Text(text) => {
            let mut header = header(EntryType::Regular, 0o644, text.len() as u64);
            out.append_data(&mut header, name, text.as_bytes())
        }
        From::File(path) => {
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            let file = File::open(path).map_err(named)?;
            let meta = file.metadata().map_err(named)?;
            let executable = meta.permissions().mode() & 0o111 != 0;
            let mode = if executable { 0o755 } else { 0o644 };
            let mut header = header(EntryType::Regular, mode, meta.len());
            // A file that grows in the meantime must not shift the following data.
            out.append_data(&mut header, name, BufReader::new(file).take(meta.len())).map_err(named)
        }
    }
}

/// An image: layers, and the defaults of its containers.
#[derive(Clone, Debug)]
pub struct Image {
    layers: Vec<Layer>,
    config: String,
    id: String,
}

impl Image {
    pub(super) fn new(
        layers: Vec<Layer>,
        version: &str,
        revision: Option<&str>,
        architecture: &str,
    ) -> Self {
        let mut labels = json!({
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.title": "Driveline module",
        });
        if let Some(revision) = revision {
            labels["org.opencontainers.image.revision"] = json!(revision);
        }
        let created = timestamp(epoch());
        let digests: Vec<_> = layers.iter().map(|l| format!("sha256:{}", l.digest)).collect();
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": format!("{0}:{0}", crate::DEFAULT_USER),
                "Env": [
                    "PATH=/opt/driveline/bin",
                    format!("LD_LIBRARY_PATH={}:{COMPONENTS_IN_IMAGE}", super::closure::LIBRARIES),
                    format!("DRIVELINE_COMPONENT_PATH={COMPONENTS_IN_IMAGE}"),
                ],
                "Entrypoint": [HOST_IN_IMAGE],
                "WorkingDir": "/",
                "Labels": labels,
            },
            "rootfs": { "type": "layers", "diff_ids": digests },
            "history": layers.iter().map(
                |_| json!({ "created": created, "created_by": "driveline deploy" })
            ).collect::<Vec<_>>(),
        });
        let config = config.to_string();
        let id = hex(&Sha256::digest(config.as_bytes()));
        Self { layers, config, id }
    }

    /// Returns the digest of the configuration, which names all layers: the image's id in every
    /// engine.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns its layers, the base first.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Writes the archive that engines load; `name` is the image's name there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path, name: &str) -> io::Result<()> {
        let mut out = Builder::new(io::BufWriter::new(File::create(path)?));
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = header(EntryType::Regular, 0o644, bytes.len() as u64);
            out.append_data(&mut header, name, bytes)
        };
        let config = format!("{}.json", self.id);
        let layers: Vec<_> =
            self.layers.iter().map(|l| format!("{}/layer.tar", l.digest)).collect();
        add(&config, self.config.as_bytes())?;
        let manifest = json!([{ "Config": config, "RepoTags": [name], "Layers": layers }]);
        add("manifest.json", manifest.to_string().as_bytes())?;
        for (layer, name) in self.layers.iter().zip(&layers) {
            let file = File::open(&layer.file.0)?;
            let mut header = header(EntryType::Regular, 0o644, file.metadata()?.len());
            out.append_data(&mut header, name, BufReader::new(file))?;
        }
        out.into_inner()?.flush()
    }
}

/// Returns this machine's architecture, in the notation of Go.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn epoch() -> u64 {
    std::env::var(EPOCH).ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0)
}

/// Formats seconds since 1970 as RFC 3339 in UTC.
fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Converts days to a date; from H. Hinnant, "chrono-compatible low-level date algorithms".
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_what_engines_look_for() {
        let dir = tempfile::tempdir().unwrap();
        let layer = Layer::write(dir.path(), vec![Entry::text("/etc/a", "b".into())]).unwrap();
        let image = Image::new(vec![layer], "1.0", Some("abc"), "amd64");
        let path = dir.path().join("x.tar");
        image.write(&path, "localhost/x:1").unwrap();
        let mut archive = tar::Archive::new(File::open(&path).unwrap());
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|e| e.unwrap().path().unwrap().display().to_string())
            .collect();
        let digest = image.layers()[0].digest();
        assert_eq!(
            names,
            [format!("{}.json", image.id()), "manifest.json".into(), format!("{digest}/layer.tar")]
        );
        let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(files.len(), 2);
        drop(image);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the layer's file is gone");
    }

    #[test]
    fn times_are_written_as_engines_read_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
        ] {
            assert_eq!(timestamp(seconds), text);
        }
    }
}
