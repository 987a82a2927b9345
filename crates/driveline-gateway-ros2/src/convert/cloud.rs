// SPDX-License-Identifier: Apache-2.0
//! `sensor_msgs/msg/PointCloud2`.

use super::{Arrival, ConvertError, Pieces, Result, ToRos, header};
use driveline_msgs::header::to_fixed_text;
use driveline_msgs::point_cloud::MAX_POINT_FIELDS;
use driveline_msgs::{CloudError, CloudView, PointCloud, PointField};
use driveline_rosidl::cdr::{ByteOrder, Decoder, Encoder};
use driveline_types::{PlainMut, PlainRef, plain::payload_len};
use std::ops::Range;

#[derive(Debug)]
pub(super) struct Cloud<'a> {
    pub(super) head: PointCloud,
    sample: Pieces<'a>,
    rows: Range<usize>,
}

/// Minimum size of a field in CDR, in bytes: an empty name, offset, datatype, count.
const LEAST_FIELD: u64 = 4 + 4 + 1 + 4;

pub(super) fn read<'a>(sample: Pieces<'a>, arrival: &Arrival) -> Result<Cloud<'a>> {
    let (head, rows) = sample.read(|from| decode(from, arrival))?;
    Ok(Cloud { head, sample, rows })
}

/// Returns the head, and the position of the rows.
fn decode(mut from: Decoder<'_>, arrival: &Arrival) -> Result<(PointCloud, Range<usize>)> {
    let header = header::read(&mut from, arrival)?;
    let (height, width) = (from.number()?, from.number()?);
    let field_count = from.length(LEAST_FIELD)?;
    if field_count as usize > MAX_POINT_FIELDS {
        return Err(CloudError::FieldCount { field_count }.into());
    }
    let mut fields = [PointField::default(); MAX_POINT_FIELDS];
    for (index, field) in fields.iter_mut().enumerate().take(field_count as usize) {
        let name = from.string()?;
        let not_text = ConvertError::FieldName {
            index,
            source: driveline_msgs::TextError::NotText { field: "its name" },
        };
        let name = std::str::from_utf8(name).map_err(|_| not_text)?;
        let name = to_fixed_text("its name", name)
            .map_err(|source| ConvertError::FieldName { index, source })?;
        let (offset, datatype, count) = (from.number()?, from.number::<u8>()?, from.number()?);
        *field = PointField { name, offset, datatype: datatype.into(), count };
    }
    let is_bigendian = from.bool()?;
    let (point_step, row_step) = (from.number()?, from.number()?);
    let len = from.length(1)?;
    let data = from.pass_over(len)?;
    let is_dense = from.bool()?.into();
    from.finish()?;
    let head =
        PointCloud { header, height, width, point_step, row_step, is_dense, field_count, fields };
    if is_bigendian {
        return Err(ConvertError::BigEndian);
    }
    head.check(data.len())?;
    Ok((head, data.start..data.start + rows_len(&head)))
}

/// Size of all rows in bytes, by the checked head; not more than the sample has.
fn rows_len(head: &PointCloud) -> usize {
    head.row_step as usize * head.height as usize
}

impl Cloud<'_> {
    pub(super) fn payload_len(&self) -> Result<usize> {
        Ok(payload_len::<PointCloud>(self.rows.len())?)
    }

    pub(super) fn write(&self, payload: &mut [u8]) -> Result<()> {
        let (head, data) = PlainMut::<PointCloud>::new(payload)?.split();
        *head = self.head;
        self.sample.copy(self.rows.clone(), data)
    }
}

pub(super) fn sample(payload: &[u8], stamps_ahead_ns: Option<i64>) -> Result<ToRos<'_>> {
    let cloud = CloudView::new(PlainRef::new(payload)?)?;
    let head = cloud.head();
    let rows = cloud.data().get(..rows_len(head)).unwrap_or_default();
    let mut to = Encoder::new(ByteOrder::Little);
    header::write(&mut to, &head.header, stamps_ahead_ns)?;
    to.number(head.height);
    to.number(head.width);
    to.length(cloud.fields().count())?;
    for field in cloud.fields() {
        to.string(field.name.as_bytes())?;
        to.number(field.offset);
        // The datatype is 1 to 8.
        to.number(field.datatype as u32 as u8);
        to.number(field.count);
    }
    to.number(0u8);
    to.number(head.point_step);
    to.number(head.row_step);
    to.length(rows.len())?;
    Ok(ToRos::of(to.finish(), rows, &[u8::from(head.is_dense != 0)]))
}
