// SPDX-License-Identifier: Apache-2.0
// Every payload kind at every reach, within one process.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <opencv2/core.hpp>

#include <driveline/opencv.hpp>
#include <driveline/protobuf.hpp>

#include "driveline/msgs/detections_2d.pb.h"
#include "domain.hpp"

namespace {

using driveline::Image;
using driveline::Reach;
using driveline::msgs::Detections2D;

}  // namespace

namespace demo {

struct WheelSpeeds {
    std::uint64_t time_ns;
    float metres_per_second[4];
};
DRIVELINE_PLAIN(WheelSpeeds, "demo/WheelSpeeds", time_ns, metres_per_second);

struct Scan {
    std::uint64_t time_ns;
};
DRIVELINE_PLAIN_WITH_TAIL(Scan, "demo/Scan", float, ranges, time_ns);

struct Plan {
    explicit Plan(std::string text) : name(std::move(text)) {}
    Plan(Plan&&) = default;
    std::string name;
};

}  // namespace demo

namespace {

class AtReach : public testing::TestWithParam<Reach> {
protected:
    [[nodiscard]] driveline::PublisherOptions options() const {
        return {.reach = GetParam(), .max_payload = 1 << 20};
    }

    test::Domain domain_;
};

INSTANTIATE_TEST_SUITE_P(Reach, AtReach, testing::Values(Reach::process, Reach::host),
                         [](const auto& p) {
                             return p.param == Reach::process ? "process" : "host";
                         });

TEST_P(AtReach, PlainValueArrivesWhole) {
    auto link = test::Link<demo::WheelSpeeds>::make(domain_, options());
    EXPECT_EQ(link.publisher.publish(demo::WheelSpeeds{42, {1, 2, 3, 4}}).value(), 1u);
    const auto sample = link.receive();
    EXPECT_EQ(sample->time_ns, 42u);
    EXPECT_EQ(sample->metres_per_second[3], 4.0F);
    EXPECT_EQ(sample.sequence(), 1u);
    EXPECT_TRUE(sample.tail().empty());
}

TEST_P(AtReach, TrailingArrayHasTheLengthThatWasLoaned) {
    auto link = test::Link<demo::Scan>::make(domain_, options());
    auto loan = link.publisher.loan(1000).value();
    loan.head() = {7};
    ASSERT_EQ(loan.tail().size(), 1000u);
    std::iota(loan.tail().begin(), loan.tail().end(), 0.0F);
    loan.shrink(600);
    EXPECT_EQ(loan.tail().size(), 600u);
    loan.shrink(900);
    EXPECT_EQ(loan.tail().size(), 600u);
    link.publisher.publish(std::move(loan)).value();
    const auto sample = link.receive();
    EXPECT_EQ(sample->time_ns, 7u);
    ASSERT_EQ(sample.tail().size(), 600u);
    EXPECT_EQ(sample.tail()[599], 599.0F);
}

TEST_P(AtReach, ImageIsWrittenIntoTheLoanAndReadInPlace) {
    auto link = test::Link<Image>::make(domain_, options());
    auto header = driveline::Header::make(123, "camera", 9).value();
    auto loan = link.publisher.loan(64, 48, driveline::Encoding::bgr8, header).value();
    cv::Mat canvas = loan.mat();
    canvas.setTo(cv::Scalar(1, 2, 3));
    canvas.at<cv::Vec3b>(47, 63) = {9, 8, 7};
    const auto* drawn = canvas.data;
    link.publisher.publish(std::move(loan)).value();
    EXPECT_TRUE(loan.mat().empty())  // NOLINT(bugprone-use-after-move): a moved loan is empty
        << "the published image can still be written to";
    const auto sample = link.receive();
    const auto seen = sample.mat();
    EXPECT_EQ(seen->size(), cv::Size(64, 48));
    EXPECT_EQ(seen->at<cv::Vec3b>(0, 0), cv::Vec3b(1, 2, 3));
    EXPECT_EQ(seen->at<cv::Vec3b>(47, 63), cv::Vec3b(9, 8, 7));
    EXPECT_EQ(sample->header.frame(), "camera");
    EXPECT_EQ(sample.origin(0).value().source_oldest, driveline::from_ns(123));
    if (GetParam() == Reach::process) {
        EXPECT_EQ(seen->data, drawn) << "the pixels were copied";
    }
}

TEST_P(AtReach, MatricesArriveBitForBitInTheirUsualEncoding) {
    using driveline::Encoding;
    auto link = test::Link<Image>::make(domain_, options());
    const auto arrives = [&](const cv::Mat& sent, Encoding encoding, const auto& published) {
        ASSERT_TRUE(published.has_value()) << published.error().message;
        const auto sample = link.receive();
        EXPECT_EQ(sample.image().encoding(), encoding);
        const auto seen = sample.mat();
        ASSERT_EQ(seen->size(), sent.size());
        EXPECT_EQ(cv::norm(*seen, sent, cv::NORM_INF), 0);
    };
    const auto made = [](int type) {
        cv::Mat mat(6, 8, type);
        cv::randu(mat, 0, 200);
        return mat;
    };
    for (const auto& [type, encoding] : {std::pair{CV_8UC1, Encoding::mono8},
                                         {CV_8UC2, Encoding::type_8UC2},
                                         {CV_8UC3, Encoding::bgr8},
                                         {CV_8UC4, Encoding::bgra8},
                                         {CV_16UC1, Encoding::type_16UC1},
                                         {CV_32FC1, Encoding::type_32FC1}}) {
        const cv::Mat mat = made(type);
        arrives(mat, encoding, driveline::publish(link.publisher, mat));
    }
    const cv::Mat two = made(CV_8UC2);
    arrives(two, Encoding::yuyv, driveline::publish(link.publisher, two, Encoding::yuyv));
    const cv::Mat planes = made(CV_8UC1);
    arrives(planes, Encoding::nv12, driveline::publish(link.publisher, planes, Encoding::nv12));
    EXPECT_EQ(planes.rows, 6) << "of an image of 4 rows of pixels";

    const int sizes[3] = {3, 4, 5};
    for (const auto& [mat, words] :
         {std::pair{made(CV_32FC3), "a matrix of 32FC3 is no image"},
          {made(CV_8SC1), "a matrix of 8SC1 is no image"},
          {made(CV_64FC1), "a matrix of 64FC1 is no image"},
          {cv::Mat(3, sizes, CV_8UC1), "a matrix of 3 dimensions (3 x 4 x 5) is no image"}}) {
        const auto refused = driveline::publish(link.publisher, mat);
        ASSERT_FALSE(refused.has_value()) << words;
        EXPECT_NE(refused.error().message.find(words), std::string::npos)
            << refused.error().message;
    }
}

TEST_P(AtReach, MatricesArriveInEachEncodingThatFitsTheirType) {
    using driveline::Encoding;
    auto link = test::Link<Image>::make(domain_, options());
    for (const auto& [type, encodings] :
         {std::pair{CV_8UC1, std::vector{Encoding::bayer_rggb8, Encoding::bayer_bggr8,
                                         Encoding::bayer_gbrg8, Encoding::bayer_grbg8,
                                         Encoding::type_8UC1, Encoding::nv12, Encoding::nv21}},
          {CV_8UC2, {Encoding::yuyv, Encoding::yuv422}},
          {CV_8UC3, {Encoding::rgb8, Encoding::type_8UC3}},
          {CV_8UC4, {Encoding::rgba8, Encoding::type_8UC4}},
          {CV_16UC1,
           {Encoding::mono16, Encoding::bayer_rggb16, Encoding::bayer_bggr16,
            Encoding::bayer_gbrg16, Encoding::bayer_grbg16}}}) {
        cv::Mat mat(6, 8, type);
        cv::randu(mat, 0, 200);
        for (const Encoding encoding : encodings) {
            driveline::publish(link.publisher, mat, encoding).value();
            const auto sample = link.receive();
            EXPECT_EQ(sample.image().encoding(), encoding);
            const bool planes = encoding == Encoding::nv12 || encoding == Encoding::nv21;
            EXPECT_EQ(sample.image().height(), planes ? 4U : 6U) << to_string(encoding);
            const auto seen = sample.mat();
            ASSERT_EQ(seen->type(), type) << to_string(encoding);
            ASSERT_EQ(seen->size(), mat.size()) << to_string(encoding);
            EXPECT_EQ(cv::norm(*seen, mat, cv::NORM_INF), 0) << to_string(encoding);
        }
    }
    const auto refused =
        driveline::publish(link.publisher, cv::Mat(6, 8, CV_8UC1), Encoding::mono16);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("a matrix of 8UC1 holds no mono16 pixels"),
              std::string::npos)
        << refused.error().message;
}

