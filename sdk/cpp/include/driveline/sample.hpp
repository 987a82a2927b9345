// SPDX-License-Identifier: Apache-2.0
/// Received messages.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>

#include "driveline/conversion.hpp"
#include "driveline/handle.hpp"
#include "driveline/image.hpp"
#include "driveline/payload.hpp"
#include "driveline/point_cloud.hpp"
#include "driveline/time.hpp"

namespace driveline {

template <class T>
class Input;
template <class T>
class Subscription;
template <class Request, class Response>
class Client;
template <class Request, class Response>
class Service;
namespace testing {
class ComponentTest;
}

/// A source that a sample descends from, and the parts of the age of its data: `publish_time -
/// source_oldest = communication + computation + idle`. Each part may be negative if data came from
/// another host, because the offset of its clock is known only approximately, or if a source time
/// lies in the future.
struct Origin {
    /// See `topic_id()`.
    std::uint64_t topic_id = 0;
    MonotonicTime source_oldest;
    MonotonicTime source_newest;
    /// From a publish to the start of the callback that it triggered, summed over the hops.
    std::chrono::nanoseconds communication{0};
    /// From the start of a callback (at the source: from the source time) to the publish, summed.
    std::chrono::nanoseconds computation{0};
    /// Waiting at inputs until another event triggered the component, summed.
    std::chrono::nanoseconds idle{0};
};

/// Metadata of a sample. Times are on this host's clock: if the sample comes from another host, the
/// gateway of this host has converted the source times and published the sample here.
struct SampleHeader {
    /// 1 for a publisher's first sample, and one more for each further sample.
    std::uint64_t sequence = 0;
    /// Time of publishing on this host; for a sample from another host, by the gateway.
    MonotonicTime publish_time;
    /// `CLOCK_REALTIME - CLOCK_MONOTONIC` of this host at `publish_time`.
    std::chrono::nanoseconds wall_offset{0};
    /// The same for all samples that descend from one source sample; never 0.
    std::uint64_t trace_id = 0;
    /// XXH3-64 of the payload, if the topic requests checksums.
    std::optional<std::uint64_t> checksum;
    /// Number of samples of this publisher that were missed since the previous sample.
    std::uint64_t missed = 0;
    /// Number of entries of `Sample::origin()`.
    std::size_t origin_count = 0;
    /// Number of origins that did not fit into the header.
    std::size_t origins_dropped = 0;
};

/// Id of a topic, as in `Origin`.
[[nodiscard]] inline Result<std::uint64_t> topic_id(const std::string& topic) {
    if (auto done = detail::whole("topic", topic); !done) return std::move(done).error();
    std::uint64_t id = 0;
    if (auto done = detail::checked(dl_topic_id(topic.c_str(), &id)); !done)
        return std::move(done).error();
    return id;
}

namespace detail {

[[nodiscard]] inline Result<std::span<const std::byte>> payload_of(const dl_sample* sample) {
    const std::uint8_t* data = nullptr;
    std::size_t size = 0;
    if (auto done = checked(dl_sample_payload(sample, &data, &size)); !done)
        return std::move(done).error();
    return std::span(reinterpret_cast<const std::byte*>(data), size);
}

[[nodiscard]] inline Error undecodable(const dl_sample* sample, const std::string& reason) {
    auto header = sized<dl_sample_header>();
    const bool known = dl_sample_get_header(sample, &header) == DL_OK;
    return error(DL_ERROR_DECODE, "sample " + (known ? std::to_string(header.sequence) : "?") +
                                      " cannot be read: " + reason);
}

/// Access to a `T` in a sample.
template <class T>
class Content;

template <plain::Type T>
class Content<T> {
public:
    [[nodiscard]] static Result<Content> of(const dl_sample* sample) {
        auto payload = payload_of(sample);
        if (!payload) return std::move(payload).error();
        auto ref = plain::Ref<T>::from(*payload);
        if (!ref) return undecodable(sample, ref.error().message);
        return Content(*ref);
    }
    [[nodiscard]] const T& value() const noexcept { return ref.head(); }

