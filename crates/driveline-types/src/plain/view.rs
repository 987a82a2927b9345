// SPDX-License-Identifier: Apache-2.0
//! Payload bytes seen as a plain type, in place.

use super::{NoTail, Plain, TAIL_ALIGN};
use std::any::TypeId;
use std::ops::{Deref, DerefMut};
use thiserror::Error;
use zerocopy::FromBytes;

/// Reason why bytes are not a payload of a plain type.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PayloadError {
    /// Shorter than the head, or than the place where the trailing array begins. In
    /// [`PlainMut::write`]: shorter than head and array.
    #[error(
        "a payload of {len} bytes is too short for plain type '{type_name}', which needs {min}: \
         the publisher wrote another type or half a sample"
    )]
    Short {
        /// The type.
        type_name: &'static str,
        /// Length of the payload in bytes.
        len: usize,
        /// Minimum length in bytes.
        min: usize,
    },
    /// Longer than a type without a trailing array. In [`PlainMut::write`]: longer than head and
    /// array.
    #[error(
        "a payload of {len} bytes is too long for plain type '{type_name}', which takes {size} \
         bytes here"
    )]
    Long {
        /// The type.
        type_name: &'static str,
        /// Length of the payload in bytes.
        len: usize,
        /// Length that fits, in bytes.
        size: usize,
    },
    /// The trailing array ends within an element.
    #[error(
        "{tail_len} bytes follow the head of plain type '{type_name}', which is no multiple of its \
         trailing array's element size {element}"
    )]
    Ragged {
        /// The type.
        type_name: &'static str,
        /// Length of the trailing array in bytes.
        tail_len: usize,
        /// Size of an element in bytes.
        element: usize,
    },
    /// The address of the bytes is not aligned for the type.
    #[error(
        "a payload of plain type '{type_name}' lies at an address that is no multiple of {align}: \
         copy it into memory aligned to 64 bytes first"
    )]
    Misaligned {
        /// The type.
        type_name: &'static str,
        /// Alignment that is needed, in bytes.
        align: usize,
    },
    /// A length that no payload can have, or elements for a type without a trailing array.
    #[error(
        "a trailing array of {count} elements of plain type '{type_name}' is longer than the \
         address space, or the type has no trailing array"
    )]
    TooLong {
        /// The type.
        type_name: &'static str,
        /// Number of requested elements.
        count: usize,
    },
}

fn has_tail<T: Plain>() -> bool {
    TypeId::of::<T::Tail>() != TypeId::of::<NoTail>()
}

fn tail_offset<T: Plain>() -> usize {
    if has_tail::<T>() { size_of::<T>().next_multiple_of(TAIL_ALIGN) } else { size_of::<T>() }
}

/// Length in bytes of a payload of type `T` with `tail_count` elements in its trailing array (0 for
/// types without one).
///
/// # Errors
/// [`PayloadError::TooLong`] if the length exceeds `isize::MAX`, or a count other than 0 is given
/// to a type without a trailing array.
pub fn payload_len<T: Plain>(tail_count: usize) -> Result<usize, PayloadError> {
    let too_long = PayloadError::TooLong { type_name: T::NAME, count: tail_count };
    if !has_tail::<T>() && tail_count != 0 {
        return Err(too_long);
    }
    let tail = tail_count.checked_mul(size_of::<T::Tail>()).ok_or(too_long)?;
    tail_offset::<T>().checked_add(tail).filter(|&n| isize::try_from(n).is_ok()).ok_or(too_long)
}

/// Checks everything but the address, and returns the offset of the trailing array.
fn check_len<T: Plain>(len: usize) -> Result<usize, PayloadError> {
    let offset = tail_offset::<T>();
    let element = size_of::<T::Tail>();
    match len.checked_sub(offset) {
        None => Err(PayloadError::Short { type_name: T::NAME, len, min: offset }),
        Some(rest) if rest != 0 && !has_tail::<T>() => {
            Err(PayloadError::Long { type_name: T::NAME, len, size: size_of::<T>() })
        }
        Some(rest) if rest % element != 0 => {
            Err(PayloadError::Ragged { type_name: T::NAME, tail_len: rest, element })
        }
        Some(_) => Ok(offset),
    }
}

fn misaligned<T: Plain>() -> PayloadError {
    PayloadError::Misaligned {
        type_name: T::NAME,
        align: align_of::<T>().max(align_of::<T::Tail>()),
    }
}

/// A payload seen as a plain type. Dereferences to the head. Copies nothing, never blocks or
/// allocates.
#[derive(Debug)]
pub struct PlainRef<'a, T: Plain> {
    head: &'a T,
    tail: &'a [T::Tail],
}

