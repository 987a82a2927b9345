// SPDX-License-Identifier: Apache-2.0
use super::*;
use serde_json::json;
use std::sync::mpsc::channel;

/// A caller may request a report before the first check of a new control thread.
#[test]
fn a_request_before_the_control_thread_started_is_answered_after_its_first_check() {
    let dir = tempfile::tempdir().unwrap();
    let topic = json!({
        "topic": "map", "send": true, "receive": false, "max_payload": 8, "pins": 3, "qos": {},
    });
    let network = json!({ "host": "car", "listen": ["tcp/127.0.0.1:0"] });
    let config = json!({
        "domain": "test", "domain_dir": dir.path(), "network": network, "topics": [topic],
    });
    let control = Control::new();
    let (sender, asked) = channel();
    let asks = control.clone();
    let answer = std::thread::spawn(move || {
        let ask = || asks.report_requests().ask(|| sender.send(()).unwrap());
        // The report is stale if the machine has no time for the control thread.
        std::iter::repeat_with(ask).find(|report| !report.stale)
    });
    asked.recv().unwrap();
    let control_thread = ControlThread::new(
        serde_json::from_value(config).unwrap(),
        control.clone(),
        BTreeSet::new(),
    )
    .unwrap();
    let conducts = std::thread::spawn(move || control_thread.run());
    let report = answer.join().unwrap().unwrap();
    control.stop();
    conducts.join().unwrap();
    assert_eq!(
        report.topics.iter().map(|t| t.topic.as_str()).collect::<Vec<_>>(),
        ["map"],
        "{report:?}"
    );
}
