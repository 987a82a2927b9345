// SPDX-License-Identifier: Apache-2.0
// Services: responses in place, messages and objects, refusals, time-outs, and departing ends.
#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <driveline/protobuf.hpp>

#include "driveline/msgs/detections_2d.pb.h"
#include "domain.hpp"

namespace demo {

struct TileRequest {
    std::int32_t x;
    std::int32_t y;
};
DRIVELINE_PLAIN(TileRequest, "demo/TileRequest", x, y);

struct Tile {
    std::int32_t x;
    std::int32_t y;
};
DRIVELINE_PLAIN_WITH_TAIL(Tile, "demo/Tile", float, cells, x, y);

struct Sum {
    std::int64_t total;
};
DRIVELINE_PLAIN(Sum, "demo/Sum", total);

}  // namespace demo

namespace {

using demo::Sum;
using demo::Tile;
using demo::TileRequest;
using driveline::Reach;
using namespace std::chrono_literals;

class Services : public testing::TestWithParam<Reach> {
protected:
    template <class Request, class Response>
    driveline::Service<Request, Response> service() {
        return domain_.node.service<Request, Response>("map/tile", {.reach = GetParam()}).value();
    }
    template <class Request, class Response>
    driveline::Client<Request, Response> client() {
        auto client =
            domain_.node.client<Request, Response>("map/tile", {.reach = GetParam()}).value();
        EXPECT_TRUE(client.wait_for_server(test::patience).value());
        return client;
    }

    test::Domain domain_;
};

/// Answers a number of requests on a new thread. The destructor of the returned object joins the
/// thread, so that a test that throws still prints its error.
template <class Request, class Response, class Answer>
std::jthread serve(driveline::Service<Request, Response>& service, int requests, Answer answer) {
    return std::jthread([&service, requests, answer] {
        for (int i = 0; i < requests;) {
            ASSERT_TRUE(service.wait(test::patience).value());
            auto call = service.take().value();
            if (!call) continue;
            answer(call->request, call->responder);
            ++i;
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Reach, Services, testing::Values(Reach::process, Reach::host),
                         [](const auto& p) {
                             return p.param == Reach::process ? "process" : "host";
                         });

TEST_P(Services, AResponseIsReadWhereTheServerWroteIt) {
    auto service = this->service<TileRequest, Tile>();
    auto client = this->client<TileRequest, Tile>();
    auto serving = serve(service, 5, [](const auto& request, auto& responder) {
        EXPECT_EQ(responder.client(), "test");
        auto loan = responder.loan(static_cast<std::size_t>(request->y)).value();
        *loan = Tile{request->x, request->y};
        std::ranges::fill(loan.tail(), static_cast<float>(request->x));
        responder.send(std::move(loan)).value();
        EXPECT_FALSE(responder);
    });
    for (int x = 1; x <= 5; ++x) {
        const auto tile = client.call(TileRequest{x, 1000}, test::patience).value();
        EXPECT_EQ(tile->x, x);
        ASSERT_EQ(tile.tail().size(), 1000u);
        EXPECT_TRUE(
            std::ranges::all_of(tile.tail(), [&](float c) { return c == static_cast<float>(x); }));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tile.tail().data()) % 64, 0u);
    }
    serving.join();
}

TEST_P(Services, ARequestIsWrittenWhereTheServerReadsIt) {
    auto service = this->service<Tile, Sum>();
    auto client = this->client<Tile, Sum>();
    auto serving = serve(service, 1, [](const auto& request, auto& responder) {
        const auto cells = request.tail();
        responder
            .send(Sum{static_cast<std::int64_t>(std::accumulate(cells.begin(), cells.end(), 0.0F))})
            .value();
    });
    auto loan = client.loan(3).value();
    *loan = Tile{0, 0};
    std::ranges::copy(std::vector<float>{1, 2, 4}, loan.tail().begin());
    EXPECT_EQ(client.call(std::move(loan), test::patience).value()->total, 7);
    EXPECT_FALSE(loan);  // NOLINT(bugprone-use-after-move): a moved loan is empty
    serving.join();
}

TEST_P(Services, MessagesAreRequestsAndResponses) {
    using driveline::msgs::Detection2D;
    using driveline::msgs::Detections2D;
    auto service = this->service<Detection2D, Detections2D>();
    auto client = this->client<Detection2D, Detections2D>();
    auto serving = serve(service, 3, [](const auto& request, auto& responder) {
        if (request->score() < 0) {
            responder.refuse("no score is below nothing").value();
            return;
        }
        Detections2D twice;
        *twice.add_detections() = *request;
        *twice.add_detections() = *request;
        responder.send(std::move(twice)).value();
    });
    for (const float score : {0.25F, 0.5F}) {
        Detection2D detection;
        detection.set_score(score);
        const auto twice = client.call(std::move(detection), test::patience).value();
        ASSERT_EQ(twice->detections_size(), 2);
        EXPECT_EQ(twice->detections(1).score(), score);
    }
    Detection2D wrong;
    wrong.set_score(-1);
    const auto refused = client.call(std::move(wrong), test::patience);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, DL_ERROR_REFUSED);
    EXPECT_NE(refused.error().message.find("no score is below nothing"), std::string::npos)
        << refused.error().message;
    serving.join();
}

/// Like a service of ROS 2. Driveline does not interpret the bytes.
TEST_P(Services, BytesAreRequestsAndResponses) {
    const driveline::Bytes request{"cdr", "demo/srv/Echo_Request", "uint8[] data"};
    const driveline::Bytes response{"cdr", "demo/srv/Echo_Response", "uint8[] data"};
    auto service = domain_.node.service("echo", request, response, {.reach = GetParam()}).value();
    auto client =
        domain_.node.client("echo", request, response, {.reach = GetParam(), .pending = 3}).value();
    ASSERT_TRUE(client.wait_for_server(test::patience).value());
    auto serving = serve(service, 3, [](const auto& asked, auto& responder) {
        const auto bytes = asked.bytes();
        if (bytes.empty()) {
            responder.refuse("there is nothing to send back").value();
        } else if (bytes.size() == 1) {
            responder.send(bytes).value();
        } else {
            auto loan = responder.loan(bytes.size()).value();
            std::ranges::reverse_copy(bytes, loan.bytes().begin());
            responder.send(std::move(loan)).value();
        }
    });
    const std::vector<std::byte> one{std::byte{7}};
    const auto same = client.call(one, test::patience).value();
    EXPECT_TRUE(std::ranges::equal(same.bytes(), one));
    const std::vector<std::byte> three{std::byte{1}, std::byte{2}, std::byte{3}};
    auto loan = client.loan(three.size()).value();
    std::ranges::copy(three, loan.bytes().begin());
    const auto reversed = client.call(std::move(loan), test::patience).value();
    EXPECT_FALSE(loan);  // NOLINT(bugprone-use-after-move): a moved loan is empty
    EXPECT_TRUE(
        std::equal(reversed.bytes().begin(), reversed.bytes().end(), three.rbegin(), three.rend()));
    const auto refused = client.call(std::vector<std::byte>(), test::patience);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, DL_ERROR_REFUSED);
    serving.join();
    const std::vector<std::byte> too_long(5000);
    EXPECT_EQ(client.call(too_long, test::patience).error().status, DL_ERROR_TOO_LONG);

