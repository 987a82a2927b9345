// SPDX-License-Identifier: Apache-2.0
/// A domain of its own for each test, and waiting for what must come.
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include <driveline/driveline.hpp>

namespace test {

/// A fresh directory that goes with its owner.
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

/// A process with one node in a domain of its own.
struct Domain {
    Directory directory;
    driveline::Context context = driveline::Context::create("test", directory / "domain").value();
    driveline::Node node = context.node("test").value();
};

/// Long enough for the slowest machine; nothing takes that long unless it is broken.
inline constexpr std::chrono::seconds patience{60};

/// Waits until `condition` holds; says whether it ever did.
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

/// A publisher and a subscription of one topic that have found each other.
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

    /// The newest sample; there must be one.
    driveline::Sample<T> receive() {
        auto sample = subscription.receive(patience).value();
        if (!sample) throw std::runtime_error("no sample came");
        return std::move(*sample);
    }
};

}  // namespace test
