// SPDX-License-Identifier: Apache-2.0
// ROS 2 node with the wire format of rmw_fastrtps: Debian's Fast DDS 2.9, CDR written field by
// field.
//
// - peer pub TOPIC string|string_be|image SIZE COUNT PERIOD_US QOS: as peer.c; string_be: in
//   the opposite byte order
// - peer sub TOPIC string|image QOS: as peer.c
// - peer serve SERVICE: a server of AddTwoInts that prints the length of each request and does not
//   respond
// - peer call SERVICE: a client that sends a request to each matched server every 100 ms
#include <fastcdr/Cdr.h>
#include <fastcdr/FastBuffer.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/utils/IPLocator.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace fast = eprosima::fastdds::dds;
namespace rtps = eprosima::fastrtps::rtps;
using eprosima::fastcdr::Cdr;

namespace {

constexpr std::uint32_t longest = 5U << 20U;

/// A text, or an image of one row.
struct Message {
    std::string text;
    std::string frame;
    std::vector<std::uint8_t> data;
};

class Type final : public fast::TopicDataType {
public:
    Type(bool image, bool swapped) : image_(image), swapped_(swapped) {
        setName(image ? "sensor_msgs::msg::dds_::Image_" : "std_msgs::msg::dds_::String_");
        m_typeSize = longest;
        m_isGetKeyDefined = false;
    }

    bool serialize(void* from, rtps::SerializedPayload_t* to) override {
        const auto& message = *static_cast<Message*>(from);
        eprosima::fastcdr::FastBuffer buffer(reinterpret_cast<char*>(to->data), to->max_size);
        Cdr cdr(buffer, swapped_ ? Cdr::BIG_ENDIANNESS : Cdr::LITTLE_ENDIANNESS, Cdr::DDS_CDR);
        to->encapsulation = swapped_ ? CDR_BE : CDR_LE;
        cdr.serialize_encapsulation();
        if (image_) {
            const auto size = static_cast<std::uint32_t>(message.data.size());
            cdr << std::int32_t{0} << std::uint32_t{0} << message.frame << std::uint32_t{1} << size
                << std::string("mono8") << std::uint8_t{0} << size << message.data;
        } else {
            cdr << message.text;
        }
        to->length = static_cast<std::uint32_t>(cdr.getSerializedDataLength());
        return true;
    }

    bool deserialize(rtps::SerializedPayload_t* from, void* to) override {
        auto& message = *static_cast<Message*>(to);
        eprosima::fastcdr::FastBuffer buffer(reinterpret_cast<char*>(from->data), from->length);
        Cdr cdr(buffer, Cdr::DEFAULT_ENDIAN, Cdr::DDS_CDR);
        cdr.read_encapsulation();
        if (image_) {
            std::int32_t sec = 0;
            std::uint32_t number = 0;
            std::uint8_t big = 0;
            cdr >> sec >> number >> message.frame >> number >> number >> message.text >> big >>
                number >> message.data;
        } else {
            cdr >> message.text;
        }
        return true;
    }

    std::function<std::uint32_t()> getSerializedSizeProvider(void* data) override {
        return [data] {
            const auto& m = *static_cast<Message*>(data);
            return static_cast<std::uint32_t>(m.text.size() + m.frame.size() + m.data.size() + 128);
        };
    }
    void* createData() override { return new Message; }
    void deleteData(void* data) override { delete static_cast<Message*>(data); }
    bool getKey(void*, rtps::InstanceHandle_t*, bool) override { return false; }

private:
    bool image_;
    bool swapped_;
};

/// Requests and responses of AddTwoInts as rmw_fastrtps has them, without bytes before them. Of a
/// received message, only the length is kept.
class Plain final : public fast::TopicDataType {
public:
    explicit Plain(const char* name) {
        setName(name);
        m_typeSize = 1024;
        m_isGetKeyDefined = false;
    }

    bool serialize(void* /*from*/, rtps::SerializedPayload_t* to) override {
        eprosima::fastcdr::FastBuffer buffer(reinterpret_cast<char*>(to->data), to->max_size);
        Cdr cdr(buffer, Cdr::LITTLE_ENDIANNESS, Cdr::DDS_CDR);
        to->encapsulation = CDR_LE;
        cdr.serialize_encapsulation();
        cdr << std::int64_t{2} << std::int64_t{3};
        to->length = static_cast<std::uint32_t>(cdr.getSerializedDataLength());
        return true;
    }

    bool deserialize(rtps::SerializedPayload_t* from, void* to) override {
        *static_cast<std::uint32_t*>(to) = from->length;
        return true;
    }