    plain::Ref<T> ref;

private:
    explicit Content(plain::Ref<T> r) noexcept : ref(r) {}
};

template <class T>
concept CheckedType = plain::Type<T> && requires {
    typename plain::Checked<T>::View;
};

template <CheckedType T>
class Content<T> {
public:
    using View = typename plain::Checked<T>::View;

    [[nodiscard]] static Result<Content> of(const dl_sample* sample) {
        auto payload = payload_of(sample);
        if (!payload) return std::move(payload).error();
        auto ref = plain::Ref<T>::from(*payload);
        if (!ref) return undecodable(sample, ref.error().message);
        auto view = View::from(*ref);
        if (!view) return undecodable(sample, view.error().message);
        return Content(*ref, *view);
    }
    [[nodiscard]] const T& value() const noexcept { return view.head(); }

    plain::Ref<T> ref;
    View view;

private:
    Content(plain::Ref<T> r, const View& v) noexcept : ref(r), view(v) {}
};

template <>
class Content<Bytes> {
public:
    [[nodiscard]] static Result<Content> of(const dl_sample* sample) {
        auto payload = payload_of(sample);
        if (!payload) return std::move(payload).error();
        return Content(*payload);
    }

    std::span<const std::byte> bytes;

private:
    explicit Content(std::span<const std::byte> b) noexcept : bytes(b) {}
};

template <payload::Value T>
class Content<T> {
public:
    [[nodiscard]] static Result<Content> of(const dl_sample* sample) {
        const void* value = nullptr;
        if (auto done = checked(dl_sample_object(sample, type_identity<T>().c_str(), &value));
            !done)
            return std::move(done).error();
        if (value != nullptr) return Content(static_cast<const T*>(value), nullptr);
        return decoded(sample);
    }
    [[nodiscard]] const T& value() const noexcept { return *value_; }

    [[nodiscard]] Result<std::shared_ptr<const T>> shared(const dl_sample* sample) const {
        if (decoded_) return decoded_;
        auto c = sized<dl_shared_object>();
        if (auto done = checked(dl_sample_share(sample, type_identity<T>().c_str(), &c)); !done)
            return std::move(done).error();
        // The library of the publisher destroys its own object.
        return std::shared_ptr<const T>(
            static_cast<const T*>(c.value),
            [drop = c.drop, owner = c.owner](const T*) { drop(owner); });
    }

private:
    Content(const T* value, std::shared_ptr<const T> decoded) noexcept
        : value_(value), decoded_(std::move(decoded)) {}

    /// In the sample or in `decoded_`.
    const T* value_;
    /// Value that this library has decoded from bytes.
    std::shared_ptr<const T> decoded_;

    [[nodiscard]] static Result<Content> decoded(const dl_sample* sample) {
        if constexpr (payload::Protobuf<T>) {
            auto payload = payload_of(sample);
            if (!payload) return std::move(payload).error();
            const Conversion conversion;
            auto message = std::make_shared<T>();
            if (payload->size() > INT_MAX ||
                !message->ParseFromArray(payload->data(), static_cast<int>(payload->size()))) {
                return undecodable(sample, std::to_string(payload->size()) + " bytes are not a " +
                                               T::descriptor()->full_name());
            }
            const T* value = message.get();
            return Content(value, std::move(message));
        } else {
            const dl_text theirs = dl_sample_object_type(sample);
            return undecodable(sample, "the publisher's object is '" +
                                           std::string(theirs.data, theirs.len) +
                                           "', this library reads '" + type_identity<T>() +
                                           "': build both with the same definition and compiler");
        }
    }
};

}  // namespace detail

/// One received message. Immutable; move-only; any thread. It keeps its memory while it exists: a
/// subscription may hold `SubscriptionOptions::max_held` samples at a time. References and spans
/// that it returns are valid as long as the sample.
template <class T>
class [[nodiscard]] Sample {
public:
    /// Returns the message. For plain types this is the head: a checked copy for images and point
    /// clouds, in place for others.
    [[nodiscard]] const T& operator*() const noexcept requires(!payload::Opaque<T>) {
        return content_.value();
    }
    [[nodiscard]] const T* operator->() const noexcept requires(!payload::Opaque<T>) {
        return &content_.value();
    }

