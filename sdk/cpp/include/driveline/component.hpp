// SPDX-License-Identifier: Apache-2.0
/// Components: classes that a graph file instantiates, connects and runs.
///
/// ```cpp
/// class Edges : public driveline::Component {
///     driveline::Input<driveline::Image> image_{*this, "image"};
///     driveline::Output<driveline::Image> edges_{*this, "edges"};
///     driveline::Parameter<double> low_{*this, "canny_low", 50, "lower threshold of Canny"};
///
///     driveline::Status on_trigger(const driveline::Invocation&) override { ... }
/// };
/// DRIVELINE_COMPONENT(Edges, "edges of a grey image");
/// ```
///
/// The graph sets topics, reach, trigger, threads and placement, not the component.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "driveline/context.hpp"
#include "driveline/event.hpp"
#include "driveline/handle.hpp"
#include "driveline/parameter.hpp"
#include "driveline/payload.hpp"
#include "driveline/publisher.hpp"
#include "driveline/sample.hpp"
#include "driveline/time.hpp"

namespace driveline {

class Component;

/// One tick of a timer.
struct TimerTick {
    /// Scheduled time. Ticks lie on a fixed grid: lateness does not add up.
    MonotonicTime scheduled;
    /// Number of grid points without a tick since the previous tick.
    std::uint64_t overruns = 0;
};

/// A function that a timer can call: returns a `Status`, a `Result`, or nothing.
template <class F>
concept TimerFunction = std::invocable<F&, const TimerTick&> &&
    (std::is_void_v<std::invoke_result_t<F&, const TimerTick&>> ||
     std::convertible_to<std::invoke_result_t<F&, const TimerTick&>, Status>);

namespace detail {

/// A call of `on_trigger`.
struct Call {
    const Component* component = nullptr;
    const dl_invocation* invocation = nullptr;
    /// The first sample of this call that could not be read.
    std::optional<Error> unreadable;
};

/// Returns the pointer to the call that runs on this thread; null outside of calls. The function is
/// hidden, so that each component library has its own pointer.
__attribute__((visibility("hidden"))) inline Call*& current_call() noexcept {
    static thread_local Call* call = nullptr;
    return call;
}

/// A port, parameter or timer that a component declares as a member.
class Declared {
public:
    Declared(const Declared&) = delete;
    Declared& operator=(const Declared&) = delete;

    [[nodiscard]] virtual Result<void> describe(dl_class_builder* builder) const = 0;
    [[nodiscard]] virtual Result<void> bind(const dl_component_io* io) = 0;
    /// Called when the parameter of this name has a new value.
    [[nodiscard]] virtual Result<void> change(const dl_component_io*, const char*) { return {}; }

protected:
    Declared() = default;
    ~Declared() = default;
};

class Access;

}  // namespace detail

/// One call of a callback: its reason and its time. Valid during the call.
class Invocation {
public:
    /// Returns true if a sample of this input triggered the call.
    template <class T>
    [[nodiscard]] bool triggered_by(const Input<T>& input) const noexcept {
        return dl_invocation_trigger(invocation_) == static_cast<std::int64_t>(input.index());
    }
    /// Returns the tick, if a timer made the call.
    [[nodiscard]] std::optional<TimerTick> tick() const noexcept {
        auto tick = detail::sized<dl_timer_tick>();
        int is_tick = 0;
        if (dl_invocation_tick(invocation_, &tick, &is_tick) != DL_OK || is_tick == 0)
            return std::nullopt;
        return TimerTick{from_ns(tick.scheduled_ns), tick.overruns};
    }
    /// Returns the start time of the call.
    [[nodiscard]] MonotonicTime start() const noexcept {
        return from_ns(dl_invocation_start_ns(invocation_));
    }

private:
    friend class detail::Access;
    explicit Invocation(const dl_invocation* invocation) noexcept : invocation_(invocation) {}

