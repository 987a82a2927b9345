// SPDX-License-Identifier: Apache-2.0
/// Unit tests of a component: without processes, threads and waiting, on a clock that the test
/// moves. Usable in any test framework, or without one.
///
/// ```cpp
/// using driveline::testing::ComponentTest;
/// auto test = ComponentTest::of<Lane>({.parameters = {{"canny_low", 40}}}).value();
/// auto loan = test.loan<driveline::Image>("image", 64, 48, driveline::Encoding::mono8).value();
/// draw(loan.mat());
/// test.feed("image", std::move(loan)).value();
/// test.run().value();  // an error if on_trigger failed
/// // A std::optional<driveline::Sample<LaneMarkings>>:
/// const auto lanes = test.take<LaneMarkings>("lanes").value();
/// ```
///
/// The class must be compiled into the test program, or be in a component library (`load`).
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "driveline/component.hpp"

namespace driveline::testing {

/// Value of a parameter.
class Value {
public:
    template <class T>
    requires(ParameterType<T> || std::convertible_to<T, std::string>) Value(const T& value)
        : yaml_(text(value)) {}

    /// Text of the value, as in a graph file.
    [[nodiscard]] const std::string& yaml() const noexcept { return yaml_; }

    /// Returns the text in quotes, with escapes where needed.
    [[nodiscard]] static std::string quoted(std::string_view text) {
        static constexpr char hex[] = "0123456789abcdef";
        std::string out = "\"";
        for (const char c : text) {
            const auto byte = static_cast<unsigned char>(c);
            if (c == '"' || c == '\\') {
                out.append(1, '\\').append(1, c);
            } else if (byte < 0x20 || byte == 0x7f) {
                out.append("\\x").append(1, hex[byte >> 4]).append(1, hex[byte & 15]);
            } else {
                out.append(1, c);
            }
        }
        return out.append(1, '"');
    }

private:
    template <class T>
    [[nodiscard]] static std::string text(const T& value) {
        if constexpr (std::is_same_v<T, bool>) {
            return value ? "true" : "false";
        } else if constexpr (std::integral<T>) {
            return std::to_string(value);
        } else if constexpr (std::floating_point<T>) {
            std::ostringstream out;
            out.imbue(std::locale::classic());
            out.precision(17);
            out << std::showpoint << value;
            return out.str();
        } else if constexpr (ParameterType<T> && !ParameterScalar<T>) {
            return driveline::detail::given(value).json;
        } else {
            return quoted(std::string(value));
        }
    }

    std::string yaml_;
};

/// Settings of the component, as in a graph file.
struct Settings {
    /// Parameters that differ from the class's defaults.
    std::vector<std::pair<std::string, Value>> parameters = {};
    /// Trigger of the callback, as in a graph file: `{kind: timer, period_ms: 100}`. By default, a
    /// sample of any input triggers it.
    std::string trigger = {};
    /// Details of inputs, as in a graph file: `{{"image", "{qos: {depth: 4}}"}}`.
    std::vector<std::pair<std::string, std::string>> inputs = {};
    /// Details of outputs, in the same form.
    std::vector<std::pair<std::string, std::string>> outputs = {};
    /// Maximum payload of inputs and outputs without a fixed size, in bytes. Each such port takes
    /// several times this memory.
    std::uint64_t max_payload = 2 << 20;
};

/// During its lifetime, `driveline::now()` on its thread returns the time of the test, and samples
/// that the thread publishes have that time. Destroy it on the thread that created it.
class [[nodiscard]] TestTime {
public:
    explicit TestTime(const dl_test* test) noexcept : entered_(dl_test_enter(test) == DL_OK) {}
    TestTime(const TestTime&) = delete;
    TestTime& operator=(const TestTime&) = delete;
    ~TestTime() {
        if (entered_) dl_test_leave();
    }

private:
    bool entered_;
};

/// One component under test. Move-only; one thread at a time. Its destructor shuts the component
/// down.
///
/// The component's own threads use the system clock, and the test does not wait for them.
class [[nodiscard]] ComponentTest {
public:
    /// Creates a component of the class `C` and calls its `init`. Fails if `init` fails.
    template <std::derived_from<Component> C>
    [[nodiscard]] static Result<ComponentTest> of(const Settings& settings = {}) {
        static const dl_component_vtable vtable =
            detail::ComponentType<C>::vtable("component", nullptr);
        static const dl_component_vtable* const classes[] = {&vtable};
        static const dl_component_library table{DL_COMPONENT_ABI, sizeof(dl_component_library),
                                                classes, 1, dl_version()};
        return make(&table, nullptr, nullptr, settings);
    }

    /// The same for a class that `DRIVELINE_COMPONENT` has registered in this program, by its name
    /// in graphs. Compile the sources of the component into the test program.
    [[nodiscard]] static Result<ComponentTest> create(const std::string& class_name,
                                                      const Settings& settings = {}) {
        if (detail::registered_classes().empty()) {
            return Error{
                "this program has no component classes: compile the source with "
                "DRIVELINE_COMPONENT(" +
                class_name + ") into it"};
        }
        return make(detail::library_table(), nullptr, &class_name, settings);
    }

