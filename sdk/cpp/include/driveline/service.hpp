// SPDX-License-Identifier: Apache-2.0
/// Services: a client sends a request to the only server of a service, and gets one response.
///
/// ```cpp
/// driveline::ClientOptions options{.reach = driveline::Reach::host};
/// auto client = node.client<TileRequest, Tile>("map/tile", options).value();
/// client.wait_for_server(std::chrono::seconds(1)).value();
/// auto tile = client.call(TileRequest{.x = 3, .y = 4}, std::chrono::milliseconds(100));
/// if (!tile) return tile.error();
/// ```
///
/// Requests and responses are plain types, protobuf messages or objects; or both are `Bytes`, as
/// services of ROS 2 have them (CDR).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driveline/handle.hpp"
#include "driveline/options.hpp"
#include "driveline/payload.hpp"
#include "driveline/publisher.hpp"
#include "driveline/sample.hpp"

namespace driveline {

class NodeView;
template <class Request, class Response>
class Service;

struct ClientOptions {
    /// Reach of the server: `process` or `host`.
    Reach reach = Reach::process;
    /// Maximum length of a request, in bytes; 0 means 4096.
    std::size_t max_request = 4096;
    /// Maximum number of calls in flight, and of held responses; at most 64, 0 means 1. At host
    /// reach the server reserves memory for `max(pending, 2) + 2 * pending + 4` responses of
    /// `ServiceOptions::max_response` bytes: eight if `pending` is 1. If the server grants access
    /// to listed users, replace `2 * pending` by `3 * pending`; if to anyone, by `5 * pending`.
    std::uint32_t pending = 1;
    /// At host reach: users whose servers this client accepts, and who may read its requests.
    Access access = Access::own_user;
    /// User ids for `Access::users`.
    std::vector<std::uint32_t> users = {};
};

struct ServiceOptions {
    /// `process` or `host`.
    Reach reach = Reach::process;
    /// Maximum length of a response, in bytes; 0 means 65536. When the server takes the first
    /// request of a client, it reserves memory for several responses (`ClientOptions::pending`).
    std::size_t max_response = 64 * 1024;
    /// Maximum number of clients served at a time, at most 256; 0 means 8. Further clients are
    /// refused and get the reason.
    std::uint32_t max_clients = 8;
    /// Maximum number of calls in flight of one client, at most 64; 0 means 8.
    std::uint32_t max_pending = 8;
    /// Maximum number of held requests, of each client at host reach, of all clients together
    /// inside the process; at most 8, 0 means 2.
    std::uint32_t max_held = 2;
    /// Users that may call at host reach.
    Access access = Access::own_user;
    /// User ids for `Access::users`.
    std::vector<std::uint32_t> users = {};
};

namespace detail {

using ClientHandle = Handle<dl_client, dl_client_drop>;
using ServiceHandle = Handle<dl_service, dl_service_drop>;
using ResponderHandle = Handle<dl_responder, dl_responder_drop>;

/// Valid as long as `options`.
[[nodiscard]] inline dl_client_options to_c(const ClientOptions& options) noexcept {
    auto c = sized<dl_client_options>();
    c.reach = static_cast<std::uint32_t>(options.reach);
    c.pending = options.pending;
    c.max_request = options.max_request;
    c.access = static_cast<std::uint32_t>(options.access);
    c.users = options.users.data();
    c.user_count = options.users.size();
    return c;
}

/// Valid as long as `options`.
[[nodiscard]] inline dl_service_options to_c(const ServiceOptions& options) noexcept {
    auto c = sized<dl_service_options>();
    c.reach = static_cast<std::uint32_t>(options.reach);
    c.max_clients = options.max_clients;
    c.max_response = options.max_response;
    c.max_pending = options.max_pending;
    c.max_held = options.max_held;
    c.access = static_cast<std::uint32_t>(options.access);
    c.users = options.users.data();
    c.user_count = options.users.size();
    return c;
}

[[nodiscard]] inline std::uint64_t timeout_ns(std::chrono::nanoseconds timeout) noexcept {
    return timeout.count() < 0 ? 0 : static_cast<std::uint64_t>(timeout.count());
}

template <class Request, class Response>
concept ServiceTypes = payload::Opaque<Request>
== payload::Opaque<Response>;

/// Returns a copy of `bytes` in a loan, or the error of the loan.
[[nodiscard]] inline Result<Loan<Bytes>> filled(Result<Loan<Bytes>> loan,
                                                std::span<const std::byte> bytes) {
    if (loan) std::copy(bytes.begin(), bytes.end(), loan->bytes().begin());
    return loan;
}

}  // namespace detail

/// Sends requests to the only server of a service; made by `Node::client`. Move-only; one thread at
/// a time. Responses may outlive it. A call allocates, makes system calls and blocks until its
/// time-out at most, so call only on threads that may block.
template <class Request, class Response>
class [[nodiscard]] Client {
    static_assert(detail::ServiceTypes<Request, Response>,
                  "requests and responses are both Bytes, or neither is");

public:
    /// Blocks until exactly one server exists (true) or the time-out has passed (false).
    [[nodiscard]] Result<bool> wait_for_server(std::chrono::nanoseconds timeout) {
        int ready = 0;
        auto done = detail::checked(
            dl_client_wait_for_server(handle_.get(), detail::timeout_ns(timeout), &ready));
        if (!done) return std::move(done).error();
        return ready != 0;
    }

