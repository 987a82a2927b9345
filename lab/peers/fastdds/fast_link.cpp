// SPDX-License-Identifier: Apache-2.0
#include "fast_link.hpp"

#include <fastdds/dds/core/LoanableSequence.hpp>
#include <fastdds/dds/core/condition/WaitSet.hpp>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastdds/rtps/transport/shared_mem/SharedMemTransportDescriptor.h>

#include <mutex>
#include <sstream>

#include "bytes_type.hpp"
#include "recorder.hpp"

namespace fast {
namespace {

namespace dds = eprosima::fastdds::dds;
namespace rtps = eprosima::fastdds::rtps;
using eprosima::fastrtps::Duration_t;
using eprosima::fastrtps::types::ReturnCode_t;
using peers::Job;
using peers::Reliability;

/// Size of the head of RTPS messages and of the data that travels with a sample.
constexpr std::uint32_t message_overhead = 4096;
/// The same for small messages with one sample.
constexpr std::uint32_t small_overhead = 256;
/// Largest message of a variant over UDP; larger samples are fragmented. 0: not over UDP.
std::uint32_t udp_message(const Job& job) {
    if (job.variant == udp) return 65500;
    if (job.variant == udp_1500) return 1472;
    if (job.variant == udp_500) return 500;
    return 0;
}
constexpr std::uint32_t udp_buffer = 10 << 20;
/// Samples in addition to the history: one on loan to the writer's user, and one that a slow reader
/// still uses.
constexpr std::int32_t extra_samples = 2;

Duration_t duration(std::chrono::nanoseconds ns) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(ns);
    return {static_cast<std::int32_t>(seconds.count()),
            static_cast<std::uint32_t>((ns - seconds).count())};
}

void checked(const ReturnCode_t& code, const std::string& what) {
    if (code != ReturnCode_t::RETCODE_OK)
        throw std::runtime_error(what + " failed with return code " + std::to_string(code()));
}

template <typename T>
T* made(T* pointer, const std::string& what) {
    if (pointer == nullptr)
        throw std::runtime_error("Fast DDS could not make " + what + "; its log says why");
    return pointer;
}

/// Limits of messages in shared memory, and of their segment.
struct SharedMemory {
    std::uint32_t message;
    std::uint32_t segment;
};
SharedMemory shared_memory_of(const Job& job) {
    const auto message = static_cast<std::uint32_t>(job.size) + message_overhead;
    const bool carries_samples = job.variant == shm;
    // The unread samples of every subscriber, and the sample that is being written.
    const auto messages =
        static_cast<std::uint32_t>((job.depth + 2) * (carries_samples ? job.subscribers + 1 : 1));
    const auto largest = carries_samples ? std::max<std::uint32_t>(message, 65536) : 65536;
    return {largest,
            std::max<std::uint32_t>((carries_samples ? message : 65536) * messages, 1 << 20)};
}

/// Returns true if samples are fragmented, which only the asynchronous mode supports.
bool is_cut(const Job& job) {
    const auto largest = udp_message(job);
    return largest > 0 &&
           job.size + (largest > 2 * message_overhead ? message_overhead : small_overhead) >
               largest;
}

dds::DomainParticipantQos participant_qos(const Job& job) {
    dds::DomainParticipantQos qos;
    qos.name(job.run_name());
    // The announcement of a participant is never fragmented. With the names of host and user in it,
    // it may not fit into 500 bytes.
    if (job.variant == udp_500) qos.properties().properties().clear();
    qos.transport().use_builtin_transports = false;
    if (const auto largest = udp_message(job); largest > 0) {
        auto transport = std::make_shared<rtps::UDPv4TransportDescriptor>();
        transport->interfaceWhiteList.emplace_back("127.0.0.1");
        transport->sendBufferSize = udp_buffer;
        transport->receiveBufferSize = udp_buffer;
        transport->maxMessageSize = largest;
        qos.transport().user_transports.push_back(transport);
        qos.transport().send_socket_buffer_size = udp_buffer;
        qos.transport().listen_socket_buffer_size = udp_buffer;
    } else {
        auto transport = std::make_shared<rtps::SharedMemTransportDescriptor>();
        const auto room = shared_memory_of(job);
        transport->max_message_size(room.message);
        transport->segment_size(room.segment);
        qos.transport().user_transports.push_back(transport);
    }
    return qos;
}

/// Settings of both ends.
template <typename Qos>
Qos endpoint_qos(const Job& job, const Qos& base) {
    Qos qos = base;
    const auto depth = static_cast<std::int32_t>(job.depth);
    qos.history().kind = dds::KEEP_LAST_HISTORY_QOS;
    qos.history().depth = depth;
    qos.reliability().kind = job.reliability == Reliability::reliable
                                 ? dds::RELIABLE_RELIABILITY_QOS
                                 : dds::BEST_EFFORT_RELIABILITY_QOS;
    qos.reliability().max_blocking_time = duration(std::chrono::seconds(1));
    qos.durability().kind = dds::VOLATILE_DURABILITY_QOS;
    // The defaults would reserve a hundred payloads.
    auto& limits = qos.resource_limits();
    limits.max_instances = 1;
    limits.max_samples = limits.max_samples_per_instance = limits.allocated_samples = depth;
    limits.extra_samples = extra_samples;
    qos.endpoint().history_memory_policy = eprosima::fastrtps::rtps::PREALLOCATED_MEMORY_MODE;
    if (job.variant == data_sharing) {
        qos.data_sharing().on("");
    } else {
        qos.data_sharing().off();
    }
    return qos;
}

class Writer final : public peers::Sender {
public:
    Writer(const Job& job, bool loans, dds::DomainParticipant& participant, dds::Topic& topic)
        : participant_(participant),
          size_(job.size),
          reliable_(job.reliability == Reliability::reliable),
          loans_(loans) {
        publisher_ = made(participant.create_publisher(dds::PUBLISHER_QOS_DEFAULT), "a publisher");
        auto qos = endpoint_qos(job, publisher_->get_default_datawriter_qos());
        qos.publish_mode().kind =
            is_cut(job) ? dds::ASYNCHRONOUS_PUBLISH_MODE : dds::SYNCHRONOUS_PUBLISH_MODE;
        writer_ = made(publisher_->create_datawriter(&topic, qos), "a writer");
        if (!loans_) payload_.assign(size_, std::byte{1});
        note_segments(job);
    }

