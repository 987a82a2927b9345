// SPDX-License-Identifier: Apache-2.0
#include "stage.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "loops.hpp"
#include "recorder.hpp"
#include "stage_ends.hpp"
#include "work_library.hpp"

namespace peers {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t second_ns = 1'000'000'000U;
constexpr std::uint64_t first_limit_ns = 60 * second_ns;
constexpr std::uint64_t silence_limit_ns = 20 * second_ns;
/// A source gives up this long after twice the planned duration of its schedule. The remaining
/// samples count as not sent.
constexpr std::uint64_t patience_ns = 5 * second_ns;
/// Rest of a source before its first message: receivers notice a sender later than it notices them.
constexpr auto before_first = milliseconds(200);
/// Rest before the end mark, so that it replaces no unread message.
constexpr auto before_end = milliseconds(100);

/// Returns Driveline as a middleware. Its library `driveline_link.so` is in `lib` next to the
/// programs, if they were built with Driveline.
Middleware& driveline() {
    const auto library =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lib" / "driveline_link.so";
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* why = dlerror();
        throw std::runtime_error("an edge is to be carried by Driveline, but " +
                                 std::string(why == nullptr ? library.string() : why) +
                                 ": build the peers after Driveline itself (`make peers`)");
    }
    auto* middleware = reinterpret_cast<Middleware* (*)()>(dlsym(handle, "peers_driveline"));
    if (middleware == nullptr)
        throw std::runtime_error(
            library.string() +
            " has no function 'peers_driveline': build all peers from the same source");
    return *middleware();
}

/// State of each middleware that carries one of the process's edges. The stages of the process
/// share it, a thread each. A lock makes them create and destroy ends one after the other, because
/// middleware need not support that from several threads at once.
class Links {
public:
    Links(Middleware& own, const Job& job) : own_(own), job_(job) {}

    std::unique_lock<std::mutex> alone() { return std::unique_lock(mutex_); }

    std::unique_ptr<Sender> sender(const Edge& edge) {
        const auto lock = alone();
        auto& link = of(edge);
        link.resize(edge.size);
        return link.sender(edge.topic, edge.readers);
    }
    std::unique_ptr<Receiver> receiver(const Edge& edge) {
        const auto lock = alone();
        auto& link = of(edge);
        link.resize(edge.size);
        return link.receiver(edge.topic, edge.index);
    }

private:
    Link& of(const Edge& edge) {
        if (edge.system == job_.system) {
            if (!link_) link_ = own_.join(job_);
            return *link_;
        }
        if (edge.system != "driveline") {
            throw std::runtime_error("the edge '" + edge.topic + "' is to be carried by " +
                                     edge.system + ", but this program carries " + job_.system +
                                     " and driveline");
        }
        if (!driveline_) {
            // A directory of its own, so that ends of the middleware and of Driveline do not find
            // each other's files.
            Job job = job_;
            job.domain_dir /= "driveline";
            driveline_ = driveline().join(job);
        }
        return *driveline_;
    }

    Middleware& own_;
    const Job& job_;
    std::mutex mutex_;
    std::unique_ptr<Link> link_;
    std::unique_ptr<Link> driveline_;
};

/// A work with its measurements.
class Stage {
public:
    Stage(const Job& job, const StageJob& stage)
        : job_(job),
          name_(stage.name),
          total_(job.total() + stage.cool_down),
          work_(stage.work, stage.parameters),
          rows_(total_ + 1, StageRow{1}) {
        rows_.clear();
    }

    void writes_to(std::unique_ptr<Sender> sender, const Edge& edge) {
        output_.emplace(std::move(sender), edge);
        output_->await_match();
    }

