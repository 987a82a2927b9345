// SPDX-License-Identifier: Apache-2.0
//! Version and commit of this build.

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit that this program was built from. `-dirty-` and eight digits identify uncommitted
/// changes; `-debug` means that the build is not optimised.
pub const COMMIT: &str = env!("DRIVELINE_COMMIT");
