// SPDX-License-Identifier: Apache-2.0
use super::scale::duration;
use super::*;
use crate::{
    Ended, InputFacts, MachineFacts, RunFacts, StageFacts, StageInput, StageRecord, write_outputs,
};
use driveline_runtime::account::{CallbackCounters, InputCounters, Record};
use driveline_types::header::Arrival;
use driveline_types::{Lineage, MonotonicNs, SampleHeader, TopicId, TopicName, Uncounted};

/// A pipeline of five stages over `frames` frames, with durations from a fixed pseudo-random
/// sequence.
fn pipeline(frames: u64) -> Collector {
    let topic = |t: &str| -> TopicName { t.parse().unwrap() };
    let stage = |name: &str, inputs: &[&str], output: &str| StageFacts {
        name: name.into(),
        inputs: inputs
            .iter()
            .map(|t| InputFacts { name: (*t).to_owned(), topic: topic(t), triggers: true })
            .collect(),
        outputs: vec![topic(output)],
    };
    let mut run = Collector::new(RunFacts {
        graph: "comp".into(),
        speed_kmh: Some(100.0),
        started_unix_s: Some(1_700_000_000),
        stages: vec![
            stage("camera", &[], "image"),
            stage("lane", &["image"], "lanes"),
            stage("detector", &["image"], "boxes"),
            stage("tracker", &["image"], "tracks"),
            stage("fusion", &["tracks"], "scene"),
        ],
        machine: MachineFacts::here(),
        ..RunFacts::default()
    });
    let text = "classical <edges> & symmetry, not a neural network".into();
    run.take(
        "perception",
        &Record::Fact { component: "detector".into(), name: "detector".into(), text },
    );
    let mut seed = 42u64;
    let mut random = move |around: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (seed >> 40) as f64 / (1u64 << 24) as f64;
        (around as f64 * (0.6 + 0.4 / (1.02 - unit).sqrt())) as u64
    };
    let mut detector_free_at = 0;
    let mut skipped = 0;
    for frame in 1..=frames {
        let t = frame * 20_000_000;
        let publish = |name: &str, from: Option<&SampleHeader>, start: u64, at: u64| {
            let mut lineage = Lineage::start(MonotonicNs(start));
            if let Some(header) = from {
                lineage.inherit(header, Arrival::Triggered);
            }
            let mut header = SampleHeader {
                sequence: frame,
                publish_time: MonotonicNs(at),
                ..SampleHeader::default()
            };
            lineage.stamp(&mut header, topic(name).id(), Some(MonotonicNs(start)), frame);
            header.trace_id = frame;
            header
        };
        let call = |run: &mut Collector,
                    stage: &str,
                    input: &str,
                    header: Option<&SampleHeader>,
                    missed,
                    start,
                    end| {
            let inputs: Vec<_> = header
                .map(|header| StageInput {
                    input,
                    topic: topic(input).id(),
                    arrival: Arrival::Triggered,
                    header,
                    missed,
                    fresh: true,
                })
                .into_iter()
                .collect();
            run.add(&StageRecord {
                stage,
                start: MonotonicNs(start),
                end: MonotonicNs(end),
                failed: frame % 97 == 0,
                inputs: &inputs,
                ..StageRecord::default()
            });
        };
        let published_at = t + random(1_500_000);
        let image = publish("image", None, t, published_at);
        call(&mut run, "camera", "", None, 0, t, published_at);
        let lane_start = published_at + random(45_000);
        call(
            &mut run,
            "lane",
            "image",
            Some(&image),
            0,
            lane_start,
            lane_start + random(2_600_000),
        );
        if published_at > detector_free_at {
            let start = published_at + random(60_000);
            detector_free_at = start + random(21_000_000);
            call(&mut run, "detector", "image", Some(&image), skipped, start, detector_free_at);
            skipped = 0;
        } else {
            skipped += 1;
        }
        let track_start = published_at + random(50_000);
        let track_end = track_start + random(900_000);
        call(&mut run, "tracker", "image", Some(&image), 0, track_start, track_end);
        let tracks = publish("tracks", Some(&image), track_start, track_end);
        let fusion_start = track_end + random(40_000);
        call(
            &mut run,
            "fusion",
            "tracks",
            Some(&tracks),
            0,
            fusion_start,
            fusion_start + random(120_000),
        );
    }
    run
}

/// Elements that need a closing tag. HTML closes some others implicitly at the next tag.
const CLOSED: [&str; 12] = [
    "html", "head", "body", "main", "section", "div", "table", "svg", "figure", "title", "ul", "p",
];