    /// The same for a class of a component library, which stays loaded.
    [[nodiscard]] static Result<ComponentTest> load(const std::string& library,
                                                    const std::string& class_name,
                                                    const Settings& settings = {}) {
        return make(nullptr, &library, &class_name, settings);
    }

    /// Returns memory for a sample of an input, with the arguments of `Output<T>::loan`.
    template <plain::Type T, class... Arguments>
    [[nodiscard]] auto loan(const std::string& port, Arguments&&... arguments)
        -> decltype(std::declval<const PublisherBase<T>&>().loan(
            std::forward<Arguments>(arguments)...)) {
        auto input = publisher<T>(port);
        if (!input) return std::move(input).error();
        return input->loan(std::forward<Arguments>(arguments)...);
    }

    /// Returns memory for a sample of an input of bytes.
    [[nodiscard]] Result<Loan<Bytes>> loan(const std::string& port, const Bytes& bytes,
                                           std::size_t size) {
        auto input = publisher<Bytes>(port, bytes);
        if (!input) return std::move(input).error();
        return input->loan(size);
    }

    /// Publishes a loan to an input at the current time of the test. The component is called by the
    /// next `run` or `advance`.
    template <payload::Loanable T>
    Status feed(const std::string& port, Loan<T>&& loan) {
        return feed_with<T>(port,
                            [&](const auto& input) { return input.publish(std::move(loan)); });
    }
    /// The same with data that was measured `age` ago.
    template <payload::Loanable T>
    Status feed(const std::string& port, Loan<T>&& loan, std::chrono::nanoseconds age) {
        loan.set_source_time(now() - age);
        return feed(port, std::move(loan));
    }
    Status feed(const std::string& port, ImageLoan&& loan) {
        return feed<Image>(port, static_cast<Loan<Image>&&>(loan));
    }
    Status feed(const std::string& port, ImageLoan&& loan, std::chrono::nanoseconds age) {
        return feed<Image>(port, static_cast<Loan<Image>&&>(loan), age);
    }

    /// Publishes a value to an input: a plain type without a trailing array.
    template <plain::Tailless T>
    Status feed(const std::string& port, const T& value, std::chrono::nanoseconds age = {}) {
        auto made = loan<T>(port);
        if (!made) return std::move(made).error();
        **made = value;
        return feed<T>(port, std::move(*made), age);
    }
    /// The same for a protobuf message or an object.
    template <payload::Value T>
    requires(!std::is_pointer_v<T> && !std::is_same_v<T, ImageLoan>) Status
        feed(const std::string& port, T value, std::chrono::nanoseconds age = {}) {
        return feed_with<T>(
            port, [&](const auto& input) { return input.publish(std::move(value), now() - age); });
    }

    /// Publishes to an input by a function, for example `test.feed_with<Image>("image", [&](auto&
    /// input) { return driveline::publish(input, mat); })`.
    template <class T, class F>
    requires std::invocable < F&, const PublisherBase<T>
    & > Status feed_with(const std::string& port, F function) {
        auto input = publisher<T>(port);
        if (!input) return std::move(input).error();
        const auto scope = time();
        return Status(function(std::as_const(*input)));
    }

    /// Makes all calls that are due, and returns the number of calls of `on_trigger` and of timers.
    /// If calls fail, the error has a line for each failed call; the component stays in service.
    Result<std::uint64_t> run() { return advance(std::chrono::nanoseconds(0)); }

    /// Moves the time forward by this duration, and makes each call when it is due: timers,
    /// triggers, missed deadlines. Otherwise as `run`.
    Result<std::uint64_t> advance(std::chrono::nanoseconds by) {
        std::uint64_t calls = 0;
        const auto ns = static_cast<std::uint64_t>(by.count() < 0 ? 0 : by.count());
        if (auto done = detail::checked(dl_test_advance(handle_.get(), ns, &calls)); !done)
            return std::move(done).error();
        return calls;
    }

    /// Changes a parameter, as `driveline param set` does while a graph runs. Fails with the
    /// reason: no `LiveParameter`, another type, out of range, or refused by the component.
    template <ParameterType T>
    Status set_parameter(const std::string& name, const T& value) {
        if (auto done = detail::check_parameter(name, value); !done) return done;
        auto c = detail::given(value);
        return detail::checked(dl_test_set_parameter(handle_.get(), name.c_str(), c.get()));
    }

    /// Takes the oldest sample of an output that was not taken yet; nothing if there is none. The
    /// sample is a copy and may be kept.
    template <class T>
    [[nodiscard]] Result<std::optional<Sample<T>>> take(
        const std::string& port, const std::optional<Bytes>& bytes = std::nullopt) {
        if (auto done = detail::whole("output", port); !done) return std::move(done).error();
        auto schema = detail::schema_of(bytes, std::type_identity<T>());
        if (!schema) return std::move(schema).error();
        detail::SampleHandle handle;
        auto done = detail::checked(
            dl_test_take(handle_.get(), port.c_str(), schema->get(), handle.place()));
        if (!done) return std::move(done).error();
        if (handle.get() == nullptr) return std::optional<Sample<T>>();
        auto sample = Sample<T>::adopt(std::move(handle));
        if (!sample) return std::move(sample).error();
        return std::optional<Sample<T>>(std::move(*sample));
    }

