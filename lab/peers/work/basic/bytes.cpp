// SPDX-License-Identifier: Apache-2.0
// A source of `size` bytes that a reader can check.
#include "work.hpp"

namespace {

class Bytes {
public:
    explicit Bytes(const work::Parameters& parameters)
        : size_(parameters.get<std::size_t>("size", 1024, 0, std::size_t{1} << 30)) {}

    std::optional<std::size_t> process(work_call& call) {
        work::Writer out(call);
        const auto bytes = out.place(size_);
        std::memset(bytes.data(), static_cast<int>(call.origin & 0xff), bytes.size());
        return out.written();
    }

    work::Report report() const { return {}; }

private:
    std::size_t size_;
};

}  // namespace

WORK(Bytes)