    ~Writer() override {
        publisher_->delete_datawriter(writer_);
        participant_.delete_publisher(publisher_);
    }

    bool matched(std::size_t receivers) override {
        dds::PublicationMatchedStatus status;
        checked(writer_->get_publication_matched_status(status), "asking for matched readers");
        return status.current_count >= static_cast<std::int32_t>(receivers);
    }

    std::span<std::byte> loan() override {
        if (!loans_) return payload_;
        // A loan that could not be published is used again.
        if (loaned_ == nullptr) {
            const auto code = writer_->loan_sample(loaned_);
            if (code != ReturnCode_t::RETCODE_OK) {
                loaned_ = nullptr;
                throw peers::NotSent("no memory was free for a loan (return code " +
                                     std::to_string(code()) + ")");
            }
        }
        return {static_cast<std::byte*>(loaned_), size_};
    }

    void shorten(std::size_t size) override { length_ = size; }

    void publish() override {
        BytesType::written_length = std::exchange(length_, size_);
        if (!writer_->write(loans_ ? loaned_ : payload_.data()))
            throw peers::NotSent("the write was refused: slow readers, or no memory");
        loaned_ = nullptr;
    }

    unsigned end_marks() const override { return reliable_ ? 1 : 5; }

    void drain(std::chrono::nanoseconds limit) override {
        // A reader that has the end mark may leave without acknowledging it, which is fine.
        if (reliable_) static_cast<void>(writer_->wait_for_acknowledgments(duration(limit)));
    }

private:
    dds::DomainParticipant& participant_;
    std::size_t size_;
    std::size_t length_ = size_;
    bool reliable_;
    bool loans_;
    dds::Publisher* publisher_ = nullptr;
    dds::DataWriter* writer_ = nullptr;
    std::vector<std::byte> payload_;
    void* loaned_ = nullptr;
};

/// First byte of a sample, as the element type of a loaned sequence. The sequence is a list of
/// pointers; each points to a sample of the size that `BytesType` has.
struct FirstByte {
    std::byte value;
};

dds::DataReaderQos reader_qos(const Job& job, dds::Subscriber& subscriber) {
    auto qos = endpoint_qos(job, subscriber.get_default_datareader_qos());
    // A sample in use counts as well: with room for the depth alone, newer samples are refused
    // instead of replacing older ones.
    auto& limits = qos.resource_limits();
    limits.max_samples += extra_samples;
    limits.max_samples_per_instance = limits.allocated_samples = limits.max_samples;
    return qos;
}

bool is_matched(dds::DataReader& reader) {
    dds::SubscriptionMatchedStatus status;
    checked(reader.get_subscription_matched_status(status), "asking for matched writers");
    return status.current_count > 0;
}

class Reader final : public peers::Receiver {
public:
    Reader(const Job& job, dds::DomainParticipant& participant, dds::Topic& topic)
        : participant_(participant), size_(job.size) {
        subscriber_ =
            made(participant.create_subscriber(dds::SUBSCRIBER_QOS_DEFAULT), "a subscriber");
        reader_ =
            made(subscriber_->create_datareader(&topic, reader_qos(job, *subscriber_)), "a reader");
        auto& condition = reader_->get_statuscondition();
        condition.set_enabled_statuses(dds::StatusMask::data_available());
        checked(waitset_.attach_condition(condition), "attaching to a wait set");
        note_segments(job);
    }

