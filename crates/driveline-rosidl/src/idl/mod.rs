// SPDX-License-Identifier: Apache-2.0
//! Reads the part of OMG IDL 4.2 that ROS 2 reads: modules, one struct for a message or two for a
//! service, constants, type definitions, annotations.

mod lexer;
mod parser;

use crate::MAX_TEXT_LEN;
use crate::definition::{Message, Service};
use crate::error::{DefinitionError, Place};
use std::sync::Arc;

/// Content of an `.idl` file.
#[derive(Clone, Debug, PartialEq)]
pub enum Interface {
    /// One struct.
    Message(Message),
    /// Two structs, `…_Request` and `…_Response`.
    Service(Service),
}

/// Reads the text of an `.idl`; its modules and structs give the names of the definitions. `file`
/// is named in errors.
///
/// # Errors
/// Returns the first mistake, with its line; also for IDL that ROS 2 does not support.
pub fn parse_idl(file: &str, text: &str) -> Result<Interface, DefinitionError> {
    let file: Arc<str> = Arc::from(file);
    if text.len() > MAX_TEXT_LEN {
        let problem =
            format!("{} bytes of definition, at most {MAX_TEXT_LEN} are read", text.len());
        return Err(DefinitionError::new(
            Place { file, line: 0 },
            problem,
            "split the file, or check that this is one",
        ));
    }
    parse_at(&file, text, 1)
}

/// `first` is the number of the text's first line.
pub(crate) fn parse_at(
    file: &Arc<str>,
    text: &str,
    first: u32,
) -> Result<Interface, DefinitionError> {
    let tokens = lexer::tokens(file, text, first)?;
    parser::Parser::new(file.clone(), &tokens).interface()
}
