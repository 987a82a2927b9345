// SPDX-License-Identifier: Apache-2.0
// Links over the kernel's own transports.
#pragma once

#include <memory>

#include "link.hpp"

namespace baseline {

enum class Stream { pipe, unix_socket, tcp, tcp_nagle };

/// Link that sends payloads one after the other through a stream for each receiver.
std::unique_ptr<peers::Link> stream_link(const peers::Job& job, Stream kind);

/// Link that cuts payloads into datagrams of at most this many bytes, with their heads.
std::unique_ptr<peers::Link> datagram_link(const peers::Job& job, std::size_t datagram_size);

}  // namespace baseline
