// SPDX-License-Identifier: Apache-2.0
use super::*;
use driveline::{CallbackRecord, Conversions, InputRecord, Observer};
use driveline_types::header::Arrival;
use driveline_types::{Lineage, MonotonicNs, SampleHeader};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut reader = LineReader::<Record>::default();
    reader.feed(bytes, |r| records.push(r));
    assert_eq!(reader.unreadable(), 0);
    records
}

fn header(sequence: u64) -> SampleHeader {
    let at = MonotonicNs(1000 + sequence);
    let mut header = SampleHeader {
        sequence,
        publish_time: at,
        wall_offset_ns: -5,
        payload_len: 64,
        ..SampleHeader::default()
    };
    Lineage::start(at).stamp(&mut header, TopicId(u64::MAX), Some(MonotonicNs(900)), 7);
    header
}

fn call(writer: &Writer, sequence: u64) {
    let header = header(sequence);
    let inputs = [InputRecord {
        input: "image",
        topic: TopicId(9),
        arrival: Arrival::Triggered,
        header: &header,
        missed: 2,
        fresh: true,
    }];
    let (start, end, conversions) =
        (MonotonicNs(2000), MonotonicNs(3000), Conversions { own_ns: 30, publish_ns: 0 });
    writer.callback(&CallbackRecord {
        callback: "lane",
        start,
        end,
        conversions,
        inputs: &inputs,
        failed: false,
    });
}

#[test]
fn what_is_observed_is_read_back() {
    let sink = Sink::default();
    let writer = Writer::new(sink.clone()).unwrap();
    writer.send(Record::Hello {
        format: FORMAT,
        module: "m".into(),
        pid: 3,
        build: String::new(),
        clock_offset_ns: 0,
    });
    writer.send(Record::Counters {
        component: "lane".into(),
        stats: CallbackCounters { invocations: 4, ..Default::default() },
    });
    call(&writer, 1);
    drop(writer);
    let records = read(&sink.0.lock().unwrap());
    assert_eq!(records.len(), 3, "{records:?}");
    assert!(matches!(&records[1], Record::Counters { stats, .. } if stats.invocations == 4));
    let Record::Callback(account) = &records[2] else { panic!("{records:?}") };
    assert_eq!(
        (account.component.as_str(), account.start_ns, account.end_ns),
        ("lane", 2000, 3000)
    );
    assert_eq!((account.conversion_ns, account.encoding_ns), (30, 0));
    let input = &account.inputs[0];
    assert_eq!(
        (input.input.as_str(), input.topic, input.missed, input.arrival()),
        ("image", TopicId(9), 2, Arrival::Triggered)
    );
    assert_eq!(input.header(), header(1));
}

/// Waits until this number of records has been written.
fn written(sink: &Sink, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while read(&sink.0.lock().unwrap()).len() < count {
        assert!(Instant::now() < deadline, "{count} records are not written");
        std::thread::yield_now();
    }
}

#[test]
fn records_of_calls_gather_and_rare_records_and_half_of_the_slots_end_the_pause() {
    let sink = Sink::default();
    let writer = Writer::gathering(sink.clone(), Duration::from_secs(3600)).unwrap();
    writer.send(Record::Ready);
    written(&sink, 1);
    for n in 0..200 {
        call(&writer, n);
        (0..100).for_each(|_| std::thread::yield_now());
    }
    // Not exactly one: a wake-up that comes while the thread is not yet idle ends its next pause.
    assert!(writer.wake_ups() < 100, "{} wake-ups by 200 calls", writer.wake_ups());
    writer.send(Record::Ready);
    written(&sink, 202);
    // At most half of the slots wait.
    (0..300).for_each(|n| call(&writer, n));
    written(&sink, 202 + 300 - 256);
    drop(writer);
    written(&sink, 502);
}

#[test]
fn parts_of_an_age_below_zero_are_written_as_such_and_read_as_releases_before_wrote_them() {
    let origin = OriginAccount { oldest_ns: -3, communication_ns: -20_000, ..Default::default() };
    let written = serde_json::to_string(&origin).unwrap();
    assert!(written.contains(r#""communication_ns":-20000,"#), "{written}");
    let before =
        written.replace("-20000", "18446744073709531616").replace("-3", "18446744073709551613");
    for line in [written, before] {
        assert_eq!(serde_json::from_str::<OriginAccount>(&line).unwrap(), origin, "{line}");
    }
}

#[test]
fn a_reader_that_does_not_read_loses_records_and_gets_their_number() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let writer = Writer::new(ours).unwrap();
    let made = 20_000;
    for i in 0..made {
        call(&writer, i);
    }
    // Reading begins only now, when most records have been lost.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).unwrap();
        bytes
    });
    drop(writer);
    let records = read(&reader.join().unwrap());
    let kept = records.iter().filter(|r| matches!(r, Record::Callback(_))).count() as u64;
    let lost = records
        .iter()
        .rev()
        .find_map(|r| if let Record::Lost { callbacks, .. } = r { Some(*callbacks) } else { None });
    assert!(kept < made, "the socket cannot hold {made} records");
    assert_eq!(kept + lost.unwrap(), made);
}

