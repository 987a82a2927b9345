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

#include "bytes_type.hpp"

namespace fast {
namespace {

namespace dds = eprosima::fastdds::dds;
namespace rtps = eprosima::fastdds::rtps;
using eprosima::fastrtps::Duration_t;
using eprosima::fastrtps::types::ReturnCode_t;
using peers::Job;
using peers::Reliability;

/// Head of RTPS messages and room for what travels with a sample.
constexpr std::uint32_t message_overhead = 4096;
/// The same where messages are small and hold one sample.
constexpr std::uint32_t small_overhead = 256;
/// Largest message of a variant over UDP; what is larger is cut, which only the asynchronous mode can do. 0: not over UDP.
std::uint32_t udp_message(const Job& job) {
  if (job.variant == udp) return 65500;
  if (job.variant == udp_1500) return 1472;
  if (job.variant == udp_500) return 500;
  return 0;
}
constexpr std::uint32_t udp_buffer = 10 << 20;
/// Samples beyond the history: one on loan to the writer's user, one that a slow reader still looks at.
constexpr std::int32_t extra_samples = 2;

Duration_t duration(std::chrono::nanoseconds ns) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(ns);
  return {static_cast<std::int32_t>(seconds.count()), static_cast<std::uint32_t>((ns - seconds).count())};
}

void checked(const ReturnCode_t& code, const std::string& what) {
  if (code != ReturnCode_t::RETCODE_OK) throw std::runtime_error(what + " failed with return code " + std::to_string(code()));
}

template <typename T>
T* made(T* pointer, const std::string& what) {
  if (pointer == nullptr) throw std::runtime_error("Fast DDS could not make " + what + "; its log says why");
  return pointer;
}

dds::DomainParticipantQos participant_qos(const Job& job) {
  dds::DomainParticipantQos qos;
  qos.name(job.run_name());
  // What announces a participant is never cut; with the names of host and user in it, it may not fit 500 bytes.
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
    const auto message = static_cast<std::uint32_t>(job.size) + message_overhead;
    const bool carries_samples = job.variant == shm;
    transport->max_message_size(carries_samples ? std::max<std::uint32_t>(message, 65536) : 65536);
    // What every subscriber may still have unread, and what is being written.
    const auto messages = static_cast<std::uint32_t>((job.depth + 2) * (carries_samples ? job.subscribers + 1 : 1));
    transport->segment_size(std::max<std::uint32_t>((carries_samples ? message : 65536) * messages, 1 << 20));
    qos.transport().user_transports.push_back(transport);
  }
  return qos;
}

