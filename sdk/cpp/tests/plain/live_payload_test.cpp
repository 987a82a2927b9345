// SPDX-License-Identifier: Apache-2.0
// A hostile publisher changes its payload while it is read. Views must stay inside the payload.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <opencv2/core.hpp>

#include "driveline/opencv.hpp"
#include "driveline/points.hpp"
#include "driveline/radar.hpp"

namespace {

using driveline::CloudMut;
using driveline::CloudView;
using driveline::Encoding;
using driveline::Header;
using driveline::Image;
using driveline::ImageView;
using driveline::PointCloud;
using driveline::PointXyzi;
using driveline::RadarScan;

/// A payload at the end of its memory, so that the address sanitizer detects reads beyond it.
class Payload {
public:
    explicit Payload(std::size_t size)
        : size_(size),
          memory_(static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64))) {
        std::memset(memory_.get(), 0, size);
    }

    [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get(), size_}; }
    template <class T>
    [[nodiscard]] bool contains(std::span<const T> part) const {
        const auto inside = std::as_bytes(part);
        return part.empty() || (inside.data() >= memory_.get() &&
                                inside.data() + inside.size() <= memory_.get() + size_);
    }

    /// Overwrites the head, word by word, as another process can at any time.
    template <class T>
    void overwrite(const T& head) const {
        static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
        std::vector<std::uint32_t> words(sizeof(T) / sizeof(std::uint32_t));
        std::memcpy(words.data(), &head, sizeof(T));
        auto* place = reinterpret_cast<std::uint32_t*>(memory_.get());
        for (std::size_t i = 0; i < words.size(); ++i)
            std::atomic_ref(place[i]).store(words[i], std::memory_order_relaxed);
    }

private:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::size_t size_;
    std::unique_ptr<std::byte, Free> memory_;
};

