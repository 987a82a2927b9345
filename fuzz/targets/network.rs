// SPDX-License-Identifier: Apache-2.0
//! Messages of another host: attachments, acknowledgements, lists of publishers, times, keys and
//! lists of heard hosts, with the conversion of their times and numbers to this host.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use driveline_gateway_zenoh::arrival::{Arrivals, least_age_ns, localized};
use driveline_gateway_zenoh::clock::{ClockEstimate, Exchange};
use driveline_gateway_zenoh::wire::{Ack, Keys, KnownHosts, List, MAX_LISTED, SampleHead, Time};
use driveline_types::MonotonicNs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let now = MonotonicNs(1 << 40);
    match kind % 5 {
        0 => {
            let Ok(head) = SampleHead::decode(bytes) else { return };
            assert_eq!(SampleHead::decode(&head.encode()).as_ref(), Ok(&head));
            let mut clock = ClockEstimate::default();
            let (received, answered) = (head.header.publish_time, MonotonicNs(head.written));
            clock.exchange(&Exchange {
                sent: MonotonicNs(now.0 - 1000),
                received,
                answered,
                returned: now,
            });
            let mut arrivals = Arrivals::default();
            arrivals.is_new(head.number, head.owed);
            arrivals.is_new(head.written, head.owed);
            if let Some(offset) = clock.offset(now) {
                let _ = least_age_ns(&head, offset, now);
                let here = localized(&head, 1, offset, arrivals.lost(), now);
                assert_eq!(here.origins.as_slice().len(), head.header.origins.as_slice().len());
            }
        }
        1 => {
            if let Ok(ack) = Ack::decode(bytes) {
                assert_eq!(Ack::decode(&ack.encode()), Ok(ack));
            }
            if let Some(time) = Time::decode(bytes) {
                assert_eq!(Time::decode(&time.encode()), Some(time));
            }
        }
        2 => {
            if let Ok(list) = List::decode(bytes) {
                let usable =
                    list.publishers.iter().filter(|(_, offer)| offer.check().is_ok()).count();
                assert!(usable <= MAX_LISTED);
                // Encoding may fail: the canonical form can be longer than the input and exceed the
                // limit.
                if let Ok(encoded) = list.encode() {
                    assert!(List::decode(&encoded).is_ok_and(|again| again == list));
                }
            }
        }
        3 => {
            let (Ok(key), Some(keys)) = (std::str::from_utf8(bytes), Keys::new("d")) else {
                return;
            };
            if let Some(parsed) = keys.parse(key) {
                assert_eq!(keys.key(&parsed), key);
                assert!(keys.of_another_version(key).is_none());
            }
        }
        _ => {
            if let Some(introduction) = KnownHosts::decode(bytes) {
                // The canonical form can be longer than the input; entries beyond the limit are
                // left out.
                let again = KnownHosts::decode(&introduction.encode());
                assert!(again.is_some_and(|again| introduction.hears.starts_with(&again.hears)));
            }
        }
    }
});