    /// Plain types: head and trailing array.
    [[nodiscard]] auto ref() const noexcept requires plain::Type<T> { return content_.ref; }
    /// Plain types: the trailing array.
    [[nodiscard]] auto tail() const noexcept requires plain::Type<T> { return content_.ref.tail(); }
    /// Returns the payload's bytes, in place.
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept requires payload::Opaque<T> {
        return content_.bytes;
    }
    /// Protobuf and objects: returns the value with its own owner. It may outlive the sample, and
    /// then no longer counts as held. Allocates; fails only if memory is exhausted.
    [[nodiscard]] Result<std::shared_ptr<const T>> shared() const requires payload::Value<T> {
        return content_.shared(handle_.get());
    }

    /// Images: rows and pixels.
    [[nodiscard]] const ImageView& image() const noexcept requires std::is_same_v<T, Image> {
        return content_.view;
    }
    /// Images: a `ConstMat` over the same memory. Include `driveline/opencv.hpp`.
    template <class Self = Sample>
    requires std::is_same_v<T, Image>
    [[nodiscard]] auto mat() const { return view(static_cast<const Self*>(this)->image()); }
    /// Point clouds: points and their fields.
    [[nodiscard]] const CloudView& cloud() const noexcept requires std::is_same_v<T, PointCloud> {
        return content_.view;
    }

    [[nodiscard]] SampleHeader header() const {
        auto c = detail::sized<dl_sample_header>();
        if (dl_sample_get_header(handle_.get(), &c) != DL_OK) return {};
        SampleHeader header;
        header.sequence = c.sequence;
        header.publish_time = from_ns(c.publish_time_ns);
        header.wall_offset = std::chrono::nanoseconds(c.wall_offset_ns);
        header.trace_id = c.trace_id;
        if (c.has_checksum != 0) header.checksum = c.checksum;
        header.missed = c.missed;
        header.origin_count = c.origin_count;
        header.origins_dropped = c.origins_dropped;
        return header;
    }
    [[nodiscard]] std::uint64_t sequence() const { return header().sequence; }
    /// Returns the number of samples of this publisher that were missed since the previous sample.
    [[nodiscard]] std::uint64_t missed() const { return header().missed; }

    /// Returns a source that the sample descends from; `index` must be less than
    /// `header().origin_count`.
    [[nodiscard]] Result<Origin> origin(std::size_t index) const {
        auto c = detail::sized<dl_origin>();
        if (auto done = detail::checked(dl_sample_get_origin(handle_.get(), index, &c)); !done)
            return std::move(done).error();
        const auto ns = [](std::int64_t n) { return std::chrono::nanoseconds(n); };
        return Origin{c.topic_id,
                      from_ns(c.source_oldest_ns),
                      from_ns(c.source_newest_ns),
                      ns(c.communication_ns),
                      ns(c.computation_ns),
                      ns(c.idle_ns)};
    }

    /// Returns a second handle to the same message. Copies no payload; both handles together count
    /// as one held sample.
    [[nodiscard]] Result<Sample> clone() const {
        detail::SampleHandle second;
        if (auto done = detail::checked(dl_sample_clone(handle_.get(), second.place())); !done)
            return std::move(done).error();
        return adopt(std::move(second));
    }

private:
    friend class Input<T>;
    friend class Subscription<T>;
    friend class testing::ComponentTest;
    template <class, class>
    friend class Client;
    template <class, class>
    friend class Service;

    [[nodiscard]] static Result<Sample> adopt(detail::SampleHandle handle) {
        auto content = detail::Content<T>::of(handle.get());
        if (!content) return std::move(content).error();
        return Sample(std::move(handle), std::move(*content));
    }

    Sample(detail::SampleHandle handle, detail::Content<T> content) noexcept
        : handle_(std::move(handle)), content_(std::move(content)) {}

    detail::SampleHandle handle_;
    detail::Content<T> content_;
};

}  // namespace driveline
