// SPDX-License-Identifier: Apache-2.0
// Components that the tests run in graphs; together with components_more.cpp they are one library.
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <driveline/driveline.hpp>
#include <driveline/protobuf.hpp>

#include "driveline/msgs/detections_2d.pb.h"
#include "plan.hpp"

namespace testing_components {

using driveline::Image;
using driveline::msgs::Detections2D;

/// Publishes images until `count` is reached.
class Camera : public driveline::Component {
public:
    driveline::Status on_trigger(const driveline::Invocation& invocation) override {
        if (!invocation.tick()) return driveline::Error{"the camera is triggered by a timer"};
        auto header = driveline::Header::make(driveline::to_ns(driveline::now()), "camera", frame_);
        if (!header) return header.error();
        auto loan = images_.loan(32, 24, driveline::Encoding::mono8, *header);
        if (!loan) return loan.error();
        for (auto& pixel : loan->tail()) pixel = static_cast<std::uint8_t>(frame_);
        auto published = images_.publish(std::move(*loan));
        if (++frame_ == static_cast<std::uint64_t>(*count_)) finish();
        return published;
    }

private:
    driveline::Output<Image> images_{*this, "image", "the picture"};
    driveline::Parameter<int> count_{*this, "count", 10, "number of frames"};
    std::uint64_t frame_ = 0;
};

/// Publishes detections for each image, and fails or throws on some images.
class Lane : public driveline::Component {
public:
    driveline::Status init() override {
        if (*refuse_) return driveline::Error{"the model 'x' is missing"};
        add_run_note("lane", "as noted");
        log_info("initialised as ", instance(), " with ", *text_, " ", *scale_);
        return {};
    }

    driveline::Status on_trigger(const driveline::Invocation& invocation) override {
        const auto image = image_.sample();
        if (!image || !invocation.triggered_by(image_))
            return driveline::Error{"the image triggers"};
        if ((*image)->header.frame_index == static_cast<std::uint64_t>(*fail_on_))
            return driveline::Error{"no line in sight"};
        if ((*image)->header.frame_index == static_cast<std::uint64_t>(*throw_on_))
            throw std::runtime_error("no road in sight");
        auto detections = std::make_unique<Detections2D>();
        detections->mutable_header()->set_frame_index((*image)->header.frame_index +
                                                      image->tail()[0] * 1000U);
        // Lets the reader check that it got this object: the message contains its own address.
        detections->mutable_header()->set_frame_id(address(detections.get()));
        if (auto done = detections_.publish(std::move(detections)); !done) return done.error();
        auto plan = std::make_unique<Plan>();
        plan->own_address = address(plan.get());
        return plan_.publish(std::move(plan));
    }

    void shutdown() override { log_info("shut down"); }

private:
    driveline::Input<Image> image_{*this, "image"};
    driveline::Output<Detections2D> detections_{*this, "detections"};
    driveline::Output<Plan> plan_{*this, "plan"};
    driveline::Parameter<bool> refuse_{*this, "refuse", false};
    driveline::Parameter<std::int64_t> throw_on_{*this, "throw_on", -1};
    driveline::Parameter<std::int64_t> fail_on_{*this, "fail_on", -1};
    driveline::Parameter<std::string> text_{*this, "text", "nothing"};
    driveline::Parameter<double> scale_{*this, "scale", 1};
    driveline::Timer timer_{*this, std::chrono::milliseconds(5),
                            [this](const driveline::TimerTick&) {
                                if (*throw_on_ >= 0 && !thrown_) {
                                    thrown_ = true;
                                    throw std::runtime_error("the timer throws");
                                }
                            }};
    driveline::Timer failing_{*this, std::chrono::milliseconds(5),
                              [this](const driveline::TimerTick&) -> driveline::Status {
                                  if (*fail_on_ < 0 || failed_) return {};
                                  failed_ = true;
                                  return driveline::Error{"the timer fails"};
                              }};
    bool thrown_ = false;
    bool failed_ = false;
};

/// Prints the detections that arrive, and whether an image can be read as well.
class Sink : public driveline::Component {
public:
    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto detections = detections_.sample();
        if (!detections) return {};
        const auto image = image_.read();
        const bool same = (*detections)->header().frame_id() == address(&**detections);
        log_info("detections of frame ", (*detections)->header().frame_index(), " sequence ",
                 detections->sequence(), " origins ", detections->header().origin_count,
                 same ? " by pointer" : " by value", image ? " with image" : " without image");
        return {};
    }

private:
    driveline::Input<Detections2D> detections_{*this, "detections"};
    driveline::Input<Image> image_{*this, "image"};
};

/// Prints the number of copies of the core in the process.
class Census : public driveline::Component {
public:
    driveline::Status init() override {
        std::ifstream maps("/proc/self/maps");
        std::set<std::string> cores;
        for (std::string line; std::getline(maps, line);) {
            const auto name = line.find("libdriveline.so");
            if (name != std::string::npos) cores.insert(line.substr(line.find('/')));
        }
        log_info("cores in this process: ", cores.size());
        finish();
        return {};
    }
};

}  // namespace testing_components

using testing_components::Camera;
using testing_components::Census;
using testing_components::Lane;
DRIVELINE_COMPONENT(Camera, "publishes images");
DRIVELINE_COMPONENT(Lane, "looks at images");
DRIVELINE_COMPONENT(testing_components::Sink, "prints what arrives");
DRIVELINE_COMPONENT(Census);
