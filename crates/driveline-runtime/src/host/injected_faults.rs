// SPDX-License-Identifier: Apache-2.0
//! Faults that the fault laboratory (`driveline chaos`) injects into a component's next call. Off
//! unless `DRIVELINE_FAULTS` names a directory
//! ([ADR 29](../../../../docs/adr/0029-fault-points.md)).
//!
//! The laboratory renames a file with the fault as its text to `DIRECTORY/module-NAME`. The first
//! call of a component of that module takes the file, and its absence is the acknowledgement.

use crate::component::ComponentFailure;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Environment variable with the directory of faults to inject.
pub const FAULTS_VARIABLE: &str = "DRIVELINE_FAULTS";
/// Text of an injected failure.
pub const INJECTED: &str = "exception of the fault laboratory (DRIVELINE_FAULTS)";

/// Descriptors and memory that injected faults hold until the process ends.
static HELD: Mutex<(Vec<Vec<u8>>, Vec<File>)> = Mutex::new((Vec::new(), Vec::new()));
static POINT: OnceLock<FaultPoint> = OnceLock::new();

/// A fault of a component's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The call does not end.
    Hang,
    /// The call panics, and fails.
    Exception,
    /// The process allocates and fills this number of MiB, and keeps them.
    Memory(u32),
    /// The process opens this number of descriptors, and keeps them.
    Descriptors(u32),
}

impl std::fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hang => f.write_str("hang"),
            Self::Exception => f.write_str("exception"),
            Self::Memory(mib) => write!(f, "memory {mib}"),
            Self::Descriptors(n) => write!(f, "descriptors {n}"),
        }
    }
}

impl FromStr for InjectedFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (name, count) = (words.next(), words.next().map(str::parse::<u32>));
        match (name, count) {
            (Some("hang"), None) => Ok(Self::Hang),
            (Some("exception"), None) => Ok(Self::Exception),
            (Some("memory"), Some(Ok(mib))) => Ok(Self::Memory(mib)),
            (Some("descriptors"), Some(Ok(n))) => Ok(Self::Descriptors(n)),
            _ => Err(format!(
                "'{text}' is no fault: write `hang`, `exception`, `memory MIB` or `descriptors \
                 COUNT`"
            )),
        }
    }
}

/// Place of the file for a module in the directory of faults.
#[must_use]
pub fn fault_file(directory: &Path, module: &str) -> PathBuf {
    directory.join(format!("module-{}", module.replace('/', "%")))
}

/// The file that a call of this process takes.
struct FaultPoint(PathBuf);

/// Checks for faults of this module from now on, if the environment names a directory for them.
pub(super) fn enable(module: &str) {
    if let Some(directory) = std::env::var_os(FAULTS_VARIABLE).filter(|d| !d.is_empty()) {
        let _ = POINT.set(FaultPoint(fault_file(Path::new(&directory), module)));
    }
}

/// Commits the fault that waits for this module, if one does. Called within a call of a component,
/// on its thread. Costs one atomic load, and one system call as well if faults are enabled.
///
/// # Errors
/// If the text of the file is no fault, or the fault cannot be committed.
///
/// # Panics
/// If the fault is an exception.
pub(super) fn commit() -> Result<(), ComponentFailure> {
    let Some(fault) = POINT.get().and_then(FaultPoint::take) else { return Ok(()) };
    fault.and_then(InjectedFault::commit).map_err(|text| ComponentFailure {
        text: format!("cannot inject a fault ({FAULTS_VARIABLE}): {text}"),
    })
}

impl FaultPoint {
    /// Of several threads, one gets the fault.
    fn take(&self) -> Option<Result<InjectedFault, String>> {
        let text = std::fs::read_to_string(&self.0).ok()?;
        std::fs::remove_file(&self.0).ok()?;
        Some(text.parse())
    }
}

impl InjectedFault {
    fn commit(self) -> Result<(), String> {
        let held = || HELD.lock().unwrap_or_else(PoisonError::into_inner);
        match self {
            Self::Hang => loop {
                std::thread::park();
            },
            // Unwinds as a panic does, without a message on standard error.
            Self::Exception => std::panic::resume_unwind(Box::new(INJECTED)),
            Self::Memory(mib) => held().0.extend((0..mib).map(|_| vec![1; 1 << 20])),
            Self::Descriptors(count) => {
                for _ in 0..count {
                    let file = File::open("/dev/null").map_err(|e| e.to_string())?;
                    held().1.push(file);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let point = FaultPoint(fault_file(dir.path(), "lane"));
        assert_eq!(point.take(), None);
        std::fs::write(&point.0, InjectedFault::Memory(7).to_string()).unwrap();
        assert_eq!(point.take(), Some(Ok(InjectedFault::Memory(7))));
        assert_eq!(point.take(), None, "the file is its acknowledgement");
    }

    #[test]
    fn faults_are_read_as_they_are_written_and_others_are_refused() {
        use InjectedFault::{Descriptors, Exception, Hang, Memory};
        for fault in [Hang, Exception, Memory(600), Descriptors(40)] {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        for text in ["", "hangs", "memory", "memory x", "hang 3"] {
            let refused = InjectedFault::from_str(text);
            assert!(refused.is_err_and(|e| e.contains("write `hang`")), "{text}");
        }
    }

    #[test]
    fn an_exception_unwinds_and_descriptors_stay_open() {
        let caught = std::panic::catch_unwind(|| InjectedFault::Exception.commit()).unwrap_err();
        assert_eq!(caught.downcast_ref::<&str>(), Some(&INJECTED));
        InjectedFault::Descriptors(3).commit().unwrap();
        assert!(HELD.lock().unwrap().1.len() >= 3);
    }
}
