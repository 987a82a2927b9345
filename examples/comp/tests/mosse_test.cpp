// SPDX-License-Identifier: Apache-2.0
#include "mosse_tracker.hpp"

#include <cmath>

#include <opencv2/imgproc.hpp>

#include "test_support.hpp"

namespace comp {
namespace {

// A textured target on another texture.
class Stage {
public:
    Stage() : background_(400, 600, CV_8UC1), target_(60, 80, CV_8UC1) {
        cv::RNG rng(11);
        rng.fill(background_, cv::RNG::UNIFORM, 60, 140);
        cv::GaussianBlur(background_, background_, {}, 3.0);
        rng.fill(target_, cv::RNG::UNIFORM, 0, 255);
        cv::GaussianBlur(target_, target_, {}, 2.0);
        cv::normalize(target_, target_, 20, 235, cv::NORM_MINMAX);
    }
    // Draws the target at `centre`, which may be a fraction of a pixel.
    [[nodiscard]] cv::Mat show(cv::Point2f centre, double gain = 1.0) const {
        cv::Mat frame = background_.clone();
        const float x = centre.x - static_cast<float>(target_.cols) / 2;
        const float y = centre.y - static_cast<float>(target_.rows) / 2;
        const cv::Matx23f move(1, 0, x, 0, 1, y);
        cv::warpAffine(target_, frame, move, frame.size(), cv::INTER_LINEAR,
                       cv::BORDER_TRANSPARENT);
        frame.convertTo(frame, CV_8U, gain);
        return frame;
    }
    [[nodiscard]] cv::Mat empty() const { return background_.clone(); }
    [[nodiscard]] static cv::Rect2f box(cv::Point2f centre) {
        return {centre.x - 40, centre.y - 30, 80, 60};
    }

private:
    cv::Mat background_;
    cv::Mat target_;
};

cv::Point2f middle(const cv::Rect2f& box) {
    return {box.x + box.width / 2, box.y + box.height / 2};
}

TEST(Mosse, MeasuresAKnownTranslation) {
    const Stage stage;
    const cv::Point2f start(300, 200);
    for (const cv::Point2f move : {cv::Point2f(0, 0), cv::Point2f(7, 0), cv::Point2f(-6, 9),
                                   cv::Point2f(2.5F, -3.5F), cv::Point2f(-15, -11)}) {
        MosseTracker tracker;
        ASSERT_TRUE(tracker.start(stage.show(start), Stage::box(start)));
        const MosseTracker::Result result = tracker.update(stage.show(start + move));
        EXPECT_TRUE(result.held) << move << " psr " << result.psr;
        EXPECT_NEAR(middle(tracker.box()).x, start.x + move.x, 0.75F) << move;
        EXPECT_NEAR(middle(tracker.box()).y, start.y + move.y, 0.75F) << move;
        EXPECT_EQ(tracker.box().size(), cv::Size2f(80, 60));
    }
}

TEST(Mosse, FollowsALongPathWithoutDrifting) {
    const Stage stage;
    MosseTracker tracker;
    cv::Point2f at(150, 150);
    ASSERT_TRUE(tracker.start(stage.show(at), Stage::box(at)));
    for (int i = 1; i <= 100; ++i) {
        at = {150 + 2.7F * static_cast<float>(i), 150 + 60 * std::sin(static_cast<float>(i) / 12)};
        const MosseTracker::Result result = tracker.update(stage.show(at));
        ASSERT_TRUE(result.held) << "frame " << i << " psr " << result.psr;
    }
    EXPECT_LT(cv::norm(middle(tracker.box()) - at), 3.0);
}

TEST(Mosse, LightChangesDoNotMatter) {
    const Stage stage;
    MosseTracker tracker;
    ASSERT_TRUE(tracker.start(stage.show({300, 200}), Stage::box({300, 200})));
    EXPECT_TRUE(tracker.update(stage.show({304, 203}, 0.5)).held);
    EXPECT_LT(cv::norm(middle(tracker.box()) - cv::Point2f(304, 203)), 1.5);
}

TEST(Mosse, PsrFallsWhenTheTargetIsHiddenAndComesBack) {
    const Stage stage;
    MosseTracker tracker;
    const cv::Point2f at(300, 200);
    ASSERT_TRUE(tracker.start(stage.show(at), Stage::box(at)));
    const double visible = tracker.update(stage.show(at)).psr;
    EXPECT_GT(visible, 15.0);
    const cv::Rect2f before = tracker.box();
    for (int i = 0; i < 20; ++i) {
        const MosseTracker::Result hidden = tracker.update(stage.empty());
        EXPECT_FALSE(hidden.held);
        EXPECT_LT(hidden.psr, 7.0);
        EXPECT_EQ(tracker.box(), before) << "a lost target's box stays";
    }
    const MosseTracker::Result back = tracker.update(stage.show(at + cv::Point2f(5, 4)));
    EXPECT_TRUE(back.held) << "the filter must not learn the cover of the target; psr " << back.psr;
    EXPECT_GT(back.psr, 15.0);
}

TEST(Mosse, ThresholdIsAParameter) {
    const Stage stage;
    MosseOptions options;
    options.lost_psr = 500.0;
    MosseTracker strict(options);
    ASSERT_TRUE(strict.start(stage.show({300, 200}), Stage::box({300, 200})));
    EXPECT_FALSE(strict.update(stage.show({300, 200})).held);
}

TEST(Mosse, BlankImagesLoseTheTarget) {
    const Stage stage;
    MosseTracker tracker;
    ASSERT_TRUE(tracker.start(stage.show({300, 200}), Stage::box({300, 200})));
    const MosseTracker::Result result = tracker.update(cv::Mat(400, 600, CV_8UC1, cv::Scalar(0)));
    EXPECT_FALSE(result.held);
    EXPECT_TRUE(std::isfinite(result.psr));
}

TEST(Mosse, BoxesOverTheBorderAreClippedAndFollowed) {
    const Stage stage;
    MosseTracker tracker;
    const cv::Point2f at(20, 30);
    ASSERT_TRUE(tracker.start(stage.show(at), Stage::box(at)));
    EXPECT_GE(tracker.box().x, 0.0F);
    EXPECT_TRUE(tracker.update(stage.show(at + cv::Point2f(4, 2))).held);
}

TEST(Mosse, RefusesWhatItCannotTrack) {
    const Stage stage;
    MosseTracker tracker;
    EXPECT_FALSE(tracker.start(stage.empty(), {10, 10, 7, 30}));
    EXPECT_FALSE(tracker.start(stage.empty(), {595, 10, 80, 60}));
    EXPECT_FALSE(tracker.start(stage.empty(), {-200, -200, 80, 60}));
    EXPECT_FALSE(tracker.start(cv::Mat(), {10, 10, 80, 60}));
    EXPECT_FALSE(tracker.start(cv::Mat(400, 600, CV_8UC3), {10, 10, 80, 60}));
    EXPECT_FALSE(tracker.started());
    EXPECT_FALSE(tracker.update(stage.empty()).held);
}

TEST(Mosse, RefusesImpossibleOptions) {
    MosseOptions options;
    options.learning_rate = 0.0;
    EXPECT_NE(test::vision_error([&] { MosseTracker{options}; }).find("learning_rate"),
              std::string::npos);
    options = {};
    options.window_scale = 9.0;
    EXPECT_NE(test::vision_error([&] { MosseTracker{options}; }).find("window_scale"),
              std::string::npos);
}

}  // namespace
}  // namespace comp
