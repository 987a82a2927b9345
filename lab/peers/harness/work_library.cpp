// SPDX-License-Identifier: Apache-2.0
#include "work_library.hpp"

#include <dlfcn.h>

#include <array>
#include <stdexcept>
#include <vector>

namespace peers {

template <typename Function>
Function* WorkLibrary::symbol(const char* name) const {
    auto* found = reinterpret_cast<Function*>(dlsym(library_, name));
    if (found == nullptr)
        throw std::runtime_error("the work " + name_ + " has no function '" + name +
                                 "': it must be built against lab/peers/work/work.h");
    return found;
}

WorkLibrary::WorkLibrary(const std::filesystem::path& library, const std::string& parameters)
    : name_(library.string()) {
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
        const char* why = dlerror();
        throw std::runtime_error("the work cannot be loaded: " +
                                 std::string(why == nullptr ? name_ : why));
    }
    const auto abi = symbol<decltype(work_abi)>("work_abi")();
    if (abi != WORK_ABI) {
        throw std::runtime_error("the work " + name_ + " has version " + std::to_string(abi) +
                                 " of lab/peers/work/work.h, this program version " +
                                 std::to_string(WORK_ABI) + ": build both from the same source");
    }
    process_ = symbol<decltype(work_process)>("work_process");
    report_ = symbol<decltype(work_report)>("work_report");
    destroy_ = symbol<decltype(work_destroy)>("work_destroy");
    std::array<char, 1024> error{};
    work_ = symbol<decltype(work_create)>("work_create")(parameters.c_str(), error.data(),
                                                         error.size());
    if (work_ == nullptr)
        throw std::runtime_error("the work " + name_ + " cannot be made: " + error.data());
}

WorkLibrary::~WorkLibrary() {
    if (work_ != nullptr) destroy_(work_);
}

bool WorkLibrary::process(work_call& call) {
    std::array<char, 1024> error{};
    const int result = process_(work_, &call, error.data(), error.size());
    if (result == WORK_DONE && call.written > call.capacity) {
        throw std::runtime_error("the work " + name_ + " wrote " + std::to_string(call.written) +
                                 " bytes where there was room for " +
                                 std::to_string(call.capacity));
    }
    if (result == WORK_DONE || result == WORK_NOTHING) return result == WORK_DONE;
    throw std::runtime_error("the work " + name_ + " failed at sample " +
                             std::to_string(call.origin) + ": " + error.data());
}

std::string WorkLibrary::report() {
    std::vector<char> text(64 * 1024);
    const auto length = report_(work_, text.data(), text.size());
    if (length >= text.size())
        throw std::runtime_error("the report of the work " + name_ + " is longer than 64 KiB");
    return length == 0 ? "{}" : text.data();
}

}  // namespace peers