    const driveline::Bytes other{"cdr", "demo/srv/Echo_Request", "uint16[] data"};
    auto stranger = domain_.node.client("echo", other, response, {.reach = GetParam()}).value();
    // time: there is no server of this type, so only the time-out ends the wait
    EXPECT_FALSE(stranger.wait_for_server(1ms).value());
    EXPECT_EQ(stranger.call(one, test::patience).error().status, DL_ERROR_NO_SERVER);
}

TEST_P(Services, WithoutAnAnswerTheErrorHasTheReason) {
    auto lonely = domain_.node.client<TileRequest, Sum>("map/tile", {.reach = GetParam()}).value();
    // time: there is no server, so only the time-out ends the wait
    EXPECT_FALSE(lonely.wait_for_server(1ms).value());
    EXPECT_EQ(lonely.call(TileRequest{}, test::patience).error().status, DL_ERROR_NO_SERVER);

    auto service = this->service<TileRequest, Sum>();
    auto client = this->client<TileRequest, Sum>();
    EXPECT_EQ(client.call(TileRequest{}, 20ms).error().status, DL_ERROR_TIMED_OUT);
    EXPECT_FALSE(client.was_taken());
    // The server's end may be matched, and get the request, after the call.
    ASSERT_TRUE(service.wait(test::patience).value());
    { const auto let_go = service.take().value(); }

    auto letting_go = serve(service, 1, [](const auto&, auto& responder) {
        const auto dropped = std::move(responder);
    });
    const auto unanswered = client.call(TileRequest{}, test::patience);
    letting_go.join();
    ASSERT_FALSE(unanswered);
    EXPECT_EQ(unanswered.error().status, DL_ERROR_REFUSED);
    EXPECT_NE(unanswered.error().message.find("without an answer"), std::string::npos)
        << unanswered.error().message;

    const auto again = domain_.node.service<TileRequest, Sum>("map/tile", {.reach = GetParam()});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().status, DL_ERROR_ENDPOINT);
}

TEST_P(Services, TheEndOfAServerIsReportedWithTheStateOfTheRequest) {
    auto service =
        std::make_unique<driveline::Service<TileRequest, Sum>>(this->service<TileRequest, Sum>());
    auto client = this->client<TileRequest, Sum>();
    std::optional<driveline::Responder<Sum>> kept;
    std::thread going([&] {
        while (!kept) {
            ASSERT_TRUE(service->wait(test::patience).value());
            if (auto call = service->take().value()) kept.emplace(std::move(call->responder));
        }
        service.reset();
    });
    EXPECT_EQ(client.call(TileRequest{}, test::patience).error().status, DL_ERROR_PEER_GONE);
    EXPECT_TRUE(client.was_taken());
    going.join();
}

TEST(Services, ObjectsStayInsideTheProcess) {
    test::Domain domain;
    auto service = domain.node.service<std::string, std::vector<int>>("lengths").value();
    auto client = domain.node.client<std::string, std::vector<int>>("lengths").value();
    auto serving = serve(service, 1, [](const auto& request, auto& responder) {
        responder.send(std::vector<int>{static_cast<int>(request->size())}).value();
    });
    EXPECT_EQ(client.call(std::string("four"), test::patience).value()->at(0), 4);
    serving.join();
    EXPECT_FALSE((domain.node.service<std::string, Sum>("other", {.reach = Reach::host})));
}

}  // namespace