fn check_page(page: &str) {
    for tag in CLOSED {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(
            opened,
            page.matches(&format!("</{tag}>")).count(),
            "<{tag}> is not closed as often as opened"
        );
    }
    for forbidden in
        ["<script", "http://", "https://", "@import", "url(", "NaN", "inf ", "inf<", "inf\""]
    {
        assert!(!page.contains(forbidden), "the page holds {forbidden:?}");
    }
}

#[test]
fn a_run_gives_a_page_with_every_plot_and_no_way_out() {
    let run = pipeline(500);
    let summary = run.summary();
    let page = render(&run, &summary);
    check_page(&page);
    // Eight SVG pictures: five histograms, the distribution, the age over time and the missed
    // samples over time. The split of the age is HTML (`class="bars"`), not SVG.
    assert_eq!((page.matches("<svg").count(), page.matches("class=\"bars\"").count()), (8, 1));
    let rows: Vec<&str> = page.split("<li class=\"row").skip(1).collect();
    for row in &rows {
        let widths = row
            .split("style=\"width:")
            .skip(1)
            .map(|w| w.split_once('%').unwrap().0.parse::<f64>().unwrap());
        assert!(widths.sum::<f64>() <= 100.01, "{row}");
        assert!(row.contains(" communication</span></li>"), "{row}");
    }
    assert_eq!(rows.len(), summary.along_the_way.len() + 3 * summary.end_to_end.len());
    assert!(page.contains("classical &lt;edges&gt; &amp; symmetry"));
    assert!(page.contains("image → fusion"));
    assert!(page.contains("detector.image"));
    // The answer and the card (`tile`) show the mean over all samples.
    let mean = summary
        .end_to_end
        .iter()
        .max_by(|a, b| a.age_us.p50.total_cmp(&b.age_us.p50))
        .unwrap()
        .mean;
    let tile = format!(
        "on average {} of {}; ",
        duration(mean.communication_us),
        duration(mean.total_us())
    );
    assert!(
        page.contains(&format!("{} communication", duration(mean.communication_us)))
            && page.contains(&tile),
        "{tile}"
    );
    for figure in [duration(summary.end_to_end[0].age_us.p50), "Reaction distance".to_owned()] {
        assert!(page.contains(&figure), "{figure} is missing");
    }
}

#[test]
fn a_run_cut_short_at_any_record_gives_a_valid_page() {
    for frames in 0..4 {
        let run = pipeline(frames);
        check_page(&render(&run, &run.summary()));
    }
    check_page(&render(&Collector::default(), &Collector::default().summary()));
}

#[test]
fn the_page_does_not_grow_with_the_run() {
    let size = |frames| {
        let run = pipeline(frames);
        render(&run, &run.summary()).len()
    };
    let (short, long) = (size(2_000), size(20_000));
    assert!(long < short + short / 4, "{short} bytes for 2000 frames, {long} for 20000");
    assert!(long < 400_000);
}

#[test]
fn every_key_of_the_summary_is_documented() {
    let page = include_str!("../../../../docs/reports.md");
    let json = serde_json::to_value(pipeline(2).summary()).unwrap();
    for part in ["/", "/subscriptions/0", "/stages/0", "/end_to_end/0", "/stages/0/processing_us"] {
        for key in
            json.pointer(part.trim_end_matches('/')).and_then(|v| v.as_object()).unwrap().keys()
        {
            let documented =
                [format!("`{key}`"), format!("`{key}[]`"), format!("{key}, "), format!("{key}}}`")];
            assert!(
                documented.iter().any(|d| page.contains(d)),
                "docs/reports.md does not have {key} of {part}"
            );
        }
    }
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let evil = "</title><img src=x onerror='x'>\"";
    let mut run = Collector::new(RunFacts {
        graph: evil.into(),
        notes: vec![evil.into()],
        ..RunFacts::default()
    });
    run.take(evil, &Record::Fact { component: evil.into(), name: evil.into(), text: evil.into() });
    run.take(
        evil,
        &Record::Failure {
            component: evil.into(),
            topic: None,
            sequence: None,
            text: evil.into(),
            count: 1,
        },
    );
    let header =
        SampleHeader { sequence: 1, publish_time: MonotonicNs(1), ..SampleHeader::default() };
    let inputs = [StageInput {
        input: evil,
        topic: TopicId(1),
        arrival: Arrival::Triggered,
        header: &header,
        missed: 1,
        fresh: true,
    }];
    run.add(&StageRecord {
        stage: evil,
        start: MonotonicNs(5_000),
        end: MonotonicNs(9_000),
        inputs: &inputs,
        ..StageRecord::default()
    });
    let page = render(&run, &run.summary());
    check_page(&page);
    assert!(!page.contains("<img"));
}