    /// Works, publishes, and records the stamps. `row` has the stamps up to `in_hand`.
    void work(StageRow row, std::span<const work_input> inputs) {
        ++account_.worked;
        row[4] = row[5] = now_ns();
        try {
            work_call call{row[0], inputs.data(), inputs.size(), nullptr, 0, 0};
            if (output_) {
                const auto content = output_->content();
                call.output = reinterpret_cast<unsigned char*>(content.data());
                call.capacity = content.size();
            }
            const bool gives = work_.process(call);
            row[5] = now_ns();
            if (!gives) {
                if (output_) ++account_.no_output;
            } else if (output_) {
                const auto sent = output_->publish(row[0], row[1], call.written);
                row[6] = sent.before_publish;
                row[7] = sent.returned;
                if (row[1] == 0) row[1] = sent.before_publish;
            }
        } catch (const NotSent& e) {
            ++account_.not_sent[e.what()];
        }
        if (rows_.size() < rows_.capacity()) rows_.push_back(row);
    }

    void skip() { ++account_.skipped; }

    void produce() {
        std::this_thread::sleep_for(before_first);
        const auto start = now_ns() + 1'000'000U;
        const auto due = [&](std::uint64_t i) {
            return job_.rate_hz ? start + static_cast<std::uint64_t>(static_cast<double>(i) * 1e9 /
                                                                     *job_.rate_hz)
                                : now_ns();
        };
        const auto give_up =
            job_.rate_hz ? start + 2 * (due(total_) - start) + patience_ns : UINT64_MAX;
        for (std::uint64_t i = 0; i < total_; ++i) {
            if (now_ns() > give_up) {
                account_.not_sent["the source fell behind its schedule for too long"] += total_ - i;
                account_.worked += total_ - i;
                break;
            }
            const auto at = due(i);
            sleep_until(at);
            work({i + 1, 0, 0, at, 0, 0, 0, 0}, {});
        }
        std::this_thread::sleep_for(before_end);
    }

    void end() {
        if (output_) output_->end();
    }

    StageAccount finish() {
        account_.rows_file = (job_.raw_dir / (name_ + ".stage")).string();
        std::ofstream file(account_.rows_file, std::ios::binary);
        file.write(reinterpret_cast<const char*>(rows_.data()),
                   static_cast<std::streamsize>(rows_.size() * sizeof(StageRow)));
        file.close();
        if (!file)
            throw std::runtime_error("cannot write the stamps to " + account_.rows_file + ": " +
                                     std::strerror(errno));
        if (output_) {
            account_.published = output_->published();
            account_.unset = output_->unset();
        }
        account_.report = work_.report();
        return std::move(account_);
    }

    void close() { output_.reset(); }

private:
    const Job& job_;
    std::string name_;
    std::uint64_t total_;
    WorkLibrary work_;
    std::vector<StageRow> rows_;
    std::optional<Output> output_;
    StageAccount account_;
};

/// Feeds a stage from its inputs.
class Inputs final : public Loop {
public:
    Inputs(const Job& job, Stage& stage, const Edge& trigger,
           std::vector<std::unique_ptr<OtherInput>>& others)
        : stage_(stage),
          tally_(trigger.topic),
          others_(others),
          given_(1 + others.size()),
          unmatched_(others.size()) {
        silence_ns_ =
            silence_limit_ns + static_cast<std::uint64_t>(2e9 / job.rate_hz.value_or(1e3));
        give_up_at(now_ns() + first_limit_ns);
    }

    bool on_sample(std::uint64_t, std::span<const std::byte> payload, Receiver& receiver) override {
        const auto in_hand = now_ns();
        if (const auto head = tally_.note(payload); head && !head->is_end) {
            given_[0] = input_of(payload, *head);
            bool is_complete = true;
            for (std::size_t i = 0; i < others_.size(); ++i) {
                const auto newest = others_[i]->newest();
                if (newest) given_[i + 1] = *newest;
                is_complete = is_complete && newest;
            }
            if (is_complete) {
                stage_.work({head->origin, head->source_time_ns, head->publish_time_ns, in_hand, 0,
                             0, 0, 0},
                            given_);
            } else {
                stage_.skip();
            }
        }
        receiver.release();
        give_up_at(now_ns() + silence_ns_);
        return !tally_.has_ended();
    }