    ~Reader() override {
        release();
        waitset_.detach_condition(reader_->get_statuscondition());
        subscriber_->delete_datareader(reader_);
        participant_.delete_subscriber(subscriber_);
    }

    bool matched() override { return is_matched(*reader_); }

    std::span<const std::byte> take() override {
        for (;;) {
            const auto code = reader_->take(samples_, infos_, 1);
            if (code == ReturnCode_t::RETCODE_NO_DATA) return {};
            checked(code, "taking");
            if (infos_.length() > 0 && infos_[0].valid_data) return {&samples_[0].value, size_};
            // The departure of a writer is delivered as a sample as well.
            release();
        }
    }

    void release() override {
        if (samples_.length() > 0 || infos_.length() > 0) reader_->return_loan(samples_, infos_);
    }

    void wait(std::chrono::nanoseconds limit) override {
        const auto code = waitset_.wait(active_, duration(limit));
        if (code != ReturnCode_t::RETCODE_TIMEOUT) checked(code, "waiting");
    }

private:
    dds::DomainParticipant& participant_;
    std::size_t size_;
    dds::Subscriber* subscriber_ = nullptr;
    dds::DataReader* reader_ = nullptr;
    dds::WaitSet waitset_;
    dds::ConditionSeq active_;
    dds::LoanableSequence<FirstByte> samples_;
    dds::SampleInfoSeq infos_;
};

/// Takes samples in callbacks on the receiving thread of Fast DDS, as its own latency tool does.
class ListeningReader final : public peers::Receiver, private dds::DataReaderListener {
public:
    ListeningReader(const Job& job, dds::DomainParticipant& participant, dds::Topic& topic)
        : participant_(participant), size_(job.size) {
        subscriber_ =
            made(participant.create_subscriber(dds::SUBSCRIBER_QOS_DEFAULT), "a subscriber");
        reader_ = made(subscriber_->create_datareader(&topic, reader_qos(job, *subscriber_), this,
                                                      dds::StatusMask::data_available()),
                       "a reader");
        note_segments(job);
    }

