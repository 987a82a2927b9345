// SPDX-License-Identifier: Apache-2.0
// Writes a short video whose every frame has the same edges. Usage: make_video FILE.avi
#include <iostream>

#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    cv::VideoWriter video(argv[1], cv::VideoWriter::fourcc('M', 'J', 'P', 'G'), 25,
                          cv::Size(320, 240));
    if (!video.isOpened()) return std::cerr << "cannot write " << argv[1] << '\n', 1;
    cv::Mat frame(240, 320, CV_8UC3, cv::Scalar::all(0));
    cv::rectangle(frame, cv::Rect(80, 60, 160, 120), cv::Scalar::all(255), cv::FILLED);
    for (int i = 0; i < 40; ++i) video.write(frame);
}
