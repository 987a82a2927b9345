// SPDX-License-Identifier: Apache-2.0
//! Images.

use crate::header::Header;
use driveline_types::{PayloadError, PlainMut, PlainRef, plain::payload_len, plain_type};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Head of an image; the rows follow as `data`.
///
/// Read it through [`ImageView`] and write it through [`ImageMut`]: they check that its values fit
/// the data.
#[plain_type(name = "driveline/Image", tail(data: u8))]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Source time, frame number and camera frame.
    pub header: Header,
    /// Columns, in pixels; at most [`MAX_IMAGE_SIDE`].
    pub width: u32,
    /// Rows, in pixels; at most [`MAX_IMAGE_SIDE`].
    pub height: u32,
    /// Distance from the start of a row to the start of the next, in bytes.
    pub step: u32,
    /// Number of an [`Encoding`].
    pub encoding: u32,
}

/// Maximum number of columns and of [rows of data](Encoding::rows) of an image: the range of `int`,
/// which image libraries use.
pub const MAX_IMAGE_SIDE: u32 = 0x7fff_ffff;

/// Format of pixels, with names and bit counts as in ROS. Multi-byte values are little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Encoding {
    /// Blue, green, red; one byte each.
    Bgr8 = 1,
    /// Red, green, blue; one byte each.
    Rgb8 = 2,
    /// Grey; one byte.
    Mono8 = 3,
    /// U, Y, V, Y for each two pixels, one byte each (UYVY); the width is even.
    Yuv422 = 4,
    /// Y, U, Y, V for each two pixels, one byte each (YUY2); the width is even.
    Yuyv = 5,
    /// Blue, green, red, opacity; one byte each.
    Bgra8 = 6,
    /// Red, green, blue, opacity; one byte each.
    Rgba8 = 7,
    /// Grey; two bytes.
    Mono16 = 8,
    /// One number of 16 bits, such as a depth in millimetres.
    Type16Uc1 = 9,
    /// One `float`, such as a depth in metres.
    Type32Fc1 = 10,
    /// One byte without a defined meaning.
    Type8Uc1 = 11,
    /// Two bytes without a defined meaning.
    Type8Uc2 = 12,
    /// Three bytes without a defined meaning.
    Type8Uc3 = 13,
    /// Four bytes without a defined meaning.
    Type8Uc4 = 14,
    /// A plane of Y, then rows of U, V for each two by two pixels; width and height are even.
    Nv12 = 15,
    /// A plane of Y, then rows of V, U for each two by two pixels; width and height are even.
    Nv21 = 16,
    /// Bayer pattern, RGGB from the first pixel on; one byte.
    BayerRggb8 = 17,
    /// Bayer pattern, BGGR from the first pixel on; one byte.
    BayerBggr8 = 18,
    /// Bayer pattern, GBRG from the first pixel on; one byte.
    BayerGbrg8 = 19,
    /// Bayer pattern, GRBG from the first pixel on; one byte.
    BayerGrbg8 = 20,
    /// Bayer pattern, RGGB from the first pixel on; two bytes.
    BayerRggb16 = 21,
    /// Bayer pattern, BGGR from the first pixel on; two bytes.
    BayerBggr16 = 22,
    /// Bayer pattern, GBRG from the first pixel on; two bytes.
    BayerGbrg16 = 23,
    /// Bayer pattern, GRBG from the first pixel on; two bytes.
    BayerGrbg16 = 24,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 24] = [
        Self::Bgr8,
        Self::Rgb8,
        Self::Mono8,
        Self::Yuv422,
        Self::Yuyv,
        Self::Bgra8,
        Self::Rgba8,
        Self::Mono16,
        Self::Type16Uc1,
        Self::Type32Fc1,
        Self::Type8Uc1,
        Self::Type8Uc2,
        Self::Type8Uc3,
        Self::Type8Uc4,
        Self::Nv12,
        Self::Nv21,
        Self::BayerRggb8,
        Self::BayerBggr8,
        Self::BayerGbrg8,
        Self::BayerGrbg8,
        Self::BayerRggb16,
        Self::BayerBggr16,
        Self::BayerGbrg16,
        Self::BayerGrbg16,
    ];

    /// Returns its name in ROS, such as `bgr8` or `16UC1`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bgr8 => "bgr8",
            Self::Rgb8 => "rgb8",
            Self::Mono8 => "mono8",
            Self::Yuv422 => "yuv422",
            Self::Yuyv => "yuyv",
            Self::Bgra8 => "bgra8",
            Self::Rgba8 => "rgba8",
            Self::Mono16 => "mono16",
            Self::Type16Uc1 => "16UC1",
            Self::Type32Fc1 => "32FC1",
            Self::Type8Uc1 => "8UC1",
            Self::Type8Uc2 => "8UC2",
            Self::Type8Uc3 => "8UC3",
            Self::Type8Uc4 => "8UC4",
            Self::Nv12 => "nv12",
            Self::Nv21 => "nv21",
            Self::BayerRggb8 => "bayer_rggb8",
            Self::BayerBggr8 => "bayer_bggr8",
            Self::BayerGbrg8 => "bayer_gbrg8",
            Self::BayerGrbg8 => "bayer_grbg8",
            Self::BayerRggb16 => "bayer_rggb16",
            Self::BayerBggr16 => "bayer_bggr16",
            Self::BayerGbrg16 => "bayer_gbrg16",
            Self::BayerGrbg16 => "bayer_grbg16",
        }
    }

    /// Returns its name in messages of ROS, supported by every release since Humble, except that
    /// Humble does not know `nv12`.
    #[must_use]
    pub fn ros_name(self) -> &'static str {
        if self == Self::Yuyv { "yuv422_yuy2" } else { self.name() }
    }

    /// Returns the number of bytes of a row per pixel. For `nv12` and `nv21` this is 1, because
    /// each row belongs to one plane.
    #[must_use]
    pub fn bytes_per_pixel(self) -> u32 {
        match self {
            Self::Bgr8 | Self::Rgb8 | Self::Type8Uc3 => 3,
            Self::Mono8
            | Self::Type8Uc1
            | Self::Nv12
            | Self::Nv21
            | Self::BayerRggb8
            | Self::BayerBggr8
            | Self::BayerGbrg8
            | Self::BayerGrbg8 => 1,
            Self::Yuv422
            | Self::Yuyv
            | Self::Mono16
            | Self::Type16Uc1
            | Self::Type8Uc2
            | Self::BayerRggb16
            | Self::BayerBggr16
            | Self::BayerGbrg16
            | Self::BayerGrbg16 => 2,
            Self::Bgra8 | Self::Rgba8 | Self::Type32Fc1 | Self::Type8Uc4 => 4,
        }
    }

    /// Returns the size in bytes of a number in a pixel. The distance between rows is a multiple of
    /// it.
    #[must_use]
    pub fn bytes_per_channel(self) -> u32 {
        match self {
            Self::Mono16
            | Self::Type16Uc1
            | Self::BayerRggb16
            | Self::BayerBggr16
            | Self::BayerGbrg16
            | Self::BayerGrbg16 => 2,
            Self::Type32Fc1 => 4,
            _ => 1,
        }
    }

    /// Returns the number of rows of data in an image of `height` pixels: `height`, or one and a
    /// half times that for `nv12` and `nv21`.
    #[must_use]
    pub fn rows(self, height: u32) -> u64 {
        let height = u64::from(height);
        if self.has_planes() { height + height / 2 } else { height }
    }

    fn has_planes(self) -> bool {
        matches!(self, Self::Nv12 | Self::Nv21)
    }

    /// Returns true if all groups of pixels that share a colour are complete.
    fn permits(self, width: u32, height: u32) -> bool {
        let pairs = self.has_planes() || matches!(self, Self::Yuv422 | Self::Yuyv);
        (width.is_multiple_of(2) || !pairs) && (height.is_multiple_of(2) || !self.has_planes())
    }
}

