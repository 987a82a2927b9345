// SPDX-License-Identifier: Apache-2.0
/// Context and node: the first objects that a program creates.
#pragma once

#include <string>
#include <utility>

#include "driveline/handle.hpp"
#include "driveline/options.hpp"
#include "driveline/parameter.hpp"
#include "driveline/payload.hpp"
#include "driveline/publisher.hpp"
#include "driveline/service.hpp"
#include "driveline/subscription.hpp"

namespace driveline {

/// Functions of a node, over a handle that another object owns. Any thread.
class NodeView {
public:
    explicit NodeView(const dl_node* node) noexcept : node_(node) {}

    /// Creates a publisher and reserves all its memory.
    template <class T>
    requires(!payload::Opaque<T>)
        [[nodiscard]] Result<Publisher<T>> publisher(const std::string& topic,
                                                     const PublisherOptions& options = {}) const {
        return publisher<T>(topic, detail::make_schema<T>(), options);
    }
    /// Creates a publisher of bytes.
    [[nodiscard]] Result<Publisher<Bytes>> publisher(const std::string& topic, const Bytes& bytes,
                                                     const PublisherOptions& options = {}) const {
        return publisher<Bytes>(topic, detail::make_schema(bytes), options);
    }

    /// Creates a subscription.
    template <class T>
    requires(!payload::Opaque<T>) [[nodiscard]] Result<Subscription<T>> subscription(
        const std::string& topic, const SubscriptionOptions& options = {}) const {
        return subscription<T>(topic, detail::make_schema<T>(), options);
    }
    /// Creates a subscription of bytes.
    [[nodiscard]] Result<Subscription<Bytes>> subscription(
        const std::string& topic, const Bytes& bytes,
        const SubscriptionOptions& options = {}) const {
        return subscription<Bytes>(topic, detail::make_schema(bytes), options);
    }

    /// Creates a client of a service and reserves the memory for its requests.
    template <class Request, class Response>
    requires(!payload::Opaque<Request> && !payload::Opaque<Response>)
        [[nodiscard]] Result<Client<Request, Response>> client(
            const std::string& service, const ClientOptions& options = {}) const {
        return client<Request, Response>(service, detail::make_schema<Request>(),
                                         detail::make_schema<Response>(), options);
    }
    /// Creates a client of a service with requests and responses in bytes, for example of ROS 2.
    [[nodiscard]] Result<Client<Bytes, Bytes>> client(const std::string& service,
                                                      const Bytes& request, const Bytes& response,
                                                      const ClientOptions& options = {}) const {
        return client<Bytes, Bytes>(service, detail::make_schema(request),
                                    detail::make_schema(response), options);
    }

    /// Offers a service.
    template <class Request, class Response>
    requires(!payload::Opaque<Request> && !payload::Opaque<Response>)
        [[nodiscard]] Result<Service<Request, Response>> service(
            const std::string& service, const ServiceOptions& options = {}) const {
        return this->service<Request, Response>(service, detail::make_schema<Request>(),
                                                detail::make_schema<Response>(), options);
    }
    /// Offers a service with requests and responses in bytes, for example to ROS 2.
    [[nodiscard]] Result<Service<Bytes, Bytes>> service(const std::string& service,
                                                        const Bytes& request, const Bytes& response,
                                                        const ServiceOptions& options = {}) const {
        return this->service<Bytes, Bytes>(service, detail::make_schema(request),
                                           detail::make_schema(response), options);
    }

    /// Declares a parameter with its default, which fixes the type. A second declaration of the
    /// same type changes nothing.
    template <ParameterType T>
    [[nodiscard]] Result<void> declare_parameter(const std::string& name, const T& value) const {
        if (auto done = detail::check_parameter(name, value); !done) return done;
        auto c = detail::given(value);
        return detail::checked(dl_node_declare_parameter(node_, name.c_str(), c.get()));
    }
    /// Sets a declared parameter. A parameter of real numbers also accepts a whole number.
    template <ParameterType T>
    [[nodiscard]] Result<void> set_parameter(const std::string& name, const T& value) const {
        if (auto done = detail::check_parameter(name, value); !done) return done;
        auto c = detail::given(value);
        return detail::checked(dl_node_set_parameter(node_, name.c_str(), c.get()));
    }
    /// Returns the current value of a parameter. Takes a short lock: read once per callback.
    template <ParameterType T>
    [[nodiscard]] Result<T> parameter(const std::string& name) const {
        return detail::get_parameter<T>(node_, name);
    }

private:
    template <class Request, class Response>
    [[nodiscard]] Result<Client<Request, Response>> client(const std::string& service,
                                                           Result<detail::SchemaHandle> request,
                                                           Result<detail::SchemaHandle> response,
                                                           const ClientOptions& options) const {
        if (!request) return std::move(request).error();
        if (!response) return std::move(response).error();
        if (auto done = detail::whole("service", service); !done) return std::move(done).error();
        const dl_client_options c = detail::to_c(options);
        detail::ClientHandle handle;
        auto done = detail::checked(dl_client_new(node_, service.c_str(), request->get(),
                                                  response->get(), &c, handle.place()));
        if (!done) return std::move(done).error();
        return Client<Request, Response>(std::move(handle));
    }