#[test]
fn an_ended_reader_blocks_no_sender() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let writer = Writer::new(ours).unwrap();
    for i in 0..5_000 {
        call(&writer, i);
        writer.send(Record::Ready);
    }
}

#[test]
fn a_stopped_reader_does_not_keep_senders_from_sending_and_ending() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_write_timeout(Some(WRITE_WITHIN)).unwrap();
    let writer = Writer::new(ours).unwrap();
    let text = "x".repeat(1000);
    // Far more than the socket, the buffer and the queue hold.
    for i in 0..5_000 {
        writer.send(Record::Fact {
            component: "c".into(),
            name: "n".into(),
            text: format!("{i} {text}"),
        });
    }
    writer.send_vital(Record::Ready);
    writer.close();
    drop(theirs);
}

#[test]
fn an_error_of_any_length_arrives_cut_and_not_lost() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_write_timeout(Some(WRITE_WITHIN)).unwrap();
    let writer = Writer::new(ours).unwrap();
    // The first character takes six bytes in JSON instead of one. The second one has two bytes, so
    // that a cut can fall within a character.
    let text = "\u{1}é".repeat(1 << 20);
    writer.send_vital(Record::Failed { call: None, text: text.clone() });
    writer.send_vital(Record::Ready);
    drop(writer);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).unwrap();
    let records = read(&bytes);
    let [Record::Failed { call: None, text: cut }, Record::Ready] = records.as_slice() else {
        panic!("{} records", records.len())
    };
    let beginning = cut.strip_suffix("… (cut; 3145728 bytes in all)").unwrap();
    assert!(text.starts_with(beginning) && beginning.len() > 8_000);
}

#[test]
fn records_that_a_run_depends_on_find_room() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_write_timeout(Some(WRITE_WITHIN)).unwrap();
    let writer = Writer::new(ours).unwrap();
    let text = "x".repeat(1000);
    let sent = 5_000;
    for i in 0..sent {
        writer.send(Record::Fact {
            component: "c".into(),
            name: "n".into(),
            text: format!("{i} {text}"),
        });
    }
    writer.send_vital(Record::Ready);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).unwrap();
        bytes
    });
    drop(writer);
    let records = read(&reader.join().unwrap());
    assert!(records.contains(&Record::Ready));
    let kept = records.iter().filter(|r| matches!(r, Record::Fact { .. })).count() as u64;
    let lost = records
        .iter()
        .rev()
        .find_map(|r| if let Record::Lost { others, .. } = r { Some(*others) } else { None });
    assert_eq!(kept + lost.unwrap_or(0), sent);
}

#[test]
fn what_a_process_says_about_its_calls_is_read_back() {
    let place = CallPlace {
        component: "lane".into(),
        call: Call::OnTrigger,
        topic: Some("camera/image".into()),
        sequence: Some(7),
    };
    let init =
        CallPlace { component: "lane".into(), call: Call::Init, topic: None, sequence: None };
    assert_eq!(place.to_string(), "component 'lane' in on_trigger on sample 7 of 'camera/image'");
    assert_eq!(init.to_string(), "component 'lane' in init");
    for record in [
        Record::Busy { call: place.clone(), for_ms: 3 },
        Record::Failed { call: Some(init), text: "no".into() },
        Record::Failed { call: None, text: "no".into() },
        Record::Crash { signal: 11, call: Some(place) },
        Record::Crash { signal: 6, call: None },
    ] {
        let text = serde_json::to_string(&record).unwrap() + "\n";
        assert_eq!(read(text.as_bytes()), [record], "{text}");
    }
}

#[test]
fn records_of_newer_releases_are_ignored() {
    assert_eq!(read(b"{\"record\":\"sunrise\",\"at\":[1,2]}\n"), [Record::Unknown]);
}

#[test]
fn long_and_broken_lines_are_counted_and_skipped() {
    let mut reader = LineReader::<Record>::default();
    let mut records = Vec::new();
    let mut feed = |bytes: &[u8]| reader.feed(bytes, |r| records.push(r));
    feed(&vec![b'x'; MAX_LINE_BYTES]);
    feed(&vec![b'x'; MAX_LINE_BYTES]);
    feed(b"xx\n{\"record\":");
    feed(b"\"ready\"}\n{]\n\n");
    assert_eq!((records.as_slice(), reader.unreadable()), (&[Record::Ready][..], 2));
}

proptest! {
    #[test]
    fn any_bytes_are_records_or_counted(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..10),
    ) {
        let mut reader = LineReader::<Record>::default();
        for c in chunks {
            reader.feed(&c, |_| {});
        }
    }

    #[test]
    fn the_cuts_between_reads_do_not_matter(cut in 1usize..60) {
        let text = b"{\"record\":\"ready\"}\n{\"record\":\"lost\",\"callbacks\":3}\n";
        let mut reader = LineReader::<Record>::default();
        let mut records = Vec::new();
        for c in text.chunks(cut) { reader.feed(c, |r| records.push(r)); }
        prop_assert_eq!(records, vec![Record::Ready, Record::Lost { callbacks: 3, others: 0 }]);
    }
}

#[test]
fn a_note_names_its_component_once() {
    assert_eq!(note_line("detector", "detector", "YOLO"), "detector: YOLO");
    assert_eq!(note_line("front", "detector", "YOLO"), "front: detector: YOLO");
}
