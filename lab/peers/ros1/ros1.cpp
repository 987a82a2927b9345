// SPDX-License-Identifier: Apache-2.0
// ROS 1: TCPROS, UDPROS, and passing of pointers within a process, as nodelets do.
#include <ros/callback_queue.h>
#include <ros/ros.h>
#include <unistd.h>

#include <boost/make_shared.hpp>
#include <optional>

#include "base64.hpp"
#include "bytes.hpp"
#include "fusion.hpp"
#include "link.hpp"
#include "master.hpp"
#include "recorder.hpp"

namespace {

using peers::Job;
using ros1::Bytes;

/// Maximum size of fragments for a variant over UDP; 0 leaves it to roscpp. Nothing for other
/// variants.
std::optional<int> datagram_size(const Job& job) {
    if (job.variant == "udp") return 0;
    if (job.variant == "udp_500") return 500;
    return std::nullopt;
}

class Publisher final : public peers::Sender {
public:
    Publisher(const Job& job, ros::NodeHandle& node, const std::string& topic)
        : size_(job.size),
          passes_pointers_(job.variant == "intra"),
          loses_(datagram_size(job).has_value()),
          publisher_(node.advertise<Bytes>("/" + topic, job.depth)) {}

    bool matched(std::size_t receivers) override {
        // Subscribers of the same process share one subscription, and were made earlier.
        return publisher_.getNumSubscribers() >= (passes_pointers_ ? 1 : receivers);
    }

    std::span<std::byte> loan() override {
        // A pointer that was passed on belongs to its receivers. A copied message can be used
        // again.
        if (!message_) message_ = boost::make_shared<Bytes>();
        message_->bytes.resize(size_);
        return std::as_writable_bytes(std::span(message_->bytes));
    }

    void shorten(std::size_t size) override { message_->bytes.resize(size); }

    void publish() override {
        if (passes_pointers_) {
            publisher_.publish(message_);
            message_.reset();
        } else {
            publisher_.publish(*message_);
        }
    }

    unsigned end_marks() const override { return loses_ ? 5 : 1; }

private:
    std::size_t size_;
    bool passes_pointers_;
    bool loses_;
    ros::Publisher publisher_;
    boost::shared_ptr<Bytes> message_;
};

class Subscriber final : public peers::Receiver {
public:
    Subscriber(const Job& job, ros::NodeHandle node, const std::string& topic) {
        node.setCallbackQueue(&queue_);
        auto hints = ros::TransportHints();
        if (const auto size = datagram_size(job)) {
            hints.unreliable();
            if (*size > 0) hints.maxDatagramSize(*size);
        } else {
            hints.tcpNoDelay(job.variant != "tcp_nagle");
        }
        const boost::function<void(const boost::shared_ptr<const Bytes>&)> keep =
            [this](const auto& message) { message_ = message; };
        subscriber_ =
            node.subscribe<Bytes>("/" + topic, job.depth, keep, ros::VoidConstPtr(), hints);
    }
    ~Subscriber() override {
        subscriber_.shutdown();
        queue_.disable();
        queue_.clear();
    }

    bool matched() override { return subscriber_.getNumPublishers() > 0; }

    std::span<const std::byte> take() override {
        if (!message_) queue_.callOne();
        if (!message_) return {};
        return std::as_bytes(std::span(message_->bytes));
    }

    void release() override { message_.reset(); }