// A part of a larger matrix, and rows with padding at their end.
TEST_P(AtReach, MatricesWithGapsBetweenTheirRowsArriveWithoutThem) {
    auto link = test::Link<Image>::make(domain_, options());
    for (const int type : {CV_8UC1, CV_8UC3, CV_16UC1, CV_32FC1}) {
        cv::Mat whole(48, 64, type);
        cv::randu(whole, 0, 200);
        std::vector<unsigned char> memory(48 * 1024, 0xee);
        cv::Mat padded(48, 41, type, memory.data(), 1024);
        whole.colRange(0, 41).copyTo(padded);
        for (const cv::Mat& mat : {whole(cv::Rect(7, 9, 33, 11)), whole.col(63), whole.row(5),
                                   whole.rowRange(10, 20), padded}) {
            driveline::publish(link.publisher, mat).value();
            const auto sample = link.receive();
            const auto seen = sample.mat();
            EXPECT_EQ(sample.image().step(), static_cast<std::size_t>(mat.cols) * mat.elemSize());
            ASSERT_EQ(seen->size(), mat.size());
            EXPECT_EQ(cv::norm(*seen, mat, cv::NORM_INF), 0) << mat.size() << " of type " << type;
        }
    }
}

TEST_P(AtReach, BytesArriveUnchanged) {
    const driveline::Bytes cdr{"cdr", "std_msgs/String", "string data"};
    auto publisher = domain_.node.publisher("bytes", cdr, options()).value();
    auto subscription = domain_.node.subscription("bytes", cdr, {.reach = GetParam()}).value();
    ASSERT_TRUE(
        test::eventually([&] { return publisher.matched() == 1 && subscription.matched() == 1; }));
    auto loan = publisher.loan(5).value();
    std::memcpy(loan.bytes().data(), "hello", 5);
    publisher.publish(std::move(loan)).value();
    const auto sample = subscription.receive(test::patience).value();
    ASSERT_TRUE(sample);
    EXPECT_EQ(
        std::string(reinterpret_cast<const char*>(sample->bytes().data()), sample->bytes().size()),
        "hello");
}

