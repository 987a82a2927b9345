// SPDX-License-Identifier: Apache-2.0
//! Checks samples in CDR without creating values.

use super::Decoder;
use super::error::{CdrError, Fault};
use super::read::{characters, check_bound};
use crate::definition::{Primitive, Shape};
use crate::layout::{Kind, Layout, Member, StructId, size_of};

type Result<T, E = CdrError> = std::result::Result<T, E>;

/// Returns the fault that [`read`](super::read()) would find in a sample, encapsulation included.
/// Skips arrays and sequences of numbers, and of messages that consist of numbers, in one step;
/// checks each boolean and each string. Allocates only for errors.
///
/// # Errors
/// As [`read`](super::read()), except [`Fault::TooManyValues`].
pub fn check(layout: &Layout, sample: &[u8]) -> Result<()> {
    let mut checker = Checker { layout, from: Decoder::new(sample)? };
    checker.message(layout.root())?;
    checker.from.finish()
}

struct Checker<'a> {
    layout: &'a Layout,
    from: Decoder<'a>,
}

impl Checker<'_> {
    // Recursion is bounded: layouts are nested at most MAX_NESTING deep.
    fn message(&mut self, id: StructId) -> Result<()> {
        if self.passes_over(id, 1) {
            return Ok(());
        }
        let layout = self.layout;
        layout
            .get(id)
            .members
            .iter()
            .try_for_each(|member| self.member(member).map_err(|e| e.in_member(&member.name)))
    }

    /// Skips `count` messages in one step, if every content of their bytes is valid and all these
    /// bytes are present. Otherwise the caller checks the messages one by one and finds the missing
    /// part.
    fn passes_over(&mut self, id: StructId, count: u32) -> bool {
        let len = self
            .layout
            .get(id)
            .span
            .map(|span| span.of(self.from.offset() - super::HEADER_LEN, count));
        len.is_some_and(|len| self.from.take(len, 1).is_ok())
    }

    fn member(&mut self, member: &Member) -> Result<()> {
        match member.shape {
            Shape::Single => self.single(member.kind),
            Shape::Array(count) => self.many(member.kind, count),
            Shape::Sequence { bound } => {
                let before = self.from.clone();
                let count = self.from.length(self.layout.min_len(member.kind))?;
                check_bound(bound, count as usize).map_err(|f| before.error(f))?;
                self.many(member.kind, count)
            }
        }
    }

    fn single(&mut self, kind: Kind) -> Result<()> {
        let from = &mut self.from;
        match kind {
            Kind::Primitive(Primitive::Bool) => from.bool().map(drop),
            Kind::Primitive(p) => from.take(size_of(p) as u64, size_of(p)).map(drop),
            Kind::String(bound) => {
                let before = from.clone();
                let text = from.string()?;
                let Some(bound) = bound else { return Ok(()) };
                check_bound(Some(bound), characters(text)).map_err(|f| before.error(f))
            }
            Kind::WString(bound) => {
                let before = from.clone();
                let units =
                    from.wide_units()?.try_fold(0, |units, unit| unit.map(|_| units + 1))?;
                check_bound(bound, units).map_err(|f| before.error(f))
            }
            Kind::Struct(id) => self.message(id),
        }
    }

    fn many(&mut self, kind: Kind, count: u32) -> Result<()> {
        match kind {
            Kind::Primitive(Primitive::Bool) => return self.from.bool_bytes(count).map(drop),
            // Without elements, there is no alignment.
            Kind::Primitive(_) if count == 0 => return Ok(()),
            Kind::Primitive(p) => {
                return self.from.take(u64::from(count) * size_of(p) as u64, size_of(p)).map(drop);
            }
            Kind::Struct(id) if self.passes_over(id, count) => return Ok(()),
            _ => {}
        }
        // `length` has checked the size of a sequence. The size of an array is not checked yet.
        let needed = u64::from(count).saturating_mul(self.layout.min_len(kind));
        if needed > self.from.left() as u64 {
            return Err(self.from.error(Fault::Truncated { needed, left: self.from.left() }));
        }
        (0..count as usize).try_for_each(|i| self.single(kind).map_err(|e| e.in_element(i)))
    }
}
