// SPDX-License-Identifier: Apache-2.0
//! `sensor_msgs/msg/Image`.

use super::{Arrival, ConvertError, Pieces, Result, ToRos, header};
use driveline_msgs::{Encoding, ImageView};
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use driveline_types::{PlainMut, PlainRef, plain::payload_len};
use std::ops::Range;

type Head = driveline_msgs::Image;

#[derive(Debug)]
pub(super) struct Image<'a> {
    pub(super) head: Head,
    sample: Pieces<'a>,
    rows: Range<usize>,
}

pub(super) fn read<'a>(sample: Pieces<'a>, arrival: &Arrival) -> Result<Image<'a>> {
    let (head, rows) = sample.read(|from| decode(from, arrival))?;
    Ok(Image { head, sample, rows })
}

/// Returns the head, and the position of the rows.
fn decode(mut from: Decoder<'_>, arrival: &Arrival) -> Result<(Head, Range<usize>)> {
    let header = header::read(&mut from, arrival)?;
    let (height, width) = (from.number()?, from.number()?);
    let encoding: Encoding = String::from_utf8_lossy(from.string()?).parse()?;
    let is_bigendian: u8 = from.number()?;
    let step = from.number()?;
    let len = from.length(1)?;
    let data = from.pass_over(len)?;
    from.finish()?;
    if is_bigendian != 0 && encoding.bytes_per_channel() > 1 {
        return Err(ConvertError::BigEndian);
    }
    let head = Head { header, width, height, step, encoding: encoding as u32 };
    head.check(data.len())?;
    // The check above makes sure that the sample has all rows.
    let rows = data.start..data.start + head.data_len() as usize;
    Ok((head, rows))
}

impl Image<'_> {
    pub(super) fn payload_len(&self) -> Result<usize> {
        Ok(payload_len::<Head>(self.rows.len())?)
    }

    pub(super) fn write(&self, payload: &mut [u8]) -> Result<()> {
        let (head, data) = PlainMut::<Head>::new(payload)?.split();
        *head = self.head;
        self.sample.copy(self.rows.clone(), data)
    }
}

pub(super) fn sample(payload: &[u8], stamps_ahead_ns: Option<i64>) -> Result<ToRos<'_>> {
    let image = ImageView::new(PlainRef::new(payload)?)?;
    let rows = usize::try_from(image.head().data_len())
        .ok()
        .and_then(|len| image.data().get(..len))
        .unwrap_or_default();
    let mut to = Encoder::new(ByteOrder::Little);
    header::write(&mut to, image.header(), stamps_ahead_ns)?;
    to.number(image.height());
    to.number(image.width());
    to.string(image.encoding().ros_name().as_bytes())?;
    to.number(0u8);
    to.number(image.step());
    to.length(rows.len())?;
    Ok(ToRos::of(to.finish(), rows, &[]))
}
