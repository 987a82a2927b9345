// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::engine::rig;

#[test]
fn a_gateway_that_does_not_hear_its_clock_any_more_cannot_go_on() {
    let _alone = lock(&rig::ALONE);
    let dir = tempfile::tempdir().unwrap();
    let conductor = rig::conductor(dir.path(), serde_json::json!({ "domain_id": rig::DOMAIN, "use_sim_time": true }));
    conductor.control.close_dds();
    rig::eventually("over", || conductor.control.failure().is_some());
    assert!(conductor.control.failure().unwrap().contains("the time on /clock is not heard any more"));
}

#[test]
fn what_dds_refuses_keeps_nobody_from_an_answer() {
    let _alone = lock(&rig::ALONE);
    let dir = tempfile::tempdir().unwrap();
    let mut conductor = rig::conductor(dir.path(), serde_json::json!({ "domain_id": rig::DOMAIN }));
    conductor.control.close_dds();
    let control = conductor.control();
    // Who asks waits for a while: the more often, the slower may the machine be.
    let asks = std::thread::spawn(move || (0..30).any(|_| !control.report().stale));
    while !asks.is_finished() {
        conductor.look();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(asks.join().unwrap(), "nobody is answered");
    let told = conductor.control.take_notices();
    assert!(told.iter().any(|line| line.contains("CycloneDDS cannot")), "{told:?}");
}

#[test]
fn what_is_cut_off_is_told_of() {
    let lines = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(at_most(2, lines(2).into_iter()), ["0", "1"]);
    assert_eq!(at_most(2, lines(5).into_iter()), ["0", "1", "and 3 more, which are not named here"]);
}
