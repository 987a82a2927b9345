// SPDX-License-Identifier: Apache-2.0
//! Version and commit of this build.

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit that it was built from. `-dirty-` and eight digits: other changes were built in, and
/// which ones. `-debug`: it is not optimised.
pub const COMMIT: &str = env!("DRIVELINE_COMMIT");
