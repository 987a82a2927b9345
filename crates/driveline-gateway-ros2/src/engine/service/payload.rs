// SPDX-License-Identifier: Apache-2.0
//! Checks of requests and responses. Only their encapsulation is read.

use crate::convert::{ConvertError, ToRos};
use driveline::RawSample;
use driveline_rosidl::cdr::Decoder;

/// Reason why a call ended without a response: a name for counters and a description.
pub(in crate::engine) type Ended = (&'static str, String);

/// Driveline sample, pinned until it has been sent.
pub(super) struct Held(pub(super) RawSample);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        // Samples of this kind are bytes. Anything else fails the check for CDR.
        self.0.payload().unwrap_or_default()
    }
}

/// Checks the length. `what`: request or response.
pub(super) fn bounded(len: usize, what: &str, longest: usize) -> Result<(), Ended> {
    if len <= longest {
        return Ok(());
    }
    Err((
        "too_long",
        format!(
            "a {what} of {len} bytes is longer than `max_{what}`, which is {longest}: raise it in \
             the rule"
        ),
    ))
}

/// Text for too many calls in flight.
pub(super) fn busy(pending: u32) -> String {
    format!(
        "the maximum number of calls is in flight (`pending` of the rule: {pending}): call later, \
         or raise it"
    )
}

/// Checks for the encapsulation of CDR.
pub(super) fn encapsulated(payload: &[u8], what: &str) -> Result<(), Ended> {
    let broken = |e| {
        let e = ConvertError::Cdr(e);
        (e.name(), format!("a {what} does not begin as CDR does: {e}"))
    };
    Decoder::new(payload).map(drop).map_err(broken)
}

/// Converts a Driveline payload to ROS 2.
pub(super) fn fitting<'a>(
    payload: &'a [u8],
    what: &str,
    longest: usize,
) -> Result<ToRos<'a>, Ended> {
    bounded(payload.len(), what, longest)?;
    ToRos::of_cdr(payload, usize::MAX)
        .map_err(|e| (e.name(), format!("a {what} cannot go to ROS 2: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_payloads_have_a_name_and_a_remedy() {
        let (reason, text) = bounded(9, "response", 8).unwrap_err();
        assert!(
            reason == "too_long"
                && text.contains("`max_response`")
                && bounded(8, "response", 8).is_ok(),
            "{text}"
        );
        for broken in [&[][..], &[0, 1, 0], &[0, 9, 0, 0]] {
            let (reason, text) = encapsulated(broken, "request").unwrap_err();
            assert!(!reason.is_empty() && text.contains("request"), "{text}");
            assert!(fitting(broken, "request", 99).is_err());
        }
        encapsulated(&[0, 1, 0, 0], "request").unwrap();
        let long = [0, 1, 0, 0, 7, 7, 7];
        assert_eq!(
            fitting(&long, "request", 7).unwrap().parts(),
            [&[0, 1, 0, 1][..], &[7, 7, 7], &[0]]
        );
        assert_eq!(fitting(&long, "request", 6).unwrap_err().0, "too_long");
    }
}
