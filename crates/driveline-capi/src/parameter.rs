// SPDX-License-Identifier: Apache-2.0
//! Parameters of a node.

use crate::context::dl_node;
use crate::sized::{SizedStruct, check_result, read_argument, write_result};
use crate::status::*;
use driveline::{ParameterError, ParameterValue};
use std::ffi::{CString, c_char};

/// Type of a parameter.
#[repr(C)]
pub enum dl_parameter_type {
    /// `integer` is 0 or 1.
    DL_PARAMETER_BOOL = 0,
    /// `integer`.
    DL_PARAMETER_INTEGER = 1,
    /// `number`.
    DL_PARAMETER_FLOAT = 2,
    /// `text`.
    DL_PARAMETER_TEXT = 3,
    /// `text` is a JSON array; `integer` is the number of its items, in results. Items have the
    /// names `NAME/0`, `NAME/1`, …
    DL_PARAMETER_LIST = 4,
    /// `text` is a JSON object; `integer` is the number of its entries, in results. Entries have
    /// names such as `NAME/KEY`.
    DL_PARAMETER_MAP = 5,
}

/// Value of a parameter.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_parameter_value {
    /// `sizeof(dl_parameter_value)`, set by the caller.
    pub size: usize,
    /// A `dl_parameter_type`; determines which of the other fields has the value.
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
    /// Whole number or truth value.
    pub integer: i64,
    /// Real number.
    pub number: f64,
    /// NUL-terminated text, or NULL. Borrowed in arguments; owned in results, to be given to
    /// `dl_string_drop`.
    pub text: *mut c_char,
}

// SAFETY: `repr(C)`, `size` is first, numbers and a raw pointer may be zero.
unsafe impl SizedStruct for dl_parameter_value {
    const NAME: &'static str = "dl_parameter_value";
    const FIRST: usize = 40;
}

impl dl_parameter_value {
    const ZERO: Self = Self {
        size: size_of::<Self>(),
        kind: 0,
        reserved: 0,
        integer: 0,
        number: 0.0,
        text: std::ptr::null_mut(),
    };

    #[cfg(test)]
    pub(crate) const fn integer(integer: i64) -> Self {
        Self { kind: 1, integer, ..Self::ZERO }
    }

    /// Reads an argument.
    ///
    /// # Safety
    /// `given` is NULL or points to `given->size` readable bytes, and its `text` is NULL or
    /// NUL-terminated.
    pub(crate) unsafe fn read(name: &str, given: *const Self) -> Outcome<ParameterValue> {
        // SAFETY: this function's contract.
        let value = unsafe { read_argument(name, given)? };
        // SAFETY: this function's contract.
        unsafe { value.to_value() }
    }

    /// # Safety
    /// `text` is NULL or NUL-terminated.
    unsafe fn to_value(self) -> Outcome<ParameterValue> {
        Ok(match self.kind {
            0 => ParameterValue::Bool(self.integer != 0),
            1 => ParameterValue::Integer(self.integer),
            2 => ParameterValue::Float(self.number),
            // SAFETY: this function's contract.
            3 => ParameterValue::Text(unsafe { text("value.text", self.text)? }.to_owned()),
            4 | 5 => {
                // SAFETY: this function's contract.
                let json = unsafe { text("value.text", self.text)? };
                let value = ParameterValue::from_json(json).map_err(|e| {
                    Failure::argument(format_args!("value.text is no JSON of a parameter: {e}"))
                })?;
                match (self.kind, &value) {
                    (4, ParameterValue::List(_)) | (5, ParameterValue::Map(_)) => value,
                    (_, other) => {
                        let what = other.type_name();
                        return Err(Failure::argument(format_args!(
                            "value.text is JSON of {what}, but value.kind is {} (4: list, 5: map)",
                            self.kind
                        )));
                    }
                }
            }
            other => {
                return Err(Failure::argument(format_args!(
                    "value.kind {other} is not a dl_parameter_type"
                )));
            }
        })
    }

    fn structured(kind: u32, len: usize, value: &ParameterValue) -> Self {
        let integer = i64::try_from(len).unwrap_or(i64::MAX);
        Self { kind, integer, text: c_text(value.to_string()).into_raw(), ..Self::ZERO }
    }

