// SPDX-License-Identifier: Apache-2.0
/// The interface between a component library and its host; included by `driveline/component.hpp`.
///
/// The list of classes has hidden visibility: each component library has its own list. Libraries
/// that the CMake function `driveline_add_components` builds export only the symbol
/// `driveline_component_entry`.
#pragma once

#include <cstdint>
#include <cxxabi.h>
#include <exception>
#include <string>
#include <typeinfo>
#include <vector>

#include "driveline/component.hpp"

namespace driveline::detail {

/// Describes the current exception, with its type. Call it in a catch block.
[[nodiscard]] inline std::string describe_exception() {
    const std::type_info* type = abi::__cxa_current_exception_type();
    std::string text =
        "threw " + (type != nullptr ? demangled(type->name())
                                    : std::string("an exception of another language"));
    // An exception whose text is a null pointer must not cause a crash.
    const auto add = [&text](const char* reason) {
        text.append(": ").append(reason != nullptr ? reason : "(null)");
    };
    try {
        throw;
    } catch (const std::exception& e) {
        add(e.what());
    } catch (const std::string& s) {
        text.append(": ").append(s);
    } catch (const char* s) {
        add(s);
    } catch (...) {
    }
    return text;
}

/// Runs a function of the component; turns errors and exceptions into a status with a text.
template <class F>
int guarded(const char* where, F function) noexcept {
    try {
        Result<void> done = function();
        if (done) return 0;
        dl_set_last_error((std::string(where) + " failed: " + shown(done.error().message)).c_str());
    } catch (...) {
        try {
            dl_set_last_error(shown(std::string(where) + ' ' + describe_exception()).c_str());
        } catch (...) {
            dl_set_last_error("the component threw, and there was no memory to say what");
        }
    }
    return 1;
}

template <class C>
struct ComponentType {
    static int create(void** component) noexcept {
        return guarded("constructor", [&]() -> Result<void> {
            *component = static_cast<Component*>(new C());
            return {};
        });
    }
    static int describe(void* component, dl_class_builder* builder) noexcept {
        return guarded("description", [&] {
            return Access::describe(*static_cast<Component*>(component), builder);
        });
    }
    static int init(void* component, const dl_component_io* io) noexcept {
        return guarded("init",
                       [&] { return Access::init(*static_cast<Component*>(component), io); });
    }
    static int on_trigger(void* component, const dl_invocation* invocation) noexcept {
        return guarded("on_trigger", [&] {
            return Access::on_trigger(*static_cast<Component*>(component), invocation);
        });
    }
    static int on_event(void* component, const dl_port_event* event) noexcept {
        return guarded("on_event", [&] {
            return Access::on_event(*static_cast<Component*>(component), event);
        });
    }
    static int on_activate(void* component) noexcept {
        return guarded("on_activate",
                       [&] { return static_cast<Component*>(component)->on_activate(); });
    }
    static int on_deactivate(void* component) noexcept {
        return guarded("on_deactivate",
                       [&] { return static_cast<Component*>(component)->on_deactivate(); });
    }
    static int on_parameter(void* component, const char* name) noexcept {
        return guarded("on_change", [&] {
            return Access::on_parameter(*static_cast<Component*>(component), name);
        });
    }
    static void shutdown(void* component) noexcept {
        const int status = guarded("shutdown", [&]() -> Result<void> {
            static_cast<Component*>(component)->shutdown();
            return {};
        });
        if (status != 0) dl_log(DL_LOG_ERROR, demangled(typeid(C).name()).c_str(), dl_last_error());
    }
    static void destroy(void* component) noexcept { delete static_cast<Component*>(component); }

    [[nodiscard]] static dl_component_vtable vtable(const char* name, const char* doc) noexcept {
        return {sizeof(dl_component_vtable),
                name,
                doc,
                &create,
                &describe,
                &init,
                &on_trigger,
                &shutdown,
                &destroy,
                &on_event,
                &on_activate,
                &on_deactivate,
                &on_parameter};
    }
};

__attribute__((visibility("hidden"))) inline std::vector<const dl_component_vtable*>&
registered_classes() {
    static std::vector<const dl_component_vtable*> classes;
    return classes;
}

/// Adds a class to the list of its library.
class __attribute__((visibility("hidden"))) Registration {
public:
    explicit Registration(const dl_component_vtable& vtable) : vtable_(vtable) {
        registered_classes().push_back(&vtable_);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

private:
    dl_component_vtable vtable_;
};

// Hidden: if this inline function were visible, all libraries of the process would share its static
// table.
__attribute__((visibility("hidden"))) inline const dl_component_library* library_table() {
    static const dl_component_library table{DL_COMPONENT_ABI, sizeof(dl_component_library),
                                            registered_classes().data(),
                                            registered_classes().size(), dl_version()};
    return &table;
}

/// Graphs call `comp::Lane` by the name `Lane`.
[[nodiscard]] constexpr const char* without_namespace(const char* name) noexcept {
    const char* start = name;
    for (const char* c = name; *c != '\0'; ++c) {
        if (*c == ':') start = c + 1;
    }
    return start;
}

}  // namespace driveline::detail

namespace driveline {

inline int Timer::tick(void* self, const dl_timer_tick* tick) noexcept {
    return detail::guarded("timer", [&] {
        return static_cast<Timer*>(self)->function_(
            TimerTick{from_ns(tick->scheduled_ns), tick->overruns});
    });
}

}  // namespace driveline

/// Answers the host's request for the classes of a component library.
extern "C" __attribute__((visibility("default"), used)) inline const dl_component_library*
driveline_component_entry() {
    return driveline::detail::library_table();
}

#define DRIVELINE_DETAIL_JOIN2(a, b) a##b
#define DRIVELINE_DETAIL_JOIN(a, b) DRIVELINE_DETAIL_JOIN2(a, b)

/// Makes a class available to graphs: `DRIVELINE_COMPONENT(Class);` or `DRIVELINE_COMPONENT(Class,
/// "one line for users");`. Use it in a source file, outside of functions. A library may have
/// several classes.
#define DRIVELINE_COMPONENT(Class, ...)                                                          \
    [[maybe_unused]] static const ::driveline::detail::Registration DRIVELINE_DETAIL_JOIN(       \
        driveline_registration_, __COUNTER__)(::driveline::detail::ComponentType<Class>::vtable( \
        ::driveline::detail::without_namespace(#Class), "" __VA_ARGS__))
