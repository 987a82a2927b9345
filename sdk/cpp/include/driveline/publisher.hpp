// SPDX-License-Identifier: Apache-2.0
/// Publisher of a topic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "driveline/event.hpp"
#include "driveline/handle.hpp"
#include "driveline/image.hpp"
#include "driveline/payload.hpp"
#include "driveline/time.hpp"

namespace driveline {

class NodeView;
template <class T>
class PublisherBase;
template <class Request, class Response>
class Client;
template <class Response>
class Responder;

/// Memory for one payload. Other threads and processes cannot see it until it is published.
/// Move-only; one thread at a time. It still contains bytes of an earlier sample, so write every
/// byte. Empty after `publish`; if it is not published, its destructor releases the memory.
template <class T>
class [[nodiscard]] Loan {
    static_assert(payload::Loanable<T>,
                  "protobuf messages and objects are published as values; loans are for plain "
                  "types and Bytes");

public:
    /// Returns true if the loan was neither published nor moved from. The other functions require
    /// this.
    [[nodiscard]] explicit operator bool() const noexcept { return handle_.get() != nullptr; }

    /// The whole payload.
    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

    /// Plain types: the head.
    [[nodiscard]] T& head() const noexcept requires plain::Type<T> {
        return *reinterpret_cast<T*>(bytes_.data());
    }
    [[nodiscard]] T& operator*() const noexcept requires plain::Type<T> { return head(); }
    [[nodiscard]] T* operator->() const noexcept requires plain::Type<T> { return &head(); }
    /// Plain types: the trailing array.
    [[nodiscard]] auto tail() const noexcept requires plain::Type<T> {
        using Element = plain::Tail<T>;
        if constexpr (plain::has_tail<T>) {
            std::byte* start = bytes_.data() + plain::tail_offset<T>;
            return std::span<Element>(reinterpret_cast<Element*>(start),
                                      (bytes_.size() - plain::tail_offset<T>) / sizeof(Element));
        } else {
            return std::span<Element>();
        }
    }

    /// Sets the time at which the data was measured. It has an effect only at a source: a sample
    /// that descends from other samples inherits their source times.
    void set_source_time(MonotonicTime time) noexcept {
        dl_loan_set_source_time(handle_.get(), to_ns(time));
    }

    /// Makes the payload shorter: to `count` elements of the trailing array, or `count` bytes of
    /// `Bytes`. A larger count changes nothing.
    void shrink(std::size_t count) noexcept {
        std::size_t size = count;
        if constexpr (plain::Type<T>) {
            if (count >= tail().size()) return;
            size = plain::tail_offset<T> + count * sizeof(plain::Tail<T>);
        }
        if (size < bytes_.size() && dl_loan_shrink(handle_.get(), size) == DL_OK)
            bytes_ = bytes_.first(size);
    }

private:
    template <class>
    friend class PublisherBase;
    template <class, class>
    friend class Client;
    template <class>
    friend class Responder;

    [[nodiscard]] static Result<Loan> take(const dl_publisher* publisher, std::size_t size) {
        detail::LoanHandle handle;
        if (auto done = detail::checked(dl_publisher_loan(publisher, size, handle.place())); !done)
            return std::move(done).error();
        return adopt(std::move(handle));
    }

    [[nodiscard]] static Result<Loan> adopt(detail::LoanHandle handle) {
        Loan loan;
        loan.handle_ = std::move(handle);
        std::uint8_t* data = nullptr;
        std::size_t length = 0;
        if (auto done = detail::checked(dl_loan_payload(loan.handle_.get(), &data, &length)); !done)
            return std::move(done).error();
        loan.bytes_ = {reinterpret_cast<std::byte*>(data), length};
        if constexpr (plain::Type<T>) {
            // Zeroes the gap between head and trailing array, and checks alignment and length.
            if (auto mut = plain::Mut<T>::from(loan.bytes_); !mut) return std::move(mut).error();
        }
        return loan;
    }

    Loan() noexcept = default;

    detail::LoanHandle handle_;
    std::span<std::byte> bytes_;
};

/// Memory for one image. Its head is written already; write the pixels.
class [[nodiscard]] ImageLoan : public Loan<Image> {
public:
    /// Returns the rows and pixels for writing. The loan must not be empty.
    [[nodiscard]] const ImageMut& image() const noexcept { return image_; }
    /// Returns a `cv::Mat` over the loan's memory: pixels that are drawn into it are published.
    /// Empty if the loan is empty. Include `driveline/opencv.hpp`.
    template <class Self = ImageLoan>
    [[nodiscard]] auto mat() const {
        using Mat = decltype(view(static_cast<const Self*>(this)->image()));
        return *this ? view(static_cast<const Self*>(this)->image()) : Mat();
    }

