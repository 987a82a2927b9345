// SPDX-License-Identifier: Apache-2.0
//! Prints a point cloud for users: its used fields with their ranges, and points as numbers.

use driveline_msgs::{CloudView, Datatype, FieldSpec};
use driveline_types::print::{Printer, Scalar};
use std::fmt;

/// Number of points in a summary.
const FIRST: usize = 3;

/// Values of one field over all points: the finite minimum and maximum in the field's type, and the
/// number of other values (NaN and infinities).
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    ends: Option<(Scalar, Scalar)>,
    not_finite: u64,
}

/// Prints the head, the fields in use with their ranges, and the points: the first few, or all of
/// them.
pub(crate) fn print(cloud: &CloudView<'_>, full: bool, p: &mut Printer<'_>) -> fmt::Result {
    let (head, fields) = (cloud.head(), cloud.fields().collect::<Vec<_>>());
    p.fields(|p| {
        p.field("frame_id")?;
        let frame = head.header.frame_id();
        p.text(frame.as_ref().map_or("?", |frame| frame.as_str()))?;
        for (name, value) in [
            ("source_time_ns", head.header.source_time_ns),
            ("frame_index", head.header.frame_index),
            ("width", head.width.into()),
            ("height", head.height.into()),
            ("point_step", head.point_step.into()),
        ] {
            p.field(name)?;
            p.scalar(value)?;
        }
        p.field("is_dense")?;
        p.scalar(head.is_dense != 0)?;
        p.field("fields")?;
        p.list(fields.len(), |p, i| match fields.get(i) {
            Some(field) => p.fields(|p| print_field(cloud, field, p)),
            None => p.no_fields(),
        })?;
        p.field("points_in_all")?;
        p.scalar(cloud.len() as u64)?;
        p.field(if full { "points" } else { "first_points" })?;
        let shown = if full { cloud.len() } else { cloud.len().min(FIRST) };
        p.list(shown, |p, i| {
            let values: Vec<Scalar> = fields.iter().flat_map(|f| values(cloud, f, i)).collect();
            p.numbers(values.into_iter())
        })
    })
}

fn print_field(cloud: &CloudView<'_>, field: &FieldSpec<'_>, p: &mut Printer<'_>) -> fmt::Result {
    p.field("name")?;
    p.text(field.name)?;
    p.field("type")?;
    p.text(&format!("{:?}", field.datatype).to_lowercase())?;
    if field.count != 1 {
        p.field("count")?;
        p.scalar(field.count)?;
    }
    let Some(range) = range(cloud, field) else { return Ok(()) };
    if let Some((least, greatest)) = range.ends {
        p.field("min")?;
        p.scalar(least)?;
        p.field("max")?;
        p.scalar(greatest)?;
    }
    if range.not_finite > 0 {
        p.field("not_finite")?;
        p.scalar(range.not_finite)?;
    }
    Ok(())
}

/// Returns the range of a field; `None` if a point has several elements of it, or without points.
fn range(cloud: &CloudView<'_>, field: &FieldSpec<'_>) -> Option<Range> {
    let mut range = Range::default();
    if field.count != 1 || cloud.is_empty() {
        return None;
    }
    for value in (0..cloud.len()).flat_map(|i| values(cloud, field, i)) {
        let number = number(value);
        if !number.is_finite() {
            range.not_finite += 1;
            continue;
        }
        let (mut least, mut greatest) = range.ends.unwrap_or((value, value));
        if number < self::number(least) {
            least = value;
        }
        if number > self::number(greatest) {
            greatest = value;
        }
        range.ends = Some((least, greatest));
    }
    Some(range)
}

/// Value for comparisons; exact, because integers in clouds have at most 32 bits.
fn number(value: Scalar) -> f64 {
    match value {
        Scalar::Int(v) => v as f64,
        Scalar::UInt(v) => v as f64,
        Scalar::F32(v) => v.into(),
        Scalar::F64(v) => v,
        Scalar::Bool(v) => v.into(),
    }
}

