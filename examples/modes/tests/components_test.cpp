// SPDX-License-Identifier: Apache-2.0
// Unit tests of this example's components, without processes and without a test framework.
#include <chrono>
#include <iostream>
#include <string>

#include <driveline/testing.hpp>

#include "../command.hpp"

using driveline::testing::ComponentTest;

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::cerr << "FAILED: " << what << "\n";
    ++failures;
}

void camera_publishes_fifty_pictures_a_second() {
    auto test = ComponentTest::create("Camera").value();
    test.advance(std::chrono::milliseconds(100)).value();
    const auto images = test.outputs<Command>("image").value();
    expect(images.size() == 5, "five pictures in 100 ms");
    for (std::size_t i = 0; i < images.size(); ++i)
        expect(images[i]->number == i + 1, "pictures are numbered from 1 on");
}

void driver_commands_its_speed_up_to_the_limit() {
    auto test = ComponentTest::create("Driver", {.parameters = {{"speed", 8}}}).value();
    const auto command_for = [&](std::uint64_t picture) {
        test.feed("image", Command{picture, 0}).value();
        test.run().value();
        return **test.take<Command>("command").value();
    };
    expect(command_for(1).speed == 8, "it commands its speed");
    test.set_parameter("limit", 5).value();
    const auto limited = command_for(2);
    expect(limited.speed == 5, "it commands no more than the limit");
    expect(limited.number == 2, "a command has the number of its picture");
    test.run().value();
    expect(!test.take<Command>("command").value(), "without a picture there is no command");

    const auto too_low = test.set_parameter("limit", 0.5);
    expect(!too_low && too_low.error().message.find("use a mode to stop") != std::string::npos,
           "a limit that stops the vehicle is refused");
    expect(!test.set_parameter("limit", 51), "a limit beyond its range is refused");
    expect(command_for(3).speed == 5, "a refused limit changes nothing");
}

void brake_stops_the_vehicle_without_any_input() {
    auto test = ComponentTest::create("Brake").value();
    test.advance(std::chrono::milliseconds(40)).value();
    const auto commands = test.outputs<Command>("command").value();
    expect(commands.size() == 2, "two commands in 40 ms");
    for (const auto& command : commands) expect(command->speed == 0, "it commands to stop");
}

void vehicle_takes_each_command() {
    auto test = ComponentTest::create("Vehicle").value();
    for (const double speed : {2.0, 2.0, 8.0}) {
        test.feed("command", Command{1, speed}).value();
        expect(test.run().value() == 1, "each command is a call");
    }
    expect(test.missed("command").value() == 0, "no command is missed");
}

}  // namespace

int main() {
    camera_publishes_fifty_pictures_a_second();
    driver_commands_its_speed_up_to_the_limit();
    brake_stops_the_vehicle_without_any_input();
    vehicle_takes_each_command();
    return failures == 0 ? 0 : 1;
}