    // Deleted: it would cut rows that the head announces.
    void shrink(std::size_t) = delete;

private:
    template <class>
    friend class PublisherBase;

    ImageLoan(Loan<Image> loan, ImageMut image) noexcept
        : Loan<Image>(std::move(loan)), image_(image) {}

    ImageMut image_;
};

namespace detail {

/// Functions by which the C library handles objects of this library, which are values of type
/// `std::shared_ptr<const T>`. Only these functions use the pointer; other libraries see only the
/// `T`.
template <class T>
struct ObjectType {
    using Shared = std::shared_ptr<const T>;

    static const void* value(const void* object) noexcept {
        return static_cast<const Shared*>(object)->get();
    }

    static void* clone(const void* object) noexcept {
        auto* second = new (std::nothrow) Shared(*static_cast<const Shared*>(object));
        if (second == nullptr) dl_set_last_error("there is no memory");
        return second;
    }

    static void drop(void* object) noexcept { delete static_cast<Shared*>(object); }

    static std::int64_t encoded_len(const void* object) noexcept {
        const std::size_t size = (*static_cast<const Shared*>(object))->ByteSizeLong();
        // Protobuf's own limit for one message.
        return size <= static_cast<std::size_t>(std::numeric_limits<int>::max())
                   ? static_cast<std::int64_t>(size)
                   : -1;
    }

    static int encode(const void* object, std::uint8_t* into, std::size_t len) noexcept {
        try {
            const T& message = **static_cast<const Shared*>(object);
            if (!message.IsInitialized()) {
                dl_set_last_error(
                    shown("required fields are missing: " + message.InitializationErrorString())
                        .c_str());
            } else if (message.ByteSizeLong() != len) {
                dl_set_last_error(
                    "the message is longer than 2 GiB, or was changed after it was published");
            } else if (message.SerializeToArray(into, static_cast<int>(len))) {
                return 0;
            }
        } catch (const std::exception& e) {
            dl_set_last_error(e.what() != nullptr
                                  ? e.what()
                                  : "the serialiser threw an exception without a text");
        } catch (...) {
            dl_set_last_error("the serialiser threw something that is no std::exception");
        }
        return 1;
    }

    [[nodiscard]] static const dl_object_vtable* vtable() noexcept {
        static const dl_object_vtable table = [] {
            auto t = sized<dl_object_vtable>();
            t.type_id = type_identity<T>().c_str();
            t.value = &value;
            t.clone = &clone;
            t.drop = &drop;
            if constexpr (payload::Protobuf<T>) {
                t.encoded_len = &encoded_len;
                t.encode = &encode;
            }
            return t;
        }();
        return &table;
    }
};

}  // namespace detail

/// Functions of publishers and outputs. Any thread; calls from several threads are made one after
/// another.
template <class T>
class PublisherBase {
public:
    /// Plain types: returns memory for a message with `tail_count` elements in its trailing array.
    /// Does not allocate, except for the first loans of a thread. Blocks only while another thread
    /// publishes with this publisher.
    [[nodiscard]] Result<Loan<T>> loan(std::size_t tail_count = 0) const requires plain::Type<T> {
        auto size = plain::payload_size<T>(tail_count);
        if (!size) return std::move(size).error();
        return Loan<T>::take(publisher(), *size);
    }
    /// Bytes: returns memory for `size` bytes.
    [[nodiscard]] Result<Loan<T>> loan(std::size_t size) const requires payload::Opaque<T> {
        return Loan<T>::take(publisher(), size);
    }
    /// Images: returns memory for an image without gaps between its rows. The head is written
    /// already; write the pixels.
    [[nodiscard]] Result<ImageLoan> loan(
        std::uint32_t width, std::uint32_t height, Encoding encoding,
        const Header& header = {}) const requires std::is_same_v<T, Image> {
        auto size = image_payload_size(width, height, encoding);
        if (!size) return std::move(size).error();
        auto made = Loan<T>::take(publisher(), *size);
        if (!made) return std::move(made).error();
        auto image = ImageMut::from(made->bytes(), header, width, height, encoding);
        if (!image) return std::move(image).error();
        if (header.source_time_ns != 0) made->set_source_time(from_ns(header.source_time_ns));
        return ImageLoan(std::move(*made), *image);
    }