    const dl_invocation* invocation_;
};

/// Base of all components. Its virtual functions are called one at a time, unless the graph puts
/// the component into a reentrant group.
///
/// An error that a function returns is reported with class, instance, topic and sequence number,
/// and counted. An error in `init` ends the module. After an error in `on_activate` the component
/// stays inactive; if no mode names it, or the run can try no other mode, the module ends. After an
/// error in another function the component stays in service. An exception that leaves a function is
/// treated as an error, but takes longer: do not use exceptions for the handling of samples.
///
/// The constructor is also called to describe the class: it must be cheap and have no side effects.
/// Open files and load models in `init`.
class Component {
public:
    Component(const Component&) = delete;
    Component& operator=(const Component&) = delete;
    virtual ~Component() = default;

    /// Called once, when all declared ports are bound and parameters have their values. No callback
    /// runs yet. An error ends the module.
    virtual Status init() { return {}; }
    /// Called when the trigger that the graph sets for this component fires.
    virtual Status on_trigger(const Invocation&) { return {}; }
    /// Called for an event of an input or output, such as a missed deadline, a match, a refusal or
    /// a lost lease. Unless the component is busy, it is called within about 100 ms after the
    /// event; for an output whose topic has neither deadline nor lease, within a second. For missed
    /// deadlines of one port it is called at most once in 100 ms. Events are logged as well.
    virtual Status on_event(const PortEvent&) { return {}; }
    /// Called when the component becomes active: from here on its callback and timers run, and its
    /// outputs publish. If a mode of the graph names the component, called each time such a mode
    /// begins. If no mode names the component, called once, after `init` of all components of the
    /// module. After an error the component stays inactive, and the run tries another mode; if it
    /// can try none, or if no mode names the component, the module ends.
    virtual Status on_activate() { return {}; }
    /// Called when the component becomes inactive: until the next `on_activate`, neither callback
    /// nor timers run, and arriving samples count as `inactive`. After this function has returned,
    /// outputs refuse to publish. Not called at the end of a run.
    virtual Status on_deactivate() { return {}; }
    /// Called after the last callback has returned. End the component's own threads here.
    virtual void shutdown() {}

protected:
    Component() = default;

    /// Reports that this component's work is done (for example, the end of a file). The run ends
    /// once all work in flight has been processed. Does not block.
    void finish() const noexcept { dl_component_io_finish(io_); }
    /// Returns true if the run is ending. Long callbacks and the component's own threads should
    /// check it. Costs one atomic load.
    [[nodiscard]] bool is_stopping() const noexcept {
        return dl_component_io_is_stopping(io_) != 0;
    }
    /// Name of this component in the graph; empty before `init`.
    [[nodiscard]] std::string instance() const {
        const char* name = dl_component_io_instance(io_);
        return name != nullptr ? name : "";
    }
    /// Node of the component, for topics and parameters that are not declared as members. Available
    /// from `init` on.
    [[nodiscard]] NodeView node() const noexcept { return NodeView(dl_component_io_node(io_)); }

    /// Adds a note for readers of the run's figures, such as `detector` with the text "classical,
    /// no model was given". The note is shown with the run and kept in its report. Call this
    /// function from `init` on, but not for every frame.
    void add_run_note(const std::string& name, const std::string& text) const noexcept {
        dl_component_io_add_run_note(io_, detail::shown(name).c_str(), detail::shown(text).c_str());
    }

    /// Requests a switch of the whole run to a mode of the graph. The launcher grants or refuses
    /// the request; the result is an event of the run. Does not block. Any thread, from `init` on.
    [[nodiscard]] Status request_mode(const std::string& mode) const {
        return detail::checked(dl_component_io_request_mode(io_, mode.c_str()));
    }

    /// Writes a line into the log; formats its arguments as `<<` does. Not for every frame: it
    /// allocates and writes.
    template <class... Parts>
    void log_error(const Parts&... parts) const {
        log(DL_LOG_ERROR, parts...);
    }
    template <class... Parts>
    void log_warning(const Parts&... parts) const {
        log(DL_LOG_WARNING, parts...);
    }
    template <class... Parts>
    void log_info(const Parts&... parts) const {
        log(DL_LOG_INFO, parts...);
    }
    template <class... Parts>
    void log_debug(const Parts&... parts) const {
        log(DL_LOG_DEBUG, parts...);
    }

private:
    friend class detail::Access;