/// Calls `read` repeatedly while another thread swaps two heads.
template <class T>
void read_while_heads_change(const Payload& payload, const T& one, const T& other,
                             const std::function<void()>& read) {
    std::atomic<bool> done{false};
    std::atomic<int> changes{0};
    std::thread hostile([&] {
        while (!done.load(std::memory_order_relaxed)) {
            payload.overwrite(other);
            payload.overwrite(one);
            changes.fetch_add(1, std::memory_order_relaxed);
        }
    });
    for (int i = 0; (i < 20'000 || changes.load(std::memory_order_relaxed) < 1000) &&
                    !testing::Test::HasFailure();
         ++i)
        read();
    done = true;
    hostile.join();
}

struct ImagePayload {
    Payload payload{driveline::image_payload_size(16, 8, Encoding::mono8).value()};
    Image good =
        driveline::make_image(Header::make(7, "camera", 3).value(), 16, 8, Encoding::mono8).value();
    // This image needs a payload of several times the size.
    Image huge =
        driveline::make_image(Header::make(8, "evil", 4).value(), 64, 32, Encoding::bgr8).value();

    ImagePayload() { payload.overwrite(good); }

    void look(const ImageView& view) const {
        long sum = 0;
        for (std::uint32_t y = 0; y < view.height(); ++y) {
            const auto row = view.row(y);
            ASSERT_TRUE(payload.contains(row));
            for (const auto pixel : row) sum += pixel;
        }
        const auto mat = driveline::view(view);
        ASSERT_TRUE(payload.contains(std::span<const unsigned char>(mat->data, mat->dataend)));
        sum += static_cast<long>(cv::sum(mat)[0]);
        ASSERT_EQ(sum, 0);
    }
};

TEST(LivePayload, AnImageViewUsesTheCheckedNumbers) {
    const ImagePayload image;
    const auto view = ImageView::from(image.payload.bytes()).value();
    image.payload.overwrite(image.huge);
    EXPECT_EQ(view.width(), 16u);
    EXPECT_EQ(view.height(), 8u);
    EXPECT_EQ(view.step(), 16u);
    EXPECT_EQ(view.encoding(), Encoding::mono8);
    EXPECT_EQ(view.header().frame(), "camera");
    EXPECT_EQ(driveline::view(view)->cols, 16);
    image.look(view);
    EXPECT_FALSE(ImageView::from(image.payload.bytes()));
}

TEST(LivePayload, AChangingImageIsReadInsideItsPayload) {
    const ImagePayload image;
    read_while_heads_change(image.payload, image.good, image.huge, [&] {
        if (const auto view = ImageView::from(image.payload.bytes())) image.look(*view);
    });
}

struct CloudPayload {
    Payload payload{CloudMut<PointXyzi>::payload_size(6).value()};
    PointCloud good{};
    PointCloud huge{};

    CloudPayload() {
        const auto made =
            CloudMut<PointXyzi>::from(payload.bytes(), Header::make(7, "lidar", 3).value(), 3, 2);
        EXPECT_TRUE(made);
        good = *driveline::plain::Ref<PointCloud>::from(payload.bytes()).value();
        huge = good;
        huge.width = 300;
        huge.row_step = 300 * sizeof(PointXyzi);
        huge.height = 200;
        huge.field_count = 0xffffffff;
        for (auto& field : huge.fields) {
            std::memset(field.name, 'x', sizeof field.name);
            field.offset = field.count = 0xffffffff;
        }
    }

    void look(const CloudView& view) const {
        std::size_t named = 0;
        ASSERT_LE(view.fields().size(), driveline::max_point_fields);
        for (const auto& field : view.fields())
            named += driveline::plain::fixed_text(field.name).size();
        // A mixture of both heads may have no points.
        const auto points = driveline::points<PointXyzi>(view);
        if (!points) return;
        if (const auto in_place = driveline::point_span<PointXyzi>(view)) {
            ASSERT_TRUE(payload.contains(*in_place));
        }
        float sum = 0;
        for (const auto& point : *points) sum += point.x + point.intensity;
        ASSERT_EQ(sum, 0);
        ASSERT_GE(named, 4u);
    }
};

TEST(LivePayload, ACloudViewUsesTheCheckedNumbers) {
    const CloudPayload cloud;
    const auto view = CloudView::from(cloud.payload.bytes()).value();
    cloud.payload.overwrite(cloud.huge);
    EXPECT_EQ(view.size(), 6u);
    EXPECT_EQ(view.fields().size(), 4u);
    EXPECT_EQ(view.header().frame(), "lidar");
    EXPECT_EQ(driveline::points<PointXyzi>(view).value().size(), 6u);
    cloud.look(view);
    EXPECT_FALSE(CloudView::from(cloud.payload.bytes()));
}

TEST(LivePayload, AChangingCloudIsReadInsideItsPayload) {
    const CloudPayload cloud;
    read_while_heads_change(cloud.payload, cloud.good, cloud.huge, [&] {
        if (const auto view = CloudView::from(cloud.payload.bytes())) cloud.look(*view);
    });
}

TEST(LivePayload, TheReturnsOfARadarStayInsideThePayload) {
    const Payload payload(driveline::plain::payload_size<RadarScan>(5).value());
    const RadarScan one{Header::make(7, "radar", 3).value()};
    RadarScan other = one;
    std::memset(&other, 0xff, sizeof other);
    read_while_heads_change(payload, one, other, [&] {
        const auto scan = driveline::plain::Ref<RadarScan>::from(payload.bytes()).value();
        ASSERT_EQ(scan.tail().size(), 5u);
        ASSERT_TRUE(payload.contains(scan.tail()));
        const RadarScan head = scan.copy_head();
        ASSERT_LE(head.header.frame().size(), sizeof head.header.frame_id);
        ASSERT_LE(scan->header.frame().size(), sizeof head.header.frame_id)
            << "the frame name read in place is longer than its field";
    });
}

using driveline::ConstMat;

// A matrix view of a sample can be passed to functions that read matrices, but not be written to.
static_assert(std::is_convertible_v<const ConstMat&, const cv::Mat&>);
static_assert(std::is_convertible_v<const ConstMat&, cv::_InputArray>);
static_assert(std::is_convertible_v<ConstMat, cv::_InputArray>, "a temporary is refused");
static_assert(!std::is_convertible_v<const ConstMat&, cv::Mat>);
static_assert(!std::is_constructible_v<cv::Mat, const ConstMat&>);
static_assert(!std::is_constructible_v<cv::Mat, ConstMat>);
static_assert(!std::is_assignable_v<cv::Mat&, const ConstMat&>);
static_assert(!std::is_convertible_v<const ConstMat&, cv::Mat&>);
static_assert(!std::is_convertible_v<ConstMat&, cv::_OutputArray>);
static_assert(!std::is_convertible_v<ConstMat&, cv::_InputOutputArray>);
static_assert(!std::is_convertible_v<ConstMat, const cv::Mat&>, "the temporary would be gone");

}  // namespace
