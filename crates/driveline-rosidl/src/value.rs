// SPDX-License-Identifier: Apache-2.0
//! Samples as values.

/// A sample, or a part of one. The [`Layout`](crate::Layout) with which it was read determines the
/// variants and the number of elements.
///
/// Arrays and sequences of each primitive type have their own variant, so that an image is bytes
/// and not a tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `bool`
    Bool(bool),
    /// `int8`
    I8(i8),
    /// `uint8`, `byte`, `char`
    U8(u8),
    /// `int16`
    I16(i16),
    /// `uint16`
    U16(u16),
    /// `int32`
    I32(i32),
    /// `uint32`
    U32(u32),
    /// `int64`
    I64(i64),
    /// `uint64`
    U64(u64),
    /// `float32`
    F32(f32),
    /// `float64`
    F64(f64),
    /// `string`: bytes, which are UTF-8 if the sender follows the rules; without the NUL at the
    /// end.
    String(Vec<u8>),
    /// `wstring`: UTF-16, if the sender follows the rules.
    WString(Vec<u16>),
    /// A message: the values of its members, in their order.
    Struct(Vec<Value>),
    /// Many `bool`.
    Bools(Vec<bool>),
    /// Many `int8`.
    I8s(Vec<i8>),
    /// Many `uint8`, `byte` or `char`.
    U8s(Vec<u8>),
    /// Many `int16`.
    I16s(Vec<i16>),
    /// Many `uint16`.
    U16s(Vec<u16>),
    /// Many `int32`.
    I32s(Vec<i32>),
    /// Many `uint32`.
    U32s(Vec<u32>),
    /// Many `int64`.
    I64s(Vec<i64>),
    /// Many `uint64`.
    U64s(Vec<u64>),
    /// Many `float32`.
    F32s(Vec<f32>),
    /// Many `float64`.
    F64s(Vec<f64>),
    /// Many strings or messages.
    List(Vec<Value>),
}

impl Value {
    /// Returns a description for error messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a bool",
            Self::I8(_) => "an int8",
            Self::U8(_) => "an uint8",
            Self::I16(_) => "an int16",
            Self::U16(_) => "an uint16",
            Self::I32(_) => "an int32",
            Self::U32(_) => "an uint32",
            Self::I64(_) => "an int64",
            Self::U64(_) => "an uint64",
            Self::F32(_) => "a float32",
            Self::F64(_) => "a float64",
            Self::String(_) => "a string",
            Self::WString(_) => "a wstring",
            Self::Struct(_) => "a message",
            Self::Bools(_) => "many bool",
            Self::I8s(_) => "many int8",
            Self::U8s(_) => "many uint8",
            Self::I16s(_) => "many int16",
            Self::U16s(_) => "many uint16",
            Self::I32s(_) => "many int32",
            Self::U32s(_) => "many uint32",
            Self::I64s(_) => "many int64",
            Self::U64s(_) => "many uint64",
            Self::F32s(_) => "many float32",
            Self::F64s(_) => "many float64",
            Self::List(_) => "a list",
        }
    }
}