/// Returns the names of all encodings, for errors.
fn known() -> String {
    Encoding::ALL.map(Encoding::name).join(", ")
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Parses a name in ROS, older and newer ones (`uyvy`, `yuv422_yuy2`) included.
impl FromStr for Encoding {
    type Err = ImageError;
    fn from_str(name: &str) -> Result<Self, ImageError> {
        let found = match name {
            "uyvy" => Some(Self::Yuv422),
            "yuv422_yuy2" => Some(Self::Yuyv),
            name => Self::ALL.into_iter().find(|e| e.name() == name),
        };
        found.ok_or_else(|| ImageError::EncodingName { name: name.chars().take(40).collect() })
    }
}

impl TryFrom<u32> for Encoding {
    type Error = ImageError;
    fn try_from(number: u32) -> Result<Self, ImageError> {
        Self::ALL.into_iter().find(|&e| e as u32 == number).ok_or(ImageError::Encoding { number })
    }
}

/// Reason why a payload is not an image, or why there is no such encoding or size.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ImageError {
    /// The payload is not an [`Image`].
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The number is not that of an encoding.
    #[error("image encoding {number} is unknown; known are 1 (bgr8) to {} \
         (bayer_grbg16)", Encoding::ALL.len())]
    Encoding {
        /// The number.
        number: u32,
    },
    /// The name is not that of an encoding.
    #[error("image encoding '{name}' is unknown; known are {}", known())]
    EncodingName {
        /// The name, cut to 40 characters.
        name: String,
    },
    /// The image has more columns or rows of data than [`MAX_IMAGE_SIDE`].
    #[error(
        "an image cannot be {width} x {height} pixels large; at most {MAX_IMAGE_SIDE} each way"
    )]
    Size {
        /// Columns, in pixels.
        width: u32,
        /// Rows, in pixels.
        height: u32,
    },
    /// The number of columns or rows is odd, although pixels share their colour.
    #[error("a {encoding} image cannot be {width} x {height} pixels large: pixels come in pairs")]
    Odd {
        /// Encoding.
        encoding: Encoding,
        /// Columns, in pixels.
        width: u32,
        /// Rows, in pixels.
        height: u32,
    },
    /// Numbers of several bytes would not be aligned.
    #[error("image step {step} bytes is no multiple of the {} bytes of a number of \
         {encoding}", encoding.bytes_per_channel())]
    StepAlignment {
        /// Distance between rows, in bytes.
        step: u32,
        /// Encoding.
        encoding: Encoding,
    },
    /// Rows overlap.
    #[error(
        "image step {step} bytes is less than a row of {width} {encoding} pixels takes ({row_len} \
         bytes)"
    )]
    Step {
        /// Distance between rows, in bytes.
        step: u32,
        /// Columns, in pixels.
        width: u32,
        /// Encoding.
        encoding: Encoding,
        /// Bytes of a row.
        row_len: u64,
    },
    /// Rows lie beyond the data.
    #[error("image data is {data_len} bytes where {rows} rows of {step} bytes need {needed}")]
    Data {
        /// Length of the data in bytes.
        data_len: usize,
        /// Rows of data.
        rows: u64,
        /// Distance between rows, in bytes.
        step: u32,
        /// Length needed, in bytes.
        needed: u64,
    },
}

