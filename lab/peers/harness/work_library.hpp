// SPDX-License-Identifier: Apache-2.0
// A loaded work of lab/peers/work/work.h.
#pragma once

#include <filesystem>
#include <string>

#include "work.h"

namespace peers {

class WorkLibrary {
public:
    /// Loads the library and makes the work. Throws the library's name and the error.
    WorkLibrary(const std::filesystem::path& library, const std::string& parameters);
    WorkLibrary(const WorkLibrary&) = delete;
    WorkLibrary& operator=(const WorkLibrary&) = delete;
    ~WorkLibrary();

    /// Returns true if there is a message to publish. Throws the error of the work.
    bool process(work_call& call);
    /// A JSON object.
    std::string report();

private:
    template <typename Function>
    Function* symbol(const char* name) const;

    std::string name_;
    /// Never unloaded: its libraries may have left threads and destructors behind.
    void* library_ = nullptr;
    void* work_ = nullptr;
    decltype(&work_process) process_ = nullptr;
    decltype(&work_report) report_ = nullptr;
    decltype(&work_destroy) destroy_ = nullptr;
};

}  // namespace peers
