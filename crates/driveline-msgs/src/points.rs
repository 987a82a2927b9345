// SPDX-License-Identifier: Apache-2.0
//! Types of points, by which a cloud's data is read as a slice of points.

use crate::point_cloud::Datatype;
use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Position and type of a field in a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpec<'a> {
    /// Name.
    pub name: &'a str,
    /// Offset in bytes.
    pub offset: u32,
    /// Type.
    pub datatype: Datatype,
    /// Number of elements.
    pub count: u32,
}

impl fmt::Display for FieldSpec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' {:?}", self.name, self.datatype)?;
        if self.count != 1 {
            write!(f, "[{}]", self.count)?;
        }
        write!(f, " at offset {}", self.offset)
    }
}

/// A point type in C layout, for a view of a cloud's data. `FIELDS` must be those of the struct.
pub trait Point: FromBytes + Immutable + KnownLayout + Copy + 'static {
    /// Name, for errors.
    const NAME: &'static str;
    /// Fields that a cloud must have.
    const FIELDS: &'static [FieldSpec<'static>];
}

const fn float(name: &'static str, offset: u32) -> FieldSpec<'static> {
    FieldSpec { name, offset, datatype: Datatype::Float32, count: 1 }
}

/// x, y, z without gaps: 12 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PointXyz {
    /// In metres.
    pub x: f32,
    /// In metres.
    pub y: f32,
    /// In metres.
    pub z: f32,
}

impl Point for PointXyz {
    const NAME: &'static str = "PointXyz";
    const FIELDS: &'static [FieldSpec<'static>] = &[float("x", 0), float("y", 4), float("z", 8)];
}

/// x, y, z and one unused float, aligned to 16 bytes: the layout of `pcl::PointXYZ`.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
pub struct PointXyzAligned {
    /// In metres.
    pub x: f32,
    /// In metres.
    pub y: f32,
    /// In metres.
    pub z: f32,
    /// PCL stores 1 here.
    pub unused: f32,
}

impl Point for PointXyzAligned {
    const NAME: &'static str = "PointXyzAligned";
    const FIELDS: &'static [FieldSpec<'static>] = &[float("x", 0), float("y", 4), float("z", 8)];
}

/// x, y, z and intensity without gaps: 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PointXyzi {
    /// In metres.
    pub x: f32,
    /// In metres.
    pub y: f32,
    /// In metres.
    pub z: f32,
    /// Strength of the return, in the sensor's unit.
    pub intensity: f32,
}

impl Point for PointXyzi {
    const NAME: &'static str = "PointXyzi";
    const FIELDS: &'static [FieldSpec<'static>] =
        &[float("x", 0), float("y", 4), float("z", 8), float("intensity", 12)];
}
