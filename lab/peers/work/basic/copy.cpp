// SPDX-License-Identifier: Apache-2.0
// Passes its first input on after computing for `burn_us` microseconds of CPU time, but only
// samples whose number is a multiple of `every`. Checks that all inputs have the data that the work
// `bytes` (bytes.cpp) writes.
#include <time.h>

#include "work.hpp"

namespace {

std::uint64_t thread_cpu_ns() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(t.tv_nsec);
}

class Copy {
public:
    explicit Copy(const work::Parameters& parameters)
        : burn_ns_(1000 * parameters.get<std::uint64_t>("burn_us", 0, 0, 10'000'000)),
          every_(parameters.get<std::uint64_t>("every", 1, 1, 1'000'000)) {}

    std::optional<std::size_t> process(work_call& call) {
        const auto& in = work::input(call, 0);
        for (auto end = thread_cpu_ns() + burn_ns_; thread_cpu_ns() < end;) ++turns_;
        for (std::size_t i = 0; i < call.input_count; ++i) {
            const auto& other = call.inputs[i];
            const bool is_whole =
                std::all_of(other.data, other.data + other.size,
                            [&](unsigned char b) { return b == (other.origin & 0xff); });
            if (!is_whole) ++damaged_;
        }
        if (call.origin % every_ != 0) return std::nullopt;
        work::Writer out(call);
        if (call.output != nullptr) out.values(std::span(in.data, in.size));
        return out.written();
    }

    work::Report report() const { return {{"damaged", damaged_}, {"turns", turns_}}; }

private:
    std::uint64_t burn_ns_;
    std::uint64_t every_;
    std::uint64_t damaged_ = 0;
    std::uint64_t turns_ = 0;
};

}  // namespace

WORK(Copy)