    /// Takes all samples of an output that were not taken yet, the oldest first.
    template <class T>
    [[nodiscard]] Result<std::vector<Sample<T>>> outputs(
        const std::string& port, const std::optional<Bytes>& bytes = std::nullopt) {
        std::vector<Sample<T>> all;
        for (;;) {
            auto next = take<T>(port, bytes);
            if (!next) return std::move(next).error();
            if (!*next) return all;
            all.push_back(std::move(**next));
        }
    }

    /// Returns the number of samples of an input that newer ones replaced before the component read
    /// them.
    [[nodiscard]] Result<std::uint64_t> missed(const std::string& port) const {
        if (auto done = detail::whole("input", port); !done) return std::move(done).error();
        std::uint64_t missed = 0;
        if (auto done = detail::checked(dl_test_missed(handle_.get(), port.c_str(), &missed));
            !done)
            return std::move(done).error();
        return missed;
    }

    /// Returns true if the component has called `finish()`.
    [[nodiscard]] bool finished() const noexcept { return dl_test_is_finished(handle_.get()) != 0; }

    /// Returns the current time of the test.
    [[nodiscard]] MonotonicTime now() const noexcept {
        return from_ns(dl_test_now_ns(handle_.get()));
    }

    /// Makes `driveline::now()` return the time of the test on this thread, during the lifetime of
    /// the result.
    TestTime time() const noexcept { return TestTime(handle_.get()); }

    /// Calls the component's `shutdown`; after that, no function of it is called. Samples can still
    /// be taken.
    Status shutdown() { return detail::checked(dl_test_shut_down(handle_.get())); }

private:
    /// Publisher to an input of the component.
    template <class T>
    class Feed final : public PublisherBase<T> {
    public:
        explicit Feed(const dl_publisher* publisher) noexcept : PublisherBase<T>(publisher) {}
    };

    explicit ComponentTest(detail::Handle<dl_test, dl_test_drop> handle) noexcept
        : handle_(std::move(handle)) {}

    [[nodiscard]] static Result<ComponentTest> make(const dl_component_library* table,
                                                    const std::string* path,
                                                    const std::string* class_name,
                                                    const Settings& settings) {
        const std::string text = yaml(settings);
        for (const auto& [what, checked] :
             {std::pair{"library", path}, std::pair{"class", class_name},
              std::pair{"settings", &text}}) {
            if (checked == nullptr) continue;
            if (auto done = detail::whole(what, *checked, DL_ERROR_ARGUMENT); !done)
                return std::move(done).error();
        }
        const auto c = [](const std::string* s) { return s != nullptr ? s->c_str() : nullptr; };
        detail::Handle<dl_test, dl_test_drop> handle;
        auto done = detail::checked(
            dl_test_new(table, c(path), c(class_name), text.c_str(), handle.place()));
        if (!done) return std::move(done).error();
        return ComponentTest(std::move(handle));
    }

    [[nodiscard]] static std::string yaml(const Settings& settings) {
        std::string out =
            "{max_payload: " + std::to_string(settings.max_payload) + ", parameters: {";
        for (const auto& [name, value] : settings.parameters)
            out += Value::quoted(name) + ": " + value.yaml() + ", ";
        out += "}";
        if (!settings.trigger.empty()) out += ", trigger: " + settings.trigger;
        for (const auto& [kind, ports] :
             {std::pair{"inputs", &settings.inputs}, std::pair{"outputs", &settings.outputs}}) {
            out += std::string(", ") + kind + ": {";
            for (const auto& [port, detail] : *ports)
                out += Value::quoted(port) + ": " + detail + ", ";
            out += "}";
        }
        return out + "}";
    }

    /// Returns the publisher to an input; the first call for a port and type creates it.
    template <class T>
    [[nodiscard]] Result<Feed<T>> publisher(const std::string& port,
                                            const std::optional<Bytes>& bytes = std::nullopt) {
        const std::string key = port + ' ' + typeid(T).name();
        for (const auto& [known, publisher] : publishers_) {
            if (known == key) return Feed<T>(publisher);
        }
        if constexpr (payload::Opaque<T>) {
            if (!bytes)
                return Error{"input '" + port +
                             "': take a loan with its Bytes{\"encoding\"} first"};
        }
        if (auto done = detail::whole("input", port); !done) return std::move(done).error();
        auto schema = detail::schema_of(bytes, std::type_identity<T>());
        if (!schema) return std::move(schema).error();
        const dl_publisher* publisher = nullptr;
        auto done =
            detail::checked(dl_test_input(handle_.get(), port.c_str(), schema->get(), &publisher));
        if (!done) return std::move(done).error();
        publishers_.emplace_back(key, publisher);
        return Feed<T>(publisher);
    }

    // Borrowed from the handle.
    std::vector<std::pair<std::string, const dl_publisher*>> publishers_;
    detail::Handle<dl_test, dl_test_drop> handle_;
};

}  // namespace driveline::testing