    /// Before the first message, some middleware has to be polled until it has connected the other
    /// inputs.
    bool is_restless() const override { return unmatched_ > 0; }
    void on_silence() override {
        unmatched_ = 0;
        for (auto& other : others_) unmatched_ += other->receiver().matched() ? 0U : 1U;
    }

    const Tally& tally() const { return tally_; }
    std::uint64_t silence_ns() const { return silence_ns_; }

private:
    Stage& stage_;
    Tally tally_;
    std::vector<std::unique_ptr<OtherInput>>& others_;
    std::vector<work_input> given_;
    std::size_t unmatched_;
    std::uint64_t silence_ns_;
};

}  // namespace

namespace {

/// Runs a stage from its ends to its account.
StageAccount live(const Job& job, const StageJob& described, Links& links,
                  std::vector<std::string> refused, const std::function<void()>& ready) {
    Stage stage(job, described);
    std::unique_ptr<Receiver> trigger;
    std::vector<std::unique_ptr<OtherInput>> others;
    for (const auto& edge : described.inputs) {
        if (!trigger) {
            trigger = links.receiver(edge);
        } else {
            others.push_back(std::make_unique<OtherInput>(links.receiver(edge), edge));
        }
    }
    if (described.output) stage.writes_to(links.sender(*described.output), *described.output);
    ready();

    StageAccount account;
    if (trigger) {
        Inputs loop(job, stage, described.inputs.front(), others);
        // Giving up is not a failure: the account shows missing messages.
        drive(job, *trigger, loop);
        const auto deadline = now_ns() + loop.silence_ns();
        for (auto& other : others) other->read_to_end(deadline);
        stage.end();
        account = stage.finish();
        account.inputs.push_back(loop.tally().account());
    } else {
        stage.produce();
        stage.end();
        account = stage.finish();
    }
    account.unset.insert(account.unset.end(), refused.begin(), refused.end());
    for (auto& other : others) {
        account.inputs.push_back(other->tally().account());
        const auto unset = other->receiver().unset();
        account.unset.insert(account.unset.end(), unset.begin(), unset.end());
    }
    if (trigger) {
        const auto unset = trigger->unset();
        account.unset.insert(account.unset.end(), unset.begin(), unset.end());
    }
    const auto lock = links.alone();
    stage.close();
    others.clear();
    trigger.reset();
    return account;
}

}  // namespace

std::string run_stage(Middleware& middleware, const Job& job, const std::string& line,
                      std::vector<std::string> refused, const std::function<void()>& ready) {
    const auto described = StageJob::parse(line);
    Links links(middleware, job);
    return stages_done({live(job, described, links, std::move(refused), ready)});
}

std::string run_stages(Middleware& middleware, const Job& job, const std::string& line,
                       const std::function<void()>& ready,
                       const std::function<void(const std::string&)>& fail) {
    const auto described = StageJob::parse_all(line);
    Links links(middleware, job);
    std::vector<std::future<StageAccount>> threads;
    for (const auto& stage : described) {
        auto started = std::make_shared<std::promise<void>>();
        auto is_started = started->get_future();
        threads.push_back(std::async(std::launch::async, [&, started] {
            try {
                Job own = job;
                own.publisher_cpu = stage.cpu;
                return live(own, stage, links, settle(own, own.publisher_cpu),
                            [&] { started->set_value(); });
            } catch (const std::exception& e) {
                // The other stages wait for messages that will never come.
                fail("the stage '" + stage.name + "': " + e.what());
                std::_Exit(1);
            }
        }));
        // Readers before their writers, as between processes.
        is_started.wait();
    }
    ready();
    std::vector<StageAccount> accounts;
    for (auto& thread : threads) accounts.push_back(thread.get());
    return stages_done(accounts);
}

}  // namespace peers
