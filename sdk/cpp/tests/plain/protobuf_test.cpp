// SPDX-License-Identifier: Apache-2.0
#include "driveline/protobuf.hpp"

#include <gtest/gtest.h>

#include "driveline/msgs/lane_markings.pb.h"

namespace {

TEST(Protobuf, DefinitionsContainTheMessageAndAllMessagesItUses) {
    using driveline::protobuf::Identity;
    using Message = driveline::msgs::LaneMarking;
    EXPECT_EQ(Identity<Message>::name(), "driveline.msgs.LaneMarking");
    EXPECT_EQ(Identity<Message>::definition(),
              "driveline protobuf 1\n"
              "message driveline.msgs.LaneMarking\n"
              "field 1 side optional enum driveline.msgs.LaneSide\n"
              "field 2 points repeated message driveline.msgs.ImagePoint\n"
              "field 3 confidence optional float\n"
              "field 4 validity optional enum driveline.msgs.LaneValidity\n"
              "message driveline.msgs.ImagePoint\n"
              "field 1 x optional float\n"
              "field 2 y optional float\n"
              "enum driveline.msgs.LaneSide\n"
              "value 0 LANE_SIDE_UNSPECIFIED\n"
              "value 1 LANE_SIDE_EGO_LEFT\n"
              "value 2 LANE_SIDE_EGO_RIGHT\n"
              "value 3 LANE_SIDE_NEXT_LEFT\n"
              "value 4 LANE_SIDE_NEXT_RIGHT\n"
              "enum driveline.msgs.LaneValidity\n"
              "value 0 LANE_VALIDITY_UNSPECIFIED\n"
              "value 1 LANE_VALIDITY_MEASURED\n"
              "value 2 LANE_VALIDITY_PREDICTED\n"
              "value 3 LANE_VALIDITY_INVALID\n");
}

TEST(Protobuf, TheMessageComesFirstWhateverItsName) {
    const auto& text = driveline::protobuf::definition<driveline::msgs::LaneMarkings>();
    EXPECT_EQ(text.find("message driveline.msgs.LaneMarkings\n"), text.find("message "));
    EXPECT_NE(text.find("message driveline.msgs.Header\n"), std::string::npos);
}

}  // namespace