    template <class... Parts>
    void log(dl_log_level level, const Parts&... parts) const {
        std::ostringstream text;
        (text << ... << parts);
        dl_log(level, dl_component_io_instance(io_), detail::shown(text.str()).c_str());
    }

    std::vector<detail::Declared*> declared_;
    std::size_t inputs_ = 0;
    std::size_t outputs_ = 0;
    const dl_component_io* io_ = nullptr;
};

namespace detail {

/// Access of the SDK's classes to a component.
class Access {
public:
    static void declare(Component& component, Declared& member) {
        component.declared_.push_back(&member);
    }
    static std::size_t next_input(Component& component) noexcept { return component.inputs_++; }
    static std::size_t next_output(Component& component) noexcept { return component.outputs_++; }

    [[nodiscard]] static Result<void> describe(const Component& component,
                                               dl_class_builder* builder) {
        for (const Declared* member : component.declared_) {
            if (auto done = member->describe(builder); !done) return done;
        }
        return {};
    }

    [[nodiscard]] static Result<void> init(Component& component, const dl_component_io* io) {
        component.io_ = io;
        for (Declared* member : component.declared_) {
            if (auto done = member->bind(io); !done) return done;
        }
        return component.init();
    }

    [[nodiscard]] static Result<void> on_event(Component& component, const dl_port_event* event) {
        const Event inner{static_cast<Event::Kind>(event->kind), event->text, event->missed,
                          event->total};
        return component.on_event(PortEvent{inner, event->port, event->is_output != 0});
    }

    [[nodiscard]] static Result<void> on_parameter(Component& component, const char* name) {
        for (Declared* member : component.declared_) {
            if (auto done = member->change(component.io_, name); !done) return done;
        }
        return {};
    }

    [[nodiscard]] static Result<void> on_trigger(Component& component,
                                                 const dl_invocation* invocation) {
        Call call{&component, invocation, std::nullopt};
        struct Scope {
            explicit Scope(Call* inner) noexcept : outer(std::exchange(current_call(), inner)) {}
            Scope(const Scope&) = delete;
            Scope& operator=(const Scope&) = delete;
            ~Scope() { current_call() = outer; }
            Call* outer;
        } scope(&call);
        Status done = component.on_trigger(Invocation(invocation));
        if (call.unreadable) return std::move(*call.unreadable);
        return done;
    }
};

template <TimerFunction F>
[[nodiscard]] std::function<Status(const TimerTick&)> returning_status(F function) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const TimerTick&>>) {
        return [function = std::move(function)](const TimerTick& tick) mutable -> Status {
            function(tick);
            return {};
        };
    } else {
        return std::function<Status(const TimerTick&)>(std::move(function));
    }
}

[[nodiscard]] Result<SchemaHandle> schema_of(const std::optional<Bytes>& bytes, auto type) {
    using T = typename decltype(type)::type;
    if constexpr (payload::Opaque<T>) {
        return make_schema(*bytes);
    } else {
        return make_schema<T>();
    }
}

}  // namespace detail

/// An input, declared as a member of a component. The graph sets its topic, and whether its samples
/// trigger the component.
template <class T>
class Input final : private detail::Declared {
public:
    Input(Component& component, std::string name,
          std::string doc = {}) requires(!payload::Opaque<T>)
        : Input(component, std::move(name), std::nullopt, std::move(doc)) {}
    /// An input of bytes.
    Input(Component& component, std::string name, Bytes bytes,
          std::string doc = {}) requires payload::Opaque<T>
        : Input(component, std::move(name), std::optional<Bytes>(std::move(bytes)),
                std::move(doc)) {}

    /// Returns, in `on_trigger`, the sample that the trigger chose for this input, or nothing if it
    /// chose none. Returns nothing in other functions.
    ///
    /// Returns nothing if the sample cannot be read as a `T`; the call is then reported as failed
    /// after it has returned.
    [[nodiscard]] std::optional<Sample<T>> sample() const { return get(&dl_invocation_sample); }

