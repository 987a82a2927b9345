// SPDX-License-Identifier: Apache-2.0
// Uses every template of the SDK, for tools/check_headers.py:
// compiled by each supported compiler, never linked.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/timestamp.pb.h>

#include <driveline/driveline.hpp>
#include <driveline/opencv.hpp>
#include <driveline/pcl.hpp>
#include <driveline/points.hpp>
#include <driveline/protobuf.hpp>
#include <driveline/testing.hpp>

namespace uses {

using google::protobuf::Timestamp;
using std::chrono::seconds;

struct Tick {
    std::uint64_t n;
    double v;
};
DRIVELINE_PLAIN(Tick, "uses/Tick", n, v);
struct Scan {
    std::uint32_t count;
};
DRIVELINE_PLAIN_WITH_TAIL(Scan, "uses/Scan", float, ranges, count);
struct Path {
    std::string name;
};
struct Echo {
    double x, y, z;
    float beam_angle;
    std::uint8_t unused[4];
};
DRIVELINE_POINT(Echo, x, y, z, beam_angle);
struct PclLike {
    using PointType = driveline::PointXyzi;
    struct {
        std::string frame_id;
    } header;
    std::vector<PointType> points;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    bool is_dense = false;
};

class Everything : public driveline::Component {
    driveline::Input<Tick> tick_{*this, "tick"};
    driveline::Input<driveline::Image> image_{*this, "image", "a picture"};
    driveline::Input<driveline::PointCloud> cloud_{*this, "cloud"};
    driveline::Input<Timestamp> time_{*this, "time"};
    driveline::Input<driveline::Bytes> raw_{*this, "raw", driveline::Bytes{"cdr"}};
    driveline::Output<Tick> ticks_{*this, "ticks"};
    driveline::Output<Scan> scans_{*this, "scans"};
    driveline::Output<driveline::Image> images_{*this, "images"};
    driveline::Output<driveline::PointCloud> clouds_{*this, "clouds"};
    driveline::Output<Timestamp> times_{*this, "times"};
    driveline::Output<Path> paths_{*this, "paths"};
    driveline::Output<driveline::Bytes> bytes_{*this, "bytes", driveline::Bytes{"json"}};
    driveline::Parameter<double> low_{*this, "low", 1.0};
    driveline::Parameter<std::string> model_{*this, "model", ""};
    driveline::Parameter<bool> on_{*this, "on", true};
    driveline::Parameter<std::uint32_t> depth_{*this, "depth", 4u};
    driveline::Timer timer_{*this, seconds(1), [this](const driveline::TimerTick& tick) {
                                log_info("tick ", tick.overruns);
                            }};
    driveline::Timer later_{*this,
                            [](const driveline::TimerTick&) -> driveline::Status { return {}; }};

