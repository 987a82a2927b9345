// SPDX-License-Identifier: Apache-2.0
#include "part.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace peers {

using nlohmann::json;

json parse_part(const std::string& line) {
    try {
        return json::parse(line);
    } catch (const json::exception& e) {
        throw std::runtime_error(
            std::string("a line is not what docs/protocols/harness.md says: ") + e.what());
    }
}

Window await_window() {
    std::string line;
    if (!std::getline(std::cin, line)) throw std::runtime_error("no order to begin came");
    const auto window = parse_part(line).at("window");
    return {window.at("from_ns").get<std::uint64_t>(), window.at("until_ns").get<std::uint64_t>()};
}

json Series::write(const Job& job, const std::string& subject, const char* quantity,
                   std::size_t number) const {
    const auto path = job.raw_dir / ("series-" + std::to_string(number) + ".points");
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(words_.data()),
               static_cast<std::streamsize>(words_.size() * sizeof(std::uint64_t)));
    file.close();
    if (!file)
        throw std::runtime_error("cannot write " + path.string() + ": " + std::strerror(errno));
    return {{"subject", subject}, {"quantity", quantity}, {"file", path.string()}};
}

End end_of(const Job& job, const json& series, const json& counters) {
    End end;
    end.role = job.role;
    end.observations = json{{"series", series}, {"counters", counters}}.dump();
    return end;
}

}  // namespace peers
