// SPDX-License-Identifier: Apache-2.0
/// How two threads of an OpenCV program often hand over pictures: the newest one, copied under a
/// lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include <opencv2/core/mat.hpp>

class Mailbox {
public:
    void put(const cv::Mat& frame) {
        const std::scoped_lock lock(mutex_);
        frame.copyTo(frame_);
        fresh_ = true;
        changed_.notify_one();
    }

    /// Waits for a frame that was not seen yet; false if none comes in time.
    bool get(cv::Mat& frame, std::chrono::milliseconds timeout) {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, timeout, [&] { return fresh_; })) return false;
        frame_.copyTo(frame);
        fresh_ = false;
        return true;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    cv::Mat frame_;
    bool fresh_ = false;
};