    /// Publishes a loan and returns its sequence number. The loan is empty afterwards, also after
    /// an error. Waits for readers only if the topic is reliable, at most `max_blocking_ms`; also
    /// waits while another thread publishes with this publisher.
    Result<std::uint64_t> publish(Loan<T>&& loan) const requires payload::Loanable<T> {
        std::uint64_t sequence = 0;
        loan.bytes_ = {};
        if (auto done =
                detail::checked(dl_publisher_publish(publisher(), loan.handle_.place(), &sequence));
            !done)
            return std::move(done).error();
        return sequence;
    }
    /// Plain types without a trailing array: copies `value` into a loan and publishes it.
    Result<std::uint64_t> publish(const T& value) const requires plain::Tailless<T> {
        auto made = loan();
        if (!made) return std::move(made).error();
        **made = value;
        return publish(std::move(*made));
    }

    /// Protobuf and objects: publishes a value, which must not be changed afterwards. Subscriptions
    /// of this process get the pointer. A protobuf message is serialised once for readers in other
    /// processes, if there are any or if the topic is transient-local. `source_time`: time of
    /// measurement, at a source.
    Result<std::uint64_t> publish(
        std::shared_ptr<const T> value,
        std::optional<MonotonicTime> source_time = {}) const requires payload::Value<T> {
        if (!value)
            return detail::error(DL_ERROR_ARGUMENT, "the value to be published is a null pointer");
        auto object = std::make_unique<std::shared_ptr<const T>>(std::move(value));
        std::uint64_t sequence = 0;
        const auto* vtable = detail::ObjectType<T>::vtable();
        auto done = detail::checked(
            dl_publisher_publish_object(publisher(), object.release(), vtable,
                                        source_time ? to_ns(*source_time) : 0, &sequence));
        if (!done) return std::move(done).error();
        return sequence;
    }
    Result<std::uint64_t> publish(
        std::unique_ptr<T> value,
        std::optional<MonotonicTime> source_time = {}) const requires payload::Value<T> {
        return publish(std::shared_ptr<const T>(std::move(value)), source_time);
    }
    Result<std::uint64_t> publish(
        T&& value, std::optional<MonotonicTime> source_time = {}) const requires payload::Value<T> {
        return publish(std::make_shared<const T>(std::move(value)), source_time);
    }

    /// Returns the number of matched subscriptions.
    [[nodiscard]] std::size_t matched() const noexcept { return dl_publisher_matched(publisher()); }

    struct Stats {
        /// Number of published samples.
        std::uint64_t published = 0;
        /// Number of samples that newer ones replaced before they were read, over all subscriptions
        /// inside this process.
        std::uint64_t overwritten = 0;
        /// Number of values that were serialised for readers in other processes.
        std::uint64_t serialised = 0;
        /// Number of periods of the offered deadline without a sample, since the first sample.
        std::uint64_t deadlines_missed = 0;
    };
    /// Returns the counters since creation.
    [[nodiscard]] Stats stats() const noexcept {
        auto c = detail::sized<dl_publisher_stats>();
        if (dl_publisher_get_stats(publisher(), &c) != DL_OK) return {};
        return {c.published, c.overwritten, c.serialised, c.deadlines_missed};
    }

    /// Returns the next event, if there is one.
    [[nodiscard]] std::optional<Event> poll_event() const {
        return detail::next_event<dl_publisher>(&dl_publisher_poll_event, publisher());
    }

    /// Asserts liveliness for `Liveliness::manual_by_topic`; publishing asserts it as well.
    void assert_liveliness() const noexcept { dl_publisher_assert_liveliness(publisher()); }

protected:
    PublisherBase() noexcept = default;
    explicit PublisherBase(const dl_publisher* publisher) noexcept : publisher_(publisher) {}
    PublisherBase(PublisherBase&& other) noexcept
        : publisher_(std::exchange(other.publisher_, nullptr)) {}
    PublisherBase& operator=(PublisherBase&& other) noexcept {
        publisher_ = std::exchange(other.publisher_, nullptr);
        return *this;
    }
    ~PublisherBase() = default;

    [[nodiscard]] const dl_publisher* publisher() const noexcept { return publisher_; }
    void bind_to(const dl_publisher* publisher) noexcept { publisher_ = publisher; }

private:
    const dl_publisher* publisher_ = nullptr;
};

/// Publisher of a topic; made by `Node::publisher`. Move-only. Dropping it notifies its
/// subscriptions.
template <class T>
class [[nodiscard]] Publisher : public PublisherBase<T> {
public:
    Publisher(Publisher&&) noexcept = default;
    Publisher& operator=(Publisher&&) noexcept = default;
    ~Publisher() = default;

private:
    friend class NodeView;

    explicit Publisher(detail::Handle<dl_publisher, dl_publisher_drop> handle) noexcept
        : PublisherBase<T>(handle.get()), handle_(std::move(handle)) {}

    detail::Handle<dl_publisher, dl_publisher_drop> handle_;
};

}  // namespace driveline
