// SPDX-License-Identifier: Apache-2.0
//! The chain of 17 callbacks, the modules, and their numbers of nodes, as published by Betz et al.
//! (experiment B3 in `docs/lab.md`).

use std::time::Duration;

/// Modules with their numbers of nodes, as published.
pub(super) const MODULES: [(&str, u32); 8] = [
    ("sensing", 48),
    ("perception", 49),
    ("localization", 33),
    ("map", 6),
    ("planning", 25),
    ("control", 8),
    ("vehicle", 1),
    ("system", 21),
];

/// The lidar, whose scans start instances of the chain. It is a node of `sensing` without a
/// callback.
pub(super) const SOURCE: &str = "lidar_driver";
pub(super) const SOURCE_TOPIC: &str = "lidar/points";
pub(super) const SOURCE_PERIOD: Duration = Duration::from_millis(100);
pub(super) const SOURCE_BYTES: u32 = 128_000;
/// Callback that ends the instances of the chain.
pub(super) const END: &str = "vehicle_cmd_gate";

/// Trigger of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// On each sample.
    Message(&'static str),
    /// At fixed times, this many milliseconds apart; it reads the newest sample.
    Timer(u32),
}

/// A callback of the chain. Its input is the output of the previous one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callback {
    pub(super) component: &'static str,
    pub(super) node: &'static str,
    pub(super) module: &'static str,
    pub(super) when: When,
    pub(super) output: &'static str,
    pub(super) bytes: u32,
    /// Processor time, in microseconds.
    pub(super) work_us: u32,
}

const fn on(
    message: &'static str,
    node: &'static str,
    module: &'static str,
    output: &'static str,
    bytes: u32,
    work_us: u32,
) -> Callback {
    Callback { component: node, node, module, when: When::Message(message), output, bytes, work_us }
}

/// A node whose message callback is followed by a timer callback has two components. The data that
/// the first component keeps for the second is a topic, so the waiting time of that data counts as
/// idle.
const fn part(component: &'static str, callback: Callback) -> Callback {
    Callback { component, ..callback }
}

const fn timer(
    period_ms: u32,
    node: &'static str,
    module: &'static str,
    output: &'static str,
    bytes: u32,
    work_us: u32,
) -> Callback {
    Callback { component: node, node, module, when: When::Timer(period_ms), output, bytes, work_us }
}

/// Messages and nodes are as published. The periods, the work and the lengths, from 1 to 128 kB,
/// are not published; they are chosen here.
pub(super) const CHAIN: [Callback; 17] = [
    on("PointCloud2+Indices", "filter", "sensing", "lidar/filtered", 64_000, 4000),
    on("PointCloud2", "ndt_scan_matcher", "localization", "localization/pose", 1000, 12_000),
    part(
        "ekf_localizer_measurement",
        on(
            "PoseWithCovariance",
            "ekf_localizer",
            "localization",
            "localization/ekf_state",
            1000,
            200,
        ),
    ),
    timer(20, "ekf_localizer", "localization", "localization/kinematic_state", 1000, 200),
    on("Odometry", "stop_filter", "localization", "localization/odometry", 1000, 100),
    part(
        "behavior_path_planner_odometry",
        on("Odometry", "behavior_path_planner", "planning", "planning/planner_state", 1000, 200),
    ),
    timer(100, "behavior_path_planner", "planning", "planning/path_with_lane_id", 64_000, 8000),
    on("PathWithLaneId", "behavior_velocity_planner", "planning", "planning/path", 32_000, 4000),
    on(
        "Path",
        "obstacle_avoidance_planner",
        "planning",
        "planning/avoidance/trajectory",
        32_000,
        6000,
    ),
    on(
        "Trajectory",
        "obstacle_velocity_limiter",
        "planning",
        "planning/limiter/trajectory",
        32_000,
        2000,
    ),
    on("Trajectory", "obstacle_stop_planner", "planning", "planning/stop/trajectory", 32_000, 2000),
    on("Trajectory", "scenario_selector", "planning", "planning/scenario/trajectory", 32_000, 200),
    on(
        "Trajectory",
        "motion_velocity_smoother",
        "planning",
        "planning/smoother/trajectory",
        32_000,
        3000,
    ),
    on("Trajectory", "planning_validator", "planning", "planning/trajectory", 32_000, 500),
    part(
        "controller_trajectory",
        on("Trajectory", "controller", "control", "control/trajectory", 32_000, 500),
    ),
    timer(33, "controller", "control", "control/command", 1000, 1000),
    on("AckermannControl", END, "vehicle", "vehicle/command", 1000, 200),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_chain_is_exactly_the_published_one() {
        let described: Vec<String> = CHAIN
            .iter()
            .map(|c| match c.when {
                When::Message(m) => format!("{m} {}", c.node.replace('_', "")),
                When::Timer(_) => format!("timer {}", c.node.replace('_', "")),
            })
            .collect();
        let published = "PointCloud2+Indices→Filter · PointCloud2→NDTScanMatcher · \
            PoseWithCovariance→EKFLocalizer · timer EKFLocalizer · Odometry→StopFilter · \
            Odometry→BehaviorPathPlanner · timer BehaviorPathPlanner · \
            PathWithLaneId→BehaviorVelocityPlanner · Path→ObstacleAvoidancePlanner · \
            Trajectory→ObstacleVelocityLimiter · Trajectory→ObstacleStopPlanner · \
            Trajectory→ScenarioSelector · Trajectory→MotionVelocitySmoother · \
            Trajectory→PlanningValidator · Trajectory→Controller · timer Controller · \
            AckermannControl→VehicleCmdGate";
        let published: Vec<String> = published
            .split(" · ")
            .map(|step| {
                let (message, node) =
                    step.split_once('→').or_else(|| step.split_once(' ')).unwrap();
                format!("{message} {}", node.to_lowercase())
            })
            .collect();
        assert_eq!(described, published);
    }

    #[test]
    fn modules_have_191_nodes_of_which_few_are_the_chains() {
        assert_eq!(MODULES.iter().map(|(_, n)| n).sum::<u32>(), 191);
        assert_eq!(CHAIN.iter().map(|c| c.node).collect::<BTreeSet<_>>().len(), 14);
        assert!(
            CHAIN.iter().all(|c| MODULES.iter().any(|(m, _)| *m == c.module)
                && (1000..=128_000).contains(&c.bytes))
        );
        assert_eq!(
            CHAIN.iter().map(|c| c.component).chain([SOURCE]).collect::<BTreeSet<_>>().len(),
            18
        );
    }
}
