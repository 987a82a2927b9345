// SPDX-License-Identifier: Apache-2.0
//! Messages that come with Driveline.
//!
//! Plain types, which are read in place: [`Image`], [`CompressedImage`], [`PointCloud`], [`Imu`],
//! [`RadarScan`], each with a [`Header`]. Protobuf messages: [`proto`]. Both have C++ counterparts
//! with the same schema hash: in `sdk/cpp/include/driveline`, and generated from `proto/`.
//!
//! Enumerations in plain types are stored as integers, because a peer can send any bit pattern;
//! they are checked when read.
//!
//! ```
//! use driveline_msgs::{Encoding, Header, Image, ImageMut, ImageView};
//! use driveline_types::{PlainMut, PlainRef};
//! # #[repr(C, align(64))] struct Payload([u8; 128 + 640 * 3 * 2]);
//! # let mut memory = Payload([0; 128 + 640 * 3 * 2]);
//! # let payload = &mut memory.0[..];
//! let header = Header::new(1_000, "camera_front", 0)?;
//! let mut image = ImageMut::new(PlainMut::new(payload)?, header, 640, 2, Encoding::Bgr8)?;
//! image.row_mut(1).fill(255);
//!
//! let image = ImageView::new(PlainRef::<Image>::new(payload)?)?;
//! assert_eq!((image.width(), image.height(), image.encoding()), (640, 2, Encoding::Bgr8));
//! assert_eq!(image.row(1)[0], 255);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod compressed_image;
pub mod header;
pub mod image;
pub mod imu;
pub mod point_cloud;
pub mod points;
pub mod radar;

/// The shipped protobuf messages, package `driveline.msgs`. Comments are those of the `.proto`
/// files.
#[expect(missing_docs, reason = "generated; what the .proto files explain is explained here")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/driveline.msgs.rs"));
}

pub use compressed_image::CompressedImage;
pub use header::{FrameId, Header, TextError};
pub use image::{Encoding, Image, ImageError, ImageMut, ImageView, MAX_IMAGE_SIDE};
pub use imu::Imu;
pub use point_cloud::{CloudError, CloudMut, CloudView, Datatype, PointCloud, PointField};
pub use points::{FieldSpec, Point, PointXyz, PointXyzAligned, PointXyzi};
pub use radar::{RadarReturn, RadarScan};
