// SPDX-License-Identifier: Apache-2.0
/// A mailbox as in many OpenCV programs: passes the newest image from one thread to another, as a
/// copy under a lock.
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

    /// Waits for a frame that was not read yet. Returns false if none arrives in time.
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
