// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <algorithm>
#include <array>

namespace comp {

namespace {

void to_message(const cv::Rect2f& box, msgs::BoundingBox2D& message) {
    message.set_x(box.x);
    message.set_y(box.y);
    message.set_width(box.width);
    message.set_height(box.height);
}

cv::Rect2f from_message(const msgs::BoundingBox2D& box) {
    return {box.x(), box.y(), box.width(), box.height()};
}

void to_message(const LaneLine& line, msgs::LaneSide side, msgs::LaneMarking& message) {
    message.set_side(side);
    message.set_confidence(line.confidence);
    message.set_validity(line.valid ? msgs::LANE_VALIDITY_MEASURED : msgs::LANE_VALIDITY_INVALID);
    for (const cv::Point2f& p : line.points) {
        auto* point = message.add_points();
        point->set_x(p.x);
        point->set_y(p.y);
    }
}

LaneLine from_message(const msgs::LaneMarking& message) {
    LaneLine line;
    line.valid = message.validity() == msgs::LANE_VALIDITY_MEASURED && message.points_size() > 0;
    line.confidence = message.confidence();
    for (const auto& p : message.points()) line.points.emplace_back(p.x(), p.y());
    if (!line.valid) line.points.clear();
    return line;
}

constexpr std::array kKinds{VehicleClass::unknown, VehicleClass::car, VehicleClass::motorbike,
                            VehicleClass::bus, VehicleClass::truck};

VehicleClass kind_of(std::uint32_t number) {
    return number < kKinds.size() ? kKinds[number] : VehicleClass::unknown;
}

// The tracker keeps a lost target for some frames, because its filter may find it again.
msgs::TrackState to_message(TrackState state) {
    switch (state) {
        case TrackState::tentative:
            return msgs::TRACK_STATE_TENTATIVE;
        case TrackState::tracking:
            return msgs::TRACK_STATE_TRACKED;
        case TrackState::lost:
            return msgs::TRACK_STATE_COASTING;
    }
    return msgs::TRACK_STATE_UNSPECIFIED;
}

TrackState state_of(msgs::TrackState state) {
    switch (state) {
        case msgs::TRACK_STATE_TRACKED:
            return TrackState::tracking;
        case msgs::TRACK_STATE_COASTING:
        case msgs::TRACK_STATE_LOST:
            return TrackState::lost;
        default:
            return TrackState::tentative;
    }
}

msgs::LaneRelation to_message(LanePosition position) {
    switch (position) {
        case LanePosition::ego:
            return msgs::LANE_RELATION_EGO_LANE;
        case LanePosition::left:
            return msgs::LANE_RELATION_LEFT_OF_EGO_LANE;
        case LanePosition::right:
            return msgs::LANE_RELATION_RIGHT_OF_EGO_LANE;
        case LanePosition::unknown:
            return msgs::LANE_RELATION_UNKNOWN;
    }
    return msgs::LANE_RELATION_UNSPECIFIED;
}

LanePosition position_of(msgs::LaneRelation relation) {
    switch (relation) {
        case msgs::LANE_RELATION_EGO_LANE:
            return LanePosition::ego;
        case msgs::LANE_RELATION_LEFT_OF_EGO_LANE:
            return LanePosition::left;
        case msgs::LANE_RELATION_RIGHT_OF_EGO_LANE:
            return LanePosition::right;
        default:
            return LanePosition::unknown;
    }
}

// Messages come from other components, so lists of detections, tracks and objects are cut to the
// limits of the stages.
int bounded(int count, std::size_t most) { return std::min(count, static_cast<int>(most)); }

}  // namespace

void to_message(const LaneEstimate& lanes, msgs::LaneMarkings& message) {
    const driveline::Conversion conversion;
    to_message(lanes.left, msgs::LANE_SIDE_EGO_LEFT, *message.add_lines());
    to_message(lanes.right, msgs::LANE_SIDE_EGO_RIGHT, *message.add_lines());
}

LaneEstimate from_message(const msgs::LaneMarkings& message) {
    const driveline::Conversion conversion;
    LaneEstimate lanes;
    for (const auto& line : message.lines()) {
        if (line.side() == msgs::LANE_SIDE_EGO_LEFT) lanes.left = from_message(line);
        if (line.side() == msgs::LANE_SIDE_EGO_RIGHT) lanes.right = from_message(line);
    }
    return lanes;
}

void to_message(const std::vector<Detection>& detections, msgs::Detections2D& message) {
    const driveline::Conversion conversion;
    for (const Detection& d : detections) {
        auto* out = message.add_detections();
        to_message(d.box, *out->mutable_box());
        out->set_class_id(static_cast<std::uint32_t>(d.kind));
        out->set_class_label(std::string(to_string(d.kind)));
        out->set_score(d.confidence);
    }
}

DetectionSet from_message(const msgs::Detections2D& message) {
    const driveline::Conversion conversion;
    DetectionSet set;
    set.source_time_ns = static_cast<std::int64_t>(message.header().source_time_ns());
    for (int i = 0; i < bounded(message.detections_size(), kMaxDetections); ++i) {
        const auto& d = message.detections(i);
        set.detections.push_back({from_message(d.box()), d.score(), kind_of(d.class_id())});
    }
    return set;
}

void to_message(const std::vector<Track>& tracks, msgs::Tracks2D& message) {
    const driveline::Conversion conversion;
    for (const Track& t : tracks) {
        auto* out = message.add_tracks();
        out->set_id(t.id);
        to_message(t.box, *out->mutable_box());
        out->set_state(to_message(t.state));
        out->set_psr(t.psr);
        out->set_age_frames(t.age_frames);
        out->set_frames_since_detection(t.frames_since_detection);
        out->set_class_id(static_cast<std::uint32_t>(t.kind));
        out->set_class_label(std::string(to_string(t.kind)));
        out->set_score(t.confidence);
    }
}

std::vector<Track> from_message(const msgs::Tracks2D& message) {
    const driveline::Conversion conversion;
    std::vector<Track> tracks;
    for (int i = 0; i < bounded(message.tracks_size(), kMaxTracks); ++i) {
        const auto& t = message.tracks(i);
        Track track;
        track.id = static_cast<std::uint32_t>(t.id());
        track.state = state_of(t.state());
        track.box = from_message(t.box());
        track.kind = kind_of(t.class_id());
        track.confidence = t.score();
        track.psr = t.psr();
        track.age_frames = t.age_frames();
        track.frames_since_detection = t.frames_since_detection();
        tracks.push_back(track);
    }
    return tracks;
}

void to_message(const FusedScene& scene, msgs::FusedScene& message) {
    const driveline::Conversion conversion;
    auto& ego = *message.mutable_ego_lane();
    ego.set_valid(scene.lanes.left.valid && scene.lanes.right.valid);
    to_message(scene.lanes.left, msgs::LANE_SIDE_EGO_LEFT, *ego.mutable_left());
    to_message(scene.lanes.right, msgs::LANE_SIDE_EGO_RIGHT, *ego.mutable_right());
    if (scene.lane_offset_m) ego.set_lateral_offset_m(*scene.lane_offset_m);
    for (const FusedObject& o : scene.objects) {
        auto* out = message.add_objects();
        if (o.track_id != 0) out->set_track_id(o.track_id);
        to_message(o.box, *out->mutable_box());
        out->set_class_label(std::string(to_string(o.kind)));
        out->set_score(o.confidence);
        out->set_lane_relation(to_message(o.lane));
        if (o.distance_m) out->set_distance_m(*o.distance_m);
        out->set_frames_since_detection(o.frames_since_detection);
    }
    if (scene.in_path) message.set_lead_object_index(static_cast<std::uint32_t>(*scene.in_path));
}

FusedScene from_message(const msgs::FusedScene& message) {
    const driveline::Conversion conversion;
    FusedScene scene;
    scene.frame_time_ns = static_cast<std::int64_t>(message.header().source_time_ns());
    scene.lanes.left = from_message(message.ego_lane().left());
    scene.lanes.right = from_message(message.ego_lane().right());
    if (message.ego_lane().has_lateral_offset_m())
        scene.lane_offset_m = message.ego_lane().lateral_offset_m();
    for (int i = 0; i < bounded(message.objects_size(), kMaxTracks + kMaxDetections); ++i) {
        const auto& o = message.objects(i);
        FusedObject object;
        object.track_id = o.has_track_id() ? static_cast<std::uint32_t>(o.track_id()) : 0;
        object.state = o.has_track_id() ? TrackState::tracking : TrackState::tentative;
        object.box = from_message(o.box());
        object.confidence = o.score();
        object.lane = position_of(o.lane_relation());
        if (o.has_distance_m()) object.distance_m = o.distance_m();
        object.frames_since_detection = o.frames_since_detection();
        for (const VehicleClass kind : kKinds) {
            if (o.class_label() == to_string(kind)) object.kind = kind;
        }
        scene.objects.push_back(object);
    }
    if (message.has_lead_object_index() && message.lead_object_index() < scene.objects.size())
        scene.in_path = message.lead_object_index();
    return scene;
}

bool is_classical(const std::string& detector_name) {
    return detector_name.find("classical") != std::string::npos;
}

}  // namespace comp