#[test]
fn both_files_are_written_whole_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("deep/er");
    for frames in [1, 20] {
        let run = pipeline(frames);
        let page = write_outputs(&run, &out).unwrap();
        assert_eq!(page, out.join("report.html"));
        let json: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(out.join("summary.json")).unwrap())
                .unwrap();
        assert_eq!(json["frames_published"], frames);
        assert_eq!(json["stages"][0]["stage"], "camera");
        assert!(std::fs::read_to_string(&page).unwrap().ends_with("</html>\n"));
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2, "no temporary file stays");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = write_outputs(&Collector::default(), &file.join("out")).unwrap_err().to_string();
    assert!(error.contains("file/out"), "{error}");
}

#[test]
fn the_answer_comes_first_and_remarks_after_the_picture() {
    let mut run = pipeline(500);
    let summary = run.summary();
    let page = render(&run, &summary);
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what}"));
    let order = [
        at("class=question"),
        at("class=answer"),
        at("class=cards"),
        at("class=\"bars\""),
        at("<h2>Remarks</h2>"),
        at("<h2>Components</h2>"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    // The slowest of the three sinks decides the answer.
    let end = summary.end_to_end.iter().find(|e| e.stage == "detector").unwrap();
    assert!(summary.end_to_end.iter().all(|e| e.age_us.p50 <= end.age_us.p50));
    let sentence = format!(
        "<b>{}</b> at detector, counted from image (median of {};",
        duration(end.age_us.p50),
        end.age_us.n
    );
    assert!(page.contains(&sentence), "{sentence}");
    // Only the detector is slower than the camera, so all missed samples are missed by the
    // detector.
    let missed = format!("{} of them at detector.", grouped(summary.missed_by_triggers as f64));
    assert!(summary.missed_by_triggers > 0 && page.contains(&missed), "{missed}");
    // A note becomes a boxed notice only if it limits the figures, for example missing callbacks.
    assert!(!page.contains("class=notice"));
    run.facts_mut().notes.push("3 callbacks are missing".into());
    let page = render(&run, &run.summary());
    assert_eq!(page.matches("class=notice").count(), 1);
    assert!(page.find("class=notice") > page.find("class=\"bars\""));
}

#[test]
fn a_report_after_a_kill_does_not_claim_that_every_sample_was_worked_on() {
    let topic: TopicName = "image".parse().unwrap();
    let input = InputFacts { name: "image".into(), topic: topic.clone(), triggers: true };
    let lane = StageFacts { name: "lane".into(), inputs: vec![input], outputs: vec![] };
    let camera = StageFacts { name: "camera".into(), inputs: vec![], outputs: vec![topic.clone()] };
    let mut run = Collector::new(RunFacts { stages: vec![camera, lane], ..RunFacts::default() });
    run.set_published("camera", "image", topic.id(), 200);
    run.set_subscription(
        "lane",
        "image",
        topic.id(),
        InputCounters { received: 5, missed: 0, ..Default::default() },
    );
    let every = "Every sample that was to be worked on was worked on.";
    assert!(render(&run, &run.summary()).contains(every));
    let mut summary = run.summary();
    let lane = summary.stages.iter_mut().find(|s| s.stage == "lane").unwrap();
    lane.counters = Some(CallbackCounters { skipped_missing: 2, ..CallbackCounters::default() });
    let page = render(&run, &summary);
    assert!(
        !page.contains(every)
            && page.contains(" 2 samples caused no call: another input was missing"),
        "{page}"
    );
    let lane = summary.stages.iter_mut().find(|s| s.stage == "lane").unwrap();
    lane.counters = Some(CallbackCounters { take_errors: 1, ..CallbackCounters::default() });
    assert_eq!(
        summary.uncalled().unwrap(),
        "1 sample caused no call: another input was missing or too old, or it could not be read"
    );
    run.cut_off("lane");
    let page = render(&run, &run.summary());
    assert!(!page.contains(every) && page.contains(" 195 samples were not read, since"), "{page}");
    assert!(page.contains("<b>195</b><span>samples not worked on</span><small>97.5"), "{page}");
}

#[test]
fn samples_lost_on_the_way_and_unknown_counts_are_reported() {
    let topic: TopicName = "image".parse().unwrap();
    let input = InputFacts { name: "image".into(), topic: topic.clone(), triggers: true };
    let lane = StageFacts { name: "lane".into(), inputs: vec![input], outputs: vec![] };
    let mut run = Collector::new(RunFacts { stages: vec![lane], ..RunFacts::default() });
    let every = "Every sample that was to be worked on was worked on.";
    let unknown = "count unknown: its host is out of reach";
    let counters = InputCounters { received: 6, lost_on_the_way: 14, ..Default::default() };
    run.set_subscription("lane", "image", topic.id(), counters);
    let (summary, page) = (run.summary(), render(&run, &run.summary()));
    assert_eq!((summary.missed_by_triggers, summary.lost_by_triggers), (0, 14));
    assert!(
        page.contains(" 14 of 20 samples that were to be worked on were not")
            && !page.contains(every),
        "{page}"
    );
    assert!(
        page.contains("<td>14</td>")
            && page.contains("<th class=l>count unknown</tr>")
            && !page.contains(unknown),
        "{page}"
    );
    let counters = InputCounters {
        received: 6,
        uncounted: 1,
        uncounted_reason: Some(Uncounted::OutOfReach),
        ..Default::default()
    };
    run.set_subscription("lane", "image", topic.id(), counters);
    let (summary, page) = (run.summary(), render(&run, &run.summary()));
    assert!(
        !page.contains(every) && page.contains("<td class=l>1: its host is out of reach</td>"),
        "{page}"
    );
    let [note] = summary.notes.as_slice() else { panic!("{:?}", summary.notes) };
    assert!(
        note.starts_with(
            "lane of 'image': count unknown: its host is out of reach. 1 publisher on other hosts"
        ),
        "{note}"
    );
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(
        (&json["subscriptions"][0]["uncounted"], &json["subscriptions"][0]["uncounted_reason"]),
        (&1.into(), &"out_of_reach".into())
    );
}

#[test]
fn a_run_that_failed_says_so_on_top() {
    let mut run = pipeline(10);
    let good = render(&run, &run.summary());
    assert!(!good.contains("role=alert"));
    let text = "module 'bad' exited with code 1 while starting: cannot open <gpu0>".to_owned();
    let module = Some("bad".to_owned());
    let ended = Ended {
        reason: "module_died",
        ok: false,
        module,
        exit_code: Some(1),
        signal: None,
        text,
        help: Some("look".into()),
    };
    run.facts_mut().ended = Some(ended);
    let page = render(&run, &run.summary());
    assert!(
        page.contains("This run failed.</b> module &#39;bad&#39; exited with code 1")
            || page.contains("This run failed.</b> module 'bad' exited"),
        "{page}"
    );
    assert!(page.contains("cannot open &lt;gpu0&gt;"));
    assert!(page.find("role=alert") < page.find("class=cards"), "before any figure");
}

#[test]
fn what_ran_in_containers_has_a_table_and_a_bare_run_has_none() {
    let mut run = pipeline(3);
    run.facts_mut().modules = vec![ModuleFacts::new("lane")];
    let page = |run: &Collector| render(run, &run.summary());
    assert!(!page(&run).contains("Containers"));
    let lane = &mut run.facts_mut().modules[0];
    (lane.image, lane.user) = (Some("localhost/<lane>:1".into()), Some(65_532));
    (lane.memory_peak, lane.waits) = (Some(3 << 20), Some("futex_waitv".into()));
    let page = page(&run);
    assert!(page.contains("Containers") && page.contains("localhost/&lt;lane&gt;:1"));
    assert!(page.contains("3.0 MiB") && page.contains("futex_waitv"));
}

#[test]
fn what_modules_ask_of_the_kernel_has_a_table() {
    let mut run = pipeline(3);
    run.facts_mut().modules = vec![ModuleFacts::new("lane")];
    let page = |run: &Collector| render(run, &run.summary());
    assert!(!page(&run).contains("Real time"));
    run.facts_mut().modules[0].settings = vec![SettingAccount {
        setting: "lock_memory".into(),
        in_force: "not locked".into(),
        refused: Some("the limit is <8 MiB>".into()),
    }];
    let page = page(&run);
    assert!(page.contains("Real time") && page.contains("the limit is &lt;8 MiB&gt;"));
}