    ~ListeningReader() override {
        subscriber_->delete_datareader(reader_);
        participant_.delete_subscriber(subscriber_);
    }

    bool matched() override { return is_matched(*reader_); }
    std::span<const std::byte> take() override { return {}; }
    void wait(std::chrono::nanoseconds) override {}
    bool calls_back() const override { return true; }

    void attach(peers::Handler* handler) override {
        {
            std::lock_guard lock(mutex_);
            handler_ = handler;
        }
        // Serves samples that came before a handler was attached.
        if (handler != nullptr) on_data_available(reader_);
    }

private:
    // Fast DDS may hold the reader's lock here, so samples are taken before this end locks its own
    // mutex.
    void on_data_available(dds::DataReader* reader) override {
        while (is_attached() && serve_next(*reader)) {
        }
    }

    bool is_attached() {
        std::lock_guard lock(mutex_);
        return handler_ != nullptr;
    }

    bool serve_next(dds::DataReader& reader) {
        // One for each calling thread: the thread that attaches may take earlier samples while the
        // next one arrives.
        static thread_local std::vector<std::byte> copy;
        copy.resize(size_);
        dds::SampleInfo info;
        if (reader.take_next_sample(copy.data(), &info) != ReturnCode_t::RETCODE_OK) return false;
        if (info.valid_data) serve(copy);
        return true;
    }

    void serve(std::span<const std::byte> payload) {
        const auto came = peers::now_ns();
        std::lock_guard lock(mutex_);
        if (handler_ != nullptr && !handler_->on_sample(came, payload, *this)) handler_ = nullptr;
    }

    dds::DomainParticipant& participant_;
    std::size_t size_;
    dds::Subscriber* subscriber_ = nullptr;
    dds::DataReader* reader_ = nullptr;
    // Recursive, because an answer may be sent from within a call, and come back on the same
    // thread.
    std::recursive_mutex mutex_;
    peers::Handler* handler_ = nullptr;
};

/// Returns true for a ping-pong. Only these use a listener: in a job with a rate, a long callback
/// would block the receiving thread of Fast DDS; samples would wait in sockets, and be lost when
/// the writer leaves.
bool is_ping_pong(const Job& job) {
    return job.role == peers::Role::ping || job.role == peers::Role::echo;
}

class FastLink final : public peers::Link {
public:
    explicit FastLink(const Job& job)
        : job_(of_carrier(job)),
          listens_(is_listener(job) && is_ping_pong(job)),
          loans_(job.variant == data_sharing) {
        participant_ = made(dds::DomainParticipantFactory::get_instance()->create_participant(
                                kept_domain(job), participant_qos(job_)),
                            "a participant");
        note_segments(job);
    }

    ~FastLink() override {
        for (auto* topic : topics_) participant_->delete_topic(topic);
        dds::DomainParticipantFactory::get_instance()->delete_participant(participant_);
    }

    void resize(std::size_t size) override { job_.size = size; }
    std::unique_ptr<peers::Sender> sender(const std::string& topic, std::size_t) override {
        return std::make_unique<Writer>(job_, loans_, *participant_, this->topic(topic));
    }
    std::unique_ptr<peers::Receiver> receiver(const std::string& topic, std::size_t) override {
        if (listens_)
            return std::make_unique<ListeningReader>(job_, *participant_, this->topic(topic));
        return std::make_unique<Reader>(job_, *participant_, this->topic(topic));
    }

private:
    dds::Topic& topic(const std::string& name) {
        // Types of different sizes have different names.
        dds::TypeSupport type(new BytesType(job_.size));
        checked(type.register_type(participant_), "registering the type");
        topics_.push_back(
            made(participant_->create_topic(name, type.get_type_name(), dds::TOPIC_QOS_DEFAULT),
                 "a topic"));
        return *topics_.back();
    }

    Job job_;
    bool listens_;
    bool loans_;
    dds::DomainParticipant* participant_ = nullptr;
    std::vector<dds::Topic*> topics_;
};

}  // namespace