impl<T: Plain> Clone for PlainRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Plain> Copy for PlainRef<'_, T> {}

impl<'a, T: Plain> PlainRef<'a, T> {
    /// Views `payload` as a `T`.
    ///
    /// # Errors
    /// [`PayloadError`] if the length or the alignment does not fit. The contents always do.
    pub fn new(payload: &'a [u8]) -> Result<Self, PayloadError> {
        let tail_offset = check_len::<T>(payload.len())?;
        let (head, _) = T::ref_from_prefix(payload).map_err(|_| misaligned::<T>())?;
        let tail = <[T::Tail]>::ref_from_bytes(payload.get(tail_offset..).unwrap_or_default())
            .map_err(|_| misaligned::<T>())?;
        Ok(Self { head, tail })
    }

    /// Joins a head and an array that lie in different places.
    #[must_use]
    pub fn from_parts(head: &'a T, tail: &'a [T::Tail]) -> Self {
        Self { head, tail }
    }

    /// The head.
    #[must_use]
    pub fn head(&self) -> &'a T {
        self.head
    }

    /// Returns a copy of the head, read once. A hostile or broken process can change its payload
    /// while it is read: check and use numbers and texts of one copy.
    #[must_use]
    pub fn copy_head(&self) -> T {
        // Keeps the compiler from reading the payload again where the copy is used: it assumes that
        // memory behind a shared reference does not change.
        std::hint::black_box(*self.head)
    }

    /// The trailing array; empty for types without one. Its length is the payload's, which no other
    /// process can change.
    #[must_use]
    pub fn tail(&self) -> &'a [T::Tail] {
        self.tail
    }
}

impl<T: Plain> Deref for PlainRef<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.head
    }
}

/// A payload under construction, seen as a plain type. Dereferences to the head. Never blocks or
/// allocates.
#[derive(Debug)]
pub struct PlainMut<'a, T: Plain> {
    head: &'a mut T,
    tail: &'a mut [T::Tail],
}

impl<'a, T: Plain> PlainMut<'a, T> {
    /// Views `payload`, of a length from [`payload_len`], as a `T`, and zeroes the gap between head
    /// and trailing array. Head and array keep their present bytes, which may be an earlier
    /// sample's.
    ///
    /// # Errors
    /// [`PayloadError`] if the length or the alignment does not fit.
    pub fn new(payload: &'a mut [u8]) -> Result<Self, PayloadError> {
        let tail_offset = check_len::<T>(payload.len())?;
        let (head, rest) = T::mut_from_prefix(payload).map_err(|_| misaligned::<T>())?;
        let gap = (tail_offset - size_of::<T>()).min(rest.len());
        let (gap, tail) = rest.split_at_mut(gap);
        gap.fill(0);
        let tail = <[T::Tail]>::mut_from_bytes(tail).map_err(|_| misaligned::<T>())?;
        Ok(Self { head, tail })
    }

    /// Like [`new`](Self::new), and copies `head` and `tail` in.
    ///
    /// # Errors
    /// [`PayloadError`] if the length or the alignment does not fit.
    pub fn write(payload: &'a mut [u8], head: &T, tail: &[T::Tail]) -> Result<Self, PayloadError> {
        let needed = payload_len::<T>(tail.len())?;
        let len = payload.len();
        if len < needed {
            return Err(PayloadError::Short { type_name: T::NAME, len, min: needed });
        }
        if len > needed {
            return Err(PayloadError::Long { type_name: T::NAME, len, size: needed });
        }
        let this = Self::new(payload)?;
        *this.head = *head;
        this.tail.copy_from_slice(tail);
        Ok(this)
    }

    /// The head.
    #[must_use]
    pub fn head_mut(&mut self) -> &mut T {
        self.head
    }

    /// The trailing array; empty for types without one.
    #[must_use]
    pub fn tail(&self) -> &[T::Tail] {
        self.tail
    }

    /// The trailing array; empty for types without one.
    #[must_use]
    pub fn tail_mut(&mut self) -> &mut [T::Tail] {
        self.tail
    }

    /// Head and trailing array at once.
    #[must_use]
    pub fn split(self) -> (&'a mut T, &'a mut [T::Tail]) {
        (self.head, self.tail)
    }

    /// The same payload, for reading.
    #[must_use]
    pub fn as_ref(&self) -> PlainRef<'_, T> {
        PlainRef { head: self.head, tail: self.tail }
    }
}

impl<T: Plain> Deref for PlainMut<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.head
    }
}

impl<T: Plain> DerefMut for PlainMut<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.head
    }
}
