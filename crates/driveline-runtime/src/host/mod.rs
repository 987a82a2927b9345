// SPDX-License-Identifier: Apache-2.0
//! One module of a graph in this process.
//!
//! [`main`] is the main function of an executable that runs modules: `driveline-host` is one for
//! C++ components in shared libraries, and a program with components compiled in becomes one by
//! passing its own [`ComponentLoader`].
//!
//! ```text
//! HOST run --graph GRAPH --module NAME [--set component.parameter=value]… [--stop-within-ms N]
//!          [--account-stdin | --account-socket PATH] [--control PATH] [--carried TOPIC,…]
//!          [--default-user UID]
//! HOST contain --account-socket PATH …
//! HOST hold --launcher-socket PATH
//! HOST describe LIBRARY
//! HOST load LIBRARY…
//! ```
//! With `--account-stdin`, standard input is a stream socket to the parent process. The module
//! writes its account to it ([`crate::account`]) and reads commands from it: the components start
//! at the line `go`. When the parent closes the socket, the module ends, or continues in the mode
//! that `on_launcher_lost` of the graph names. `--account-socket` names a socket of the launcher
//! with the same stream. Without both the module starts at once and ends on SIGINT, SIGTERM, or
//! when a component has finished. `--control` names the launcher's socket
//! ([`crate::launch::control`]), which the process removes if the launcher has died.
//!
//! No component can keep the process from ending: if a callback hangs, the process ends without it
//! when the time for stopping has passed, or, without a launcher, at a second signal.

mod arguments;
mod changes;
mod contain;
mod crash;
pub mod exit;
pub(crate) mod failures;
mod injected_faults;
pub(crate) mod instance;
mod launcher_socket;
pub(crate) mod output;
mod pulse;
mod real_time;
mod run;
mod transitions;
mod usage;
mod watch;
mod without_launcher;
pub(crate) mod words;

pub use arguments::USAGE;
pub use injected_faults::{FAULTS_VARIABLE, INJECTED, InjectedFault, fault_file};
pub use real_time::{idle_state_refusal, lock_memory, memory_lock_refusal};
pub use run::{HostError, HostOptions, process_name, run};
pub(crate) use watch::ONE_INTERRUPT;

use crate::component::ComponentLoader;
use arguments::Command;
use driveline_graph::Colour;
use std::ffi::OsString;
use std::io::IsTerminal;

/// Runs `driveline-host` with the arguments (without the program's name) and returns the exit code.
/// Messages go to standard error. Blocks until the module has ended.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>, loader: &dyn ComponentLoader) -> u8 {
    match arguments::parse(arguments) {
        Err(message) => {
            output::log(format_args!("{message}\n\n{USAGE}"));
            exit::USAGE
        }
        Ok(Command::Help) => {
            output::print(USAGE);
            exit::DONE
        }
        Ok(Command::Describe { library }) => describe(&library, loader),
        Ok(Command::Load { libraries }) => load(&libraries, loader),
        Ok(Command::Contain(arguments, options)) => contain::contain(&arguments, &options),
        Ok(Command::Hold(launcher)) => contain::hold(&launcher),
        Ok(Command::Run(options)) => match run(&options, loader) {
            Ok(()) => exit::DONE,
            Err(HostError::Graph(diagnostics)) => {
                let colour = if std::io::stderr().is_terminal() { Colour::Yes } else { Colour::No };
                output::log(diagnostics.render(colour).trim_end());
                exit::GRAPH
            }
            Err(e) => {
                output::log(format_args!("error: {e}"));
                exit::FAILED
            }
        },
    }
}

/// Loads libraries one after the other, each with a line before it.
fn load(libraries: &[std::path::PathBuf], loader: &dyn ComponentLoader) -> u8 {
    for library in libraries {
        output::print(format_args!("loading {}", library.display()));
        if let Err(e) = loader.load(library) {
            output::log(e.text);
            return exit::FAILED;
        }
    }
    exit::DONE
}

/// Ends this process at once, without destructors and exit handlers: for code of a component
/// library that has left the process in a state in which neither can run, such as an exception out
/// of the dynamic linker. `text` is written to standard error and is the cause in the launcher's
/// account.
pub fn end_at_once(text: &str) -> ! {
    crash::report_failure(text);
    signal_hook::low_level::exit(i32::from(exit::FAILED))
}

fn describe(library: &std::path::Path, loader: &dyn ComponentLoader) -> u8 {
    let text = loader
        .load(library)
        .map_err(|e| e.text)
        .and_then(|l| serde_json::to_string(&l.classes()).map_err(|e| e.to_string()));
    match text {
        Ok(text) => {
            output::print(text);
            exit::DONE
        }
        Err(text) => {
            output::log(text);
            exit::FAILED
        }
    }
}