/// The elements of a field of point `i`. Points are counted row by row.
fn values(cloud: &CloudView<'_>, field: &FieldSpec<'_>, i: usize) -> Vec<Scalar> {
    let head = cloud.head();
    let width = (head.width as usize).max(1);
    let point = (i / width) * head.row_step as usize + (i % width) * head.point_step as usize;
    let size = field.datatype.size() as usize;
    let at = |k: usize| {
        let begin = point.checked_add(field.offset as usize)?.checked_add(k * size)?;
        value(field.datatype, cloud.data().get(begin..begin.checked_add(size)?)?)
    };
    (0..field.count as usize).filter_map(at).collect()
}

fn value(datatype: Datatype, bytes: &[u8]) -> Option<Scalar> {
    Some(match datatype {
        Datatype::Int8 => Scalar::from(i8::from_le_bytes(bytes.try_into().ok()?)),
        Datatype::Uint8 => Scalar::from(u8::from_le_bytes(bytes.try_into().ok()?)),
        Datatype::Int16 => Scalar::from(i16::from_le_bytes(bytes.try_into().ok()?)),
        Datatype::Uint16 => Scalar::from(u16::from_le_bytes(bytes.try_into().ok()?)),
        Datatype::Int32 => Scalar::from(i32::from_le_bytes(bytes.try_into().ok()?)),
        Datatype::Uint32 => Scalar::from(u32::from_le_bytes(bytes.try_into().ok()?)),
        Datatype::Float32 => Scalar::from(f32::from_le_bytes(bytes.try_into().ok()?)),
        Datatype::Float64 => Scalar::from(f64::from_le_bytes(bytes.try_into().ok()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_msgs::{Header, PointCloud, PointXyzi};
    use driveline_types::print::{Limits, Style};
    use zerocopy::IntoBytes;

    /// A cloud in the form in which publishers write it.
    fn payload(points: &[PointXyzi]) -> Vec<u8> {
        let header = Header::new(7, "lidar", 3).unwrap();
        let head = PointCloud::new::<PointXyzi>(header, points.len() as u32, 1).unwrap();
        let mut payload = head.as_bytes().to_vec();
        let all = PointCloud::payload_len::<PointXyzi>(points.len()).unwrap();
        // The points begin at a multiple of 64 bytes.
        payload.resize(all - size_of_val(points), 0);
        payload.extend_from_slice(points.as_bytes());
        payload
    }

    fn shown(payload: &[u8], full: bool, style: Style) -> String {
        let cloud = CloudView::of_bytes(payload).unwrap();
        let mut out = String::new();
        let limits = if full { Limits::NONE } else { Limits::default() };
        print(&cloud, full, &mut Printer::new(&mut out, style, limits)).unwrap();
        out
    }

    fn point(i: u16) -> PointXyzi {
        PointXyzi { x: f32::from(i), y: -0.5, z: f32::NAN, intensity: 0.1 }
    }

    #[test]
    fn a_cloud_is_summed_up_with_its_used_fields_and_first_points_as_numbers() {
        let points: Vec<_> = (0..1000).map(point).collect();
        let text = shown(&payload(&points), false, Style::Text);
        assert!(text.lines().count() < 40, "{text}");
        for part in [
            "frame_id: lidar\n",
            "width: 1000\n",
            "name: x\n",
            "type: float32\n",
            "min: 0.0\n",
            "max: 999.0\n",
            "not_finite: 1000\n",
            // The shortest digits of the float32, not those of the nearest float64.
            "min: 0.1\n",
            "points_in_all: 1000\n",
            "- [1.0, -0.5, NaN, 0.1]\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(!text.contains("[3.0, "), "three are enough: {text}");
        let whole = shown(&payload(&points), true, Style::Text);
        assert!(whole.contains("- [999.0, -0.5, NaN, 0.1]\n"), "all with --full");
    }

    #[test]
    fn programs_get_the_same_as_an_object() {
        let points = [PointXyzi { x: 1.5, y: 2.0, z: 3.0, intensity: 4.0 }];
        let json: serde_json::Value =
            serde_json::from_str(&shown(&payload(&points), true, Style::Json)).unwrap();
        assert_eq!(json["points"], serde_json::json!([[1.5, 2.0, 3.0, 4.0]]));
        assert_eq!(
            (&json["fields"][3]["name"], &json["points_in_all"]),
            (&"intensity".into(), &1.into())
        );
    }
}
