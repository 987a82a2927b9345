// SPDX-License-Identifier: Apache-2.0
//! Kinds of faults, and the declarations that a module needs for them.

use crate::graph::ModuleFacts;
use driveline_graph::{Reaction, RestartPolicy};
use driveline_runtime::host::InjectedFault;
use serde::{Deserialize, Serialize};
use std::fmt;

/// MiB by which an injected fault exceeds `limits: memory`.
const MEMORY_BEYOND_MIB: u64 = 64;
/// Maximum MiB of the machine's memory that a fault may use.
const MAX_MEMORY_MIB: u64 = 4096;
/// Maximum number of descriptors that a fault opens: below the usual limit of a process.
const MAX_DESCRIPTORS: u32 = 900;

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// SIGKILL of a module's process.
    Kill,
    /// SIGSTOP of a module's process, and SIGCONT after a while.
    Stop,
    /// A call of a component that does not end.
    Hang,
    /// A call of a component that panics.
    Exception,
    /// A module uses more memory than `limits: memory`.
    Memory,
    /// A module opens more descriptors than `limits: descriptors`.
    Descriptors,
    /// The directory of the domain is removed while the graph runs.
    Directory,
    /// SIGSTOP of all processes of the run, and SIGCONT after a while: a suspended machine.
    Suspend,
    /// SIGKILL of the launcher. The run ends, and the next faults get a new run.
    Launcher,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Hang => "hang",
            Self::Exception => "exception",
            Self::Memory => "memory",
            Self::Descriptors => "descriptors",
            Self::Directory => "directory",
            Self::Suspend => "suspend",
            Self::Launcher => "launcher",
        })
    }
}

impl FaultKind {
    /// Faults of a module, in the order of the options.
    pub const OF_MODULES: [Self; 6] =
        [Self::Kill, Self::Stop, Self::Hang, Self::Exception, Self::Memory, Self::Descriptors];

    /// Returns true if the fault ends the module's process.
    #[must_use]
    pub fn ends_process(self) -> bool {
        matches!(self, Self::Kill | Self::Hang | Self::Memory | Self::Descriptors)
    }

    /// Returns a part of the cause with which the run's report must list this fault; `None` for
    /// kinds that the report does not list among its faults.
    #[must_use]
    pub fn cause(self) -> Option<&'static str> {
        match self {
            Self::Kill => Some("was killed by SIGKILL"),
            Self::Hang => Some("hangs"),
            Self::Memory => Some("memory"),
            Self::Descriptors => Some("descriptors"),
            Self::Stop | Self::Exception => None,
            Self::Directory | Self::Suspend | Self::Launcher => None,
        }
    }

    /// Returns the fault to inject at the fault point of the module's `driveline-host`; `None` for
    /// a fault that is caused from outside, such as a signal.
    ///
    /// # Errors
    /// The declaration that the module lacks, or the limit that is too high for the laboratory.
    pub fn injected(self, module: &ModuleFacts) -> Result<Option<InjectedFault>, String> {
        Ok(match self {
            Self::Hang => Some(InjectedFault::Hang),
            Self::Exception => Some(InjectedFault::Exception),
            Self::Memory => {
                let limit = module.memory.ok_or_else(|| self.lacks("limits: { memory: … }"))?;
                let mib = limit.div_ceil(1 << 20) + MEMORY_BEYOND_MIB;
                if mib > MAX_MEMORY_MIB {
                    return Err(format!(
                        "its `limits: memory` is {mib} MiB with what the fault adds; the \
                         laboratory takes at most {MAX_MEMORY_MIB} MiB"
                    ));
                }
                Some(InjectedFault::Memory(u32::try_from(mib).unwrap_or(u32::MAX)))
            }
            Self::Descriptors => {
                let limit =
                    module.descriptors.ok_or_else(|| self.lacks("limits: { descriptors: … }"))?;
                if limit >= MAX_DESCRIPTORS {
                    return Err(format!(
                        "its `limits: descriptors` is {limit}; the laboratory opens at most \
                         {MAX_DESCRIPTORS}, less than `ulimit -n` usually allows"
                    ));
                }
                Some(InjectedFault::Descriptors(limit + 1))
            }
            Self::Kill | Self::Stop => None,
            Self::Directory | Self::Suspend | Self::Launcher => None,
        })
    }

    fn lacks(self, key: &str) -> String {
        format!("it lacks `{key}`, which a {self} fault exceeds")
    }

    /// Checks that a module can get this fault and react to it.
    ///
    /// # Errors
    /// The reason why it cannot, and the key of the graph that makes it possible.
    pub fn check(self, module: &ModuleFacts) -> Result<(), String> {
        self.injected(module)?;
        let restarts = module.policy != RestartPolicy::Never;
        match self {
            Self::Kill if !restarts => Err(
                "the graph does not restart it, so it stays down after one; add `restart: { \
                 policy: on_failure }`"
                    .to_owned(),
            ),
            Self::Hang if module.on_hang != Some(Reaction::Restart) => Err(
                "the graph does not restart it when it hangs, so the call would hang for ever; add \
                 `on_hang: restart`"
                    .to_owned(),
            ),
            Self::Memory | Self::Descriptors if module.on_limit != Reaction::Restart => Err(
                "the graph does not restart it beyond a limit, so it would stay beyond; add \
                 `on_limit: restart`"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }
}

/// Returns a text about the faults that a module can get.
#[must_use]
pub fn available(module: &ModuleFacts) -> String {
    let kinds = FaultKind::OF_MODULES.iter().filter(|kind| kind.check(module).is_ok());
    let kinds: Vec<String> = kinds.map(ToString::to_string).collect();
    format!("module '{}' can get: {}", module.name, kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_the_graph_cannot_answer_is_refused_with_the_key() {
        let module = ModuleFacts::named("lane");
        let refused = |kind: FaultKind| kind.check(&module).unwrap_err();
        assert!(refused(FaultKind::Kill).contains("restart: { policy: on_failure }"));
        assert!(refused(FaultKind::Hang).contains("on_hang: restart"));
        assert!(refused(FaultKind::Memory).contains("limits: { memory"));
        assert!(refused(FaultKind::Descriptors).contains("limits: { descriptors"));
        assert_eq!(available(&module), "module 'lane' can get: stop, exception");
    }

    #[test]
    fn a_module_with_the_keys_gets_every_fault_and_limits_are_exceeded() {
        let module = ModuleFacts {
            policy: RestartPolicy::OnFailure,
            on_hang: Some(Reaction::Restart),
            on_limit: Reaction::Restart,
            memory: Some(100 << 20),
            descriptors: Some(40),
            ..ModuleFacts::named("lane")
        };
        for kind in FaultKind::OF_MODULES {
            assert_eq!(kind.check(&module), Ok(()), "{kind}");
        }
        assert_eq!(FaultKind::Memory.injected(&module), Ok(Some(InjectedFault::Memory(164))));
        let more = InjectedFault::Descriptors(41);
        assert_eq!(FaultKind::Descriptors.injected(&module), Ok(Some(more)));
        let large = ModuleFacts { memory: Some(1 << 40), ..module };
        assert!(FaultKind::Memory.check(&large).unwrap_err().contains("at most 4096 MiB"));
    }
}
