// SPDX-License-Identifier: Apache-2.0
// Base64 in what nodes ask each other: the headers of UDPROS.
#pragma once

namespace ros1 {

/// Throws where a header of some length would be sent with a NUL byte in it, which no node would
/// ever answer.
void check_base64();

}  // namespace ros1
