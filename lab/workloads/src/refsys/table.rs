// SPDX-License-Identifier: Apache-2.0
//! The 24 nodes of the Autoware reference system, as published.

use std::time::Duration;

/// Behaviour of a callback of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Publishes at fixed times, without work.
    Sensor(Duration),
    /// Works on each sample.
    Transform,
    /// Works once both inputs have a sample, and then starts again.
    Fusion,
    /// Works at fixed times, on the newest sample of each input.
    Cyclic(Duration),
    /// Takes messages without work.
    Command,
}

/// One callback of a node. Its output, if any, has the name of the node, or a name of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callback {
    pub(super) node: &'static str,
    pub(super) rule: Rule,
    pub(super) inputs: &'static [&'static str],
    pub(super) output: Option<&'static str>,
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn sensor(node: &'static str, period_ms: u64) -> Callback {
    Callback { node, rule: Rule::Sensor(ms(period_ms)), inputs: &[], output: Some(node) }
}

const fn transform(node: &'static str, inputs: &'static [&'static str; 1]) -> Callback {
    Callback { node, rule: Rule::Transform, inputs, output: Some(node) }
}

const fn fusion(node: &'static str, inputs: &'static [&'static str; 2]) -> Callback {
    Callback { node, rule: Rule::Fusion, inputs, output: Some(node) }
}

const fn command(node: &'static str, inputs: &'static [&'static str; 1]) -> Callback {
    Callback { node, rule: Rule::Command, inputs, output: None }
}

/// Sources of the stamps of the hot path.
pub(super) const LIDARS: [&str; 2] = ["FrontLidarDriver", "RearLidarDriver"];
/// Last node of the hot path.
pub(super) const END: &str = "ObjectCollisionEstimator";
/// Node whose period is observed.
pub(super) const PLANNER: &str = "BehaviorPlanner";
/// Node with two callbacks, each with an input and an output of its own.
const DETECTOR: &str = "EuclideanClusterDetector";

pub(super) const CALLBACKS: [Callback; 25] = [
    sensor(LIDARS[0], 100),
    sensor(LIDARS[1], 100),
    sensor("PointCloudMap", 120),
    sensor("Visualizer", 60),
    sensor("Lanelet2Map", 100),
    sensor("EuclideanClusterSettings", 25),
    transform("PointsTransformerFront", &[LIDARS[0]]),
    transform("PointsTransformerRear", &[LIDARS[1]]),
    fusion("PointCloudFusion", &["PointsTransformerFront", "PointsTransformerRear"]),
    transform("VoxelGridDownsampler", &["PointCloudFusion"]),
    transform("RayGroundFilter", &["PointCloudFusion"]),
    transform("PointCloudMapLoader", &["PointCloudMap"]),
    fusion("NDTLocalizer", &["VoxelGridDownsampler", "PointCloudMapLoader"]),
    fusion("Lanelet2GlobalPlanner", &["Visualizer", "NDTLocalizer"]),
    fusion("Lanelet2MapLoader", &["Lanelet2Map", "Lanelet2GlobalPlanner"]),
    transform("ParkingPlanner", &["Lanelet2MapLoader"]),
    transform("LanePlanner", &["Lanelet2MapLoader"]),
    transform(DETECTOR, &["RayGroundFilter"]),
    Callback {
        node: DETECTOR,
        rule: Rule::Transform,
        inputs: &["EuclideanClusterSettings"],
        output: Some("EuclideanIntersection"),
    },
    transform(END, &[DETECTOR]),
    Callback {
        node: PLANNER,
        rule: Rule::Cyclic(ms(100)),
        inputs: &[
            END,
            "NDTLocalizer",
            "Lanelet2GlobalPlanner",
            "Lanelet2MapLoader",
            "ParkingPlanner",
            "LanePlanner",
        ],
        output: Some(PLANNER),
    },
    transform("MPCController", &[PLANNER]),
    fusion("VehicleInterface", &["MPCController", PLANNER]),
    command("VehicleDBWSystem", &["VehicleInterface"]),
    command("IntersectionOutput", &["EuclideanIntersection"]),
];

/// Returns true for nodes between the lidars and the end of the hot path, both included.
pub(super) fn on_hot_path(node: &str) -> bool {
    const BETWEEN: [&str; 5] = [
        "PointsTransformerFront",
        "PointsTransformerRear",
        "PointCloudFusion",
        "RayGroundFilter",
        "EuclideanClusterDetector",
    ];
    LIDARS.contains(&node) || BETWEEN.contains(&node) || node == END
}

/// Returns true if a connection of the graph is on the hot path.
pub(super) fn is_hot_edge(node: &str, input: &str) -> bool {
    on_hot_path(node) && on_hot_path(input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The table of the publication, row by row, in its own words.
    const PUBLISHED: &str = "
        FrontLidarDriver sensor - 100
        RearLidarDriver sensor - 100
        PointCloudMap sensor - 120
        Visualizer sensor - 60
        Lanelet2Map sensor - 100
        EuclideanClusterSettings sensor - 25
        PointsTransformerFront transform FrontLidarDriver crunch
        PointsTransformerRear transform RearLidarDriver crunch
        PointCloudFusion fusion PointsTransformerFront,PointsTransformerRear crunch
        VoxelGridDownsampler transform PointCloudFusion crunch
        RayGroundFilter transform PointCloudFusion crunch
        PointCloudMapLoader transform PointCloudMap crunch
        NDTLocalizer fusion VoxelGridDownsampler,PointCloudMapLoader crunch
        Lanelet2GlobalPlanner fusion Visualizer,NDTLocalizer crunch
        Lanelet2MapLoader fusion Lanelet2Map,Lanelet2GlobalPlanner crunch
        ParkingPlanner transform Lanelet2MapLoader crunch
        LanePlanner transform Lanelet2MapLoader crunch
        EuclideanClusterDetector transform RayGroundFilter crunch
        EuclideanClusterDetector transform EuclideanClusterSettings crunch
        ObjectCollisionEstimator transform EuclideanClusterDetector crunch
        BehaviorPlanner cyclic ObjectCollisionEstimator,NDTLocalizer,Lanelet2GlobalPlanner,\
        Lanelet2MapLoader,ParkingPlanner,LanePlanner 100
        MPCController transform BehaviorPlanner crunch
        VehicleInterface fusion MPCController,BehaviorPlanner crunch
        VehicleDBWSystem command VehicleInterface -
        IntersectionOutput command EuclideanIntersection -";

    fn row(c: &Callback) -> String {
        let (kind, timing) = match c.rule {
            Rule::Sensor(p) => ("sensor", p.as_millis().to_string()),
            Rule::Transform => ("transform", "crunch".into()),
            Rule::Fusion => ("fusion", "crunch".into()),
            Rule::Cyclic(p) => ("cyclic", p.as_millis().to_string()),
            Rule::Command => ("command", "-".into()),
        };
        let inputs = if c.inputs.is_empty() { "-".to_owned() } else { c.inputs.join(",") };
        format!("{} {kind} {inputs} {timing}", c.node)
    }

    #[test]
    fn the_graph_is_exactly_the_published_table() {
        let published: Vec<&str> = PUBLISHED.trim().lines().map(str::trim).collect();
        assert_eq!(CALLBACKS.iter().map(row).collect::<Vec<_>>(), published);
        assert_eq!(CALLBACKS.iter().map(|c| c.node).collect::<BTreeSet<_>>().len(), 24);
    }

    #[test]
    fn every_input_is_the_output_of_another_node() {
        let outputs: Vec<_> = CALLBACKS.iter().filter_map(|c| c.output).collect();
        assert_eq!(outputs.iter().collect::<BTreeSet<_>>().len(), outputs.len());
        let inputs: BTreeSet<_> = CALLBACKS.iter().flat_map(|c| c.inputs).collect();
        assert_eq!(inputs, outputs.iter().filter(|o| inputs.contains(o)).collect());
        let hot: Vec<_> = CALLBACKS
            .iter()
            .flat_map(|c| c.inputs.iter().filter(|i| is_hot_edge(c.node, i)).map(|i| (*i, c.node)))
            .collect();
        assert_eq!(hot.len(), 7, "{hot:?}");
    }
}
