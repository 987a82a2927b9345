// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "fusion.hpp"

namespace ros1 {

peers::Workload fusion_workload() {
    return {"fusion",
            {},
            "",
            "message_filters was not installed when its program was built: apt-get install "
            "libmessage-filters-dev, then make peers"};
}

std::unique_ptr<peers::Fuser> make_fuser(const peers::Job&, const std::vector<std::string>&,
                                         const std::string&, std::size_t, peers::Fusing&) {
    throw std::runtime_error(fusion_workload().missing);
}

}  // namespace ros1
