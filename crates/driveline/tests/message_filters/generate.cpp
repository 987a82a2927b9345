// SPDX-License-Identifier: Apache-2.0
//
// Records what ROS 1 message_filters does with given sequences of stamps, for the tests of
// Driveline's synchronizers. It runs the installed ExactTime and ApproximateTime policies
// themselves; the sequences come from fixed seeds. The output is the same on every run. Needed only
// to record anew, not to test.
//
// Build and run, on Debian 12, from this directory:
//
//     apt-get install g++ libmessage-filters-dev libroscpp-dev
//     libs="-lmessage_filters -lroscpp -lrostime -lrosconsole -lroscpp_serialization"
//     libs="$libs -lboost_thread -lboost_system"
//     flags="-std=c++17 -Wall -DBOOST_BIND_GLOBAL_PLACEHOLDERS"
//     g++ $flags generate.cpp -o /tmp/generate $libs
//     /tmp/generate | gzip -9n > ../data/message_filters.txt.gz
//
// Output, by lines; `#` starts a comment:
//
//     scenario NAME             begins a sequence of items
//     items BASE_NS             one line per item follows, in order of arrival, numbered from 0
//     INPUT STAMP_NS            an item; its stamp is relative to BASE_NS
//     POLICY                    a policy fed with the items of the scenario; its sets follow
//     = ADDED ITEM ITEM ...     a set
//     sets N                    end of the policy's sets
//
// POLICY is one of:
//
//     exact INPUTS QUEUE
//     approximate INPUTS QUEUE AGE_PENALTY MAX_INTERVAL_NS|- LOWER_BOUND_NS...
//
// ADDED is the number of the item whose arrival delivered the set. ITEM ... are the items of the
// set in input order, as differences: ADDED minus the item's number.

#include <message_filters/sync_policies/approximate_time.h>
#include <message_filters/sync_policies/exact_time.h>
#include <message_filters/synchronizer.h>
#include <ros/console.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

struct Message {
    ros::Time stamp;
    int number;
};

namespace ros::message_traits {
template <>
struct TimeStamp<Message> {
    static ros::Time value(const Message& message) { return message.stamp; }
};
}  // namespace ros::message_traits

namespace {

using message_filters::NullType;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kBaseNs = 1'700'000'000'000'000'000;

struct Item {
    int input;
    int64_t stamp_ns;  // relative to kBaseNs
};

struct Options {
    uint32_t queue = 10;
    double age_penalty = 0.1;
    int64_t max_interval_ns = -1;  // none
    std::vector<int64_t> lower_bounds_ns;
};

ros::Duration duration(int64_t ns) {
    ros::Duration d;
    return d.fromNSec(ns);
}

// ---- Feeding the policies ----

int items_added, sets_delivered;

// Writes the sets as they are delivered. Unused inputs of the nine have the type NullType.
struct Recorder {
    using result_type = void;

    static void write(const boost::shared_ptr<Message const>& m) {
        std::printf(" %d", items_added - m->number);
    }
    static void write(const boost::shared_ptr<NullType const>&) {}

