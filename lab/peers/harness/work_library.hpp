// SPDX-License-Identifier: Apache-2.0
// A work of lab/peers/work/work.h, loaded.
#pragma once

#include <filesystem>
#include <string>

#include "work.h"

namespace peers {

class WorkLibrary {
public:
    /// Loads the library and makes the work. Throws with the library's name and what is wrong.
    WorkLibrary(const std::filesystem::path& library, const std::string& parameters);
    WorkLibrary(const WorkLibrary&) = delete;
    WorkLibrary& operator=(const WorkLibrary&) = delete;
    ~WorkLibrary();

    /// Whether there is something to publish. Throws what the work says.
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
