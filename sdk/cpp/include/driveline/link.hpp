// SPDX-License-Identifier: Apache-2.0
/// Both ends of a topic between threads of one program.
#pragma once

#include <string>
#include <utility>

#include "driveline/context.hpp"

namespace driveline {

/// A topic between threads of one program, in place of a queue or a mailbox. Each end is used by
/// one thread at a time. If the ends are in two programs, use `Node::publisher` and
/// `Node::subscription` instead.
template <class T>
struct [[nodiscard]] Link {
    Publisher<T> publisher;
    Subscription<T> subscription;

    /// Joins the user's domain (see `Context::create`) with a node named after the topic, and
    /// creates both ends with this reach and QoS. By default the topic stays inside the process,
    /// and only the newest sample is kept for reading. Reserves all memory.
    [[nodiscard]] static Result<Link> create(const std::string& topic,
                                             const PublisherOptions& options = {}) {
        auto context = Context::create(topic);
        if (!context) return std::move(context).error();
        auto node = context->node(topic);
        if (!node) return std::move(node).error();
        auto publisher = node->template publisher<T>(topic, options);
        if (!publisher) return std::move(publisher).error();
        SubscriptionOptions same;
        same.reach = options.reach;
        same.qos = options.qos;
        auto subscription = node->template subscription<T>(topic, same);
        if (!subscription) return std::move(subscription).error();
        return Link{std::move(*publisher), std::move(*subscription)};
    }
};

}  // namespace driveline
