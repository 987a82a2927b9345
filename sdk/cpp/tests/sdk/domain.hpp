// SPDX-License-Identifier: Apache-2.0
/// A separate domain for each test, and functions that wait for events.
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include <driveline/driveline.hpp>

namespace test {

/// A new directory, which the destructor removes.
class Directory {
public:
    Directory() {
        std::string name = std::filesystem::temp_directory_path() / "driveline-sdk-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
        path_ = name;
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    ~Directory() { std::filesystem::remove_all(path_); }

    [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

/// A node in its own domain.
struct Domain {
    Directory directory;
    driveline::Context context = driveline::Context::create("test", directory / "domain").value();
    driveline::Node node = context.node("test").value();
};

/// Time-out for events. Only a bug takes that long.
inline constexpr std::chrono::seconds patience{60};

/// Waits until `condition` holds. Returns false after the time-out.
template <class Condition>
bool eventually(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        // time: a pause between polls; only the time-out of 60 s ends them
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/// A matched publisher and subscription of one topic.
template <class T>
struct Link {
    driveline::Publisher<T> publisher;
    driveline::Subscription<T> subscription;

    static Link make(const Domain& domain, driveline::PublisherOptions p = {},
                     driveline::SubscriptionOptions s = {}) {
        s.reach = p.reach;
        Link link{domain.node.publisher<T>("topic", p).value(),
                  domain.node.subscription<T>("topic", s).value()};
        if (!eventually([&] {
                return link.publisher.matched() == 1 && link.subscription.matched() == 1;
            })) {
            throw std::runtime_error("publisher and subscription do not match");
        }
        return link;
    }

    /// Returns the newest sample, which must exist.
    driveline::Sample<T> receive() {
        auto sample = subscription.receive(patience).value();
        if (!sample) throw std::runtime_error("no sample came");
        return std::move(*sample);
    }
};

}  // namespace test