    std::function<std::uint32_t()> getSerializedSizeProvider(void* /*data*/) override {
        return [] { return 64U; };
    }
    void* createData() override { return new std::uint32_t; }
    void deleteData(void* data) override { delete static_cast<std::uint32_t*>(data); }
    bool getKey(void*, rtps::InstanceHandle_t*, bool) override { return false; }
};

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "%s failed\n", what);
    std::exit(1);
}

template <typename T>
T* ok(T* made, const char* what) {
    if (made == nullptr) fail(what);
    return made;
}

/// Returns true if standard input has ended.
bool over(int wait_ms) {
    pollfd p{0, POLLIN, 0};
    char c = 0;
    return poll(&p, 1, wait_ms) > 0 && read(0, &c, 1) <= 0;
}

unsigned sum(const std::uint8_t* data, std::size_t len) {
    unsigned hash = 2166136261U;
    for (std::size_t i = 0; i < len; i++) hash = (hash ^ data[i]) * 16777619U;
    return hash;
}

/// Sets the part of a QoS that writers and readers share.
template <typename Qos>
Qos qos_of(Qos qos, const std::string& text) {
    qos.reliability().kind =
        text[0] == 'r' ? fast::RELIABLE_RELIABILITY_QOS : fast::BEST_EFFORT_RELIABILITY_QOS;
    qos.reliability().max_blocking_time = {10, 0};
    qos.durability().kind =
        text[1] == 't' ? fast::TRANSIENT_LOCAL_DURABILITY_QOS : fast::VOLATILE_DURABILITY_QOS;
    const int depth = std::atoi(text.c_str() + 2);
    qos.history().kind = depth != 0 ? fast::KEEP_LAST_HISTORY_QOS : fast::KEEP_ALL_HISTORY_QOS;
    if (depth != 0) qos.history().depth = depth;
    qos.data_sharing().off();
    qos.endpoint().history_memory_policy = rtps::DYNAMIC_REUSABLE_MEMORY_MODE;
    return qos;
}

/// Uses the loopback device only, without multicast, as the gateway does without an interface.
fast::DomainParticipant* participant(std::uint32_t domain) {
    auto udp = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
    udp->interfaceWhiteList.emplace_back("127.0.0.1");
    fast::DomainParticipantQos qos = fast::PARTICIPANT_QOS_DEFAULT;
    qos.transport().use_builtin_transports = false;
    qos.transport().user_transports.push_back(udp);
    for (std::uint32_t index = 0; index <= 32; index++) {
        rtps::Locator_t peer;
        rtps::IPLocator::createLocator(LOCATOR_KIND_UDPv4, "127.0.0.1",
                                       7400 + 250 * domain + 10 + 2 * index, peer);
        qos.wire_protocol().builtin.initialPeersList.push_back(peer);
    }
    qos.wire_protocol().builtin.discovery_config.leaseDuration_announcementperiod = {0,
                                                                                     200'000'000};
    return ok(fast::DomainParticipantFactory::get_instance()->create_participant(domain, qos),
              "the participant");
}

void publish(fast::DomainParticipant* participant, fast::Topic* topic, bool image, char** arg) {
    const std::size_t size = std::strtoul(arg[0], nullptr, 10);
    const int count = std::atoi(arg[1]);
    const auto period = std::chrono::microseconds(std::atoi(arg[2]));
    const std::string text = arg[3];
    auto* publisher =
        ok(participant->create_publisher(fast::PUBLISHER_QOS_DEFAULT), "the publisher");
    auto qos = qos_of(fast::DATAWRITER_QOS_DEFAULT, text);
    // A message longer than a datagram is split into several.
    qos.publish_mode().kind =
        image ? fast::ASYNCHRONOUS_PUBLISH_MODE : fast::SYNCHRONOUS_PUBLISH_MODE;
    auto* writer = ok(publisher->create_datawriter(topic, qos), "the writer");
    fast::PublicationMatchedStatus matched;
    while (text[1] != 't' &&
           (writer->get_publication_matched_status(matched), matched.current_count == 0)) {
        if (over(5)) return;
    }
    std::puts("matched");
    std::fflush(stdout);
    for (int n = 0; n < count; n++) {
        const auto letter = static_cast<char>('a' + n % 26);
        Message message{
            image ? "" : std::string(size, letter), "cam",
            std::vector<std::uint8_t>(image ? size : 0, static_cast<std::uint8_t>(letter))};
        if (!writer->write(&message)) fail("writing");
        // time: paces the publisher
        std::this_thread::sleep_for(period);
    }
    std::puts("written");
    std::fflush(stdout);
    while (!over(1000)) {
    }
}

