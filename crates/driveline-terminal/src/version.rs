// SPDX-License-Identifier: Apache-2.0
//! Version and commit of this build.

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit that this program was built from; `unknown` outside of a git repository. `-dirty-` and
/// eight digits identify uncommitted changes. `-debug` means that the build is not optimised; such
/// a build does not report uncommitted changes.
pub const COMMIT: &str = env!("DRIVELINE_COMMIT");