    /// Returns, in `on_trigger`, the sample that the trigger chose, or else the newest sample, also
    /// if an earlier call has read it with `read()`. But a sample that the trigger `any` chose for
    /// one call is not returned in later calls: keep it if they need it. Returns nothing if there
    /// is no sample, if it is older than the trigger's `max_age_ms`, if the component holds too
    /// many samples, and in other functions. Also returns nothing if the sample cannot be read as
    /// a `T`; the call is then reported as failed.
    [[nodiscard]] std::optional<Sample<T>> read() const { return get(&dl_invocation_read); }

    /// Position among the component's inputs.
    [[nodiscard]] std::size_t index() const noexcept { return index_; }

private:
    Input(Component& component, std::string name, std::optional<Bytes> bytes, std::string doc)
        : component_(&component),
          name_(std::move(name)),
          doc_(std::move(doc)),
          bytes_(std::move(bytes)),
          index_(detail::Access::next_input(component)) {
        detail::Access::declare(component, *this);
    }

    [[nodiscard]] Result<void> describe(dl_class_builder* builder) const override {
        if (auto done = detail::whole("input", name_); !done) return done;
        auto schema = detail::schema_of(bytes_, std::type_identity<T>());
        if (!schema) return std::move(schema).error();
        return detail::checked(
            dl_class_add_input(builder, name_.c_str(), schema->get(), detail::shown(doc_).c_str()));
    }
    [[nodiscard]] Result<void> bind(const dl_component_io*) override { return {}; }

    [[nodiscard]] std::optional<Sample<T>> get(dl_status (*getter)(const dl_invocation*,
                                                                   std::size_t,
                                                                   dl_sample**)) const {
        detail::Call* call = detail::current_call();
        if (call == nullptr || call->component != component_) return std::nullopt;
        detail::SampleHandle handle;
        auto done = detail::checked(getter(call->invocation, index_, handle.place()));
        if (done && handle.get() == nullptr) return std::nullopt;
        auto sample =
            done ? Sample<T>::adopt(std::move(handle)) : Result<Sample<T>>(std::move(done).error());
        if (sample) return std::optional<Sample<T>>(std::move(*sample));
        if (!call->unreadable)
            call->unreadable =
                Error{"input '" + name_ + "': " + sample.error().message, sample.error().status};
        return std::nullopt;
    }

    const Component* component_;
    std::string name_;
    std::string doc_;
    std::optional<Bytes> bytes_;
    std::size_t index_;
};

/// An output, declared as a member of a component; it publishes like a `Publisher`. The graph sets
/// its topic, reach and memory.
///
/// Samples published in a callback inherit the origins of the samples that the trigger chose and of
/// those that the callback has read.
template <class T>
class Output final : private detail::Declared, public PublisherBase<T> {
public:
    Output(Component& component, std::string name,
           std::string doc = {}) requires(!payload::Opaque<T>)
        : Output(component, std::move(name), std::nullopt, std::move(doc)) {}
    /// An output of bytes.
    Output(Component& component, std::string name, Bytes bytes,
           std::string doc = {}) requires payload::Opaque<T>
        : Output(component, std::move(name), std::optional<Bytes>(std::move(bytes)),
                 std::move(doc)) {}

private:
    Output(Component& component, std::string name, std::optional<Bytes> bytes, std::string doc)
        : name_(std::move(name)),
          doc_(std::move(doc)),
          bytes_(std::move(bytes)),
          index_(detail::Access::next_output(component)) {
        detail::Access::declare(component, *this);
    }

    [[nodiscard]] Result<void> describe(dl_class_builder* builder) const override {
        if (auto done = detail::whole("output", name_); !done) return done;
        auto schema = detail::schema_of(bytes_, std::type_identity<T>());
        if (!schema) return std::move(schema).error();
        return detail::checked(dl_class_add_output(builder, name_.c_str(), schema->get(),
                                                   detail::shown(doc_).c_str()));
    }
    [[nodiscard]] Result<void> bind(const dl_component_io* io) override {
        this->bind_to(dl_component_io_output(io, index_));
        if (this->publisher() == nullptr)
            return Error{"output '" + name_ +
                         "' has no publisher: the host and this library disagree"};
        return {};
    }

