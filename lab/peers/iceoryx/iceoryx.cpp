// SPDX-License-Identifier: Apache-2.0
// Eclipse iceoryx: loans in shared memory that RouDi manages.
#include <unistd.h>

#include <fstream>
#include <optional>
#include <thread>

#include "iceoryx_posh/popo/untyped_publisher.hpp"
#include "iceoryx_posh/popo/untyped_subscriber.hpp"
#include "iceoryx_posh/popo/wait_set.hpp"
#include "iceoryx_posh/runtime/posh_runtime.hpp"
#include "iceoryx_versions.hpp"
#include "iceperf.hpp"
#include "link.hpp"
#include "roudi.hpp"

namespace {

using namespace std::chrono_literals;
using peers::Job;
using peers::Reliability;

/// Alignment for plain types of images and points.
constexpr std::uint32_t alignment = 64;

template <typename String>
String name_of(const std::string& text) {
    return String(iox::cxx::TruncateToCapacity, text.c_str());
}

iox::capro::ServiceDescription service(const Job& job, const std::string& topic) {
    using iox::capro::IdString_t;
    return {IdString_t("bench"), name_of<IdString_t>(job.run_name()), name_of<IdString_t>(topic)};
}

/// A publisher cannot count its subscribers, so each subscriber reports when RouDi has connected
/// it.
std::filesystem::path connected_file(const Job& job, const std::string& topic, std::size_t index) {
    return job.domain_dir / (topic + "." + std::to_string(index) + ".connected");
}

/// Returns the size of the history: 1 in one variant, as in iceoryx's own latency tool, else 0.
std::uint64_t history(const Job& job) { return job.variant == "shm_history" ? 1 : 0; }

class Publisher final : public peers::Sender {
public:
    Publisher(const Job& job, const std::string& topic)
        : job_(job), topic_(topic), publisher_(service(job, topic), options(job)) {}

    ~Publisher() override {
        if (chunk_ != nullptr) publisher_.release(chunk_);
    }

    bool matched(std::size_t receivers) override {
        for (std::size_t i = 0; i < receivers; ++i) {
            if (!std::filesystem::exists(connected_file(job_, topic_, i))) return false;
        }
        return publisher_.hasSubscribers();
    }

    std::span<std::byte> loan() override {
        if (chunk_ == nullptr) {
            // Thrown here, and not in a callback of `loan`: iceoryx lets no exception through.
            auto loan = publisher_.loan(static_cast<std::uint32_t>(job_.size), alignment);
            if (loan.has_error())
                throw peers::NotSent("no chunk was free (allocation error " +
                                     std::to_string(static_cast<int>(loan.get_error())) + ")");
            chunk_ = loan.value();
        }
        return {static_cast<std::byte*>(chunk_), job_.size};
    }

    void publish() override {
        publisher_.publish(chunk_);
        chunk_ = nullptr;
    }

private:
    static iox::popo::PublisherOptions options(const Job& job) {
        iox::popo::PublisherOptions o;
        o.historyCapacity = history(job);
        o.subscriberTooSlowPolicy = job.reliability == Reliability::reliable
                                        ? iox::popo::ConsumerTooSlowPolicy::WAIT_FOR_CONSUMER
                                        : iox::popo::ConsumerTooSlowPolicy::DISCARD_OLDEST_DATA;
        return o;
    }

    Job job_;
    std::string topic_;
    iox::popo::UntypedPublisher publisher_;
    void* chunk_ = nullptr;
};

class Subscriber final : public peers::Receiver {
public:
    Subscriber(const Job& job, const std::string& topic, std::size_t index)
        : connected_file_(connected_file(job, topic, index)),
          subscriber_(service(job, topic), options(job)) {
        if (waitset_.attachState(subscriber_, iox::popo::SubscriberState::HAS_DATA).has_error()) {
            throw std::runtime_error("iceoryx could not attach the subscriber to a wait set");
        }
    }

    ~Subscriber() override {
        release();
        waitset_.detachState(subscriber_, iox::popo::SubscriberState::HAS_DATA);
    }

    bool matched() override {
        if (!connected_ && subscriber_.getSubscriptionState() == iox::SubscribeState::SUBSCRIBED) {
            connected_ = true;
            std::ofstream(connected_file_) << "connected";
        }
        return connected_;
    }

