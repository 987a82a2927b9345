// SPDX-License-Identifier: Apache-2.0
// The second process of the tests: publishes at host reach until its standard input ends.
// Usage: sdk_peer DOMAIN_DIRECTORY plain|protobuf|bytes|die
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>

#include <poll.h>
#include <unistd.h>

#include <driveline/driveline.hpp>
#include <driveline/protobuf.hpp>

#include "driveline/msgs/detections_2d.pb.h"

namespace {

bool input_ended() {
    pollfd fd{STDIN_FILENO, POLLIN, 0};
    return poll(&fd, 1, 1) > 0;
}

void publish(const driveline::Node& node, const std::string& what) {
    const driveline::PublisherOptions options{.reach = driveline::Reach::host,
                                              .max_payload = 4 << 20};
    if (what == "plain" || what == "die") {
        auto publisher = node.publisher<driveline::Image>("topic", options).value();
        int seen = 0;
        for (std::uint64_t frame = 0; !input_ended(); ++frame) {
            const auto header =
                driveline::Header::make(driveline::to_ns(driveline::now()), "peer", frame).value();
            auto loan = publisher.loan(640, 480, driveline::Encoding::mono8, header).value();
            std::memset(loan.tail().data(), static_cast<int>(frame % 256), loan.tail().size());
            publisher.publish(std::move(loan)).value();
            // Ends without cleaning up, after 20 samples for a matched reader.
            if (what == "die" && publisher.matched() > 0 && ++seen == 20) _exit(3);
        }
    } else if (what == "protobuf") {
        auto publisher = node.publisher<driveline::msgs::Detections2D>("topic", options).value();
        for (std::uint64_t frame = 0; !input_ended(); ++frame) {
            driveline::msgs::Detections2D message;
            message.mutable_header()->set_frame_index(frame);
            message.mutable_header()->set_frame_id("peer");
            publisher.publish(std::move(message)).value();
        }
    } else if (what == "bytes") {
        // Declared as Detections2D, but with other bytes.
        dl_schema* schema = nullptr;
        const auto& definition = driveline::protobuf::definition<driveline::msgs::Detections2D>();
        dl_schema_new(DL_KIND_PROTOBUF, "driveline.msgs.Detections2D", nullptr, definition.c_str(),
                      &schema);
        auto garbage = driveline::detail::sized<dl_object_vtable>();
        garbage.type_id = "garbage";
        garbage.clone = [](const void* object) { return const_cast<void*>(object); };
        garbage.drop = [](void*) {};
        garbage.encoded_len = [](const void*) -> std::int64_t { return 100; };
        garbage.encode = [](const void*, std::uint8_t* into, std::size_t len) {
            std::memset(into, 0xff, len);
            return 0;
        };
        static const dl_object_vtable vtable = garbage;
        dl_context* context = nullptr;
        dl_node* raw = nullptr;
        dl_publisher* publisher = nullptr;
        auto c = driveline::detail::to_c(options);
        const char* directory = std::getenv("PEER_DOMAIN");
        if (dl_context_new("garbage", directory, &context) != DL_OK ||
            dl_node_new(context, "garbage", &raw) != DL_OK ||
            dl_publisher_new(raw, "topic", schema, &c, &publisher) != DL_OK) {
            throw std::runtime_error(dl_last_error());
        }
        int object = 0;
        while (!input_ended()) dl_publisher_publish_object(publisher, &object, &vtable, 0, nullptr);
        dl_publisher_drop(&publisher);
        dl_node_drop(&raw);
        dl_context_drop(&context);
        dl_schema_drop(&schema);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    try {
        setenv("PEER_DOMAIN", argv[1], 1);
        const auto context = driveline::Context::create("peer", argv[1]).value();
        publish(context.node("peer").value(), argv[2]);
        return 0;
    } catch (const std::exception& e) {
        std::cerr << "sdk_peer: " << e.what() << '\n';
        return 1;
    }
}
