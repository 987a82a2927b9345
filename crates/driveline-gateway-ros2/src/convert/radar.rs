// SPDX-License-Identifier: Apache-2.0
//! `radar_msgs/msg/RadarScan`.

use super::image::fill;
use super::{Arrival, ConvertError, Result, ToRos, header};
use driveline_msgs::{RadarReturn, RadarScan};
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use driveline_types::{PlainMut, PlainRef, plain::payload_len};
use zerocopy::IntoBytes;

/// Five floats, here and in CDR.
const RETURN_LEN: usize = size_of::<RadarReturn>();

#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) head: RadarScan,
    returns: &'a [u8],
    order: ByteOrder,
}

pub(super) fn read<'a>(sample: &'a [u8], arrival: &Arrival) -> Result<Scan<'a>> {
    let mut from = Decoder::new(sample)?;
    let head = RadarScan { header: header::read(&mut from, arrival)? };
    let count = from.length(RETURN_LEN as u64)?;
    // Behind a length they are aligned to 4, as floats are, and checked to be there.
    let returns = from.bytes(count.saturating_mul(RETURN_LEN as u32))?;
    from.finish()?;
    Ok(Scan { head, returns, order: from.order() })
}

impl Scan<'_> {
    pub(super) fn payload_len(&self) -> Result<usize> {
        Ok(payload_len::<RadarScan>(self.returns.len() / RETURN_LEN)?)
    }

    pub(super) fn write(&self, payload: &mut [u8]) -> Result<()> {
        let (head, returns) = PlainMut::<RadarScan>::new(payload)?.split();
        *head = self.head;
        fill(returns.as_mut_bytes(), self.returns)?;
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
        return Err(ConvertError::TooLong { len: returns.as_bytes().len(), max: u32::MAX as usize });
    }
    to.length(returns.len())?;
    Ok(ToRos::of(to.finish(), returns.as_bytes(), &[]))
}
