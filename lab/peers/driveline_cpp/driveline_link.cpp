// SPDX-License-Identifier: Apache-2.0
#include "driveline_link.hpp"

#include <driveline/driveline.hpp>
#include <optional>

namespace {

using peers::Job;
using peers::Reach;
using peers::Reliability;

/// Type of the harness's payloads, which are not interpreted.
const driveline::Bytes payload_type{"driveline-bench"};

driveline::Reach reach_of(const Job& job) {
    return job.reach == Reach::host ? driveline::Reach::host : driveline::Reach::process;
}

/// Maximum time that a reliable publisher waits for slow readers, as in all peers that have a
/// limit.
constexpr std::uint32_t max_blocking_ms = 1000;

driveline::Qos qos_of(const Job& job) {
    driveline::Qos qos;
    qos.max_blocking_ms = max_blocking_ms;
    qos.depth = job.depth;
    qos.reliability = job.reliability == Reliability::reliable
                          ? driveline::Reliability::reliable
                          : driveline::Reliability::best_effort;
    return qos;
}

class DrivelineSender final : public peers::Sender {
public:
    DrivelineSender(driveline::Publisher<driveline::Bytes> publisher, std::size_t size)
        : publisher_(std::move(publisher)), size_(size) {}

    bool matched(std::size_t receivers) override { return publisher_.matched() >= receivers; }

    std::span<std::byte> loan() override {
        auto loan = publisher_.loan(size_);
        if (!loan) throw peers::NotSent(loan.error().message);
        loan_ = std::move(*loan);
        return loan_->bytes();
    }

    void shorten(std::size_t size) override { loan_->shrink(size); }

    void publish() override {
        if (auto done = publisher_.publish(std::move(*loan_)); !done)
            throw peers::NotSent(done.error().message);
    }

private:
    driveline::Publisher<driveline::Bytes> publisher_;
    std::size_t size_;
    std::optional<driveline::Loan<driveline::Bytes>> loan_;
};

class DrivelineReceiver final : public peers::Receiver {
public:
    explicit DrivelineReceiver(driveline::Subscription<driveline::Bytes> subscription)
        : subscription_(std::move(subscription)) {}

    bool matched() override { return subscription_.matched() > 0; }

    std::span<const std::byte> take() override {
        auto taken = subscription_.take();
        if (!taken) throw std::runtime_error("reading failed: " + taken.error().message);
        sample_ = std::move(*taken);
        return sample_ ? sample_->bytes() : std::span<const std::byte>();
    }

    void release() override { sample_.reset(); }

    void wait(std::chrono::nanoseconds limit) override {
        if (auto ready = subscription_.wait(limit); !ready)
            throw std::runtime_error("waiting failed: " + ready.error().message);
    }

private:
    driveline::Subscription<driveline::Bytes> subscription_;
    std::optional<driveline::Sample<driveline::Bytes>> sample_;
};

class DrivelineLink final : public peers::Link {
public:
    explicit DrivelineLink(const Job& job)
        : job_(job),
          size_(job.size),
          context_(driveline::Context::create("bench-" + job.role_name, job.domain_dir.string())
                       .value()),
          node_(context_.node("bench-" + job.role_name).value()) {}

    void resize(std::size_t size) override { size_ = size; }

    std::unique_ptr<peers::Sender> sender(const std::string& topic,
                                          std::size_t receivers) override {
        driveline::PublisherOptions options;
        options.reach = reach_of(job_);
        options.qos = qos_of(job_);
        options.max_payload = size_;
        options.loans = 1;
        // One held sample for each reader, as a graph would declare.
        options.pins = static_cast<std::uint32_t>(std::max<std::size_t>(receivers, 1));
        return std::make_unique<DrivelineSender>(
            node_.publisher(topic, payload_type, options).value(), size_);
    }

    std::unique_ptr<peers::Receiver> receiver(const std::string& topic, std::size_t) override {
        driveline::SubscriptionOptions options;
        options.reach = reach_of(job_);
        options.qos = qos_of(job_);
        options.max_held = 1;
        return std::make_unique<DrivelineReceiver>(
            node_.subscription(topic, payload_type, options).value());
    }

private:
    Job job_;
    std::size_t size_;
    driveline::Context context_;
    driveline::Node node_;
};

class Driveline final : public peers::Middleware {
public:
    peers::Description describe() const override {
        peers::Variant sdk;
        sdk.name = "sdk";
        sdk.title = "bytes through the C++ SDK";
        sdk.reach = {Reach::host, Reach::process};
        sdk.loans = true;
        sdk.settings = {{"loans", "1", "one message is written at a time"},
                        {"max_held", "1", "one message is read at a time"}};
        return {"driveline_cpp", "Driveline, through its C++ SDK", dl_version(), {sdk}};
    }

    std::unique_ptr<peers::Link> join(const Job& job) override {
        return std::make_unique<DrivelineLink>(job);
    }
};

}  // namespace

peers::Middleware* peers_driveline() {
    static Driveline middleware;
    return &middleware;
}