TEST_P(AtReach, ProtobufMovesAsAPointerInsideTheProcess) {
    auto link = test::Link<Detections2D>::make(domain_, options());
    auto message = std::make_unique<Detections2D>();
    message->mutable_header()->set_frame_index(5);
    const auto* address = message.get();
    link.publisher.publish(std::move(message)).value();
    auto sample = link.receive();
    EXPECT_EQ(&*sample, address);
    EXPECT_EQ(sample->header().frame_index(), 5u);
    EXPECT_EQ(link.publisher.stats().serialised, 0u) << "serialised without a reader outside";
}

TEST(Objects, MoveAsPointersAndLiveUntilTheLastReaderReleasesThem) {
    test::Domain domain;
    auto link = test::Link<demo::Plan>::make(domain);
    auto plan = std::make_shared<const demo::Plan>("overtake");
    const std::weak_ptr<const demo::Plan> watch = plan;
    link.publisher.publish(std::move(plan)).value();
    {
        std::shared_ptr<const demo::Plan> kept;
        {
            const auto sample = link.receive();
            EXPECT_EQ(sample->name, "overtake");
            kept = sample.shared().value();
        }
        EXPECT_EQ(kept->name, "overtake");
    }
    link.publisher.publish(demo::Plan("follow")).value();
    EXPECT_EQ(link.receive()->name, "follow");
    EXPECT_TRUE(watch.expired()) << "the first plan still has an owner";
}

TEST(Objects, OneSampleServesManySubscriptionsWithoutCopies) {
    test::Domain domain;
    auto link = test::Link<demo::Plan>::make(domain);
    auto second = domain.node.subscription<demo::Plan>("topic").value();
    link.publisher.publish(demo::Plan("a")).value();
    const auto one = link.receive();
    const auto two = second.latest().value();
    ASSERT_TRUE(two);
    EXPECT_EQ(&*one, &**two);
}

TEST(Objects, CannotLeaveTheProcess) {
    test::Domain domain;
    const auto refused = domain.node.publisher<demo::Plan>("plan", {.reach = Reach::host});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, DL_ERROR_ENDPOINT);
    EXPECT_NE(refused.error().message.find("'plan'"), std::string::npos) << refused.error().message;
}

}  // namespace
