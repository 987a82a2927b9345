// SPDX-License-Identifier: Apache-2.0
// Edges in a video: one thread reads frames, another works on the newest.
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
    auto frames =
        driveline::Link<driveline::Image>::create("camera/image", {.max_payload = 32 << 20})
            .value();

    std::thread camera([&] {
        for (cv::Mat frame; video.read(frame);) {
            driveline::publish(frames.publisher, frame).value();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });

    int count = 0;
    double density = 0;
    cv::Mat edges;
    while (const auto frame = frames.subscription.receive(std::chrono::seconds(1)).value()) {
        cv::Canny(frame->mat(), edges, 50, 150);
        density += cv::mean(edges)[0] / 255;
        ++count;
    }
    camera.join();
    std::cout << count << " frames, " << 100 * density / std::max(count, 1)
              << " % of the pixels are edges\n";
}
