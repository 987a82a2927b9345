// SPDX-License-Identifier: Apache-2.0
//! Ends of topics that do not agree.

use super::*;

#[test]
fn the_ends_of_a_topic_must_agree() {
    let cases: &[Case] = &[
        (&[("topic: camera/image", "topic: camera/imag")], &[(5, "", "")]),
        (
            &[("type: demo/Image", "type: demo/Imu")],
            &[(
                5,
                "declared as `demo/Imu`, and the output `camera.image` publishes `demo/Image`",
                "connect `camera.image` to a topic of `demo/Image`; or write `type: demo/Image`",
            )],
        ),
        (
            &[("reach: host, max_payload: 2 MiB", "max_payload: 2 MiB")],
            &[(24, "ends in the modules `perception`, `sensing`", "reach: host")],
        ),
        (&[(", max_payload: 2 MiB", "")], &[(5, "needs `max_payload`", "max_payload: 2 MiB")]),
        (
            &[("qos: {depth: 4}", "qos: {reliability: reliable}")],
            &[(
                24,
                "QoS RELIABILITY: best_effort is offered, reliable requested",
                "make the publisher",
            )],
        ),
        (
            &[("qos: {depth: 4}", "qos: {checksum: true}")],
            &[(
                24,
                "QoS CHECKSUM: none is offered, XXH3-64 requested",
                "set `qos.checksum: true` at the publisher",
            )],
        ),
        (
            &[("qos: {depth: 4}", "qos: {depth: 2000}")],
            &[(24, "`depth` is out of range: 2000", "between 1 and 1024")],
        ),
        (
            &[("max_payload: 2 MiB", "max_payload: 100 GiB")],
            &[(5, "`max_payload` of the topic `camera/image` is out of range", "at most")],
        ),
        (
            &[("qos: {depth: 4}", "qos: {depth: 8}")],
            &[(
                24,
                "`lane.image` has `qos.depth: 8`, and its publisher `camera.image` keeps 5",
                "topics: {camera/image: {qos: {depth: 8}}}",
            )],
        ),
        (
            &[("qos: {depth: 5}", "qos: {lease_ms: 100}"), ("qos: {depth: 4}", "qos: {depth: 1}")],
            &[(13, "`lease_ms` of the topic `camera/image` has no effect", "manual_by_topic`")],
        ),
        (
            &[
                ("qos: {depth: 5}", "qos: {liveliness: manual_by_topic}"),
                ("qos: {depth: 4}", "qos: {depth: 1}"),
            ],
            &[(13, "`liveliness: manual_by_topic` of the topic `camera/image`", "`lease_ms: N`")],
        ),
        (
            &[
                ("qos: {depth: 5}", "qos: {liveliness: manual_by_topic, lease_ms: 100}"),
                ("qos: {depth: 4}", "qos: {lease_ms: 200}"),
            ],
            &[],
        ),
        (
            &[("external: true", "external: false")],
            &[(25, "no component reads the topic `lanes`", "external: true")],
        ),
        (
            &[("lanes: { reach: host, external: true }", "lanes: {}")],
            &[(
                25,
                "no component reads the topic `lanes`",
                "declare `topics: {lanes: {reach: host, external: true}}`",
            )],
        ),
        (
            &[("lanes: { reach: host, external: true }", "lanes: { external: true }")],
            &[(6, "`lanes` is `external`, and its samples stay in their process", "reach: host")],
        ),
        (
            &[("qos: {depth: 5}", "qos: {history: keep_last}")],
            &[(5, "unknown key `history`", "`depth: N` alone keeps the last N samples")],
        ),
    ];
    for (changes, expected) in &cases[1..] {
        finds(&replaced(changes), expected);
    }
    finds(
        &replaced(cases[0].0),
        &[
            (
                13,
                "no component reads the topic `camera/image`",
                "but not published: did you mean `camera/image` there?",
            ),
            (24, "no component publishes the topic `camera/imag`", "did you mean `camera/image`?"),
        ],
    );
    finds(
        &replaced(&[
            (", type: demo/Image", ""),
            ("outputs: { lanes: lanes }", "outputs: { lanes: camera/image }"),
            ("  lanes: { reach: host, external: true }\n", ""),
        ]),
        &[
            (18, "these components start each other in a circle", ""),
            (24, "publishers `camera.image` and `lane.lanes` have different types", ""),
        ],
    );
}