    fn from_value(value: &ParameterValue) -> Self {
        match value {
            ParameterValue::Bool(v) => Self { kind: 0, integer: i64::from(*v), ..Self::ZERO },
            ParameterValue::Integer(v) => Self { kind: 1, integer: *v, ..Self::ZERO },
            ParameterValue::Float(v) => Self { kind: 2, number: *v, ..Self::ZERO },
            ParameterValue::Text(v) => {
                Self { kind: 3, text: c_text(v.as_str()).into_raw(), ..Self::ZERO }
            }
            ParameterValue::List(items) => Self::structured(4, items.len(), value),
            ParameterValue::Map(entries) => Self::structured(5, entries.len(), value),
        }
    }
}

impl From<ParameterError> for Failure {
    fn from(e: ParameterError) -> Self {
        Self::new(DL_ERROR_PARAMETER, e)
    }
}

/// Declares a parameter with its default, which fixes the type. A second declaration of the same
/// type changes nothing.
///
/// # Safety
/// `node` is NULL or a live handle; `name` is NULL or NUL-terminated; `value` is NULL or a valid
/// value with its `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_node_declare_parameter(
    node: *const dl_node,
    name: *const c_char,
    value: *const dl_parameter_value,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (node, name, value) = unsafe {
            (borrow("node", node)?, text("name", name)?, dl_parameter_value::read("value", value)?)
        };
        Ok(node.node.parameters().declare(name, value)?)
    })
}

/// Sets a declared parameter; a whole number is accepted for a real one.
///
/// # Safety
/// As `dl_node_declare_parameter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_node_set_parameter(
    node: *const dl_node,
    name: *const c_char,
    value: *const dl_parameter_value,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (node, name, value) = unsafe {
            (borrow("node", node)?, text("name", name)?, dl_parameter_value::read("value", value)?)
        };
        Ok(node.node.parameters().set(name, value)?)
    })
}

/// Reads a parameter, or a part of a list or map by its path (`pid/gains/0`). `value->text`, if not
/// NULL, is owned by the caller. Takes a short lock: read once per callback.
///
/// # Safety
/// `node` is NULL or a live handle; `name` is NULL or NUL-terminated; `value` is NULL or points to
/// a `dl_parameter_value` whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_node_get_parameter(
    node: *const dl_node,
    name: *const c_char,
    value: *mut dl_parameter_value,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        unsafe { check_result("value", value)? };
        // SAFETY: this function's contract.
        let (node, name) = unsafe { (borrow("node", node)?, text("name", name)?) };
        let found = node.node.parameters().get(name)?;
        // SAFETY: this function's contract.
        unsafe { write_result("value", value, dl_parameter_value::from_value(&found)) }
    })
}

/// Frees a text that a function of this library returned. `*text` (moved) becomes NULL; NULL is
/// permitted.
///
/// # Safety
/// `text` is NULL or points to NULL or to such a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_string_drop(text: *mut *mut c_char) {
    guard_value((), || {
        // SAFETY: `as_mut` checks for NULL; the rest is this function's contract.
        let Some(place) = (unsafe { text.as_mut() }) else { return };
        let owned = std::mem::replace(place, std::ptr::null_mut());
        if !owned.is_null() {
            // SAFETY: made by `CString::into_raw` by contract, and the caller's variable gave it
            // up.
            drop(unsafe { CString::from_raw(owned) });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn lists_and_maps_cross_the_border_as_json() {
        for (kind, len, json) in [(4, 2, "[1.5,\"a\"]"), (5, 1, "{\"gains\":[1,[true]]}")] {
            let given = CString::new(json).unwrap();
            let value = dl_parameter_value {
                kind,
                text: given.as_ptr().cast_mut(),
                ..dl_parameter_value::ZERO
            };
            // SAFETY: the text lives and is NUL-terminated.
            let read = unsafe { value.to_value() }.unwrap_or_else(|e| panic!("{}", e.text));
            let mut back = dl_parameter_value::from_value(&read);
            assert_eq!((back.kind, back.integer), (kind, len));
            // SAFETY: made by `from_value`, and dropped once.
            unsafe {
                assert_eq!(CStr::from_ptr(back.text).to_str(), Ok(json));
                dl_string_drop(&raw mut back.text);
            }
        }
        for (kind, json) in [(4, "{}"), (5, "[]"), (4, "7"), (4, "[1"), (5, "[null]")] {
            let given = CString::new(json).unwrap();
            let value = dl_parameter_value {
                kind,
                text: given.as_ptr().cast_mut(),
                ..dl_parameter_value::ZERO
            };
            // SAFETY: as above.
            assert!(unsafe { value.to_value() }.is_err(), "{kind} {json}");
        }
    }
}