    /// Plain types: memory for a request with `tail_count` elements in its trailing array.
    [[nodiscard]] Result<Loan<Request>> loan(
        std::size_t tail_count = 0) requires plain::Type<Request> {
        auto size = plain::payload_size<Request>(tail_count);
        if (!size) return std::move(size).error();
        return loan_of(*size);
    }
    /// Bytes: memory for a request of `size` bytes.
    [[nodiscard]] Result<Loan<Request>> loan(std::size_t size) requires payload::Opaque<Request> {
        return loan_of(size);
    }

    /// Sends a request and blocks until the response arrives, at most `timeout`. The loan is empty
    /// afterwards.
    ///
    /// The error's status is `DL_ERROR_NO_SERVER`, `_SERVER_BUSY`, `_TIMED_OUT`, `_PEER_GONE`,
    /// `_REFUSED` or another; after `_TIMED_OUT` and `_PEER_GONE`, `was_taken()` says whether the
    /// request may have been executed.
    [[nodiscard]] Result<Sample<Response>> call(
        Loan<Request>&& request,
        std::chrono::nanoseconds timeout) requires payload::Loanable<Request> {
        request.bytes_ = {};
        return finish([&](dl_sample** response, int* was_taken) {
            return dl_client_call(handle_.get(), request.handle_.place(),
                                  detail::timeout_ns(timeout), response, was_taken);
        });
    }
    /// Plain types without a trailing array: sends a copy of `request`.
    [[nodiscard]] Result<Sample<Response>> call(
        const Request& request,
        std::chrono::nanoseconds timeout) requires plain::Tailless<Request> {
        auto made = loan();
        if (!made) return std::move(made).error();
        **made = request;
        return call(std::move(*made), timeout);
    }
    /// Bytes: sends a copy of `request`.
    [[nodiscard]] Result<Sample<Response>> call(
        std::span<const std::byte> request,
        std::chrono::nanoseconds timeout) requires payload::Opaque<Request> {
        auto made = detail::filled(loan(request.size()), request);
        if (!made) return std::move(made).error();
        return call(std::move(*made), timeout);
    }
    /// Protobuf and objects: sends a value, which must not be changed afterwards.
    [[nodiscard]] Result<Sample<Response>> call(
        std::shared_ptr<const Request> request,
        std::chrono::nanoseconds timeout) requires payload::Value<Request> {
        if (!request) return detail::error(DL_ERROR_ARGUMENT, "the request is a null pointer");
        auto object = std::make_unique<std::shared_ptr<const Request>>(std::move(request));
        return finish([&](dl_sample** response, int* was_taken) {
            const auto* vtable = detail::ObjectType<Request>::vtable();
            return dl_client_call_object(handle_.get(), object.release(), vtable,
                                         detail::timeout_ns(timeout), response, was_taken);
        });
    }
    [[nodiscard]] Result<Sample<Response>> call(
        Request&& request, std::chrono::nanoseconds timeout) requires payload::Value<Request> {
        return call(std::make_shared<const Request>(std::move(request)), timeout);
    }

    /// Returns true if the server had taken the request of a call that timed out or lost its
    /// server: the server may have executed it.
    [[nodiscard]] bool was_taken() const noexcept { return was_taken_ != 0; }

private:
    friend class NodeView;

    explicit Client(detail::ClientHandle handle) noexcept : handle_(std::move(handle)) {}

    [[nodiscard]] Result<Loan<Request>> loan_of(std::size_t size) {
        detail::LoanHandle handle;
        if (auto done = detail::checked(dl_client_loan(handle_.get(), size, handle.place())); !done)
            return std::move(done).error();
        return Loan<Request>::adopt(std::move(handle));
    }

    template <class Calling>
    [[nodiscard]] Result<Sample<Response>> finish(Calling calling) {
        detail::SampleHandle response;
        int was_taken = 0;
        auto done = detail::checked(calling(response.place(), &was_taken));
        // If the call is refused because another thread is in a call, that thread's result is kept.
        if (done || done.error().status != DL_ERROR_BUSY) was_taken_ = was_taken;
        if (!done) return std::move(done).error();
        return Sample<Response>::adopt(std::move(response));
    }

    detail::ClientHandle handle_;
    int was_taken_ = 0;
};

/// Answers one request, once: now or later, on any thread. Move-only. If it is dropped without an
/// answer, the client gets an error. Answering does not block.
template <class Response>
class [[nodiscard]] Responder {
public:
    /// Returns true if the request is not answered yet.
    [[nodiscard]] explicit operator bool() const noexcept { return handle_.get() != nullptr; }

