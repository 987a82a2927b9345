// SPDX-License-Identifier: Apache-2.0
//! Settings that the commands on deployments share.

use crate::arguments::Deploy;
use driveline_deploy::Mode;
use driveline_deploy::image::Images;
use driveline_terminal::version::{COMMIT, VERSION};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that a module may take to end before its process gives up: the launcher's grace period and
/// a second.
pub(super) const ENDS_WITHIN: Duration = Duration::from_secs(6);

/// Images that hold this build, made in a directory.
pub(super) fn images_in(host: &Path, directory: PathBuf) -> Images {
    // Changes that are not committed yet must not move the digests of all images.
    let commit = COMMIT.split('-').next().unwrap_or(COMMIT);
    Images::new(host.to_owned(), VERSION, directory).of_revision(commit)
}

/// Mode of deployment that the command line names.
pub(super) fn mode(deploy: Deploy) -> Mode {
    match deploy {
        Deploy::Container => Mode::One,
        Deploy::Containers => Mode::Each,
    }
}
