// SPDX-License-Identifier: Apache-2.0
//! Terminal support of this project's commands.
//!
//! - [`screen`]: standard output and standard error, with or without colours;
//! - [`signals`]: requests to end a command;
//! - [`version`]: the version and the commit of this build;
//! - [`figures`]: numbers with their units; [`table`]: columns; [`paragraphs`]: lines of words.
//!
//! Not here: arguments, exit codes, and the texts themselves.

pub mod figures;
pub mod paragraphs;
pub mod screen;
pub mod signals;
pub mod table;
pub mod version;
