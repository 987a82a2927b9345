// SPDX-License-Identifier: Apache-2.0
// After the start, plain messages are published and read without allocating.
#include <cstddef>
#include <cstdlib>

#include <gtest/gtest.h>

#include "domain.hpp"

extern "C" {

// The allocator of glibc, under the names that remain when a program replaces malloc().
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

}  // extern "C"

namespace {

thread_local bool counting = false;
thread_local int allocations = 0;

void count() noexcept {
    if (counting) ++allocations;
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) {
    count();
    return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
    count();
    return __libc_calloc(number, size);
}
void* realloc(void* old, std::size_t size) {
    count();
    return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
    count();
    return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
    count();
    *out = __libc_memalign(alignment, size);
    return *out == nullptr ? 12 : 0;
}

}  // extern "C"

namespace {

TEST(Allocations, AreCounted) {
    allocations = 0;
    counting = true;
    volatile auto* text = new std::string(100, 'x');
    counting = false;
    EXPECT_EQ(allocations, 2);
    delete text;
}

class Allocations : public testing::TestWithParam<driveline::Reach> {};
INSTANTIATE_TEST_SUITE_P(Reach, Allocations,
                         testing::Values(driveline::Reach::process, driveline::Reach::host),
                         [](const auto& p) {
                             return p.param == driveline::Reach::process ? "process" : "host";
                         });

TEST_P(Allocations, DoNotHappenWhenAPlainMessageIsPassed) {
    test::Domain domain;
    auto link =
        test::Link<driveline::Image>::make(domain, {.reach = GetParam(), .max_payload = 64 * 1024});
    const auto round = [&] {
        auto loan = link.publisher.loan(32, 24, driveline::Encoding::mono8);
        bool good = loan && link.publisher.publish(std::move(*loan));
        auto sample = link.subscription.latest();
        good = good && sample && *sample;
        if (!good) return false;
        const auto clone = (*sample)->clone();
        return clone && (*clone)->width == 32 && (*clone).header().sequence > 0;
    };
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(round());
    allocations = 0;
    counting = true;
    bool good = true;
    for (int i = 0; i < 1000; ++i) good = round() && good;
    counting = false;
    EXPECT_TRUE(good);
    EXPECT_EQ(allocations, 0);
}

}  // namespace