    template <class... M>
    void operator()(const boost::shared_ptr<M const>&... items) const {
        std::printf("= %d", items_added);
        (write(items), ...);
        std::printf("\n");
        ++sets_delivered;
    }
};

template <class Policy, int... I>
void feed(Policy policy, const std::vector<Item>& items, std::integer_sequence<int, I...>) {
    message_filters::Synchronizer<Policy> sync(policy);
    items_added = sets_delivered = 0;
    sync.registerCallback(Recorder());
    for (const Item& item : items) {
        auto message = boost::make_shared<Message>();
        message->stamp.fromNSec(static_cast<uint64_t>(kBaseNs + item.stamp_ns));
        message->number = items_added;
        const ros::MessageEvent<Message const> event(boost::shared_ptr<Message const>(message),
                                                     ros::Time(1));
        ((item.input == I ? sync.template add<I>(event) : void()), ...);
        ++items_added;
    }
    std::printf("sets %d\n", sets_delivered);
}

template <int I>
using MessageFor = Message;

template <int... I>
void run_exact(const std::vector<Item>& items, const Options& o,
               std::integer_sequence<int, I...> inputs) {
    std::printf("exact %zu %u\n", sizeof...(I), o.queue);
    feed(message_filters::sync_policies::ExactTime<MessageFor<I>...>(o.queue), items, inputs);
}

template <int... I>
void run_approximate(const std::vector<Item>& items, const Options& o,
                     std::integer_sequence<int, I...> inputs) {
    message_filters::sync_policies::ApproximateTime<MessageFor<I>...> policy(o.queue);
    policy.setAgePenalty(o.age_penalty);
    std::printf("approximate %zu %u %.17g ", sizeof...(I), o.queue, o.age_penalty);
    if (o.max_interval_ns >= 0) {
        policy.setMaxIntervalDuration(duration(o.max_interval_ns));
        std::printf("%" PRId64, o.max_interval_ns);
    } else {
        std::printf("-");
    }
    for (size_t i = 0; i < o.lower_bounds_ns.size(); ++i) {
        policy.setInterMessageLowerBound(static_cast<int>(i), duration(o.lower_bounds_ns[i]));
        std::printf(" %" PRId64, o.lower_bounds_ns[i]);
    }
    std::printf("\n");
    feed(policy, items, inputs);
}

template <class F>
void with_inputs(int inputs, F&& f) {
    switch (inputs) {
        case 2:
            return f(std::make_integer_sequence<int, 2>());
        case 3:
            return f(std::make_integer_sequence<int, 3>());
        case 4:
            return f(std::make_integer_sequence<int, 4>());
        case 5:
            return f(std::make_integer_sequence<int, 5>());
        case 6:
            return f(std::make_integer_sequence<int, 6>());
        case 7:
            return f(std::make_integer_sequence<int, 7>());
        case 8:
            return f(std::make_integer_sequence<int, 8>());
        case 9:
            return f(std::make_integer_sequence<int, 9>());
        default:
            std::abort();
    }
}

// ---- Sequences of stamps ----

class Random {
public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    // Of the standard library's random numbers, only the engines are specified to the bit. So this
    // class has its own distributions.
    int64_t below(int64_t n) {
        return n <= 0 ? 0 : static_cast<int64_t>(engine_() % static_cast<uint64_t>(n));
    }
    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
    bool chance(int percent) { return below(100) < percent; }

private:
    std::mt19937_64 engine_;
};

// One sensor, and the delays of its path.
struct Source {
    int64_t period_ns = 100 * kMs;
    int64_t phase_ns = 0;
    int64_t jitter_ns = 0;        // of the stamp, either way
    int64_t delay_ns = 0;         // from stamp to arrival
    int64_t delay_jitter_ns = 0;  // random addition to the delay, up to this
    int64_t burst = 1;            // items that arrive together
    int64_t grid_ns = 1;          // stamps are multiples of this
    int drop_percent = 0;
    int64_t silent_from_ns = INT64_MAX, silent_to_ns = INT64_MAX;
};

struct Scenario {
    std::string name;
    std::vector<Source> sources;
    int items = 120;
    int swap_percent = 0;      // neighbours in arrival change places: stamps go back on an input
    int64_t jump_back_ns = 0;  // after half of the items, all stamps fall back by this
    std::vector<Options> approximate = {Options{}};
    std::vector<uint32_t> exact_queues = {};
};

std::vector<Item> arrivals(const Scenario& s, uint64_t seed) {
    struct Arrival {
        int64_t at_ns;
        Item item;
    };
    Random random(seed);
    int64_t shortest = INT64_MAX;
    double per_ns = 0;
    for (const Source& source : s.sources) {
        shortest = std::min(shortest, source.period_ns);
        per_ns += 1.0 / static_cast<double>(source.period_ns);
    }
    const auto span_ns = static_cast<int64_t>(1.5 * s.items / per_ns) + 2 * shortest;
    std::vector<Arrival> all;
    for (size_t i = 0; i < s.sources.size(); ++i) {
        const Source& source = s.sources[i];
        std::vector<Arrival> own;
        int64_t last_stamp = 0, last_arrival = 0;
        for (int64_t nominal = source.phase_ns; nominal < span_ns; nominal += source.period_ns) {
            int64_t stamp = nominal + random.between(-source.jitter_ns, source.jitter_ns);
            stamp = std::max({int64_t{0}, last_stamp, stamp});
            stamp -= stamp % source.grid_ns;
            last_stamp = stamp;
            const int64_t delay = source.delay_ns + random.between(0, source.delay_jitter_ns);
            const bool dropped = random.chance(source.drop_percent);
            if (dropped || (stamp >= source.silent_from_ns && stamp < source.silent_to_ns))
                continue;
            last_arrival = std::max(last_arrival, stamp + delay);
            own.push_back({last_arrival, {static_cast<int>(i), stamp}});
        }
        for (size_t k = own.size(); k-- > 0;) {  // a burst arrives with its last item
            const size_t with = std::min(own.size() - 1, k - k % source.burst + source.burst - 1);
            own[k].at_ns = own[with].at_ns;
        }
        all.insert(all.end(), own.begin(), own.end());
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Arrival& a, const Arrival& b) { return a.at_ns < b.at_ns; });
    all.resize(std::min<size_t>(all.size(), s.items));
    for (size_t k = 1; k < all.size(); ++k) {
        if (random.chance(s.swap_percent)) std::swap(all[k - 1], all[k]);
    }
    std::vector<Item> items;
    for (size_t k = 0; k < all.size(); ++k) {
        items.push_back(all[k].item);
        if (s.jump_back_ns != 0 && k >= all.size() / 2) {
            items.back().stamp_ns = std::max<int64_t>(0, items.back().stamp_ns - s.jump_back_ns);
        }
    }
    return items;
}

