// SPDX-License-Identifier: Apache-2.0
//! Rust types of the shipped protobuf messages.

fn main() -> Result<(), driveline_build::Error> {
    let messages = [
        "header",
        "image_geometry",
        "lane_markings",
        "detections_2d",
        "tracks_2d",
        "fused_scene",
        "run_health",
    ];
    let files = messages.map(|m| format!("../../proto/driveline/msgs/{m}.proto"));
    driveline_build::Protos::new().types_path("::driveline_types").compile(&files, &["../../proto"])
}
