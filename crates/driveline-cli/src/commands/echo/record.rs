// SPDX-License-Identifier: Apache-2.0
//! Format of a sample.

use super::Taken;
use crate::decoder::head;
use crate::text::cut;
use driveline_terminal::figures::duration_us;
use driveline_terminal::screen::Screen;
use driveline_types::print::{Limits, Printer, Style};
use driveline_types::{MonotonicNs, SampleHeader, TopicName};
use std::fmt;

/// Number of columns to which the text of an error in a sample is cut.
const FAULT: usize = 400;

/// Returns the source time of the oldest data in the sample; the publish time if it has no origins.
fn source_time(header: &SampleHeader) -> MonotonicNs {
    header.oldest_source_time().unwrap_or(header.publish_time)
}

fn age(ns: i64) -> String {
    let text = duration_us(ns.unsigned_abs() as f64 / 1e3);
    if ns < 0 { format!("-{text}") } else { text }
}

/// Formats a sample: a comment with its metadata, its fields as `ros2 topic echo` prints them, and
/// `---`.
pub(super) fn text(taken: &Taken, payload: &[u8], limits: Limits, screen: &Screen) -> String {
    let mut out = screen.paint("2", &facts(taken)) + "\n";
    match taken.talker.decoder.read(payload, limits == Limits::NONE) {
        Ok(sample) => {
            // Writing to a String does not fail.
            let _ = sample.print(&mut Printer::new(&mut out, Style::Text, limits));
        }
        Err(why) => {
            out += &screen.paint(
                "1;31",
                &format!("# error: {}: {}", taken.talker.type_name, cut(&why, FAULT)),
            );
            out += &format!("\n# payload: {}\n", head(payload));
        }
    }
    out + "---\n"
}

fn facts(taken: &Taken) -> String {
    let Taken { header, missed, talker, at, .. } = taken;
    let source = source_time(header);
    let process = talker.pid.map(|p| format!(" (process {p})")).unwrap_or_default();
    let mut facts = format!(
        "# sequence {} from '{}'{process}, {} old",
        header.sequence,
        talker.node,
        age(at.signed_since(source))
    );
    if header.clock_error_ns > 0 {
        facts += &format!(" ± {}", duration_us(header.clock_error_ns as f64 / 1e3));
    }
    if source != header.publish_time {
        facts += &format!(", published {} ago", age(at.signed_since(header.publish_time)));
    }
    if *missed > 0 {
        facts += &format!("; {missed} missed before it");
    }
    facts
}