void record(const Scenario& s, const std::vector<Item>& items) {
    std::printf("scenario %s\nitems %" PRId64 "\n", s.name.c_str(), kBaseNs);
    for (const Item& item : items) std::printf("%d %" PRId64 "\n", item.input, item.stamp_ns);
    with_inputs(static_cast<int>(s.sources.size()), [&](auto inputs) {
        for (const uint32_t queue : s.exact_queues) {
            Options o;
            o.queue = queue;
            run_exact(items, o, inputs);
        }
        for (const Options& o : s.approximate) run_approximate(items, o, inputs);
    });
}

// ---- The scenarios ----

std::vector<Options> queues(std::initializer_list<uint32_t> lengths) {
    std::vector<Options> all;
    for (const uint32_t queue : lengths) {
        all.emplace_back();
        all.back().queue = queue;
    }
    return all;
}

std::vector<Source> sources(int n, Source s) {
    return std::vector<Source>(static_cast<size_t>(n), s);
}

void named_scenarios() {
    uint64_t seed = 1;
    const auto write = [&](Scenario s) { record(s, arrivals(s, seed++)); };

    for (int n = 2; n <= 9; ++n) {
        Scenario s{"equal_rates_" + std::to_string(n), sources(n, {})};
        for (int i = 0; i < n; ++i) s.sources[i].phase_ns = i * 7 * kMs;
        s.approximate = queues({1, 2, 10});
        write(s);

        s.name = "jitter_" + std::to_string(n);
        for (Source& source : s.sources) source.jitter_ns = 30 * kMs;
        s.approximate = queues({1, 3, 10, 20});
        write(s);

        Scenario same{"same_stamps_" + std::to_string(n), sources(n, {})};
        for (int i = 0; i < n; ++i) same.sources[i].delay_ns = i * 13 * kMs;
        for (Source& source : same.sources) source.drop_percent = 15;
        same.exact_queues = {1, 2, 5, 20};
        write(same);

        // Stamps as multiples of 50 ms: equal ones on different inputs, and on the same.
        Scenario ties{"ties_" + std::to_string(n), sources(n, {})};
        for (Source& source : ties.sources) {
            source.period_ns = 40 * kMs;
            source.grid_ns = 50 * kMs;
            source.jitter_ns = 20 * kMs;
            source.delay_jitter_ns = 90 * kMs;
        }
        ties.exact_queues = {1, 3, 10};
        ties.approximate = queues({1, 4, 10});
        write(ties);

        Scenario missing{"one_missing_" + std::to_string(n), sources(n, {})};
        missing.items = 40;
        missing.sources[n / 2].silent_from_ns = 0;
        missing.exact_queues = {3};
        missing.approximate = queues({1, 5});
        write(missing);
    }

    for (const int n : {2, 3, 5}) {
        const std::string suffix = "_" + std::to_string(n);
        Scenario rates{"different_rates" + suffix, sources(n, {})};
        const int64_t periods_ms[] = {33, 100, 10, 50, 70};
        for (int i = 0; i < n; ++i) rates.sources[i].period_ns = periods_ms[i] * kMs + 333'333;
        rates.items = 200;
        rates.approximate = queues({1, 2, 5, 20});
        for (Options& o : rates.approximate) o.lower_bounds_ns.assign(n, 0);
        rates.approximate.push_back({20, 0.1, -1, {}});
        for (const Source& source : rates.sources)
            rates.approximate.back().lower_bounds_ns.push_back(source.period_ns - kMs);
        write(rates);

        Scenario drop{"drop_outs" + suffix, sources(n, {})};
        for (int i = 0; i < n; ++i) {
            drop.sources[i].jitter_ns = 10 * kMs;
            drop.sources[i].drop_percent = 10 + 15 * i;
        }
        drop.sources[1].silent_from_ns = 800 * kMs;
        drop.sources[1].silent_to_ns = 1700 * kMs;
        drop.approximate = queues({1, 2, 5, 10});
        write(drop);

        Scenario burst{"bursts" + suffix, sources(n, {})};
        for (int i = 0; i < n; ++i) {
            burst.sources[i].phase_ns = i * 11 * kMs;
            burst.sources[i].jitter_ns = 15 * kMs;
            burst.sources[i].burst = 1 + 3 * i;
        }
        burst.exact_queues = {10};
        burst.approximate = queues({1, 3, 5, 20});
        write(burst);

        Scenario late{"late" + suffix, sources(n, {})};
        for (int i = 0; i < n; ++i) late.sources[i].jitter_ns = 5 * kMs;
        late.sources[0].delay_ns = 450 * kMs;
        late.sources[0].delay_jitter_ns = 200 * kMs;
        late.exact_queues = {4, 10};
        late.approximate = queues({2, 4, 8, 20});
        write(late);

        Scenario back{"out_of_order" + suffix, sources(n, {})};
        for (Source& source : back.sources)
            source.period_ns = 30 * kMs, source.jitter_ns = 10 * kMs,
            source.delay_jitter_ns = 60 * kMs;
        back.sources[0].burst = 4;
        back.swap_percent = 40;
        back.approximate = queues({1, 3, 10, 20});
        back.approximate.push_back({10, 0.1, 25 * kMs, {}});
        write(back);

        Scenario jump{"jump_back" + suffix, sources(n, {})};
        for (int i = 0; i < n; ++i) jump.sources[i].delay_ns = i * 20 * kMs;
        jump.sources[0].drop_percent = 20;
        jump.jump_back_ns = 700 * kMs;
        jump.exact_queues = {2, 10};
        jump.approximate = queues({2, 10});
        write(jump);

        Scenario options{"options" + suffix, sources(n, {})};
        for (int i = 0; i < n; ++i) {
            options.sources[i].period_ns = (40 + 25 * i) * kMs;
            options.sources[i].jitter_ns = 12 * kMs;
            options.sources[i].delay_jitter_ns = 50 * kMs;
        }
        options.approximate.clear();
        for (const double penalty : {0.0, 0.1, 0.4, 1.0, 10.0, 1e6})
            options.approximate.push_back({10, penalty, -1, {}});
        for (const int64_t interval : {int64_t{0}, 5 * kMs, 20 * kMs, 1000 * kMs})
            options.approximate.push_back({10, 0.1, interval, {}});
        write(options);

        // Lower bounds that hold, and some that do not.
        Scenario bounds{"lower_bounds" + suffix, options.sources};
        bounds.approximate.clear();
        for (const int64_t bound_ms : {1, 10, 20, 100, 1000})
            bounds.approximate.push_back({10, 0.1, -1, std::vector<int64_t>(n, bound_ms * kMs)});
        for (int i = 0; i < n; ++i) {
            Options some{10, 0.0, -1, std::vector<int64_t>(n, 0)};
            some.lower_bounds_ns[i] = 15 * kMs;
            bounds.approximate.push_back(some);
        }
        write(bounds);
    }
}

