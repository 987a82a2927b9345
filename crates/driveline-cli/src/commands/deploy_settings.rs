// SPDX-License-Identifier: Apache-2.0
//! Settings that several deployment commands use.

use crate::arguments::Deploy;
use driveline_deploy::Mode;
use driveline_deploy::image::Images;
use driveline_terminal::version::{COMMIT, VERSION};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum time for a module to end: the launcher's grace period and one second. After it, the
/// module's process ends without waiting for hanging calls.
pub(super) const ENDS_WITHIN: Duration = Duration::from_secs(6);

/// Images of this build, made in a directory.
pub(super) fn images_in(host: &Path, directory: PathBuf) -> Images {
    // Only the commit itself, without the suffix `-dirty-…` or `-debug`: a suffix that changes with
    // each uncommitted change would change the digests of all images.
    let commit = COMMIT.split('-').next().unwrap_or(COMMIT);
    Images::new(host.to_owned(), VERSION, directory).of_revision(commit)
}

/// Returns the mode of deployment that the command line selects.
pub(super) fn mode(deploy: Deploy) -> Mode {
    match deploy {
        Deploy::Container => Mode::One,
        Deploy::Containers => Mode::Each,
    }
}