    driveline::Status init() override { return later_.start(seconds(1)); }
    driveline::Status on_trigger(const driveline::Invocation& call) override {
        if (call.triggered_by(tick_) && call.tick()) finish();
        if (auto scan = scans_.loan(3)) {
            scan->head() = Scan{3};
            std::ranges::fill(scan->tail(), 1.0F);
            if (auto done = scans_.publish(std::move(*scan)); !done) return done;
        }
        if (auto sample = image_.sample()) {
            if (auto loan = images_.loan(sample->image().width(), 1, driveline::Encoding::bgr8)) {
                cv::Mat target = loan->mat();
                sample->mat()->copyTo(target);
                if (auto done = images_.publish(std::move(*loan)); !done) return done;
            }
            if (auto done = driveline::publish(images_, sample->mat()->clone()); !done) return done;
        }
        if (auto sample = cloud_.read()) {
            auto points = driveline::points<driveline::PointXyzi>(sample->cloud());
            if (!points) return points.error();
            auto echoes = driveline::point_span<Echo>(sample->cloud());
            if (!echoes) return echoes.error();
            PclLike cloud;
            if (auto done = driveline::copy(sample->cloud(), cloud); !done) return done;
            if (auto done = driveline::publish(clouds_, cloud); !done) return done;
            log_debug("points ", points->size(), ", missed ", sample->missed());
        }
        if (auto sample = time_.sample()) {
            if (auto done = times_.publish(std::make_unique<Timestamp>(**sample)); !done)
                return done;
        }
        if (auto sample = raw_.sample()) {
            auto loan = bytes_.loan(sample->bytes().size());
            if (!loan) return loan.error();
            loan->shrink(1);
            if (auto done = bytes_.publish(std::move(*loan)); !done) return done;
        }
        if (auto done = paths_.publish(Path{*model_}); !done) return done;
        return ticks_.publish(Tick{*depth_, *on_ ? *low_ : 0});
    }
};
DRIVELINE_COMPONENT(Everything, "uses every template");

template <class Request, class Response>
driveline::Status serve(driveline::Service<Request, Response>& service, Response answer) {
    auto call = service.take();
    if (!call) return call.error();
    if (!*call) return {};
    auto& [request, responder] = **call;
    return responder.send(std::move(answer));
}

driveline::Status run() {
    auto context = driveline::Context::create("uses");
    if (!context) return context.error();
    auto node = context->node("uses").value();
    auto link =
        driveline::Link<driveline::Image>::create("image", {.max_payload = 1 << 20}).value();
    auto cloud = driveline::CloudMut<driveline::PointXyzi>::from(std::span<std::byte>(),
                                                                 driveline::Header{}, 1);
    if (!cloud) return cloud.error();
    auto publisher = node.publisher<Tick>("tick", {.reach = driveline::Reach::host}).value();
    auto subscription = node.subscription<Timestamp>("time").value();
    auto sample = subscription.receive(seconds(1));
    if (sample && *sample) {
        auto shared = (*sample)->shared();
        if (!shared) return shared.error();
    }
    auto plain_service = node.service<Tick, Tick>("plain").value();
    if (auto done = serve(plain_service, Tick{1, 2}); !done) return done;
    auto message_service = node.service<Timestamp, Timestamp>("message").value();
    if (auto done = serve(message_service, Timestamp()); !done) return done;
    auto plain_client = node.client<Tick, Scan>("plain").value();
    if (auto answer = plain_client.call(Tick{1, 2}, seconds(1)); !answer) return answer.error();
    auto bytes_client =
        node.client("bytes", driveline::Bytes{"cdr"}, driveline::Bytes{"cdr"}).value();
    const std::array<std::byte, 4> request{};
    if (auto answer = bytes_client.call(request, seconds(1)); !answer) return answer.error();
    return publisher.publish(Tick{1, 2});
}

driveline::Status test() {
    auto test = driveline::testing::ComponentTest::of<Everything>(
        {.parameters = {{"low", 2.5}, {"model", "m"}, {"on", false}, {"depth", 7U}},
         .trigger = "{kind: any}"});
    if (!test) return test.error();
    auto image = test->loan<driveline::Image>("image", 4U, 2U, driveline::Encoding::mono8);
    if (!image) return image.error();
    if (auto fed = test->feed("image", std::move(*image), seconds(1)); !fed) return fed;
    auto cloud = test->loan<driveline::PointCloud>("cloud", 16U);
    if (!cloud) return cloud.error();
    if (auto fed = test->feed("cloud", std::move(*cloud)); !fed) return fed;
    if (auto fed = test->feed("tick", Tick{1, 2}); !fed) return fed;
    if (auto fed = test->feed("time", Timestamp(), seconds(1)); !fed) return fed;
    const auto publish = [](const auto& input) {
        return driveline::publish(input, cv::Mat(2, 2, CV_8UC1));
    };
    if (auto fed = test->feed_with<driveline::Image>("image", publish); !fed) return fed;
    auto bytes = test->loan("raw", driveline::Bytes{"cdr"}, 4);
    if (!bytes) return bytes.error();
    if (auto fed = test->feed("raw", std::move(*bytes)); !fed) return fed;
    if (auto calls = test->advance(seconds(1)); !calls) return calls.error();
    const auto time = test->time();
    auto ticks = test->outputs<Tick>("ticks");
    if (!ticks) return ticks.error();
    auto raw = test->take<driveline::Bytes>("bytes", driveline::Bytes{"json"});
    return raw ? test->shutdown() : raw.error();
}

}  // namespace uses

int main() { return uses::run() && uses::test() ? 0 : 1; }
