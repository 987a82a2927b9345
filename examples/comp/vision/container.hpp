// SPDX-License-Identifier: Apache-2.0
// Reads properties of a video file that OpenCV does not provide: its length and its rotation.
#pragma once

#include <cstdint>
#include <string>

namespace comp {

struct ContainerFacts {
    // Length in bytes as stated by the container, and length of the file. Equal if the container
    // states none.
    std::uint64_t stated_size = 0;
    std::uint64_t size = 0;
    // True if the number of frames comes from a table of the container. Otherwise OpenCV estimates
    // it from duration and rate.
    bool counts_frames = false;
    // Clockwise rotation that a player applies, in degrees: 0, 90, 180 or 270. Read from mp4 and
    // mov, the formats of phones.
    int rotation = 0;

    [[nodiscard]] bool is_cut_off() const { return stated_size > size; }
};

// Reads the structure of mp4, mov, avi and Matroska files, and the size of others. Values that
// cannot be read count as not stated. Reads a few kilobytes and blocks meanwhile. Does not throw.
ContainerFacts read_container(const std::string& path);

}  // namespace comp