    std::string name_;
    std::string doc_;
    std::optional<Bytes> bytes_;
    std::size_t index_;
};

/// A parameter, declared as a member of a component. Its value is that of the graph, or else the
/// default. For a value that `T` cannot hold, such as -1 for `std::uint32_t`, `driveline validate`
/// reports an error. A mode of the graph can set a parameter; the value then changes between two
/// calls, before `on_activate`.
template <ParameterType T>
class Parameter final : private detail::Declared {
public:
    Parameter(Component& component, std::string name, T default_value, std::string doc = {})
        : name_(std::move(name)),
          doc_(std::move(doc)),
          default_(std::move(default_value)),
          value_(default_) {
        detail::Access::declare(component, *this);
    }

    /// Returns the value; before `init`, the default. Takes no lock. Any thread may call it, unless
    /// a mode sets the parameter: in that case, use it only in calls of the component that do not
    /// overlap. For other threads and reentrant groups, use a `LiveParameter`.
    [[nodiscard]] const T& get() const noexcept { return value_; }
    [[nodiscard]] const T& operator*() const noexcept { return value_; }

private:
    [[nodiscard]] Result<void> describe(dl_class_builder* builder) const override {
        if (auto done = detail::check_parameter(name_, default_); !done) return done;
        auto c = detail::given(default_);
        auto added = detail::checked(
            dl_class_add_parameter(builder, name_.c_str(), c.get(), detail::shown(doc_).c_str()));
        if constexpr (detail::NarrowParameter<T>) {
            if (!added) return added;
            constexpr auto range = detail::parameter_range<T>();
            return detail::checked(
                dl_class_set_parameter_range(builder, name_.c_str(), range.first, range.second));
        }
        return added;
    }
    [[nodiscard]] Result<void> bind(const dl_component_io* io) override {
        auto value = detail::get_parameter<T>(dl_component_io_node(io), name_);
        if (!value) return std::move(value).error();
        value_ = std::move(*value);
        return {};
    }
    [[nodiscard]] Result<void> change(const dl_component_io* io, const char* name) override {
        return name_ == name ? bind(io) : Result<void>();
    }

    std::string name_;
    std::string doc_;
    T default_;
    T value_;
};

/// Range of a `LiveParameter` that is a number, or of each item of a list of numbers.
struct ParameterRange {
    /// Minimum value.
    std::optional<double> min = std::nullopt;
    /// Maximum value.
    std::optional<double> max = std::nullopt;
};

/// A parameter that can be changed while the component runs (`driveline param set`), within a
/// range. It changes between two calls of the component, unless its group is reentrant.
///
/// ```cpp
/// driveline::LiveParameter<int> low_{*this, "canny_low", 50, "lower threshold", {0, 255}};
/// ```
template <ParameterType T>
class LiveParameter final : private detail::Declared {
public:
    LiveParameter(Component& component, std::string name, T default_value, std::string doc = {},
                  ParameterRange range = {})
        : name_(std::move(name)),
          doc_(std::move(doc)),
          range_(range),
          default_(std::move(default_value)),
          value_(default_) {
        detail::Access::declare(component, *this);
    }

    /// Returns a copy of the current value; before `init`, the default. Any thread; holds a lock
    /// while it copies. Read it once in a call, so that the whole call uses one value.
    [[nodiscard]] T get() const {
        const std::lock_guard lock(mutex_);
        return value_;
    }
    [[nodiscard]] T operator*() const { return get(); }

