// SPDX-License-Identifier: Apache-2.0
//! Attachment of each sample, request and response.

use crate::discovery_info::Gid;
use thiserror::Error;

/// Number, time and publisher of a sample. A request and its response have the number of the call
/// and the id of the client instead of number and publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Number of the sample among those of its publisher, from 1.
    pub sequence: i64,
    /// Time of publication, on that host's wall clock, in nanoseconds.
    pub source_timestamp: i64,
    /// Id of its publisher.
    pub gid: Gid,
}

/// Data that is not an attachment of rmw_zenoh.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("its attachment is not one of rmw_zenoh: {0}")]
pub struct AttachmentError(&'static str);

impl Attachment {
    /// Length in bytes.
    pub const LEN: usize = 33;
    /// Length of the gid, as a byte before it.
    const GID_LEN: u8 = 16;

    /// Encodes the attachment.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let fields = self
            .sequence
            .to_le_bytes()
            .into_iter()
            .chain(self.source_timestamp.to_le_bytes())
            .chain([Self::GID_LEN])
            .chain(self.gid);
        out.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        out
    }

    /// Decodes an attachment.
    ///
    /// # Errors
    /// The length is not 33, the length of the gid is not 16, or the number is below 1.
    pub fn decode(bytes: &[u8]) -> Result<Self, AttachmentError> {
        let bytes: &[u8; Self::LEN] =
            bytes.try_into().map_err(|_| AttachmentError("its length is not 33 bytes"))?;
        let (sequence, rest) = bytes.split_first_chunk().ok_or(AttachmentError("no sequence"))?;
        let (source_timestamp, rest) =
            rest.split_first_chunk().ok_or(AttachmentError("no timestamp"))?;
        let (len, gid) = rest.split_first().ok_or(AttachmentError("no gid"))?;
        if *len != Self::GID_LEN {
            return Err(AttachmentError("the length of its gid is not 16"));
        }
        let this = Self {
            sequence: i64::from_le_bytes(*sequence),
            source_timestamp: i64::from_le_bytes(*source_timestamp),
            gid: gid.try_into().map_err(|_| AttachmentError("no gid"))?,
        };
        if this.sequence < 1 { Err(AttachmentError("its sequence is below 1")) } else { Ok(this) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Captured from a publisher of rmw_zenoh.
    pub(crate) const CAPTURED: [u8; 33] = [
        0xd8, 0, 0, 0, 0, 0, 0, 0, 0x34, 0xda, 0xe1, 0x01, 0x62, 0xf8, 0xc4, 0x18, 0x10, 0xf0,
        0x71, 0x68, 0xd3, 0x85, 0x6c, 0xe9, 0xf6, 0x89, 0x25, 0x4c, 0xbe, 0xd6, 0x25, 0x21, 0x51,
    ];

    #[test]
    fn the_captured_text_round_trips() {
        let read = Attachment::decode(&CAPTURED).unwrap();
        assert_eq!((read.sequence, read.source_timestamp), (216, 0x18c4_f862_01e1_da34));
        assert_eq!((read.gid[0], read.gid[15]), (0xf0, 0x51));
        assert_eq!(read.encode(), CAPTURED);
    }

    #[test]
    fn malformed_bytes_are_refused() {
        for len in (0..CAPTURED.len()).chain([34, 77]) {
            let mut bytes = CAPTURED.to_vec();
            bytes.resize(len, 0);
            assert!(Attachment::decode(&bytes).is_err(), "{len} bytes");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = CAPTURED;
            bytes[at] = byte;
            Attachment::decode(&bytes)
        };
        assert!(with(16, 24).is_err(), "Humble's length over DDS is not valid here");
        assert!(with(0, 0).is_err() && with(7, 0x80).is_err(), "numbers begin with 1");
    }

    proptest! {
        #[test]
        fn attachments_round_trip_and_other_bytes_have_no_gid(
            sequence in 1..i64::MAX,
            source_timestamp: i64,
            gid: Gid,
            noise in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let attachment = Attachment { sequence, source_timestamp, gid };
            prop_assert_eq!(Attachment::decode(&attachment.encode()), Ok(attachment));
            if let Ok(read) = Attachment::decode(&noise) {
                prop_assert_eq!(read.encode().to_vec(), noise);
            }
        }
    }
}