    void wait(std::chrono::nanoseconds limit) override {
        // The callback runs here, on the waiting thread.
        if (!message_)
            queue_.callOne(ros::WallDuration(std::chrono::duration<double>(limit).count()));
    }

private:
    ros::CallbackQueue queue_;
    ros::Subscriber subscriber_;
    boost::shared_ptr<const Bytes> message_;
};

class RosLink final : public peers::Link {
public:
    explicit RosLink(const Job& job) : job_(job) {
        if (datagram_size(job)) ros1::check_base64();
        setenv("ROS_HOME", job.domain_dir.c_str(), 1);
        setenv("ROS_LOG_DIR", job.domain_dir.c_str(), 1);
        unsetenv("ROS_HOSTNAME");
        const ros::M_string names{{"__master", ros1::master_uri(job)}, {"__ip", "127.0.0.1"}};
        ros::init(names, job.run_name() + "_" + std::to_string(getpid()),
                  ros::init_options::NoSigintHandler | ros::init_options::NoRosout);
        node_ = std::make_unique<ros::NodeHandle>();
    }
    ~RosLink() override {
        node_.reset();
        ros::shutdown();
    }
    void resize(std::size_t size) override { job_.size = size; }
    std::unique_ptr<peers::Sender> sender(const std::string& topic, std::size_t) override {
        return std::make_unique<Publisher>(job_, *node_, topic);
    }
    std::unique_ptr<peers::Receiver> receiver(const std::string& topic, std::size_t) override {
        return std::make_unique<Subscriber>(job_, *node_, topic);
    }
    std::unique_ptr<peers::Fuser> fuser(const std::vector<std::string>& topics,
                                        const std::string& trigger, std::size_t queue,
                                        peers::Fusing& fusing) override {
        return ros1::make_fuser(job_, topics, trigger, queue, fusing);
    }

private:
    Job job_;
    std::unique_ptr<ros::NodeHandle> node_;
};

class Ros1 final : public peers::Middleware {
public:
    peers::Description describe() const override {
        using peers::Reliability;
        peers::Variant tcp;
        tcp.name = "tcp";
        tcp.title = "TCPROS on loopback";
        // Threads of roscpp receive. A reader that spins on the same CPU would only delay them.
        tcp.waits = {peers::WaitKind::block};
        tcp.reliability = {Reliability::best_effort};
        tcp.max_size = std::size_t{256} << 20;
        tcp.keeper = true;
        tcp.note = "queues drop the oldest at both ends; no latency tool in Debian's packages";
        tcp.settings = {
            {"tcpNoDelay", "on", "its manual, transport hints: low latency"},
            {"queue sizes", "the job's depth", "as all systems"},
            {"callbacks", "callOne() on a queue of its own, by the thread that waits",
             "no other thread in between"},
            {"message", "uint8[] bytes, by hand", "one copy out of the message, one into it"}};
        peers::Variant nagle = tcp;
        nagle.name = "tcp_nagle";
        nagle.title = "TCPROS on loopback, without tcpNoDelay";
        nagle.tuning = true;
        nagle.settings[0] = {"tcpNoDelay", "off, the default", "what is varied"};
        peers::Variant udp = tcp;
        udp.name = "udp";
        udp.title = "UDPROS on loopback";
        // Size of the default buffer of a socket.
        udp.max_size = std::size_t{128} << 10;
        udp.note =
            "loses what does not fit the socket's buffer, which roscpp does not enlarge: larger "
            "payloads hardly ever arrive; its parts have 1500 bytes; no latency tool in Debian's "
            "packages";
        udp.settings[0] = {"unreliable", "on", "what is measured"};
        udp.settings.push_back(
            {"connection headers", "base64 without the line break at its end",
             "Debian's XmlRpc++ has no room for it where lines are full: such nodes never meet"});
        auto udp_500 = udp;
        udp_500.name = "udp_500";
        udp_500.title = "UDPROS on loopback, parts of up to 500 bytes";
        udp_500.tuning = true;
        udp_500.note =
            "loses what does not fit the socket's buffer, which roscpp does not enlarge; the same "
            "with 1500 bytes is udp; parts of 64 kB do not arrive";
        udp_500.settings.push_back({"maxDatagramSize", "500", "what is varied"});
        peers::Variant intra = tcp;
        intra.name = "intra";
        intra.title = "pointers within a process, as between nodelets of one manager";
        intra.reach = {peers::Reach::process};
        intra.waits = {peers::WaitKind::block, peers::WaitKind::spin,
                       peers::WaitKind::spin_then_block};
        intra.loans = true;
        intra.note =
            "memory of a message is allocated for each, and cleared; no latency tool in Debian's "
            "packages";
        intra.settings[0] = {"publish(shared_ptr)", "used",
                             "nodelet's manual: zero copy between nodelets of a manager"};
        intra.settings[3] = {"message", "uint8[] bytes, by hand", "never copied"};
        // The workload fuses large messages between processes. Only the variants over TCP carry
        // these.
        tcp.workloads = {ros1::fusion_workload()};
        nagle.workloads = tcp.workloads;
        return {"ros1",
                "ROS 1 (roscpp)",
                std::to_string(ROS_VERSION_MAJOR) + "." + std::to_string(ROS_VERSION_MINOR) + "." +
                    std::to_string(ROS_VERSION_PATCH),
                {tcp, udp, intra, nagle, udp_500}};
    }

    std::unique_ptr<peers::Link> join(const Job& job) override {
        return std::make_unique<RosLink>(job);
    }
    std::unique_ptr<peers::Keeper> keep(const Job& job) override { return ros1::make_keeper(job); }
};

}  // namespace

int main(int argc, char** argv) {
    Ros1 middleware;
    return peers::run_peer(middleware, argc, argv);
}
