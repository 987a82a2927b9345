// SPDX-License-Identifier: Apache-2.0
//! Point clouds, described as in ROS's `sensor_msgs/PointCloud2`.

use crate::header::{Header, TextError, fixed_text, to_fixed_text};
use crate::points::{FieldSpec, Point};
use driveline_types::{PayloadError, PlainMut, PlainRef, plain::payload_len, plain_type};
use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

/// Maximum number of fields of a point.
pub const MAX_POINT_FIELDS: usize = 16;

/// Head of a point cloud; the points follow as `data`. Values are little endian.
///
/// Read it through [`CloudView`] and write it through [`CloudMut`]: they check that its values fit
/// the data.
#[plain_type(name = "driveline/PointCloud", tail(data: u8))]
#[derive(Debug, PartialEq, Eq)]
pub struct PointCloud {
    /// Source time, number of the scan and sensor frame.
    pub header: Header,
    /// Rows: 1 for a list of points, more for a grid in the sensor's order.
    pub height: u32,
    /// Points in a row.
    pub width: u32,
    /// Distance from the start of a point to the start of the next, in bytes.
    pub point_step: u32,
    /// Distance from the start of a row to the start of the next, in bytes.
    pub row_step: u32,
    /// 0 if points may have NaN coordinates; another value if no point has.
    pub is_dense: u32,
    /// Number of used `fields`.
    pub field_count: u32,
    /// Fields of a point; unused entries are zero.
    pub fields: [PointField; MAX_POINT_FIELDS],
}

/// One field of a point.
#[plain_type(name = "driveline/PointField")]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PointField {
    /// Name, such as `x` or `intensity`: at most 19 bytes of UTF-8, then zeros.
    pub name: [u8; 20],
    /// Offset in a point, in bytes.
    pub offset: u32,
    /// Number of a [`Datatype`].
    pub datatype: u32,
    /// Number of elements. 0 is read as 1, because ROS drivers leave it unset.
    pub count: u32,
}

/// Type of a point's field. Numbers as in ROS's `sensor_msgs/PointField`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Datatype {
    Int8 = 1,
    Uint8 = 2,
    Int16 = 3,
    Uint16 = 4,
    Int32 = 5,
    Uint32 = 6,
    Float32 = 7,
    Float64 = 8,
}

impl Datatype {
    /// All types.
    pub const ALL: [Self; 8] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Float32,
        Self::Float64,
    ];

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(self) -> u32 {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    /// Returns the type with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&d| d as u32 == number)
    }
}

/// Reason why a payload is not a point cloud, or does not contain points of the requested type.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CloudError {
    /// The payload is not a [`PointCloud`].
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// More fields than fit.
    #[error("point cloud claims {field_count} fields where {MAX_POINT_FIELDS} fit")]
    FieldCount {
        /// Fields claimed.
        field_count: u32,
    },
    /// The name of a field is not text.
    #[error("field {index} of the point cloud: {source}")]
    FieldName {
        /// Number of the field, from 0.
        index: usize,
        /// Mistake in the name.
        source: TextError,
    },
    /// A field's type is unknown.
    #[error(
        "field '{name}' of the point cloud has the unknown datatype {datatype}; known are 1 (int8) \
         to 8 (float64)"
    )]
    FieldType {
        /// Name.
        name: String,
        /// The number.
        datatype: u32,
    },
    /// A field lies outside the point.
    #[error(
        "field '{name}' of the point cloud ends at byte {end} of a point of {point_step} bytes"
    )]
    FieldOutside {
        /// Name.
        name: String,
        /// End of the field in bytes.
        end: u64,
        /// Size of a point in bytes.
        point_step: u32,
    },
    /// Rows overlap.
    #[error(
        "point cloud row step {row_step} bytes is less than {width} points of {point_step} bytes \
         take"
    )]
    RowStep {
        /// Distance between rows, in bytes.
        row_step: u32,
        /// Points in a row.
        width: u32,
        /// Size of a point in bytes.
        point_step: u32,
    },
    /// Points lie beyond the data.
    #[error(
        "point cloud data is {data_len} bytes where {height} rows of {row_step} bytes need {needed}"
    )]
    Data {
        /// Length of the data in bytes.
        data_len: usize,
        /// Rows.
        height: u32,
        /// Distance between rows, in bytes.
        row_step: u32,
        /// Length needed, in bytes.
        needed: u64,
    },
    /// A field of the point type is missing, or has another offset or type.
    #[error(
        "points of the cloud are no {point}: {point} has {expected}, the cloud has {found}; the \
         cloud's fields are {all}"
    )]
    PointType {
        /// The point type asked for.
        point: &'static str,
        /// Field of the point type.
        expected: String,
        /// Field of the cloud.
        found: String,
        /// All fields of the cloud.
        all: String,
    },
    /// The points are not an array: their size differs, there are gaps, or the data is not aligned
    /// for the point type.
    #[error(
        "points of the cloud are no array of {point} ({size} bytes each): its points are \
         {point_step} bytes apart and its rows {row_step} bytes"
    )]
    Spacing {
        /// The point type asked for.
        point: &'static str,
        /// Its size in bytes.
        size: usize,
        /// Distance between points, in bytes.
        point_step: u32,
        /// Distance between rows, in bytes.
        row_step: u32,
    },
}

