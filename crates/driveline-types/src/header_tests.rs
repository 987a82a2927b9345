// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn root(topic: u64, source: u64, publish: u64) -> SampleHeader {
    let h = published(&Lineage::start(MonotonicNs(source)), topic, Some(source), publish, 77);
    SampleHeader { sequence: 1, ..h }
}

fn published(
    by: &Lineage,
    topic: u64,
    source: Option<u64>,
    publish: u64,
    fresh_trace: u64,
) -> SampleHeader {
    let mut header = SampleHeader { publish_time: MonotonicNs(publish), ..SampleHeader::default() };
    by.stamp(&mut header, TopicId(topic), source.map(MonotonicNs), fresh_trace);
    header
}

/// Returns the header that a gateway publishes at `now` on another host. The estimated transit time
/// is `transit` nanoseconds.
fn arrived(mut h: SampleHeader, transit: i64, now: u64) -> SampleHeader {
    let back = MonotonicNs(now).signed_since(h.publish_time) - transit;
    for o in h.origins.as_mut_slice() {
        o.source_oldest = MonotonicNs(o.source_oldest.0.wrapping_add_signed(back));
        o.source_newest = MonotonicNs(o.source_newest.0.wrapping_add_signed(back));
        o.communication_ns = o.communication_ns.wrapping_add(transit);
    }
    SampleHeader { publish_time: MonotonicNs(now), ..h }
}

/// Returns for each origin its age less the sum of its parts.
fn missing(h: &SampleHeader) -> Vec<i64> {
    let of = |o: &Origin| {
        o.age_ns(h.publish_time)
            .wrapping_sub(o.communication_ns.wrapping_add(o.computation_ns).wrapping_add(o.idle_ns))
    };
    h.origins.as_slice().iter().map(of).collect()
}

fn closes(h: &SampleHeader) -> bool {
    missing(h).iter().all(|missing| *missing == 0)
}

#[test]
fn a_source_sample_is_its_own_origin() {
    let h = root(5, 100, 130);
    assert_eq!(h.origins.as_slice().len(), 1);
    assert_eq!(h.origins.as_slice()[0].computation_ns, 30);
    assert_eq!(h.trace_id, 77);
    assert!(closes(&h));
}

#[test]
fn two_ways_from_one_source_become_one_origin_and_the_sum_closes() {
    let camera = root(5, 100, 100);
    let mut detect = Lineage::start(MonotonicNs(120));
    detect.inherit(&camera, Arrival::Triggered);
    let detections = published(&detect, 6, None, 200, 1);

    let newer_camera = root(5, 240, 240);
    let mut fuse = Lineage::start(MonotonicNs(250));
    fuse.inherit(&newer_camera, Arrival::Triggered);
    fuse.inherit(&detections, Arrival::Read);
    let scene = published(&fuse, 7, None, 300, 1);

    let o = scene.origins.as_slice();
    assert_eq!(o.len(), 1);
    assert_eq!((o[0].source_oldest.0, o[0].source_newest.0), (100, 240));
    assert_eq!((o[0].communication_ns, o[0].computation_ns, o[0].idle_ns), (20, 130, 50));
    assert!(closes(&scene));
}

#[test]
fn what_was_seen_before_the_clock_of_this_host_began_is_older_than_all_that_came_later() {
    let seen = |ns: i64| Origin {
        topic: TopicId(1),
        source_oldest: MonotonicNs(ns.cast_unsigned()),
        source_newest: MonotonicNs(ns.cast_unsigned()),
        ..Origin::default()
    };
    let mut origins = Origins::default();
    [5, -7, -2].map(seen).into_iter().for_each(|o| origins.merge(o));
    let o = origins.as_slice()[0];
    assert_eq!(
        (o.source_oldest.signed(), o.source_newest.signed(), o.age_ns(MonotonicNs(3))),
        (-7, 5, 10)
    );
}

#[test]
fn a_source_time_that_lies_ahead_is_an_age_below_zero() {
    let h = root(5, 130, 100);
    assert_eq!(
        (h.origins.as_slice()[0].computation_ns, h.origins.as_slice()[0].age_ns(h.publish_time)),
        (-30, -30)
    );
    assert!(closes(&h));
}

