// SPDX-License-Identifier: Apache-2.0
//! How a measurement ends, for whoever started it.

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run is valid.
    Valid,
    /// Some runs are not, which the result shows.
    Invalid,
    /// Interrupted; what was measured until then is reported.
    Interrupted,
}

impl Ending {
    /// 0, 1, or 130 as shells have it.
    #[must_use]
    pub fn exit_code(self) -> std::process::ExitCode {
        std::process::ExitCode::from(match self {
            Self::Valid => 0,
            Self::Invalid => 1,
            Self::Interrupted => 130,
        })
    }
}