/// The same for both ends.
template <typename Qos>
Qos endpoint_qos(const Job& job, const Qos& base) {
  Qos qos = base;
  const auto depth = static_cast<std::int32_t>(job.depth);
  qos.history().kind = dds::KEEP_LAST_HISTORY_QOS;
  qos.history().depth = depth;
  qos.reliability().kind = job.reliability == Reliability::reliable ? dds::RELIABLE_RELIABILITY_QOS : dds::BEST_EFFORT_RELIABILITY_QOS;
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
  Writer(const Job& job, dds::DomainParticipant& participant, dds::Topic& topic)
      : participant_(participant), size_(job.size), reliable_(job.reliability == Reliability::reliable), loans_(job.variant == data_sharing) {
    publisher_ = made(participant.create_publisher(dds::PUBLISHER_QOS_DEFAULT), "a publisher");
    auto qos = endpoint_qos(job, publisher_->get_default_datawriter_qos());
    const auto largest = udp_message(job);
    const bool cut = largest > 0 && job.size + (largest > 2 * message_overhead ? message_overhead : small_overhead) > largest;
    qos.publish_mode().kind = cut ? dds::ASYNCHRONOUS_PUBLISH_MODE : dds::SYNCHRONOUS_PUBLISH_MODE;
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
    // One that could not be published is used again.
    if (loaned_ == nullptr) {
      const auto code = writer_->loan_sample(loaned_);
      if (code != ReturnCode_t::RETCODE_OK) {
        loaned_ = nullptr;
        throw peers::NotSent("no memory was free for a loan (return code " + std::to_string(code()) + ")");
      }
    }
    return {static_cast<std::byte*>(loaned_), size_};
  }

  void shorten(std::size_t size) override { length_ = size; }

  void publish() override {
    BytesType::written_length = std::exchange(length_, size_);
    if (!writer_->write(loans_ ? loaned_ : payload_.data())) throw peers::NotSent("the write was refused: slow readers, or no memory");
    loaned_ = nullptr;
  }

  unsigned end_marks() const override { return reliable_ ? 1 : 5; }

  void drain(std::chrono::nanoseconds limit) override {
    // One that has its end mark may leave without acknowledging it; that is no matter.
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

/// A loan is a list of pointers; what they point to is as long as the type says.
struct FirstByte {
  std::byte value;
};

class Reader final : public peers::Receiver {
 public:
  Reader(const Job& job, dds::DomainParticipant& participant, dds::Topic& topic) : participant_(participant), size_(job.size) {
    subscriber_ = made(participant.create_subscriber(dds::SUBSCRIBER_QOS_DEFAULT), "a subscriber");
    auto qos = endpoint_qos(job, subscriber_->get_default_datareader_qos());
    // A sample that is looked at counts: with room for the depth alone, newer ones are refused instead of replacing older ones.
    auto& limits = qos.resource_limits();
    limits.max_samples += extra_samples;
    limits.max_samples_per_instance = limits.allocated_samples = limits.max_samples;
    reader_ = made(subscriber_->create_datareader(&topic, qos), "a reader");
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

  bool matched() override {
    dds::SubscriptionMatchedStatus status;
    checked(reader_->get_subscription_matched_status(status), "asking for matched writers");
    return status.current_count > 0;
  }

  std::span<const std::byte> take() override {
    for (;;) {
      const auto code = reader_->take(samples_, infos_, 1);
      if (code == ReturnCode_t::RETCODE_NO_DATA) return {};
      checked(code, "taking");
      if (infos_.length() > 0 && infos_[0].valid_data) return {&samples_[0].value, size_};
      // That a writer left comes as a sample, too.
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

class FastLink final : public peers::Link {
 public:
  explicit FastLink(const Job& job) : job_(job) {
    participant_ = made(dds::DomainParticipantFactory::get_instance()->create_participant(kept_domain(job), participant_qos(job)), "a participant");
    note_segments(job);
  }

  ~FastLink() override {
    for (auto* topic : topics_) participant_->delete_topic(topic);
    dds::DomainParticipantFactory::get_instance()->delete_participant(participant_);
  }

  void resize(std::size_t size) override { job_.size = size; }
  std::unique_ptr<peers::Sender> sender(const std::string& topic, std::size_t) override { return std::make_unique<Writer>(job_, *participant_, this->topic(topic)); }
  std::unique_ptr<peers::Receiver> receiver(const std::string& topic, std::size_t) override {
    return std::make_unique<Reader>(job_, *participant_, this->topic(topic));
  }

 private:
  dds::Topic& topic(const std::string& name) {
    // Types of different sizes have different names.
    dds::TypeSupport type(new BytesType(job_.size));
    checked(type.register_type(participant_), "registering the type");
    topics_.push_back(made(participant_->create_topic(name, type.get_type_name(), dds::TOPIC_QOS_DEFAULT), "a topic"));
    return *topics_.back();
  }

  Job job_;
  dds::DomainParticipant* participant_ = nullptr;
  std::vector<dds::Topic*> topics_;
};

}  // namespace

std::unique_ptr<peers::Link> make_link(const Job& job) { return std::make_unique<FastLink>(job); }

}  // namespace fast