void subscribe(fast::DomainParticipant* participant, fast::Topic* topic, bool image,
               const char* text) {
    auto* subscriber =
        ok(participant->create_subscriber(fast::SUBSCRIBER_QOS_DEFAULT), "the subscriber");
    auto* reader =
        ok(subscriber->create_datareader(topic, qos_of(fast::DATAREADER_QOS_DEFAULT, text)),
           "the reader");
    for (int n = 0; !over(0);) {
        Message message;
        fast::SampleInfo info;
        if (reader->take_next_sample(&message, &info) !=
            eprosima::fastrtps::types::ReturnCode_t::RETCODE_OK) {
            if (over(1)) return;
            continue;
        }
        if (!info.valid_data) continue;
        const auto* bytes = image ? message.data.data()
                                  : reinterpret_cast<const std::uint8_t*>(message.text.data());
        const auto len = image ? message.data.size() : message.text.size();
        std::printf("%d %zu %u %s\n", n++, len, sum(bytes, len),
                    image ? message.frame.c_str() : "-");
        std::fflush(stdout);
    }
}

void service(fast::DomainParticipant* participant, const std::string& name, bool serves) {
    const auto topic_of = [&](const std::string& topic, const char* type_name) {
        const fast::TypeSupport type(new Plain(type_name));
        participant->register_type(type);
        return ok(participant->create_topic(topic, type_name, fast::TOPIC_QOS_DEFAULT),
                  "the topic");
    };
    auto* requests =
        topic_of("rq/" + name + "Request", "example_interfaces::srv::dds_::AddTwoInts_Request_");
    auto* replies =
        topic_of("rr/" + name + "Reply", "example_interfaces::srv::dds_::AddTwoInts_Response_");
    auto* publisher =
        ok(participant->create_publisher(fast::PUBLISHER_QOS_DEFAULT), "the publisher");
    auto* subscriber =
        ok(participant->create_subscriber(fast::SUBSCRIBER_QOS_DEFAULT), "the subscriber");
    auto* writer = ok(publisher->create_datawriter(serves ? replies : requests,
                                                   qos_of(fast::DATAWRITER_QOS_DEFAULT, "rv10")),
                      "the writer");
    auto* reader = ok(subscriber->create_datareader(serves ? requests : replies,
                                                    qos_of(fast::DATAREADER_QOS_DEFAULT, "rv10")),
                      "the reader");
    std::puts("there");
    std::fflush(stdout);
    for (bool said = false, last = false; !last;) {
        // Samples that arrived before the end are printed too.
        last = over(100);
        fast::SubscriptionMatchedStatus read;
        fast::PublicationMatchedStatus written;
        reader->get_subscription_matched_status(read);
        writer->get_publication_matched_status(written);
        if (!said && read.current_count > 0 && written.current_count > 0) {
            said = true;
            std::puts("matched");
        }
        std::uint32_t len = 0;
        fast::SampleInfo info;
        while (reader->take_next_sample(&len, &info) ==
               eprosima::fastrtps::types::ReturnCode_t::RETCODE_OK) {
            if (info.valid_data) std::printf("got %u\n", len);
        }
        std::fflush(stdout);
        if (said && !serves && !writer->write(&len)) fail("writing");
    }
}

}  // namespace

int main(int count, char** arg) {
    const std::string role = count > 3 ? arg[1] : "";
    if (count == 3 && (std::string(arg[1]) == "serve" || std::string(arg[1]) == "call")) {
        service(participant(static_cast<std::uint32_t>(std::atoi(std::getenv("ROS_DOMAIN_ID")))),
                arg[2], std::string(arg[1]) == "serve");
        return 0;
    }
    if (!((role == "pub" && count == 8) || (role == "sub" && count == 5))) return 2;
    const std::string kind = arg[3];
    const bool image = kind == "image";
    auto* of = participant(static_cast<std::uint32_t>(std::atoi(std::getenv("ROS_DOMAIN_ID"))));
    const fast::TypeSupport type(new Type(image, kind == "string_be"));
    of->register_type(type);
    auto* topic =
        ok(of->create_topic(arg[2], type.get_type_name(), fast::TOPIC_QOS_DEFAULT), "the topic");
    if (role == "pub") {
        publish(of, topic, image, arg + 4);
    } else {
        subscribe(of, topic, image, arg[4]);
    }
    of->delete_contained_entities();
    fast::DomainParticipantFactory::get_instance()->delete_participant(of);
    return 0;
}
