// SPDX-License-Identifier: Apache-2.0
// What a video file says about itself and OpenCV does not pass on: its length and its rotation.
#pragma once

#include <cstdint>
#include <string>

namespace comp {

struct ContainerFacts {
    // Bytes that the container states, and bytes that the file has. Equal where the container
    // states none.
    std::uint64_t stated_size = 0;
    std::uint64_t size = 0;
    // The number of frames comes from a table of the container; elsewhere OpenCV estimates it from
    // duration and rate.
    bool counts_frames = false;
    // Degrees clockwise that a player turns the picture by: 0, 90, 180 or 270. Of mp4 and mov,
    // which is what phones write.
    int rotation = 0;

    [[nodiscard]] bool is_cut_off() const { return stated_size > size; }
};

// Reads the structure of mp4 and mov, avi, and Matroska files; of others only the size. Does not
// throw: what cannot be read is not stated. Blocks for reading a few kilobytes.
ContainerFacts read_container(const std::string& path);

}  // namespace comp