fn spec(index: usize, field: &PointField) -> Result<FieldSpec<'_>, CloudError> {
    let name = fixed_text("its name", &field.name)
        .map_err(|source| CloudError::FieldName { index, source })?;
    let datatype = Datatype::from_number(field.datatype)
        .ok_or_else(|| CloudError::FieldType { name: name.to_owned(), datatype: field.datatype })?;
    Ok(FieldSpec { name, offset: field.offset, datatype, count: field.count.max(1) })
}

fn used(head: &PointCloud) -> &[PointField] {
    head.fields.get(..head.field_count as usize).unwrap_or_default()
}

fn check(head: &PointCloud, data_len: usize) -> Result<(), CloudError> {
    let PointCloud { width, height, point_step, row_step, field_count, .. } = *head;
    if field_count as usize > MAX_POINT_FIELDS {
        return Err(CloudError::FieldCount { field_count });
    }
    for (index, field) in used(head).iter().enumerate() {
        let spec = spec(index, field)?;
        // Below 2^32 + 2^32 * 8.
        let end = u64::from(spec.offset) + u64::from(spec.count) * u64::from(spec.datatype.size());
        if end > u64::from(point_step) {
            return Err(CloudError::FieldOutside { name: spec.name.to_owned(), end, point_step });
        }
    }
    if u64::from(width) * u64::from(point_step) > u64::from(row_step) {
        return Err(CloudError::RowStep { row_step, width, point_step });
    }
    let needed = u64::from(row_step) * u64::from(height);
    if needed > data_len as u64 {
        return Err(CloudError::Data { data_len, height, row_step, needed });
    }
    Ok(())
}

impl Default for PointCloud {
    fn default() -> Self {
        let fields = [PointField::default(); MAX_POINT_FIELDS];
        Self {
            header: Header::default(),
            height: 0,
            width: 0,
            point_step: 0,
            row_step: 0,
            is_dense: 0,
            field_count: 0,
            fields,
        }
    }
}

impl PointCloud {
    /// Checks that this head describes a cloud whose data, of `data_len` bytes, contains all of its
    /// rows.
    ///
    /// # Errors
    /// [`CloudError`] if its values do not fit each other or the data.
    pub fn check(&self, data_len: usize) -> Result<(), CloudError> {
        check(self, data_len)
    }

    /// Returns a head for `height` rows of `width` points of type `P` without gaps between them;
    /// `is_dense` is 0.
    ///
    /// # Errors
    /// [`CloudError`] if a row is longer than 4 GiB, or `P` has too many fields or too long names.
    pub fn new<P: Point>(header: Header, width: u32, height: u32) -> Result<Self, CloudError> {
        let point_step = size_of::<P>() as u32;
        let row_step = width.checked_mul(point_step).ok_or(CloudError::RowStep {
            row_step: u32::MAX,
            width,
            point_step,
        })?;
        let mut head = Self {
            header,
            height,
            width,
            point_step,
            row_step,
            field_count: P::FIELDS.len() as u32,
            ..Self::default()
        };
        if P::FIELDS.len() > MAX_POINT_FIELDS {
            return Err(CloudError::FieldCount { field_count: head.field_count });
        }
        for (index, (field, spec)) in head.fields.iter_mut().zip(P::FIELDS).enumerate() {
            let name = to_fixed_text("its name", spec.name)
                .map_err(|source| CloudError::FieldName { index, source })?;
            *field = PointField {
                name,
                offset: spec.offset,
                datatype: spec.datatype as u32,
                count: spec.count,
            };
        }
        Ok(head)
    }

    /// Returns the length of the payload of a cloud of `count` points of type `P`, in bytes, for a
    /// loan.
    ///
    /// # Errors
    /// [`PayloadError::TooLong`] if the length exceeds the address space.
    pub fn payload_len<P: Point>(count: usize) -> Result<usize, PayloadError> {
        payload_len::<Self>(count.saturating_mul(size_of::<P>()))
    }
}

/// A checked point cloud whose values fit its data. It copies no points and allocates only for
/// errors.
///
/// The head is copied before it is checked: even if another process writes into the payload
/// afterwards, points and fields stay inside it. Only the points' values can change.
#[derive(Clone, Copy, Debug)]
pub struct CloudView<'a> {
    head: PointCloud,
    data: &'a [u8],
}

