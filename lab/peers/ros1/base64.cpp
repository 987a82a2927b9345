// SPDX-License-Identifier: Apache-2.0
// XmlRpc++ reserves a line break for every 72 characters of base64, rounded up. Debian builds it
// with libb64, which breaks lines after 72 characters and once more at the end. If the last line is
// full, this last break has no space, and a NUL byte is sent in its place. The receiver takes the
// text for incomplete and waits forever. Three of 54 header lengths are affected, so whether two
// nodes connect depends on the lengths of their names. The function below writes no break at the
// end. It replaces that of libb64 in this program.
#include "base64.hpp"

extern "C" {
#include <b64/cencode.h>
}
#include <xmlrpcpp/XmlRpcValue.h>

#include <array>
#include <stdexcept>

extern "C" int base64_encode_blockend(char* text, base64_encodestate* state) {
    char* end = text;
    if (state->step != step_A) {
        *end++ = base64_encode_value(state->result);
        if (state->step == step_B) *end++ = '=';
        *end++ = '=';
    }
    return static_cast<int>(end - text);
}

namespace ros1 {

void check_base64() {
    // These bytes fill a line.
    std::array<char, 54> bytes{};
    if (XmlRpc::XmlRpcValue(bytes.data(), static_cast<int>(bytes.size())).toXml().find('\0') ==
        std::string::npos)
        return;
    throw std::runtime_error(
        "this roscpp writes connection headers that no node can read (its base64 ends in a NUL "
        "byte), and the encoder of this program did not replace it: measure ros1/tcp, or report "
        "this with the version of libxmlrpcpp");
}

}  // namespace ros1