    std::span<const std::byte> take() override {
        if (!connected_ && !matched()) return {};
        auto result = subscriber_.take();
        if (result.has_error()) {
            if (result.get_error() == iox::popo::ChunkReceiveResult::NO_CHUNK_AVAILABLE) return {};
            throw std::runtime_error("iceoryx gave no chunk (receive result " +
                                     std::to_string(static_cast<int>(result.get_error())) + ")");
        }
        chunk_ = result.value();
        return {static_cast<const std::byte*>(chunk_),
                iox::mepoo::ChunkHeader::fromUserPayload(chunk_)->userPayloadSize()};
    }

    void release() override {
        if (chunk_ != nullptr) subscriber_.release(chunk_);
        chunk_ = nullptr;
    }

    void wait(std::chrono::nanoseconds limit) override {
        if (!matched()) {
            std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(limit, 500us));
            return;
        }
        waitset_.timedWait(iox::units::Duration::fromNanoseconds(limit.count()));
    }

private:
    static iox::popo::SubscriberOptions options(const Job& job) {
        iox::popo::SubscriberOptions o;
        o.historyRequest = history(job);
        o.queueCapacity = job.depth;
        o.queueFullPolicy = job.reliability == Reliability::reliable
                                ? iox::popo::QueueFullPolicy::BLOCK_PRODUCER
                                : iox::popo::QueueFullPolicy::DISCARD_OLDEST_DATA;
        return o;
    }

    std::filesystem::path connected_file_;
    iox::popo::UntypedSubscriber subscriber_;
    iox::popo::WaitSet<1> waitset_;
    const void* chunk_ = nullptr;
    bool connected_ = false;
};

class IceLink final : public peers::Link {
public:
    explicit IceLink(const Job& job) : job_(job) {
        // The name must be unique on the machine, and begin with the prefix that the keeper knows.
        const auto name = job.run_name() + "_" + std::to_string(getpid());
        iox::runtime::PoshRuntime::initRuntime(name_of<iox::RuntimeName_t>(name));
    }
    void resize(std::size_t size) override { job_.size = size; }
    std::unique_ptr<peers::Sender> sender(const std::string& topic, std::size_t) override {
        return std::make_unique<Publisher>(job_, topic);
    }
    std::unique_ptr<peers::Receiver> receiver(const std::string& topic,
                                              std::size_t index) override {
        return std::make_unique<Subscriber>(job_, topic, index);
    }

private:
    Job job_;
};

class Iceoryx final : public peers::Middleware {
public:
    peers::Description describe() const override {
        peers::Variant shm;
        shm.name = "shm";
        shm.title = "shared memory, loans";
        shm.loans = true;
        shm.max_size = std::size_t{256} << 20;
        shm.keeper = true;
        shm.settings = {
            {"queueCapacity", "the job's depth", "as all systems"},
            {"queueFullPolicy, subscriberTooSlowPolicy",
             "DISCARD_OLDEST_DATA; reliable: BLOCK_PRODUCER, WAIT_FOR_CONSUMER", "as all systems"},
            {"blocking", "WaitSet, state HAS_DATA",
             "its examples; spinning rows poll take() instead"},
            {"mempool", "one, of the payload's size", "chunks of the right size; its manual"},
            {"RouDi", "started for each run, monitoring off", "it takes no time from the ends"}};
        auto with_history = shm;
        with_history.name = "shm_history";
        with_history.title =
            "shared memory, loans, and a history of one, as its own latency tool has it";
        with_history.tuning = true;
        with_history.settings.push_back(
            {"historyCapacity, historyRequest", "1", "as in iceperf, which has no option for it"});
        if (ice::has_iceperf()) {
            with_history.own_tool = "iceperf";
            with_history.own_tool_wait = peers::WaitKind::spin;
            with_history.own_tool_sizes = ice::iceperf_sizes();
            shm.note =
                "its latency tool, iceperf, polls and has a history of one: it is compared with "
                "shm_history";
        } else {
            shm.note =
                "its latency tool, iceperf, was not built: it is an example in the documentation "
                "of libiceoryx-posh-dev, and needs libiceoryx-binding-c-dev";
        }
        return {"iceoryx", "Eclipse iceoryx", ICEORYX_LATEST_RELEASE_VERSION, {shm, with_history}};
    }

    std::unique_ptr<peers::Link> join(const Job& job) override {
        return std::make_unique<IceLink>(job);
    }
    std::unique_ptr<peers::Keeper> keep(const Job& job) override { return ice::make_keeper(job); }
    peers::OwnTool run_own_tool(const Job& job) override { return ice::run_iceperf(job); }
};

}  // namespace

int main(int argc, char** argv) {
    Iceoryx middleware;
    return peers::run_peer(middleware, argc, argv);
}