impl<'a> CloudView<'a> {
    /// Returns a view of a payload as a point cloud.
    ///
    /// # Errors
    /// [`CloudError`] if its values do not fit its data.
    pub fn new(payload: PlainRef<'a, PointCloud>) -> Result<Self, CloudError> {
        let (head, data) = (payload.copy_head(), payload.tail());
        check(&head, data.len())?;
        Ok(Self { head, data })
    }

    /// Returns a view of the bytes of a point cloud, with any alignment.
    ///
    /// # Errors
    /// [`CloudError`] if its values do not fit its data.
    pub fn of_bytes(payload: &'a [u8]) -> Result<Self, CloudError> {
        let offset = payload_len::<PointCloud>(0)?;
        let short = CloudError::Payload(PayloadError::Short {
            type_name: "driveline/PointCloud",
            len: payload.len(),
            min: offset,
        });
        let (Ok((head, _)), Some(data)) =
            (PointCloud::read_from_prefix(payload), payload.get(offset..))
        else {
            return Err(short);
        };
        check(&head, data.len())?;
        Ok(Self { head, data })
    }

    /// Returns the copy of the head.
    #[must_use]
    pub fn head(&self) -> &PointCloud {
        &self.head
    }

    /// Returns the number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.width as usize * self.head.height as usize
    }

    /// Returns true if there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all bytes after the head; at least `row_step * height`.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the fields of a point.
    pub fn fields(&self) -> impl Iterator<Item = FieldSpec<'_>> {
        used(&self.head).iter().enumerate().filter_map(|(i, f)| spec(i, f).ok())
    }

    /// Returns the points, in place. The cloud may have more fields than `P` if its points have the
    /// same size.
    ///
    /// # Errors
    /// [`CloudError`] that names the difference from `P`, or if there are gaps between rows, or the
    /// data is not aligned for `P`.
    pub fn points<P: Point>(&self) -> Result<&'a [P], CloudError> {
        self.check_points::<P>()?;
        let points = self.data.get(..self.len() * size_of::<P>());
        points.and_then(|p| <[P]>::ref_from_bytes(p).ok()).ok_or_else(|| spacing::<P>(&self.head))
    }

    fn check_points<P: Point>(&self) -> Result<(), CloudError> {
        for expected in P::FIELDS {
            let found = self.fields().find(|f| f.name == expected.name);
            if found.as_ref() != Some(expected) {
                let all: Vec<_> = self.fields().map(|f| f.to_string()).collect();
                return Err(CloudError::PointType {
                    point: P::NAME,
                    expected: expected.to_string(),
                    found: found.map_or_else(|| "no such field".to_owned(), |f| f.to_string()),
                    all: all.join(", "),
                });
            }
        }
        let (head, size) = (&self.head, size_of::<P>() as u64);
        let one_row = head.height <= 1 || u64::from(head.row_step) == u64::from(head.width) * size;
        if u64::from(head.point_step) != size || !one_row {
            return Err(spacing::<P>(head));
        }
        Ok(())
    }
}

fn spacing<P: Point>(head: &PointCloud) -> CloudError {
    CloudError::Spacing {
        point: P::NAME,
        size: size_of::<P>(),
        point_step: head.point_step,
        row_step: head.row_step,
    }
}

/// A point cloud under construction, of points of type `P`.
#[derive(Debug)]
pub struct CloudMut<'a, P: Point> {
    head: &'a mut PointCloud,
    points: &'a mut [P],
}

impl<'a, P: Point + IntoBytes> CloudMut<'a, P> {
    /// Writes the head of a cloud of `height` rows of `width` points into a payload of at least
    /// [`PointCloud::payload_len`]. The points keep their previous bytes.
    ///
    /// # Errors
    /// [`CloudError`] if the payload is too short, or the layout of `P` or of a row is impossible:
    /// too many fields, too long a name, a row above 4 GiB.
    pub fn new(
        payload: PlainMut<'a, PointCloud>,
        header: Header,
        width: u32,
        height: u32,
    ) -> Result<Self, CloudError> {
        let (head, data) = payload.split();
        let new = PointCloud::new::<P>(header, width, height)?;
        check(&new, data.len())?;
        *head = new;
        let len = new.row_step as usize * height as usize;
        let points = data
            .get_mut(..len)
            .and_then(|p| <[P]>::mut_from_bytes(p).ok())
            .ok_or_else(|| spacing::<P>(&new))?;
        Ok(Self { head, points })
    }

    /// Declares that no point has NaN coordinates.
    pub fn set_dense(&mut self) {
        self.head.is_dense = 1;
    }

    /// Returns the points, row by row.
    #[must_use]
    pub fn points_mut(&mut self) -> &mut [P] {
        self.points
    }
}

#[cfg(test)]
#[path = "point_cloud_tests.rs"]
mod tests;