#[test]
fn conversions_are_communication_once_and_only_within_the_callback() {
    let mut l = Lineage::start(MonotonicNs(120));
    l.inherit(&root(5, 100, 110), Arrival::Triggered);
    assert_eq!(l.convert(MonotonicNs(90), MonotonicNs(130)), 10);
    assert_eq!(l.convert(MonotonicNs(125), MonotonicNs(140)), 10);
    assert_eq!(l.convert(MonotonicNs(125), MonotonicNs(135)), 0);
    let h = published(&l, 6, None, 200, 1);
    let o = h.origins.as_slice()[0];
    // Computation: 10 at the source, and 80 less 20 in the callback.
    assert_eq!((o.communication_ns, o.computation_ns, o.idle_ns), (10 + 20, 10 + 60, 0));
    assert!(closes(&h));
}

#[test]
fn the_worst_clock_is_inherited_and_how_a_sample_came_here_is_not() {
    let mut l = Lineage::start(MonotonicNs(120));
    let remote =
        Some(Remote { host: 9, lost: 3, publisher: 8, transit_ns: -4, offset_error_ns: 50 });
    l.inherit(
        &SampleHeader { clock_error_ns: 50, remote, ..root(5, 100, 110) },
        Arrival::Triggered,
    );
    l.inherit(&SampleHeader { clock_error_ns: 20, ..root(6, 100, 110) }, Arrival::Read);
    let mut h = published(&l, 7, None, 130, 1);
    assert_eq!((h.clock_error_ns, h.remote), (50, None));
    Lineage::start(MonotonicNs(7)).stamp(&mut h, TopicId(3), None, 9);
    assert_eq!(h.clock_error_ns, 0, "the error of the sample stamped before is not kept");
}

#[test]
fn origins_beyond_the_bound_are_counted() {
    let mut all = Lineage::start(MonotonicNs(10));
    for t in 0..MAX_ORIGINS as u64 + 3 {
        all.inherit(&root(t, 1, 2), Arrival::Read);
    }
    let origins = published(&all, 99, None, 11, 1).origins;
    assert_eq!(origins.as_slice().len(), MAX_ORIGINS);
    assert_eq!(origins.dropped(), 3);
}

#[test]
fn stamping_a_used_header_leaves_nothing_of_before() {
    let mut all = Lineage::start(MonotonicNs(10));
    for t in 0..MAX_ORIGINS as u64 + 3 {
        all.inherit(&root(t, 1, 2), Arrival::Read);
    }
    let mut used = published(&all, 99, None, 11, 1);
    used.copy_from(&root(5, 100, 130));
    assert_eq!(used, root(5, 100, 130));
    all.stamp(&mut used, TopicId(99), None, 1);
    Lineage::start(MonotonicNs(7)).stamp(&mut used, TopicId(3), Some(MonotonicNs(120)), 9);
    assert_eq!((used.origins.as_slice().len(), used.origins.dropped(), used.trace_id), (1, 0, 9));
    assert_eq!(used.origins.as_slice()[0].computation_ns, 10);
}

#[test]
fn a_sample_keeps_its_number_when_not_all_before_it_were_written() {
    for (sequence, written, read) in [(7, 7, 7), (7, 3, 7), (u64::MAX, 1, 1 + u64::from(u32::MAX))]
    {
        let h = SampleHeader { sequence, ..SampleHeader::default() };
        let mut words = [0; HEADER_WORDS];
        h.write(written, |i, w| words[i] = w);
        assert_eq!((words[1], SampleHeader::decode(&words).unwrap().sequence), (written, read));
    }
}

