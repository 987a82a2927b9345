// SPDX-License-Identifier: Apache-2.0
//! Schemas: what a topic carries.

use crate::status::*;
use driveline_types::{PayloadKind, PlainLayout, Schema};
use std::borrow::Cow;
use std::ffi::c_char;

/// Representation of a payload.
#[repr(C)]
pub enum dl_payload_kind {
    /// C-layout head with at most one trailing array; read in place.
    DL_KIND_PLAIN = 0,
    /// Protocol buffers; a pointer inside a process, bytes outside.
    DL_KIND_PROTOBUF = 1,
    /// Any value of one language; process reach only.
    DL_KIND_OBJECT = 2,
    /// Bytes with an encoding that Driveline does not interpret.
    DL_KIND_BYTES = 3,
}

/// The identity of a payload type. Immutable; any thread.
pub struct dl_schema {
    pub(crate) schema: Schema,
}

/// Text that is not NUL-terminated. Borrowed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dl_text {
    /// UTF-8, not NUL-terminated; never NULL.
    pub data: *const c_char,
    /// Length in bytes.
    pub len: usize,
}

impl dl_text {
    pub(crate) fn of(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), len: text.len() }
    }
}

/// The schema of a payload type. `kind`: a `dl_payload_kind`.
///
/// Plain: `definition` is the canonical layout text, which is checked; `name` must be the one in
/// it, or NULL; `encoding` is NULL. Protobuf: `name` is the message's full name and `definition`
/// its canonical definition; `encoding` is NULL. Object: `definition` identifies the type within
/// the language (may be NULL); `encoding` names the language. Bytes: `encoding` names the format;
/// `definition` describes it (may be NULL). `*schema`: owned by the caller, to be given to
/// `dl_schema_drop`.
///
/// # Safety
/// Strings are NULL or NUL-terminated; `schema` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_schema_new(
    kind: u32,
    name: *const c_char,
    encoding: *const c_char,
    definition: *const c_char,
    schema: *mut *mut dl_schema,
) -> dl_status {
    guard(|| {
        place("schema", schema)?;
        // SAFETY: this function's contract.
        let (name, encoding, definition) = unsafe {
            (
                optional_text("name", name)?,
                optional_text("encoding", encoding)?,
                optional_text("definition", definition)?,
            )
        };
        let made = dl_schema { schema: build(kind, name, encoding, definition)? };
        // SAFETY: this function's contract.
        unsafe { put("schema", schema, Box::into_raw(Box::new(made))) }
    })
}

fn build(
    kind: u32,
    name: Option<&str>,
    encoding: Option<&str>,
    definition: Option<&str>,
) -> Outcome<Schema> {
    let malformed = |text: String| Failure::new(DL_ERROR_SCHEMA, text);
    let length = definition.map_or(0, str::len);
    if length > Schema::MAX_DEFINITION_LEN {
        return Err(malformed(format!(
            "the definition has {length} bytes; at most {} are possible",
            Schema::MAX_DEFINITION_LEN
        )));
    }
    let missing = |what: &str| {
        Failure::argument(format_args!(
            "argument '{what}' is NULL, and this kind of payload needs it"
        ))
    };
    let owned = |text: &str| Cow::<'static, str>::Owned(text.to_owned());
    match kind {
        0 => {
            let layout: PlainLayout = definition
                .ok_or_else(|| missing("definition"))?
                .parse()
                .map_err(|e| malformed(format!("{e}")))?;
            match name {
                Some(n) if n != layout.name => Err(malformed(format!(
                    "the schema is called '{n}', but its definition '{}'",
                    layout.name
                ))),
                _ => Ok(Schema::plain(&layout)),
            }
        }
        1 => Ok(Schema::protobuf(
            owned(name.ok_or_else(|| missing("name"))?),
            owned(definition.ok_or_else(|| missing("definition"))?),
        )),
        2 | 3 => {
            let kind = if kind == 2 { PayloadKind::Object } else { PayloadKind::Bytes };
            let (name, encoding) = (
                name.ok_or_else(|| missing("name"))?,
                encoding.ok_or_else(|| missing("encoding"))?,
            );
            Ok(Schema {
                kind,
                name: owned(name),
                encoding: owned(encoding),
                definition: owned(definition.unwrap_or_default()),
            })
        }
        other => Err(Failure::argument(format_args!("kind {other} is not a dl_payload_kind"))),
    }
}

/// Drops a schema. `*schema` (moved) becomes NULL; NULL is permitted.
///
/// # Safety
/// `schema` is NULL or points to NULL or to an owned handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_schema_drop(schema: *mut *mut dl_schema) {
    // SAFETY: this function's contract.
    unsafe { release(schema) }
}

/// Writes the identity hash: SHA-256 over kind, name, encoding and definition. Equal hashes mean
/// equal types.
///
/// # Safety
/// `schema` is NULL or a live handle; `hash` is NULL or valid for writing 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_schema_hash(
    schema: *const dl_schema,
    hash: *mut [u8; 32],
) -> dl_status {
    guard(|| {
        place("hash", hash)?;
        // SAFETY: this function's contract.
        unsafe { put("hash", hash, borrow("schema", schema)?.schema.hash().0) }
    })
}

/// The type's name; empty for NULL. Borrowed from the schema.
///
/// # Safety
/// `schema` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_schema_name(schema: *const dl_schema) -> dl_text {
    // SAFETY: this function's contract.
    dl_text::of(unsafe { schema.as_ref() }.map_or("", |s| &s.schema.name))
}

/// The type's definition; empty for NULL. Borrowed from the schema.
///
/// # Safety
/// `schema` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_schema_definition(schema: *const dl_schema) -> dl_text {
    // SAFETY: this function's contract.
    dl_text::of(unsafe { schema.as_ref() }.map_or("", |s| &s.schema.definition))
}
