// SPDX-License-Identifier: Apache-2.0
// Follows one target from frame to frame with a correlation filter: MOSSE, after Bolme, Beveridge,
// Draper, Lui, "Visual Object Tracking using Adaptive Correlation Filters", CVPR 2010.
//
// The window of the target is log-transformed, normalised, tapered by a cosine window, and
// correlated in the Fourier domain with a filter. The filter is trained to respond with a Gaussian
// peak on the target. The position of the peak gives the motion. Its peak-to-sidelobe ratio (PSR)
// shows whether the target is visible. The filter is trained at the start with small affine
// distortions of the first window, and adapted with a running average afterwards. It follows the
// position, not the size: the caller sets the size when it restarts the filter.
#pragma once

#include <cstdint>

#include <opencv2/core.hpp>

namespace comp {

struct MosseOptions {
    double learning_rate = 0.125;  // weight of the newest frame, the paper's value
    double lost_psr = 7.0;   // below this the target counts as lost or occluded, the paper's value
    int training_views = 8;  // affine distortions at start, 1..64
    double window_scale =
        1.6;  // size of the tracked window, divided by that of the box, 1..4. A larger window
              // contains more of the surroundings, and the target may move faster
    double response_sigma = 2.0;  // of the Gaussian, in filter pixels (the filter is 64x64)
};

// Throws VisionError on options out of range.
void check(const MosseOptions& options);

// Not thread-safe; move-only. About 120 KiB each.
class MosseTracker {
public:
    static constexpr int kFilterSize = 64;

    // Throws VisionError on options out of range.
    explicit MosseTracker(const MosseOptions& options = {});
    MosseTracker(MosseTracker&&) = default;
    MosseTracker& operator=(MosseTracker&&) = default;
    MosseTracker(const MosseTracker&) = delete;  // cv::Mat members would share the filter
    MosseTracker& operator=(const MosseTracker&) = delete;

    // Trains on `box` in `grey` (8 bits, one channel). Returns false and does nothing if the image
    // has another type, or if the box, clipped to the image, is smaller than 8x8 pixels.
    bool start(const cv::Mat& grey, const cv::Rect2f& box);

    struct Result {
        bool held = false;  // the PSR reached lost_psr; otherwise the box does not move, and the
                            // filter does not adapt
        double psr = 0.0;
    };
    // Searches for the target near its last position. Does nothing before start().
    Result update(const cv::Mat& grey);

    [[nodiscard]] cv::Rect2f box() const;
    [[nodiscard]] bool started() const { return !numerator_.empty(); }

    // Replaces the reported box by `box`, which then moves with the filter's target. The filter
    // does not change. For small corrections by a detector whose boxes jitter more than the filter.
    void report_as(const cv::Rect2f& box);
    // Size of the box at the last start(). If the target has outgrown it, start again.
    [[nodiscard]] cv::Size2f started_size() const { return started_size_; }

private:
    void sample(const cv::Mat& grey, cv::Point2f centre, cv::Mat& window) const;
    void to_spectrum(const cv::Mat& window, cv::Mat& spectrum) const;
    void learn(const cv::Mat& spectrum, double rate);

    MosseOptions options_;
    cv::Point2f centre_;  // centre of the filter's target
    cv::Point2f offset_;  // from there to the centre of the reported box
    cv::Size2f box_size_;
    cv::Size2f started_size_;
    cv::Size window_size_;  // in image pixels
    cv::Mat taper_;         // 64x64 float
    cv::Mat goal_;          // spectrum of the Gaussian response, complex
    cv::Mat numerator_;     // A: sum of G conj(F)
    cv::Mat denominator_;   // B: sum of F conj(F); imaginary part 0
};

}  // namespace comp