// Everything at once.
void random_scenarios() {
    for (uint64_t seed = 1000; seed < 1150; ++seed) {
        Random random(seed);
        Scenario s{"random_" + std::to_string(seed),
                   sources(static_cast<int>(random.chance(80) ? random.between(2, 5)
                                                              : random.between(6, 9)),
                           {})};
        s.items = static_cast<int>(random.between(60, 120));
        s.swap_percent = random.chance(25) ? static_cast<int>(random.between(1, 50)) : 0;
        for (Source& source : s.sources) {
            source.period_ns = random.between(5, 120) * kMs;
            source.phase_ns = random.below(source.period_ns);
            source.jitter_ns = random.chance(70) ? random.below(source.period_ns) : 0;
            source.delay_ns = random.chance(50) ? random.between(0, 200) * kMs : 0;
            source.delay_jitter_ns = random.chance(50) ? random.between(0, 200) * kMs : 0;
            source.burst = random.chance(20) ? random.between(2, 8) : 1;
            source.grid_ns = random.chance(30) ? 20 * kMs : kMs / 10;
            source.drop_percent = random.chance(30) ? static_cast<int>(random.between(1, 50)) : 0;
        }
        for (int k = 0; k < 2; ++k) {
            Options o;
            o.queue = static_cast<uint32_t>(random.between(1, 20));
            if (random.chance(50))
                o.age_penalty = static_cast<double>(random.between(0, 300)) / 100;
            if (random.chance(30)) o.max_interval_ns = random.between(0, 80) * kMs;
            if (random.chance(50)) {
                for (const Source& source : s.sources)
                    o.lower_bounds_ns.push_back(random.below(source.period_ns));
            }
            s.approximate.push_back(o);
        }
        // The exact policy forms sets only if stamps are equal.
        if (random.chance(40)) {
            for (Source& source : s.sources) {
                source.grid_ns = 40 * kMs;
                source.period_ns = std::min(source.period_ns, 40 * kMs);
            }
            for (int k = 0; k < 3; ++k)
                s.exact_queues.push_back(static_cast<uint32_t>(random.between(1, 12)));
        }
        record(s, arrivals(s, seed));
    }
}