/// Dimensions of an image, after a check.
#[derive(Clone, Copy, Debug)]
struct Shape {
    step: usize,
    row_len: usize,
    /// At most [`MAX_IMAGE_SIDE`].
    rows: u32,
    encoding: Encoding,
}

fn check_size(width: u32, height: u32, encoding: Encoding) -> Result<(), ImageError> {
    if width > MAX_IMAGE_SIDE || encoding.rows(height) > u64::from(MAX_IMAGE_SIDE) {
        return Err(ImageError::Size { width, height });
    }
    if !encoding.permits(width, height) {
        return Err(ImageError::Odd { encoding, width, height });
    }
    Ok(())
}

fn check(head: &Image, data_len: usize) -> Result<Shape, ImageError> {
    let encoding = Encoding::try_from(head.encoding)?;
    let (width, step) = (head.width, head.step);
    check_size(width, head.height, encoding)?;
    let row_len = u64::from(width) * u64::from(encoding.bytes_per_pixel());
    if u64::from(step) < row_len {
        return Err(ImageError::Step { step, width, encoding, row_len });
    }
    if !step.is_multiple_of(encoding.bytes_per_channel()) {
        return Err(ImageError::StepAlignment { step, encoding });
    }
    // Both factors are below 2^32.
    let rows = encoding.rows(head.height);
    let needed = u64::from(step) * rows;
    if needed > data_len as u64 {
        return Err(ImageError::Data { data_len, rows, step, needed });
    }
    Ok(Shape { step: step as usize, row_len: row_len as usize, rows: rows as u32, encoding })
}

impl Image {
    /// Returns a head for rows without gaps.
    ///
    /// # Errors
    /// [`ImageError`] if the size exceeds [`MAX_IMAGE_SIDE`], the encoding does not permit the
    /// size, or a row is longer than 4 GiB.
    pub fn new(
        header: Header,
        width: u32,
        height: u32,
        encoding: Encoding,
    ) -> Result<Self, ImageError> {
        check_size(width, height, encoding)?;
        let row_len = u64::from(width) * u64::from(encoding.bytes_per_pixel());
        let Ok(step) = u32::try_from(row_len) else {
            return Err(ImageError::Step { step: u32::MAX, width, encoding, row_len });
        };
        Ok(Self { header, width, height, step, encoding: encoding as u32 })
    }

