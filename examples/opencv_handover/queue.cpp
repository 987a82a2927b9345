// SPDX-License-Identifier: Apache-2.0
// Edges in every frame of a video: like after.cpp, but with a queue of four frames that loses none.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include <driveline/driveline.hpp>
#include <driveline/opencv.hpp>

int main(int argc, char** argv) {
    if (argc != 2) return std::cerr << "usage: " << argv[0] << " VIDEO\n", 2;
    cv::VideoCapture video(argv[1]);
    if (!video.isOpened())
        return std::cerr << argv[1] << " cannot be opened: name a video that OpenCV can read\n", 1;
    // queue:begin
    auto frames = driveline::Link<driveline::Image>::create(
                      "camera/image", {.qos = {.depth = 4,
                                               .reliability = driveline::Reliability::reliable,
                                               .max_blocking_ms = 10'000},
                                       .max_payload = 32 << 20})
                      .value();
    std::thread camera([&video, publisher = std::move(frames.publisher)]() mutable {
        for (cv::Mat frame; video.read(frame);)
            driveline::publish(publisher, frame).value();  // waits for room
    });  // the publisher ends with its thread: end of the stream

    int count = 0;
    double density = 0;
    cv::Mat edges;
    for (bool open = true; open;) {
        // Checked before the reads: samples published before the end are still read.
        open = frames.subscription.matched() > 0;
        // take() returns the oldest sample, receive() the newest.
        while (const auto frame = frames.subscription.take().value()) {
            cv::Canny(frame->mat(), edges, 50, 150);
            density += cv::mean(edges)[0] / 255;
            ++count;
        }
        if (open) (void)frames.subscription.wait(std::chrono::milliseconds(50)).value();
    }
    const auto lost =
        frames.subscription.stats().missed;  // 0, unless a frame took longer than max_blocking_ms
    // queue:end
    camera.join();
    if (lost > 0) std::cerr << lost << " frames were missed\n";
    std::cout << count << " frames, " << 100 * density / std::max(count, 1)
              << " % of the pixels are edges\n";
}
