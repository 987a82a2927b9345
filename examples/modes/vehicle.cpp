// SPDX-License-Identifier: Apache-2.0
// A vehicle that is driven by a joystick, drives by itself, or stops safely. The mode of the graph
// determines which components are active.
#include <algorithm>

#include "command.hpp"

/// Stands for a camera: to keep the example small, it publishes a `Command` as its image.
class Camera : public driveline::Component {
    driveline::Output<Command> image_{*this, "image"};
    driveline::Timer timer_{*this, std::chrono::milliseconds(20),
                            [this](const driveline::TimerTick&) { return publish(); }};
    std::uint64_t number_ = 0;

    driveline::Status publish() { return image_.publish(Command{++number_, 0.0}); }
};
DRIVELINE_COMPONENT(Camera, "a source that is always active");

/// A component that commands the vehicle while it is active.
class Driver : public driveline::Component {
    driveline::Input<Command> image_{*this, "image"};
    driveline::Output<Command> command_{*this, "command"};
    driveline::Parameter<double> speed_{*this, "speed", 0, "commanded speed in m/s"};
    driveline::LiveParameter<double> limit_{
        *this, "limit", 30, "maximum commanded speed in m/s", {0, 50}};

    driveline::Status init() override {
        limit_.on_change([this](const double& limit) -> driveline::Status {
            if (limit < 1 && *speed_ > 0) return driveline::Error{"use a mode to stop"};
            log_info("commands ", limit, " m/s at most");
            return {};
        });
        return {};
    }

    driveline::Status on_activate() override {
        log_info("takes over");
        return {};
    }
    driveline::Status on_deactivate() override {
        log_info("hands over");
        return {};
    }
    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto image = image_.sample();
        if (!image) return {};
        return command_.publish(Command{(*image)->number, std::min(*speed_, *limit_)});
    }
};
DRIVELINE_COMPONENT(Driver, "commands a speed");

/// Stops the vehicle. Its timer runs without any input.
class Brake : public driveline::Component {
    driveline::Output<Command> command_{*this, "command"};
    driveline::Timer timer_{*this, std::chrono::milliseconds(20),
                            [this](const driveline::TimerTick&) { return publish(); }};
    std::uint64_t number_ = 0;

    driveline::Status publish() { return command_.publish(Command{++number_, 0.0}); }
};
DRIVELINE_COMPONENT(Brake, "commands the vehicle to stop");

/// Prints each change of the commanded speed.
class Vehicle : public driveline::Component {
    driveline::Input<Command> command_{*this, "command"};
    double speed_ = -1;

    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto command = command_.sample();
        if (!command || (*command)->speed == speed_) return {};
        speed_ = (*command)->speed;
        log_info("drives at ", speed_, " m/s");
        return {};
    }
};
DRIVELINE_COMPONENT(Vehicle, "drives as requested");
