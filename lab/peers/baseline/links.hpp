// SPDX-License-Identifier: Apache-2.0
// Links over what the kernel offers.
#pragma once

#include <memory>

#include "link.hpp"

namespace baseline {

enum class Stream { pipe, unix_socket, tcp, tcp_nagle };

/// Payloads one after the other through a stream for each receiver.
std::unique_ptr<peers::Link> stream_link(const peers::Job& job, Stream kind);

/// Payloads cut into datagrams of at most so many bytes, head included.
std::unique_ptr<peers::Link> datagram_link(const peers::Job& job, std::size_t datagram_size);

}  // namespace baseline