    /// Returns the length of the data that this head describes, in bytes.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        let rows = Encoding::try_from(self.encoding)
            .map_or_else(|_| u64::from(self.height), |encoding| encoding.rows(self.height));
        u64::from(self.step) * rows
    }

    /// Checks that this head describes an image whose data, of `data_len` bytes, contains all of
    /// its rows.
    ///
    /// # Errors
    /// [`ImageError`] if its values do not fit each other or the data.
    pub fn check(&self, data_len: usize) -> Result<(), ImageError> {
        check(self, data_len).map(drop)
    }

    /// Returns the length of the payload of an image without gaps between its rows, in bytes, for a
    /// loan.
    ///
    /// # Errors
    /// [`ImageError`] as [`Self::new`], or if the length exceeds the address space.
    pub fn payload_len(width: u32, height: u32, encoding: Encoding) -> Result<usize, ImageError> {
        let data_len = Self::new(Header::default(), width, height, encoding)?.data_len();
        Ok(payload_len::<Self>(usize::try_from(data_len).unwrap_or(usize::MAX))?)
    }
}

/// A checked image whose values fit its data. It copies no pixels and does not allocate.
///
/// The head is copied before it is checked: even if another process writes into the payload
/// afterwards, rows and pixels stay inside it. Only their values can change.
#[derive(Clone, Copy, Debug)]
pub struct ImageView<'a> {
    head: Image,
    data: &'a [u8],
    shape: Shape,
}

impl<'a> ImageView<'a> {
    /// Returns a view of a payload as an image.
    ///
    /// # Errors
    /// [`ImageError`] if its values do not fit its data.
    pub fn new(payload: PlainRef<'a, Image>) -> Result<Self, ImageError> {
        let (head, data) = (payload.copy_head(), payload.tail());
        let shape = check(&head, data.len())?;
        Ok(Self { head, data, shape })
    }

    /// Source time, frame number and camera frame.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.head.header
    }

    /// Returns the copy of the head.
    #[must_use]
    pub fn head(&self) -> &Image {
        &self.head
    }

    /// Columns, in pixels.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.head.width
    }

    /// Rows, in pixels.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.head.height
    }

    /// Distance between the starts of rows, in bytes.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.head.step
    }

    /// Returns the format of the pixels.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.shape.encoding
    }

    /// Returns the number of rows of data: the height, or one and a half times that for `nv12` and
    /// `nv21`.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.shape.rows
    }

    /// Returns all bytes after the head; at least `step * rows`.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the pixels of row `y`, without the gap to the next row; empty from `rows` on.
    #[must_use]
    pub fn row(&self, y: u32) -> &'a [u8] {
        if y >= self.shape.rows {
            return &[];
        }
        let start = y as usize * self.shape.step;
        self.data.get(start..start + self.shape.row_len).unwrap_or_default()
    }
}

/// An image under construction whose values fit its data.
#[derive(Debug)]
pub struct ImageMut<'a> {
    data: &'a mut [u8],
    shape: Shape,
}

impl<'a> ImageMut<'a> {
    /// Writes the head of an image without gaps between its rows into a payload of at least
    /// [`Image::payload_len`]. The pixels keep their previous bytes.
    ///
    /// # Errors
    /// [`ImageError`] as [`Image::new`], or if the payload is too short.
    pub fn new(
        payload: PlainMut<'a, Image>,
        header: Header,
        width: u32,
        height: u32,
        encoding: Encoding,
    ) -> Result<Self, ImageError> {
        let (head, data) = payload.split();
        let new = Image::new(header, width, height, encoding)?;
        let shape = check(&new, data.len())?;
        *head = new;
        Ok(Self { data, shape })
    }