    template <class Request, class Response>
    [[nodiscard]] Result<Service<Request, Response>> service(const std::string& service,
                                                             Result<detail::SchemaHandle> request,
                                                             Result<detail::SchemaHandle> response,
                                                             const ServiceOptions& options) const {
        if (!request) return std::move(request).error();
        if (!response) return std::move(response).error();
        if (auto done = detail::whole("service", service); !done) return std::move(done).error();
        const dl_service_options c = detail::to_c(options);
        detail::ServiceHandle handle;
        auto done = detail::checked(dl_service_new(node_, service.c_str(), request->get(),
                                                   response->get(), &c, handle.place()));
        if (!done) return std::move(done).error();
        return Service<Request, Response>(std::move(handle));
    }

    template <class T>
    [[nodiscard]] Result<Publisher<T>> publisher(const std::string& topic,
                                                 Result<detail::SchemaHandle> schema,
                                                 const PublisherOptions& options) const {
        if (!schema) return std::move(schema).error();
        if (auto done = detail::whole("topic", topic); !done) return std::move(done).error();
        const dl_publisher_options c = detail::to_c(options);
        detail::Handle<dl_publisher, dl_publisher_drop> handle;
        auto done = detail::checked(
            dl_publisher_new(node_, topic.c_str(), schema->get(), &c, handle.place()));
        if (!done) return std::move(done).error();
        return Publisher<T>(std::move(handle));
    }

    template <class T>
    [[nodiscard]] Result<Subscription<T>> subscription(const std::string& topic,
                                                       Result<detail::SchemaHandle> schema,
                                                       const SubscriptionOptions& options) const {
        if (!schema) return std::move(schema).error();
        if (auto done = detail::whole("topic", topic); !done) return std::move(done).error();
        const dl_subscription_options c = detail::to_c(options);
        detail::Handle<dl_subscription, dl_subscription_drop> handle;
        auto done = detail::checked(
            dl_subscription_new(node_, topic.c_str(), schema->get(), &c, handle.place()));
        if (!done) return std::move(done).error();
        return Subscription<T>(std::move(handle));
    }

    const dl_node* node_;
};

/// A named part of the system that has publishers, subscriptions and parameters. Move-only; any
/// thread. Objects that it created may outlive it.
class [[nodiscard]] Node : public NodeView {
private:
    friend class Context;

    explicit Node(detail::Handle<dl_node, dl_node_drop> handle) noexcept
        : NodeView(handle.get()), handle_(std::move(handle)) {}

    detail::Handle<dl_node, dl_node_drop> handle_;
};

/// Membership of a process in a domain. Move-only; any thread. Objects that it created keep the
/// membership alive.
class [[nodiscard]] Context {
public:
    /// Joins a domain. `name`: name of the process, as tools show it. `domain_dir`: if empty,
    /// `DRIVELINE_DOMAIN_DIR` is used, or else the user's domain that `DRIVELINE_DOMAIN` names, or
    /// else the user's default domain. Creates the domain's directory if it is missing. Touches
    /// nothing else outside the process until an endpoint with host reach is created. The first
    /// call in a process raises its soft limit on open descriptors to the hard limit; programs
    /// started from the process inherit this limit.
    [[nodiscard]] static Result<Context> create(const std::string& name,
                                                const std::string& domain_dir = {}) {
        Context context;
        if (auto done = detail::whole("process name", name); !done) return std::move(done).error();
        if (auto done = detail::whole("domain directory", domain_dir, DL_ERROR_ARGUMENT); !done)
            return std::move(done).error();
        const char* directory = domain_dir.empty() ? nullptr : domain_dir.c_str();
        auto done =
            detail::checked(dl_context_new(name.c_str(), directory, context.handle_.place()));
        if (!done) return std::move(done).error();
        return context;
    }

    /// Creates a node.
    [[nodiscard]] Result<Node> node(const std::string& name) const {
        if (auto done = detail::whole("node name", name); !done) return std::move(done).error();
        detail::Handle<dl_node, dl_node_drop> handle;
        if (auto done = detail::checked(dl_node_new(handle_.get(), name.c_str(), handle.place()));
            !done)
            return std::move(done).error();
        return Node(std::move(handle));
    }

private:
    Context() noexcept = default;

    detail::Handle<dl_context, dl_context_drop> handle_;
};

}  // namespace driveline
