// SPDX-License-Identifier: Apache-2.0
// Unit test of this example's component, without processes, ROS 2 or a test framework.
#include <chrono>
#include <iostream>
#include <string>

#include <driveline/msgs/detections_2d.pb.h>
#include <driveline/protobuf.hpp>
#include <driveline/testing.hpp>

using driveline::msgs::Detections2D;
using driveline::testing::ComponentTest;

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::cerr << "FAILED: " << what << "\n";
    ++failures;
}

Detections2D one_car() {
    Detections2D detections;
    auto& car = *detections.add_detections();
    car.set_class_label("car");
    car.mutable_box()->set_width(40);
    car.mutable_box()->set_height(30);
    return detections;
}

void boxes_reads_each_sample() {
    auto test = ComponentTest::create("Boxes", {.parameters = {{"every", 2U}}}).value();
    for (int i = 0; i < 4; ++i) {
        test.feed("detections", one_car(), std::chrono::milliseconds(30)).value();
        expect(test.run().value() == 1, "each sample is a call");
        test.advance(std::chrono::milliseconds(100)).value();
    }
    expect(test.missed("detections").value() == 0, "no sample is missed");
}

void boxes_refuses_a_negative_number() {
    const auto test = ComponentTest::create("Boxes", {.parameters = {{"every", -1}}});
    expect(!test && test.error().message.find("every") != std::string::npos,
           "the error names the parameter");
}

}  // namespace

int main() {
    boxes_reads_each_sample();
    boxes_refuses_a_negative_number();
    return failures == 0 ? 0 : 1;
}