    /// Returns all bytes after the head; rows follow each other without gaps.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.data
    }

    /// Returns the pixels of row `y`; empty after the last row of data.
    #[must_use]
    pub fn row_mut(&mut self, y: u32) -> &mut [u8] {
        if y >= self.shape.rows {
            return &mut [];
        }
        let start = y as usize * self.shape.step;
        self.data.get_mut(start..start + self.shape.row_len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view(head: &Image, data: &[u8]) -> Result<(), ImageError> {
        ImageView::new(PlainRef::from_parts(head, data)).map(drop)
    }

    #[test]
    fn numbers_that_do_not_fit_the_data_are_refused() {
        let head = Image::new(Header::default(), 4, 3, Encoding::Bgr8).unwrap();
        let data = [0; 36];
        assert_eq!(view(&head, &data), Ok(()));
        assert_eq!(
            view(&head, &data[1..]),
            Err(ImageError::Data { data_len: 35, rows: 3, step: 12, needed: 36 })
        );
        let short = Image { step: 11, ..head };
        assert_eq!(
            view(&short, &data),
            Err(ImageError::Step { step: 11, width: 4, encoding: Encoding::Bgr8, row_len: 12 })
        );
        assert_eq!(
            view(&Image { encoding: 25, ..head }, &data),
            Err(ImageError::Encoding { number: 25 })
        );
        let wide = Image { width: 0x8000_0000, ..head };
        assert_eq!(view(&wide, &data), Err(ImageError::Size { width: 0x8000_0000, height: 3 }));
        assert!(matches!(
            Image::new(Header::default(), 1, u32::MAX, Encoding::Mono8),
            Err(ImageError::Size { .. })
        ));
        let odd = Image { encoding: Encoding::Yuv422 as u32, width: 3, ..head };
        assert_eq!(
            view(&odd, &data),
            Err(ImageError::Odd { encoding: Encoding::Yuv422, width: 3, height: 3 })
        );
        for encoding in [Encoding::Yuv422, Encoding::Yuyv, Encoding::Nv12, Encoding::Nv21] {
            assert!(matches!(
                Image::new(Header::default(), 3, 2, encoding),
                Err(ImageError::Odd { .. })
            ));
        }
        assert!(matches!(
            Image::new(Header::default(), 4, 3, Encoding::Nv12),
            Err(ImageError::Odd { .. })
        ));
        let deep = Image { encoding: Encoding::Type16Uc1 as u32, step: 9, ..head };
        assert_eq!(
            view(&deep, &data),
            Err(ImageError::StepAlignment { step: 9, encoding: Encoding::Type16Uc1 })
        );
        assert!(matches!(
            Image::new(Header::default(), 2, MAX_IMAGE_SIDE - 1, Encoding::Nv12),
            Err(ImageError::Size { .. })
        ));
        assert!(matches!(
            Image::new(Header::default(), MAX_IMAGE_SIDE, 1, Encoding::Bgr8),
            Err(ImageError::Step { .. })
        ));
    }

    #[test]
    fn rows_leave_the_gap_between_them_out() {
        let data: Vec<u8> = (0..30).collect();
        let head = Image {
            width: 2,
            height: 3,
            step: 10,
            encoding: Encoding::Rgb8 as u32,
            header: Header::default(),
        };
        let image = ImageView::new(PlainRef::from_parts(&head, &data)).unwrap();
        assert_eq!(image.row(1), [10, 11, 12, 13, 14, 15]);
        assert!(image.row(3).is_empty());
    }

    #[test]
    fn encodings_have_one_name_and_one_number_each() {
        for e in Encoding::ALL {
            assert_eq!(e.name().parse(), Ok(e));
            assert_eq!(Encoding::try_from(e as u32), Ok(e));
        }
        assert_eq!("uyvy".parse(), Ok(Encoding::Yuv422));
        assert_eq!(Encoding::Yuyv.ros_name().parse(), Ok(Encoding::Yuyv));
        let told = "32FC3".parse::<Encoding>().unwrap_err().to_string();
        assert!(
            told.contains("'32FC3' is unknown; known are bgr8, rgb8, mono8")
                && told.ends_with("bayer_grbg16"),
            "{told}"
        );
        assert!(
            Encoding::try_from(25)
                .unwrap_err()
                .to_string()
                .contains("1 (bgr8) to 24 (bayer_grbg16)")
        );
    }

    #[test]
    fn chroma_rows_follow_those_of_luma() {
        let head = Image::new(Header::default(), 4, 2, Encoding::Nv12).unwrap();
        assert_eq!(
            (head.step, head.data_len(), Image::payload_len(4, 2, Encoding::Nv12).unwrap()),
            (4, 12, 128 + 12)
        );
        let data: Vec<u8> = (0..12).collect();
        let image = ImageView::new(PlainRef::from_parts(&head, &data)).unwrap();
        assert_eq!((image.rows(), image.row(2), image.row(3)), (3, &data[8..], &[][..]));
        assert_eq!(
            view(&head, &data[1..]),
            Err(ImageError::Data { data_len: 11, rows: 3, step: 4, needed: 12 })
        );
    }

    proptest! {
        #[test]
        fn any_head_gives_rows_inside_the_data_or_an_error(
            width in 0u32..9,
            height: u32,
            step in 0u32..40,
            encoding in 0u32..30,
            len in 0usize..200,
        ) {
            let height = if height % 2 == 0 { height % 12 } else { height };
            let data = vec![0; len];
            let head = Image { header: Header::default(), width, height, step, encoding };
            if let Ok(image) = ImageView::new(PlainRef::from_parts(&head, &data)) {
                for y in 0..image.rows().min(100) {
                    prop_assert_eq!(
                        image.row(y).len(),
                        (width * image.encoding().bytes_per_pixel()) as usize
                    );
                }
            }
        }
    }
}
