// SPDX-License-Identifier: Apache-2.0
// Edges in a video: one thread reads frames, another works on the newest.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include "mailbox.hpp"

int main(int argc, char** argv) {
    if (argc != 2) return std::cerr << "usage: " << argv[0] << " VIDEO\n", 2;
    cv::VideoCapture video(argv[1]);
    if (!video.isOpened())
        return std::cerr << argv[1] << " cannot be opened: name a video that OpenCV can read\n", 1;
    Mailbox frames;

    std::thread camera([&] {
        for (cv::Mat frame; video.read(frame);) {
            frames.put(frame);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });

    int count = 0;
    double density = 0;
    cv::Mat edges;
    for (cv::Mat frame; frames.get(frame, std::chrono::seconds(1));) {
        cv::Canny(frame, edges, 50, 150);
        density += cv::mean(edges)[0] / 255;
        ++count;
    }
    camera.join();
    std::cout << count << " frames, " << 100 * density / std::max(count, 1)
              << " % of the pixels are edges\n";
}
