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
    void on_trigger(const driveline::Trigger& trigger) override {
        if (!trigger.tick()) throw std::logic_error("the camera is triggered by a timer");
        auto header = driveline::Header::make(driveline::to_ns(driveline::now()), "camera", frame_).value();
        auto loan = images_.loan(32, 24, driveline::Encoding::mono8, header).value();
        for (auto& pixel : loan.tail()) pixel = static_cast<std::uint8_t>(frame_);
        images_.publish(std::move(loan)).value();
        if (++frame_ == static_cast<std::uint64_t>(*count_)) finish();
    }

private:
    driveline::Output<Image> images_{*this, "image", "the picture"};
    driveline::Parameter<int> count_{*this, "count", 10, "number of frames"};
    std::uint64_t frame_ = 0;
};

/// Looks at images, says what it sees, and throws on some.
class Lane : public driveline::Component {
public:
    driveline::Status init() override {
        if (*refuse_) return driveline::Error{"the model 'x' is missing"};
        tell_fact("lane", "as told");
        log_info("initialised as ", instance(), " with ", *text_, " ", *scale_);
        return {};
    }

    void on_trigger(const driveline::Trigger& trigger) override {
        const auto image = image_.sample();
        if (!image || !trigger.by(image_)) throw std::logic_error("the image triggers");
        if ((*image)->header.frame_index == static_cast<std::uint64_t>(*throw_on_)) throw std::runtime_error("no road in sight");
        auto detections = std::make_unique<Detections2D>();
        detections->mutable_header()->set_frame_index((*image)->header.frame_index + image->tail()[0] * 1000U);
        // Whoever gets the pointer finds its own address in it.
        detections->mutable_header()->set_frame_id(address(detections.get()));
        detections_.publish(std::move(detections)).value();
        auto plan = std::make_unique<Plan>();
        plan->own_address = address(plan.get());
        plan_.publish(std::move(plan)).value();
    }

    void shutdown() override { log_info("shut down"); }

private:
    driveline::Input<Image> image_{*this, "image"};
    driveline::Output<Detections2D> detections_{*this, "detections"};
    driveline::Output<Plan> plan_{*this, "plan"};
    driveline::Parameter<bool> refuse_{*this, "refuse", false};
    driveline::Parameter<std::int64_t> throw_on_{*this, "throw_on", -1};
    driveline::Parameter<std::string> text_{*this, "text", "nothing"};
    driveline::Parameter<double> scale_{*this, "scale", 1};
    driveline::Timer timer_{*this, std::chrono::milliseconds(5), [this](const driveline::TimerTick&) {
                                if (*throw_on_ >= 0 && !thrown_) {
                                    thrown_ = true;
                                    throw std::runtime_error("the timer throws");
                                }
                            }};
    bool thrown_ = false;
};

/// Prints what arrives, and what else can be read.
class Sink : public driveline::Component {
public:
    void on_trigger(const driveline::Trigger&) override {
        const auto detections = detections_.sample();
        if (!detections) return;
        const auto image = image_.read();
        const bool same = (*detections)->header().frame_id() == address(&**detections);
        log_info("detections of frame ", (*detections)->header().frame_index(), " sequence ", detections->sequence(), " origins ",
                 detections->header().origin_count, same ? " by pointer" : " by value", image ? " with image" : " without image");
    }

private:
    driveline::Input<Detections2D> detections_{*this, "detections"};
    driveline::Input<Image> image_{*this, "image"};
};

/// Says how many copies of the core are in the process.
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
    void on_trigger(const driveline::Trigger&) override {}
};

}  // namespace testing_components

using testing_components::Camera;
using testing_components::Census;
using testing_components::Lane;
DRIVELINE_COMPONENT(Camera, "publishes images");
DRIVELINE_COMPONENT(Lane, "looks at images");
DRIVELINE_COMPONENT(testing_components::Sink, "prints what arrives");
DRIVELINE_COMPONENT(Census);