// Stamps a few nanoseconds apart: ties everywhere, and the rounding of the age penalty decides.
void nanosecond_scenarios() {
    for (uint64_t seed = 2000; seed < 2060; ++seed) {
        Random random(seed);
        Scenario s{"nanoseconds_" + std::to_string(seed),
                   sources(static_cast<int>(random.between(2, 4)), {})};
        s.approximate.clear();
        for (const double penalty : {0.0, 0.1, 0.25, 0.5, 0.7}) {
            s.approximate.push_back({static_cast<uint32_t>(random.between(1, 12)),
                                     penalty,
                                     random.chance(25) ? random.between(0, 12) : -1,
                                     {}});
            if (random.chance(30)) {
                for (size_t i = 0; i < s.sources.size(); ++i)
                    s.approximate.back().lower_bounds_ns.push_back(random.below(8));
            }
        }
        const bool in_order = random.chance(70);
        const int64_t step = random.chance(40) ? 3 : 15;
        if (step == 3) s.exact_queues = {1, 4, 10};
        std::vector<int64_t> now(s.sources.size(), 0);
        std::vector<Item> items;
        for (int k = 0; k < 120; ++k) {
            const auto input = static_cast<size_t>(random.below(static_cast<int64_t>(now.size())));
            now[input] += in_order ? random.between(0, step) : random.between(-step / 3, step);
            now[input] = std::max<int64_t>(0, now[input]);
            items.push_back({static_cast<int>(input), now[input]});
        }
        record(s, items);
    }
}

}  // namespace

int main() {
    ros::console::shutdown();  // hides warnings about stamps that go back: they do so on purpose
    ros::Time::init();
    std::printf("# SPDX-License-Identifier: Apache-2.0\n");
    std::printf(
        "# Sets that ROS 1 message_filters forms. Written by tests/message_filters/generate.cpp; "
        "format there.\n");
    named_scenarios();
    random_scenarios();
    nanosecond_scenarios();
}
