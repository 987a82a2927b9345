// SPDX-License-Identifier: Apache-2.0
// Unit tests of this example's components, without processes, ROS 2 or a test framework. A test has
// a domain of its own, so the other end of a service is on the node of the component under test.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <driveline/testing.hpp>

#include "../adder.cpp"
#include "../asker.cpp"

using driveline::testing::ComponentTest;

namespace {

constexpr auto patience = std::chrono::seconds(60);  // only a bug takes that long
constexpr auto period = std::chrono::milliseconds(100);
const char* const every_100_ms = "{kind: timer, period_ms: 100}";

std::atomic<int> failures = 0;  // servers have threads of their own

void expect(bool holds, const char* what) {
    if (holds) return;
    std::cerr << "FAILED: " << what << "\n";
    ++failures;
}

using Client = driveline::Client<driveline::Bytes, driveline::Bytes>;

// Calls the component's own service, on its first tick.
class CalledAdder : public Adder {
public:
    inline static std::function<driveline::Status(Client&)> calls;

private:
    driveline::Timer first_tick_{*this, period,
                                 [this](const driveline::TimerTick&) { return call(); }};
    bool called_ = false;

    driveline::Status call() {
        if (std::exchange(called_, true)) return {};
        auto client = node().client("driveline/add", add_two_ints::request, add_two_ints::response,
                                    {.reach = driveline::Reach::host});
        if (!client) return client.error();
        const auto served = client->wait_for_server(patience);
        if (!served) return served.error();
        expect(*served, "the adder serves");
        return calls(*client);
    }
};

// Serves what the component calls, from its first tick on.
class ServedAsker : public Asker {
public:
    inline static std::atomic<int> answers = 0;

private:
    driveline::Timer first_tick_{*this, period,
                                 [this](const driveline::TimerTick&) { return start(); }};
    std::optional<driveline::Service<driveline::Bytes, driveline::Bytes>> service_;
    std::thread serving_;

    driveline::Status start() {
        if (service_) return {};
        auto service = node().service("ros/add", add_two_ints::request, add_two_ints::response,
                                      {.reach = driveline::Reach::host});
        if (!service) return service.error();
        service_ = std::move(*service);
        serving_ = std::thread([this] { serve(); });
        return {};
    }

    void serve() {
        while (!is_stopping()) {
            if (!service_->wait(std::chrono::milliseconds(100))) return;
            auto call = service_->take();
            if (!call || !*call) continue;
            const auto numbers = add_two_ints::from_cdr<2>((*call)->request.bytes());
            const bool is_sum = numbers && (*numbers)[1] == 100;
            expect(is_sum, "the asker asks for a + 100");
            if (!is_sum) continue;
            const auto answered =
                (*call)->responder.send(add_two_ints::to_cdr<1>({(*numbers)[0] + 100}));
            expect(bool(answered), "the answer is sent");
            ++answers;
        }
    }

    void shutdown() override {
        if (serving_.joinable()) serving_.join();
    }
};

void adder_answers_with_the_sum() {
    CalledAdder::calls = [](Client& client) -> driveline::Status {
        const auto sum = [&](std::int64_t a, std::int64_t b) -> std::int64_t {
            const auto response = client.call(add_two_ints::to_cdr<2>({a, b}), patience);
            if (!response) return 0;
            const auto numbers = add_two_ints::from_cdr<1>(response->bytes());
            return numbers ? (*numbers)[0] : 0;
        };
        expect(sum(2, 3) == 5, "2 + 3 is 5");
        expect(sum(-7, 3) == -4, "-7 + 3 is -4");
        using Limits = std::numeric_limits<std::int64_t>;
        expect(sum(Limits::max(), 1) == Limits::min(), "a sum that is too large wraps around");
        return {};
    };
    auto test = ComponentTest::of<CalledAdder>().value();
    test.advance(period).value();
    test.shutdown().value();
}

void adder_refuses_other_requests() {
    CalledAdder::calls = [](Client& client) -> driveline::Status {
        const auto refused = client.call(add_two_ints::to_cdr<1>({2}), patience);
        expect(
            !refused && refused.error().message.find("no AddTwoInts_Request") != std::string::npos,
            "the error says why");
        const auto next = client.call(add_two_ints::to_cdr<2>({2, 3}), patience);
        expect(bool(next), "the next request is answered");
        return {};
    };
    auto test = ComponentTest::of<CalledAdder>().value();
    test.advance(period).value();
    test.shutdown().value();
}

void asker_waits_for_a_server() {
    auto test =
        ComponentTest::create("Asker", {.parameters = {{"calls", 2U}}, .trigger = every_100_ms})
            .value();
    expect(test.advance(10 * period).value() >= 10, "each tick is a call");
    expect(!test.finished(), "without a server no call counts");
    expect(bool(test.shutdown()), "it ends without a server");
}

void asker_ends_after_its_calls() {
    auto test =
        ComponentTest::of<ServedAsker>({.parameters = {{"calls", 3U}}, .trigger = every_100_ms})
            .value();
    // Ticks until the client has found the server, and three more.
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!test.finished() && std::chrono::steady_clock::now() < deadline) {
        test.advance(period).value();
        std::this_thread::yield();
    }
    expect(test.finished(), "after three calls its work is done");
    test.shutdown().value();
    expect(ServedAsker::answers == 3, "each of these calls was answered");
}

void asker_refuses_a_negative_number() {
    const auto test =
        ComponentTest::create("Asker", {.parameters = {{"calls", -1}}, .trigger = every_100_ms});
    expect(!test && test.error().message.find("calls") != std::string::npos,
           "the error names the parameter");
}

void numbers_survive_both_byte_orders() {
    const auto bytes = add_two_ints::to_cdr<2>({1, -2});
    const auto same = add_two_ints::from_cdr<2>(bytes);
    expect(same && (*same)[0] == 1 && (*same)[1] == -2, "numbers are read as they were written");
    auto swapped = bytes;
    swapped[1] ^= std::byte{1};
    for (std::size_t number = 0; number < 2; ++number) {
        const auto first = swapped.begin() + 4 + 8 * static_cast<std::ptrdiff_t>(number);
        std::reverse(first, first + 8);
    }
    expect(add_two_ints::from_cdr<2>(swapped) == same, "the other byte order gives the same");
    swapped[1] = std::byte{2};
    expect(!add_two_ints::from_cdr<2>(swapped), "an unknown byte order is refused");
    expect(!add_two_ints::from_cdr<1>(bytes), "another number of fields is refused");
    expect(!add_two_ints::from_cdr<2>({}), "an empty payload is refused");
}

}  // namespace

int main() {
    adder_answers_with_the_sum();
    adder_refuses_other_requests();
    asker_waits_for_a_server();
    asker_ends_after_its_calls();
    asker_refuses_a_negative_number();
    numbers_survive_both_byte_orders();
    return failures == 0 ? 0 : 1;
}
