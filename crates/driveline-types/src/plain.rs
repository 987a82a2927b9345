// SPDX-License-Identifier: Apache-2.0
//! Plain types: C-layout structs, optionally followed by one array, that are read in place.
//!
//! A payload of plain type `T` is the `size_of::<T>()` bytes of the head; if `T::Tail` is not
//! [`NoTail`], zero bytes up to the next multiple of [`TAIL_ALIGN`], then the elements of the array
//! to the end of the payload. Head and elements have no implicit padding and are valid for any bit
//! pattern, which the `zerocopy` bounds guarantee. The rules and the canonical text are in
//! `docs/protocols/plain-types.md`.
//!
//! Types are declared with `#[driveline::plain_type]` or `#[derive(Plain)]`; [`PlainRef`] and
//! [`PlainMut`] are views of payload bytes as such a type.

mod layout;
mod view;

pub use layout::{Element, Field, LayoutSyntaxError, MAX_FIELDS, PlainLayout, Primitive, Tail};
pub use view::{PayloadError, PlainMut, PlainRef, payload_len};

use crate::schema::Schema;
use std::borrow::Cow;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment of the trailing array within a payload, in bytes: a cache line, enough for any vector
/// instruction. Transports align payloads to it as well.
pub const TAIL_ALIGN: usize = 64;

/// A plain type. Declare it with `#[driveline::plain_type]` or `#[derive(Plain)]`, never by hand:
/// the layout must be that of the struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plain type",
    note = "declare it with `#[driveline::plain_type(name = \"package/Type\")]`"
)]
pub trait Plain:
    FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + Sync + 'static
{
    /// Element of the trailing array, or [`NoTail`].
    type Tail: TailElement;

    /// Type name, such as `driveline/Image`.
    const NAME: &'static str;

    /// Name of the trailing array; `None` exactly if `Tail` is [`NoTail`].
    const TAIL_NAME: Option<&'static str> = None;

    /// Number of fields after flattening nested structs.
    const FIELD_COUNT: usize;

    /// Appends the struct's fields, with `prefix` before each name and `base` added to each offset.
    fn describe(prefix: &str, base: usize, out: &mut Vec<Field>);

    /// The layout that both ends must share. Allocates.
    #[must_use]
    fn layout() -> PlainLayout {
        let mut fields = Vec::with_capacity(Self::FIELD_COUNT);
        Self::describe("", 0, &mut fields);
        let tail = Self::TAIL_NAME.and_then(|name| {
            Self::Tail::element().map(|element| Tail { name: Cow::Borrowed(name), element })
        });
        PlainLayout {
            name: Cow::Borrowed(Self::NAME),
            size: size_of::<Self>(),
            align: align_of::<Self>(),
            fields,
            tail,
        }
    }

    /// The schema of topics that carry this type. Allocates.
    #[must_use]
    fn schema() -> Schema {
        Schema::plain(&Self::layout())
    }
}

/// A type that a field of a plain struct may have: `u8` … `i64`, `f32`, `f64`, another plain struct
/// without a trailing array, or a fixed array of any of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a plain type",
    label = "not an integer, float, fixed array or plain struct",
    note = "plain fields are u8 to u64, i8 to i64, f32, f64, fixed arrays of these, and plain \
         structs without a trailing array",
    note = "a bool, char or enum is not valid for every bit pattern that a peer can send: store an \
         integer and convert it with a check"
)]
pub trait PlainField: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static {
    /// Number of entries that [`describe_field`](Self::describe_field) appends.
    const FIELD_COUNT: usize;

    /// True for a primitive or an array of primitives, which is one entry of any length.
    const PRIMITIVE: bool;

    /// Appends the entries of a field of this type that is called `name` and lies at `offset`.
    fn describe_field(name: &str, offset: usize, out: &mut Vec<Field>);
}

/// `Gap<0>`: the only gap between two fields that a plain type may have.
#[doc(hidden)]
pub struct Gap<const BYTES: usize>;

/// Implemented by [`Gap<0>`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "padding before a field of a plain type, `{Self}` (bytes): its contents would be \
         undefined",
    label = "this field does not begin where the one before it ends",
    note = "sort the fields by size, largest first, or add a field such as `_reserved: [u8; N]` \
         before it"
)]
pub trait NoPaddingBeforeField {}
impl NoPaddingBeforeField for Gap<0> {}

/// Implemented by [`Gap<0>`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "padding at the end of a plain type, `{Self}` (bytes): its contents would be \
         undefined",
    label = "the last field does not end where the struct ends",
    note = "add a field such as `_reserved: [u8; N]` at the end"
)]
pub trait NoPaddingAtEnd {}
impl NoPaddingAtEnd for Gap<0> {}

/// Compiles only without a gap.
#[doc(hidden)]
pub const fn no_padding_before<const BYTES: usize>()
where
    Gap<BYTES>: NoPaddingBeforeField,
{
}

/// Compiles only without a gap.
#[doc(hidden)]
pub const fn no_padding_at_end<const BYTES: usize>()
where
    Gap<BYTES>: NoPaddingAtEnd,
{
}

/// An element type of a trailing array: a primitive or a plain struct without a trailing array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the element of a trailing array",
    note = "elements are u8 to u64, i8 to i64, f32, f64, or plain structs without a trailing array"
)]
pub trait TailElement:
    FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + Sync + 'static
{
    /// Returns the element type; `None` for [`NoTail`].
    fn element() -> Option<Element>;
}

/// The absence of a trailing array. No payload ever holds one.
// One byte, because slices of zero-sized elements have no meaningful length in a payload.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct NoTail(u8);

impl TailElement for NoTail {
    fn element() -> Option<Element> {
        None
    }
}

macro_rules! primitives {
    ($($ty:ident => $primitive:ident),+) => {$(
        impl PlainField for $ty {
            const FIELD_COUNT: usize = 1;
            const PRIMITIVE: bool = true;
            fn describe_field(name: &str, offset: usize, out: &mut Vec<Field>) {
                let name = Cow::Owned(name.to_owned());
                out.push(Field { name, primitive: Primitive::$primitive, count: 1, offset });
            }
        }
        impl TailElement for $ty {
            fn element() -> Option<Element> { Some(Element::Primitive(Primitive::$primitive)) }
        }
    )+};
}
primitives!(
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f32 => F32, f64 => F64
);

impl<T: PlainField, const N: usize> PlainField for [T; N] {
    const FIELD_COUNT: usize = if T::PRIMITIVE { 1 } else { N * T::FIELD_COUNT };
    const PRIMITIVE: bool = T::PRIMITIVE;

    fn describe_field(name: &str, offset: usize, out: &mut Vec<Field>) {
        if T::PRIMITIVE {
            let first = out.len();
            T::describe_field(name, offset, out);
            out[first..].iter_mut().for_each(|f| f.count *= N);
        } else {
            for i in 0..N {
                T::describe_field(&format!("{name}[{i}]"), offset + i * size_of::<T>(), out);
            }
        }
    }
}

impl<T: Plain<Tail = NoTail>> PlainField for T {
    const FIELD_COUNT: usize = <T as Plain>::FIELD_COUNT;
    const PRIMITIVE: bool = false;

    fn describe_field(name: &str, offset: usize, out: &mut Vec<Field>) {
        T::describe(&format!("{name}."), offset, out);
    }
}

impl<T: Plain<Tail = NoTail>> TailElement for T {
    fn element() -> Option<Element> {
        let PlainLayout { name, size, align, fields, .. } = T::layout();
        Some(Element::Struct { name, size, align, fields })
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
