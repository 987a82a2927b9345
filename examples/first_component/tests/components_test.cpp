// SPDX-License-Identifier: Apache-2.0
// Unit tests of this example's components, without processes and without a test framework.
#include <driveline/msgs/lane_markings.pb.h>
#include <driveline/opencv.hpp>
#include <driveline/protobuf.hpp>
#include <driveline/testing.hpp>
#include <iostream>
#include <opencv2/imgproc.hpp>

using driveline::Image;
using driveline::msgs::LaneMarkings;
using driveline::testing::ComponentTest;

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::cerr << "FAILED: " << what << "\n";
    ++failures;
}

void lane_reports_the_share_of_edges() {
    auto test = ComponentTest::create("Lane").value();
    cv::Mat picture(120, 160, CV_8UC1, cv::Scalar(0));
    const auto share_of_edges = [&] {
        test.feed_with<Image>("image",
                              [&](const auto& input) { return driveline::publish(input, picture); })
            .value();
        test.run().value();
        return (*test.take<LaneMarkings>("lanes").value())->lines(0).confidence();
    };
    expect(share_of_edges() == 0, "a black picture has no edges");
    cv::rectangle(picture, cv::Rect(40, 30, 50, 50), cv::Scalar(255), cv::FILLED);
    const float share = share_of_edges();
    expect(share > 0.005F && share < 0.05F,
           "the outline of a square is about one per cent of the picture");
}

void pattern_ends_after_its_pictures() {
    auto test = ComponentTest::create("Pattern", {.parameters = {{"frames", 3}},
                                                  .trigger = "{kind: timer, period_ms: 20}"})
                    .value();
    const auto start = test.now();
    test.advance(std::chrono::milliseconds(100)).value();
    expect(test.finished(), "the run ends after the last picture");
    const auto pictures = test.outputs<Image>("image").value();
    expect(pictures.size() == 3, "three pictures were asked for");
    for (std::size_t i = 0; i < pictures.size(); ++i) {
        const auto due = start + std::chrono::milliseconds(20) * (i + 1);
        expect(pictures[i]->header.frame_index == i, "pictures are numbered");
        expect(pictures[i]->header.source_time_ns == driveline::to_ns(due),
               "each has the time of its tick");
    }
}

}  // namespace

int main() {
    lane_reports_the_share_of_edges();
    pattern_ends_after_its_pictures();
    return failures == 0 ? 0 : 1;
}