bool is_listener(const Job& job) { return job.variant.ends_with(listener_end); }

Job of_carrier(Job job) {
    if (is_listener(job)) job.variant.resize(job.variant.size() - listener_end.size());
    return job;
}

std::string profiles(const Job& whole) {
    const auto job = of_carrier(whole);
    const bool reliable = job.reliability == Reliability::reliable;
    const auto depth = std::to_string(job.depth);
    std::ostringstream transport, endpoint;
    if (const auto largest = udp_message(job); largest > 0) {
        transport << "<type>UDPv4</type><sendBufferSize>" << udp_buffer
                  << "</sendBufferSize><receiveBufferSize>" << udp_buffer
                  << "</receiveBufferSize><maxMessageSize>" << largest
                  << "</maxMessageSize><interfaceWhiteList><address>127.0.0.1</address></"
                     "interfaceWhiteList>";
    } else {
        const auto room = shared_memory_of(job);
        transport << "<type>SHM</type><maxMessageSize>" << room.message
                  << "</maxMessageSize><segment_size>" << room.segment << "</segment_size>";
    }
    const auto end = [&](const char* kind, const std::string& name, std::uint64_t samples) {
        endpoint << '<' << kind << " profile_name=\"" << name
                 << "\"><topic><name>as_told</name><dataType>LatencyType</dataType><kind>NO_KEY</"
                    "kind><historyQos><kind>KEEP_LAST</kind><depth>"
                 << depth << "</depth></historyQos><resourceLimitsQos><max_samples>" << samples
                 << "</max_samples><max_instances>1</max_instances><max_samples_per_instance>"
                 << samples << "</max_samples_per_instance><allocated_samples>" << samples
                 << "</allocated_samples><extra_samples>" << extra_samples
                 << "</extra_samples></resourceLimitsQos></topic><qos><reliability><kind>"
                 << (reliable ? "RELIABLE" : "BEST_EFFORT")
                 << "</kind><max_blocking_time><sec>1</sec></max_blocking_time></"
                    "reliability><durability><kind>VOLATILE</kind></durability>";
        if (std::string(kind) == "publisher")
            endpoint << "<publishMode><kind>" << (is_cut(job) ? "ASYNCHRONOUS" : "SYNCHRONOUS")
                     << "</kind></publishMode>";
        endpoint << "<data_sharing><kind>" << (job.variant == data_sharing ? "ON" : "OFF")
                 << "</kind></data_sharing></qos><historyMemoryPolicy>PREALLOCATED</"
                    "historyMemoryPolicy></"
                 << kind << '>';
    };
    std::ostringstream participants;
    for (const std::string side : {"pub", "sub"}) {
        participants << "<participant profile_name=\"" << side
                     << "_participant_profile\"><rtps><name>latency_test_" << side
                     << "</name><userTransports><transport_id>as_measured</transport_id></"
                        "userTransports><useBuiltinTransports>false</useBuiltinTransports>";
        if (udp_message(job) > 0)
            participants << "<sendSocketBufferSize>" << udp_buffer
                         << "</sendSocketBufferSize><listenSocketBufferSize>" << udp_buffer
                         << "</listenSocketBufferSize>";
        participants << "</rtps></participant>";
        end("publisher", side + "_publisher_profile", job.depth);
        end("subscriber", side + "_subscriber_profile", job.depth + extra_samples);
    }
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?><dds "
           "xmlns=\"http://www.eprosima.com/XMLSchemas/"
           "fastRTPS_Profiles\"><profiles><transport_descriptors><transport_descriptor>"
           "<transport_id>as_measured</transport_id>" +
           transport.str() + "</transport_descriptor></transport_descriptors>" +
           participants.str() + endpoint.str() + "</profiles></dds>\n";
}

std::unique_ptr<peers::Link> make_link(const Job& job) { return std::make_unique<FastLink>(job); }

}  // namespace fast
