// SPDX-License-Identifier: Apache-2.0
//! `sensor_msgs/msg/CompressedImage`.

use super::{Arrival, ConvertError, Pieces, Result, ToRos, header};
use driveline_msgs::{CompressedImage, TextError};
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use driveline_types::{PlainMut, PlainRef, plain::payload_len};
use std::ops::Range;

#[derive(Debug)]
pub(super) struct Compressed<'a> {
    pub(super) head: CompressedImage,
    sample: Pieces<'a>,
    file: Range<usize>,
}

pub(super) fn read<'a>(sample: Pieces<'a>, arrival: &Arrival) -> Result<Compressed<'a>> {
    let (head, file) = sample.read(|from| decode(from, arrival))?;
    Ok(Compressed { head, sample, file })
}

/// Returns the head, and the position of the image file, such as a JPEG.
fn decode(mut from: Decoder<'_>, arrival: &Arrival) -> Result<(CompressedImage, Range<usize>)> {
    let header = header::read(&mut from, arrival)?;
    let not_text = |_| ConvertError::Format(TextError::NotText { field: "format" });
    let format = std::str::from_utf8(from.string()?).map_err(not_text)?;
    let head = CompressedImage::new(header, format).map_err(ConvertError::Format)?;
    let len = from.length(1)?;
    let file = from.pass_over(len)?;
    from.finish()?;
    Ok((head, file))
}

impl Compressed<'_> {
    pub(super) fn payload_len(&self) -> Result<usize> {
        Ok(payload_len::<CompressedImage>(self.file.len())?)
    }

    pub(super) fn write(&self, payload: &mut [u8]) -> Result<()> {
        let (head, data) = PlainMut::<CompressedImage>::new(payload)?.split();
        *head = self.head;
        self.sample.copy(self.file.clone(), data)
    }
}

pub(super) fn sample(payload: &[u8], stamps_ahead_ns: Option<i64>) -> Result<ToRos<'_>> {
    let image = PlainRef::<CompressedImage>::new(payload)?;
    let head = image.copy_head();
    let mut to = Encoder::new(ByteOrder::Little);
    header::write(&mut to, &head.header, stamps_ahead_ns)?;
    to.string(head.format().map_err(ConvertError::Format)?.as_bytes())?;
    to.length(image.tail().len())?;
    Ok(ToRos::of(to.finish(), image.tail(), &[]))
}
