// SPDX-License-Identifier: Apache-2.0
//! `radar_msgs/msg/RadarScan`.

use super::{Arrival, ConvertError, Pieces, Result, ToRos, header};
use driveline_msgs::{RadarReturn, RadarScan};
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use driveline_types::{PlainMut, PlainRef, plain::payload_len};
use std::ops::Range;
use zerocopy::IntoBytes;

/// Size of a return, in memory and in CDR: five floats.
const RETURN_LEN: usize = size_of::<RadarReturn>();

#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) head: RadarScan,
    sample: Pieces<'a>,
    returns: Range<usize>,
    order: ByteOrder,
}

pub(super) fn read<'a>(sample: Pieces<'a>, arrival: &Arrival) -> Result<Scan<'a>> {
    let (head, returns, order) = sample.read(|from| decode(from, arrival))?;
    Ok(Scan { head, sample, returns, order })
}

/// Returns header, position of the returns, and their byte order.
fn decode(
    mut from: Decoder<'_>,
    arrival: &Arrival,
) -> Result<(RadarScan, Range<usize>, ByteOrder)> {
    let head = RadarScan { header: header::read(&mut from, arrival)? };
    let count = from.length(RETURN_LEN as u64)?;
    // They follow a length of 4 bytes, so they are aligned as floats are; `length` has checked
    // that the sample has them.
    let returns = from.pass_over(count.saturating_mul(RETURN_LEN as u32))?;
    from.finish()?;
    Ok((head, returns, from.order()))
}

impl Scan<'_> {
    pub(super) fn payload_len(&self) -> Result<usize> {
        Ok(payload_len::<RadarScan>(self.returns.len() / RETURN_LEN)?)
    }

    pub(super) fn write(&self, payload: &mut [u8]) -> Result<()> {
        let (head, returns) = PlainMut::<RadarScan>::new(payload)?.split();
        *head = self.head;
        self.sample.copy(self.returns.clone(), returns.as_mut_bytes())?;
        if self.order == ByteOrder::Big {
            returns.as_mut_bytes().chunks_exact_mut(size_of::<f32>()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

pub(super) fn sample(payload: &[u8], stamps_ahead_ns: Option<i64>) -> Result<ToRos<'_>> {
    const { assert!(cfg!(target_endian = "little"), "returns are sent as they lie in memory") };
    let scan = PlainRef::<RadarScan>::new(payload)?;
    let mut to = Encoder::new(ByteOrder::Little);
    header::write(&mut to, &scan.copy_head().header, stamps_ahead_ns)?;
    let returns = scan.tail();
    if u32::try_from(returns.as_bytes().len()).is_err() {
        return Err(ConvertError::TooLong {
            len: returns.as_bytes().len(),
            max: u32::MAX as usize,
        });
    }
    to.length(returns.len())?;
    Ok(ToRos::of(to.finish(), returns.as_bytes(), &[]))
}
