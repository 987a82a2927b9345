// SPDX-License-Identifier: Apache-2.0
// Base64 in messages between nodes: the headers of UDPROS.
#pragma once

namespace ros1 {

/// Throws if a header of some length would be sent with a NUL byte in it: no node answers such a
/// header.
void check_base64();

}  // namespace ros1
