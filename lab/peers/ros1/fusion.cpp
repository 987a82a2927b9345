// SPDX-License-Identifier: Apache-2.0
// ApproximateTime of message_filters over two to eight topics.
#include "fusion.hpp"

#include <message_filters/subscriber.h>
#include <message_filters/sync_policies/approximate_time.h>
#include <message_filters/synchronizer.h>
#include <ros/callback_queue.h>
#include <ros/ros.h>

#include <array>
#include <boost/function.hpp>
#include <stdexcept>
#include <utility>

#include "bytes.hpp"
#include "stage_job.hpp"

namespace ros::message_traits {

/// Stamp for message_filters: the publish time in the head of the message.
template <>
struct TimeStamp<ros1::Bytes> {
    static ros::Time value(const ros1::Bytes& message) {
        const auto head = peers::find_message(std::as_bytes(std::span(message.bytes)));
        return ros::Time().fromNSec(head ? head->publish_time_ns : 0);
    }
};

}  // namespace ros::message_traits

namespace ros1 {
namespace {

using Message = boost::shared_ptr<const Bytes>;

std::span<const std::byte> payload_of(const Message& message) {
    return std::as_bytes(std::span(message->bytes));
}

template <std::size_t>
using OneOfMany = Bytes;
template <std::size_t>
using MessageOfMany = const Message&;

template <typename Indices>
class ApproximateTime;

template <std::size_t... I>
class ApproximateTime<std::index_sequence<I...>> final : public peers::Fuser {
public:
    ApproximateTime(const peers::Job& job, const std::vector<std::string>& topics,
                    std::size_t queue, peers::Fusing& fusing)
        : fusing_(fusing), synchronizer_(Policy(static_cast<std::uint32_t>(queue))) {
        // Callbacks of one filter run in the order of registration: this one before the policy.
        (inputs_[I].registerCallback(boost::function<void(const Message&)>(
             [this](const Message& m) { fusing_.on_sample(I, payload_of(m)); })),
         ...);
        synchronizer_.connectInput(inputs_[I]...);
        synchronizer_.registerCallback(&ApproximateTime::on_set, this);
        const auto hints = ros::TransportHints().tcpNoDelay(job.variant != "tcp_nagle");
        (inputs_[I].subscribe(node_, "/" + topics[I], job.depth, hints, &queue_), ...);
    }
    ~ApproximateTime() override {
        for (auto& input : inputs_) input.unsubscribe();
        queue_.disable();
        queue_.clear();
    }

    void work(std::chrono::nanoseconds limit) override {
        queue_.callOne(ros::WallDuration(std::chrono::duration<double>(limit).count()));
    }

private:
    using Policy = message_filters::sync_policies::ApproximateTime<OneOfMany<I>...>;

    void on_set(MessageOfMany<I>... messages) {
        const std::array<std::span<const std::byte>, sizeof...(I)> payloads{
            payload_of(messages)...};
        fusing_.on_set(payloads);
    }

    peers::Fusing& fusing_;
    ros::NodeHandle node_;
    ros::CallbackQueue queue_;
    std::array<message_filters::Subscriber<Bytes>, sizeof...(I)> inputs_;
    message_filters::Synchronizer<Policy> synchronizer_;
};

template <std::size_t N>
std::unique_ptr<peers::Fuser> of_topics(const peers::Job& job,
                                        const std::vector<std::string>& topics, std::size_t queue,
                                        peers::Fusing& fusing) {
    if (topics.size() == N)
        return std::make_unique<ApproximateTime<std::make_index_sequence<N>>>(job, topics, queue,
                                                                              fusing);
    if constexpr (N < 8) return of_topics<N + 1>(job, topics, queue, fusing);
    throw std::runtime_error("this program fuses 2 to 8 topics, not " +
                             std::to_string(topics.size()));
}

}  // namespace

peers::Workload fusion_workload() {
    return {"fusion",
            {{"trigger", {"approximate"}}},
            "message_filters brings samples together by their times, and has no trigger by one of "
            "the channels",
            ""};
}

std::unique_ptr<peers::Fuser> make_fuser(const peers::Job& job,
                                         const std::vector<std::string>& topics,
                                         const std::string& trigger, std::size_t queue,
                                         peers::Fusing& fusing) {
    if (trigger != "approximate")
        throw std::runtime_error("message_filters has no trigger '" + trigger + "'");
    return of_topics<2>(job, topics, queue, fusing);
}

}  // namespace ros1