    /// Plain types: memory for a response with `tail_count` elements in its trailing array, written
    /// where the client reads it.
    [[nodiscard]] Result<Loan<Response>> loan(
        std::size_t tail_count = 0) const requires plain::Type<Response> {
        auto size = plain::payload_size<Response>(tail_count);
        if (!size) return std::move(size).error();
        return loan_of(*size);
    }
    /// Bytes: memory for a response of `size` bytes, written where the client reads it.
    [[nodiscard]] Result<Loan<Response>> loan(
        std::size_t size) const requires payload::Opaque<Response> {
        return loan_of(size);
    }

    /// Answers with a loan of this responder; both are empty afterwards. After an error the client
    /// is notified, unless it has gone.
    Result<void> send(Loan<Response>&& response) requires payload::Loanable<Response> {
        response.bytes_ = {};
        return detail::checked(dl_responder_send(handle_.place(), response.handle_.place()));
    }
    /// Plain types without a trailing array: answers with a copy of `response`.
    Result<void> send(const Response& response) requires plain::Tailless<Response> {
        auto made = loan();
        if (!made) return std::move(made).error();
        **made = response;
        return send(std::move(*made));
    }
    /// Bytes: answers with a copy of `response`.
    Result<void> send(std::span<const std::byte> response) requires payload::Opaque<Response> {
        auto made = detail::filled(loan(response.size()), response);
        if (!made) return std::move(made).error();
        return send(std::move(*made));
    }
    /// Protobuf and objects: answers with a value, which must not be changed afterwards.
    Result<void> send(std::shared_ptr<const Response> response) requires payload::Value<Response> {
        if (!response) return detail::error(DL_ERROR_ARGUMENT, "the response is a null pointer");
        auto object = std::make_unique<std::shared_ptr<const Response>>(std::move(response));
        return detail::checked(dl_responder_send_object(handle_.place(), object.release(),
                                                        detail::ObjectType<Response>::vtable()));
    }
    Result<void> send(Response&& response) requires payload::Value<Response> {
        return send(std::make_shared<const Response>(std::move(response)));
    }

    /// Refuses the request. The client gets the text, cut to 1024 bytes.
    Result<void> refuse(const std::string& reason) {
        return detail::checked(dl_responder_refuse(handle_.place(), detail::shown(reason).c_str()));
    }

    /// Returns the name of the client's node, as the client reports it.
    [[nodiscard]] std::string client() const {
        const dl_text text = dl_responder_client(handle_.get());
        return std::string(text.data, text.len);
    }

private:
    template <class, class>
    friend class Service;

    explicit Responder(detail::ResponderHandle handle) noexcept : handle_(std::move(handle)) {}

    [[nodiscard]] Result<Loan<Response>> loan_of(std::size_t size) const {
        detail::LoanHandle handle;
        if (auto done = detail::checked(dl_responder_loan(handle_.get(), size, handle.place()));
            !done)
            return std::move(done).error();
        return Loan<Response>::adopt(std::move(handle));
    }

    detail::ResponderHandle handle_;
};

/// Offers a service; made by `Node::service`. Move-only; one thread at a time. Dropping it notifies
/// its clients. Requests and responders may outlive it.
template <class Request, class Response>
class [[nodiscard]] Service {
    static_assert(detail::ServiceTypes<Request, Response>,
                  "requests and responses are both Bytes, or neither is");

public:
    /// A request and its responder.
    struct Call {
        Sample<Request> request;
        Responder<Response> responder;
    };

    /// Takes the oldest request, if there is one. Does not wait; the first request of a client
    /// reserves the memory for its responses, which takes milliseconds for megabytes. A request
    /// that cannot be read is refused, and is an error here.
    [[nodiscard]] Result<std::optional<Call>> take() {
        detail::SampleHandle sample;
        detail::ResponderHandle handle;
        if (auto done =
                detail::checked(dl_service_take(handle_.get(), sample.place(), handle.place()));
            !done)
            return std::move(done).error();
        if (sample.get() == nullptr) return std::optional<Call>();
        Responder<Response> responder(std::move(handle));
        auto request = Sample<Request>::adopt(std::move(sample));
        if (!request) {
            if (auto told =
                    responder.refuse("the request cannot be read: " + request.error().message);
                !told)
                return std::move(told).error();
            return std::move(request).error();
        }
        return std::optional<Call>(Call{std::move(*request), std::move(responder)});
    }

    /// Blocks until a sample that may be a request arrives (true) or the time-out has passed
    /// (false).
    [[nodiscard]] Result<bool> wait(std::chrono::nanoseconds timeout) {
        return wait_ns(timeout.count() < 0 ? 0 : timeout.count());
    }
    /// Blocks until a sample that may be a request arrives.
    [[nodiscard]] Result<bool> wait() { return wait_ns(-1); }

private:
    friend class NodeView;

    explicit Service(detail::ServiceHandle handle) noexcept : handle_(std::move(handle)) {}

    [[nodiscard]] Result<bool> wait_ns(std::int64_t timeout_ns) {
        int ready = 0;
        if (auto done = detail::checked(dl_service_wait(handle_.get(), timeout_ns, &ready)); !done)
            return std::move(done).error();
        return ready != 0;
    }

    detail::ServiceHandle handle_;
};

}  // namespace driveline