/// Formats a sample as one line of JSON. `limits` apply to the fields, not to the header.
pub(super) fn json(topic: &TopicName, taken: &Taken, payload: &[u8], limits: Limits) -> String {
    let mut out = String::from(r#"{"header":"#);
    // Writing to a String does not fail.
    let _ = Printer::new(&mut out, Style::Json, Limits::NONE)
        .fields(|p| header(p, topic, taken, payload));
    match taken.talker.decoder.read(payload, limits == Limits::NONE) {
        Ok(sample) => {
            out += r#","fields":"#;
            let _ = sample.print(&mut Printer::new(&mut out, Style::Json, limits));
        }
        Err(why) => {
            for (name, text) in [("error", cut(&why, FAULT)), ("payload", head(payload))] {
                out += &format!(r#","{name}":"#);
                let _ = Printer::new(&mut out, Style::Json, Limits::NONE).text(&text);
            }
        }
    }
    out + "}\n"
}

fn header(p: &mut Printer<'_>, topic: &TopicName, taken: &Taken, payload: &[u8]) -> fmt::Result {
    let Taken { header, missed, publisher, talker, at } = taken;
    let source = source_time(header);
    for (name, text) in [("topic", topic.as_str()), ("type", &talker.type_name)] {
        p.field(name)?;
        p.text(text)?;
    }
    p.field("publisher")?;
    p.fields(|p| {
        p.field("id")?;
        p.text(&publisher.to_string())?;
        p.field("node")?;
        p.text(&talker.node)?;
        let Some(pid) = talker.pid else { return Ok(()) };
        p.field("pid")?;
        p.scalar(pid)
    })?;
    let unsigned = [
        ("sequence", header.sequence),
        ("missed", *missed),
        ("publish_time_ns", header.publish_time.0),
        ("clock_error_ns", header.clock_error_ns),
        ("trace_id", header.trace_id),
        ("payload_len", payload.len() as u64),
    ];
    // Signed: times of data from other hosts may lie before this host's clock began.
    p.field("source_time_ns")?;
    p.scalar(source.signed())?;
    for (name, value) in unsigned {
        p.field(name)?;
        p.scalar(value)?;
    }
    p.field("wall_time_ns")?;
    p.scalar(header.publish_time.0.cast_signed().wrapping_add(header.wall_offset_ns))?;
    p.field("age_ns")?;
    p.scalar(at.signed_since(source))
}

#[cfg(test)]
mod tests {
    use super::super::Talker;
    use super::*;
    use crate::decoder::Decoder;
    use driveline_types::{EndpointId, Lineage, Schema};
    use std::sync::Arc;

    fn taken(schema: &Schema) -> Taken {
        let at = MonotonicNs(5_000_000);
        let mut header = SampleHeader {
            sequence: 12,
            publish_time: at,
            wall_offset_ns: -1,
            trace_id: 7,
            ..SampleHeader::default()
        };
        Lineage::start(at).stamp(
            &mut header,
            "a".parse::<TopicName>().unwrap().id(),
            Some(MonotonicNs(1_000_000)),
            7,
        );
        let talker = Talker {
            node: "talker".into(),
            pid: Some(42),
            type_name: schema.name.to_string(),
            decoder: Decoder::of(schema).0,
        };
        Taken {
            header,
            missed: 3,
            publisher: EndpointId(1),
            talker: Arc::new(talker),
            at: MonotonicNs(6_000_000),
        }
    }

    #[test]
    fn the_first_line_has_sequence_age_and_losses() {
        let sample = taken(&Schema::bytes("p/msg/M", "cdr", "int32 x\n"));
        let screen = Screen::new(true);
        let text_of = |payload: &[u8]| text(&sample, payload, Limits::default(), &screen);
        let facts = "# sequence 12 from 'talker' (process 42), 5.00 ms old, published 1.00 ms ago; \
             3 missed before it\n";
        assert_eq!(text_of(&[0, 1, 0, 0, 5, 0, 0, 0]), format!("{facts}x: 5\n---\n"));
        let broken = text_of(&[0, 1, 0, 0, 5]);
        assert!(
            broken.starts_with(&format!(
                "{facts}# error: p/msg/M: x at byte 4: 4 more bytes needed, 1 left; "
            )),
            "{broken}"
        );
        assert!(broken.ends_with("# payload: 00 01 00 00 05\n---\n"), "{broken}");
        assert_eq!((age(-1_500_000), age(2_000)), ("-1.50 ms".into(), "2.00 µs".into()));
    }

    #[test]
    fn a_line_of_json_has_header_and_fields() {
        let sample = taken(&Schema::bytes("p/msg/M", "cdr", "int32 x\n"));
        let topic: TopicName = "a".parse().unwrap();
        let read = |payload: &[u8]| {
            let line = json(&topic, &sample, payload, Limits { each: 2, all: 2 });
            assert_eq!(line.find('\n'), Some(line.len() - 1));
            serde_json::from_str::<serde_json::Value>(&line).unwrap()
        };
        let value = read(&[0, 1, 0, 0, 5, 0, 0, 0]);
        let header = &value["header"];
        assert_eq!(
            (&value["fields"]["x"], &header["sequence"], &header["missed"]),
            (&5.into(), &12.into(), &3.into())
        );
        assert_eq!(
            (&header["source_time_ns"], &header["publish_time_ns"]),
            (&1_000_000.into(), &5_000_000.into())
        );
        assert_eq!(
            (&header["publisher"]["node"], &header["type"], &header["topic"]),
            (&"talker".into(), &"p/msg/M".into(), &"a".into())
        );
        assert_eq!(
            (&header["age_ns"], &header["wall_time_ns"]),
            (&5_000_000.into(), &4_999_999.into())
        );
        let broken = read(&[0, 1, 0, 0]);
        assert!(
            broken["error"].as_str().unwrap().starts_with("x at byte 4: ")
                && broken["fields"].is_null(),
            "{broken}"
        );
    }
}
