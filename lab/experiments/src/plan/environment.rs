// SPDX-License-Identifier: Apache-2.0
//! Environment variables for the stages of a chain. Their files are checked before the first run,
//! so that no stage fails in the middle of a run.

use crate::scenario::{Reads, StageSpec};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Returns the parameters of a stage's work, with values from the environment.
pub(super) fn parameters(
    stage: &StageSpec,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<serde_json::Map<String, serde_json::Value>> {
    let mut all = stage.parameters.clone();
    for (parameter, variable) in &stage.environment {
        let Some(value) = environment(variable).filter(|v| !v.is_empty()) else { continue };
        let text = value
            .to_str()
            .with_context(|| format!("the environment variable {variable} is no UTF-8 text"))?;
        if let Some((why, remedy)) =
            stage.reads.get(parameter).and_then(|reads| unreadable(*reads, text))
        {
            let from = std::env::current_dir()
                .map(|dir| format!(" (looked from {})", dir.display()))
                .unwrap_or_default();
            let from = if Path::new(text).is_absolute() { String::new() } else { from };
            bail!(
                "{variable}={text}{from}: {why}: name {remedy}, or leave {variable} unset: \
                 then the stage uses its default"
            );
        }
        // Stores absolute paths: the measurement may be continued from another directory.
        let whole = fs::canonicalize(text).ok().and_then(|path| path.to_str().map(str::to_owned));
        all.insert(parameter.clone(), whole.unwrap_or_else(|| text.to_owned()).into());
    }
    Ok(all)
}

/// Returns the reason why this cannot be read, and the remedy; `None` if it can.
fn unreadable(reads: Reads, text: &str) -> Option<(String, &'static str)> {
    let remedy = match reads {
        Reads::File => "a file that can be read",
        Reads::Frames => {
            "a video or a folder of images that can be read, the index of a camera, or `synthetic`"
        }
    };
    // The camera of the perception pipeline has the same rule: an existing file takes precedence
    // over a number.
    let is_word = text == "synthetic"
        || text.starts_with("synthetic:")
        || text.parse::<u16>().is_ok_and(|index| index < 1000);
    let why = match fs::metadata(text) {
        Ok(found) if found.is_dir() && reads == Reads::Frames => {
            fs::read_dir(text).err().map(|e| e.to_string())
        }
        Ok(found) if found.is_dir() => Some("it is a directory".into()),
        // Opening a socket fails immediately, so it is tried too.
        Ok(found) if found.is_file() || found.file_type().is_socket() => {
            File::open(text).err().map(|e| e.to_string())
        }
        // Does not open anything else, such as a device or a pipe: opening could block, or consume
        // data.
        Ok(_) => None,
        Err(_) if reads == Reads::Frames && is_word => None,
        Err(e) => Some(e.to_string()),
    };
    Some((why?, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;
    use std::os::unix::fs::PermissionsExt as _;

    fn stage(id: &str, name: &str) -> StageSpec {
        scenario::load(id).unwrap().chain.unwrap().stages[name].clone()
    }

    fn refused(stage: &StageSpec, variable: &str, value: &Path) -> Option<String> {
        parameters(stage, |v| (v == variable).then(|| value.as_os_str().to_owned()))
            .err()
            .map(|e| format!("{e:#}"))
    }

    #[test]
    fn files_of_the_environment_that_cannot_be_read_are_refused_with_variable_path_and_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a file");
        fs::write(&file, "").unwrap();
        let absent = dir.path().join("absent");
        let (camera, yolo, lidar, map) = (
            stage("W9", "camera"),
            stage("W9", "yolo"),
            stage("S7", "lidar"),
            stage("S7", "localization"),
        );
        let all = [
            (&camera, "COMP_VIDEO", true),
            (&yolo, "COMP_MODEL", false),
            (&yolo, "COMP_WEIGHTS", false),
            (&yolo, "COMP_NAMES", false),
            (&lidar, "S7_CLOUD", false),
            (&map, "S7_CLOUD", false),
        ];
        for (stage, variable, takes_folders) in all {
            let text = refused(stage, variable, &absent).unwrap_or_else(|| panic!("{variable}"));
            assert!(
                text.starts_with(&format!("{variable}={}: No such file", absent.display())),
                "{text}"
            );
            assert!(text.contains(&format!("or leave {variable} unset")), "{text}");
            assert_eq!(refused(stage, variable, dir.path()).is_none(), takes_folders, "{variable}");
            assert_eq!(refused(stage, variable, &file), None);
        }
        assert!(
            refused(&yolo, "COMP_MODEL", dir.path())
                .unwrap()
                .contains("it is a directory: name a file")
        );
        let relative = refused(&yolo, "COMP_MODEL", Path::new("no/such.cfg")).unwrap();
        assert!(relative.starts_with("COMP_MODEL=no/such.cfg (looked from /"), "{relative}");
        for word in ["synthetic", "synthetic:250", "0"] {
            assert_eq!(refused(&camera, "COMP_VIDEO", Path::new(word)), None);
            assert!(refused(&yolo, "COMP_MODEL", Path::new(word)).is_some(), "{word}");
        }
    }

    #[test]
    fn a_file_that_may_not_be_read_is_refused_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("locked.ply");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        // Root may read any file, so for root the test uses a socket, which cannot be opened as a
        // file.
        let (file, why) = if File::open(&file).is_err() {
            (file, "Permission denied")
        } else {
            let socket = dir.path().join("socket.ply");
            drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
            (socket, "No such device or address")
        };
        let said = refused(&stage("S7", "lidar"), "S7_CLOUD", &file).unwrap();
        assert!(said.contains(why), "{said}");
    }
}