    /// Sets a function that is called with each new value before `get` returns this value. The
    /// function runs in the same group as `on_trigger`. If it returns an error, the change is
    /// refused, and the caller of the change gets the error's text. Call `on_change` once, in the
    /// constructor or in `init`.
    void on_change(std::function<Status(const T&)> function) { on_change_ = std::move(function); }

private:
    [[nodiscard]] Result<void> describe(dl_class_builder* builder) const override {
        if (auto done = detail::check_parameter(name_, default_); !done) return done;
        auto c = detail::given(default_);
        auto added = detail::checked(dl_class_add_live_parameter(builder, name_.c_str(), c.get(),
                                                                 detail::shown(doc_).c_str()));
        constexpr double infinity = std::numeric_limits<double>::infinity();
        double min = range_.min.value_or(-infinity);
        double max = range_.max.value_or(infinity);
        if constexpr (detail::NarrowParameter<T>) {
            constexpr auto range = detail::parameter_range<T>();
            min = std::max(min, range.first);
            max = std::min(max, range.second);
        }
        if (!added || (min == -infinity && max == infinity)) return added;
        return detail::checked(dl_class_set_parameter_range(builder, name_.c_str(), min, max));
    }
    [[nodiscard]] Result<void> bind(const dl_component_io* io) override {
        auto value = detail::get_parameter<T>(dl_component_io_node(io), name_);
        if (!value) return std::move(value).error();
        const std::lock_guard lock(mutex_);
        value_ = std::move(*value);
        return {};
    }
    [[nodiscard]] Result<void> change(const dl_component_io* io, const char* name) override {
        if (name_ != name) return {};
        auto value = detail::get_parameter<T>(dl_component_io_node(io), name_);
        if (!value) return std::move(value).error();
        if (on_change_) {
            if (Status done = on_change_(*value); !done) return done;
        }
        const std::lock_guard lock(mutex_);
        value_ = std::move(*value);
        return {};
    }

    std::string name_;
    std::string doc_;
    ParameterRange range_;
    T default_;
    mutable std::mutex mutex_;
    T value_;
    std::function<Status(const T&)> on_change_;
};

/// A timer of a component, declared as a member. Its function is called in the component's group:
/// never at the same time as the component's callback, unless the graph makes the group reentrant.
/// An error that the function returns, or an exception that leaves it, is reported and counted.
class Timer final : private detail::Declared {
public:
    /// Creates a timer that ticks from the start of the module on.
    template <TimerFunction F>
    Timer(Component& component, std::chrono::nanoseconds period, F function)
        : period_(period), function_(detail::returning_status(std::move(function))) {
        detail::Access::declare(component, *this);
    }
    /// Creates a timer that ticks after `start` was called.
    template <TimerFunction F>
    Timer(Component& component, F function)
        : function_(detail::returning_status(std::move(function))) {
        detail::Access::declare(component, *this);
    }

    /// Starts the timer with this period, for example that of a parameter. Call it once, in the
    /// component's `init`.
    [[nodiscard]] Status start(std::chrono::nanoseconds period) {
        if (started_) return Error{"this timer was started before"};
        if (period.count() <= 0)
            return Error{"a timer's period of " + std::to_string(period.count()) +
                         " ns is not possible"};
        started_ = true;
        return detail::checked(dl_component_io_add_timer(
            io_, static_cast<std::uint64_t>(period.count()), &Timer::tick, this));
    }

    /// Moves the next tick to `at`; if `at` has passed, the timer ticks at once. The ticks after it
    /// follow in steps of one period. Use it for sources with their own schedule, and only within a
    /// call of the component.
    Status next(MonotonicTime at) {
        if (!started_) return Error{"this timer was not started: call start() in init"};
        return detail::checked(dl_component_io_next_tick(io_, this, to_ns(at)));
    }

private:
    [[nodiscard]] Result<void> describe(dl_class_builder*) const override { return {}; }
    [[nodiscard]] Result<void> bind(const dl_component_io* io) override {
        io_ = io;
        return period_ ? start(*period_) : Status();
    }

    static int tick(void* self, const dl_timer_tick* tick) noexcept;

    std::optional<std::chrono::nanoseconds> period_;
    std::function<Status(const TimerTick&)> function_;
    const dl_component_io* io_ = nullptr;
    bool started_ = false;
};

}  // namespace driveline

#include "driveline/component_entry.hpp"