proptest! {
    #[test]
    fn headers_round_trip(
        seq: u64,
        t: u64,
        wall: i64,
        trace: u64,
        len: u64,
        sum: Option<u64>,
        error: u64,
        way: Option<(u64, u64, i64, u64, u64)>,
        service: Option<u64>,
        topics in proptest::collection::vec(any::<u64>(), 0..12),
    ) {
        let mut origins = Origins::default();
        for t in topics {
            origins.merge(Origin {
                topic: TopicId(t),
                idle_ns: (t ^ 9).cast_signed(),
                ..Origin::default()
            });
        }
        let remote = way.map(|(host, lost, transit_ns, offset_error_ns, publisher)| Remote {
            host,
            lost,
            publisher,
            transit_ns,
            offset_error_ns,
        });
        let h = SampleHeader {
            sequence: seq,
            publish_time: MonotonicNs(t),
            wall_offset_ns: wall,
            trace_id: trace,
            payload_len: len,
            checksum: sum,
            clock_error_ns: error,
            remote,
            service,
            origins,
        };
        prop_assert_eq!(SampleHeader::decode(&h.encode()), Ok(h));
    }

    #[test]
    fn any_words_are_a_header_or_an_error(
        words in proptest::collection::vec(any::<u64>(), HEADER_WORDS),
    ) {
        let mut w = [0; HEADER_WORDS];
        w.copy_from_slice(&words);
        if let Ok(h) = SampleHeader::decode(&w) {
            prop_assert!(h.origins.as_slice().len() <= MAX_ORIGINS);
        }
        w[0] = (w[0] & !0xffff_ffff) | u64::from(HEADER_VERSION) | (w[1] % 9) << 16;
        prop_assert!(SampleHeader::decode(&w).is_ok());
    }

    #[test]
    fn the_split_of_any_chain_adds_up(
        steps in proptest::collection::vec(
            (0u64..1000, 0u64..1000, 0u64..1000, any::<bool>()), 1..20
        ),
    ) {
        let mut h = root(1, 50, 60);
        for (wait, read_late, compute, triggered) in steps {
            let start = h.publish_time.0 + wait;
            let mut l = Lineage::start(MonotonicNs(start));
            if triggered {
                l.inherit(&h, Arrival::Triggered);
            } else {
                l.inherit(&h, Arrival::Read);
            }
            l.convert(MonotonicNs(start + read_late), MonotonicNs(start + read_late + compute / 3));
            h = published(&l, 2, None, start + read_late + compute, 5);
            prop_assert!(closes(&h));
            prop_assert_eq!(h.trace_id, 77);
        }
    }

    /// Hosts with a badly known clock offset: a transit time can be negative, and data can be older
    /// than the host's own clock.
    #[test]
    fn parts_of_an_age_are_what_they_are_also_below_zero(
        hops in proptest::collection::vec(
            (-(1i64 << 40)..1i64 << 40, 0u64..1 << 50, 0i64..1 << 40, 0i64..1 << 40, any::<bool>()),
            1..12
        ),
        valid in -(1i64 << 40)..1i64 << 40,
    ) {
        let at = 1u64 << 45;
        let mut h = root(1, at.wrapping_add_signed(-valid), at);
        let (mut communication, mut computation, mut idle) = (0, valid, 0);
        for (transit, there, wait, compute, triggered) in hops {
            h = arrived(h, transit, there);
            let start = there + wait.cast_unsigned();
            let mut l = Lineage::start(MonotonicNs(start));
            let arrival = if triggered { Arrival::Triggered } else { Arrival::Read };
            l.inherit(&h, arrival);
            h = published(&l, 2, None, start + compute.cast_unsigned(), 5);
            communication += transit + if triggered { wait } else { 0 };
            idle += if triggered { 0 } else { wait };
            computation += compute;
            let o = h.origins.as_slice()[0];
            prop_assert_eq!(
                [o.communication_ns, o.computation_ns, o.idle_ns],
                [communication, computation, idle]
            );
            prop_assert_eq!(o.age_ns(h.publish_time), communication + computation + idle);
        }
    }

    /// The parts of an age that another process wrote may not add up to the age. A callback does
    /// not change that difference.
    #[test]
    fn nothing_that_stands_in_a_header_breaks_the_sums_of_those_who_read_it(
        words in proptest::collection::vec(any::<u64>(), HEADER_WORDS),
        start: u64, publish: u64, triggered: bool, converted: u64,
    ) {
        let mut w = [0; HEADER_WORDS];
        w.copy_from_slice(&words);
        w[0] = u64::from(HEADER_VERSION) | 1 << 16;
        let read = SampleHeader::decode(&w).unwrap();
        let mut l = Lineage::start(MonotonicNs(start));
        l.inherit(&read, if triggered { Arrival::Triggered } else { Arrival::Read });
        l.convert(MonotonicNs(start), MonotonicNs(converted));
        prop_assert_eq!(missing(&published(&l, 2, None, publish, 5)), missing(&read));
    }

    #[test]
    fn a_sample_published_while_the_callback_ran_still_adds_up(
        start in 0u64..1000,
        publish in 1000u64..2000,
        take in 0u64..500,
        end in 0u64..500,
        converted in 0u64..2000,
    ) {
        let late = root(3, 900 + publish, 1000 + publish);
        let taken = late.publish_time.0 + take;
        let mut l = Lineage::start(MonotonicNs(start));
        // A conversion before the sample was read does not count for it; one after that does.
        l.convert(MonotonicNs(start), MonotonicNs(start + converted.min(taken - start)));
        l.inherit(&late, Arrival::Read);
        l.convert(MonotonicNs(taken), MonotonicNs(taken + end / 2));
        let h = published(&l, 2, None, taken + end, 5);
        prop_assert!(closes(&h));
        prop_assert_eq!(h.origins.as_slice()[0].communication_ns, (end / 2).cast_signed());
    }
}
