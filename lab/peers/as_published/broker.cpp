// SPDX-License-Identifier: Apache-2.0
// FastCycle, as its paper describes it: all modules run in one process. A publisher puts a shared
// pointer into the queue of each subscriber. The main thread polls the queues and has a pool of
// threads call the subscribers.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "links.hpp"

namespace published {
namespace {

using peers::Handler;
using peers::Job;

struct Message {
    std::shared_ptr<std::byte[]> bytes;
    std::size_t size;
};

/// A subscriber's side of the broker.
class Queue {
public:
    explicit Queue(std::size_t depth) : depth_(depth) {}

    void push(const Message& message) {
        std::lock_guard lock(mutex_);
        if (messages_.size() == depth_) messages_.pop_front();
        messages_.push_back(message);
    }

    /// Returns true if a message waits and no call runs; the caller must then have a thread call
    /// serve().
    bool claim() {
        std::lock_guard lock(mutex_);
        if (busy_ || handler_ == nullptr || messages_.empty()) return false;
        busy_ = true;
        return true;
    }

    /// Calls the subscriber with its oldest message.
    void serve(peers::Receiver& receiver) {
        std::unique_lock lock(mutex_);
        if (!messages_.empty() && handler_ != nullptr) {
            const auto message = std::move(messages_.front());
            messages_.pop_front();
            auto* handler = handler_;
            lock.unlock();
            const bool goes_on =
                handler->on_sample(0, {message.bytes.get(), message.size}, receiver);
            lock.lock();
            if (!goes_on) handler_ = nullptr;
        }
        busy_ = false;
        idle_.notify_all();
    }

    void attach(Handler* handler) {
        std::unique_lock lock(mutex_);
        handler_ = handler;
        if (handler == nullptr) idle_.wait(lock, [&] { return !busy_; });
    }

private:
    std::mutex mutex_;
    std::condition_variable idle_;
    std::deque<Message> messages_;
    std::size_t depth_;
    Handler* handler_ = nullptr;
    bool busy_ = false;
};

class Pool {
public:
    explicit Pool(unsigned threads) {
        for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
    }
    ~Pool() {
        {
            std::lock_guard lock(mutex_);
            stops_ = true;
        }
        work_.notify_all();
        for (auto& t : threads_) t.join();
    }

    void give(std::function<void()> job) {
        {
            std::lock_guard lock(mutex_);
            jobs_.push_back(std::move(job));
        }
        work_.notify_one();
    }

private:
    void run() {
        for (;;) {
            std::unique_lock lock(mutex_);
            work_.wait(lock, [&] { return stops_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            const auto job = std::move(jobs_.front());
            jobs_.pop_front();
            lock.unlock();
            job();
        }
    }

    std::mutex mutex_;
    std::condition_variable work_;
    std::deque<std::function<void()>> jobs_;
    std::vector<std::thread> threads_;
    bool stops_ = false;
};

class Broker {
public:
    Broker(unsigned threads, bool spins) : pool_(threads), main_([this, spins] { poll(spins); }) {}
    ~Broker() {
        stops_ = true;
        main_.join();
    }

    void add(const std::string& topic, peers::Receiver& receiver, std::shared_ptr<Queue> queue) {
        std::lock_guard lock(mutex_);
        subscribers_.push_back({topic, &receiver, std::move(queue)});
    }

    void remove(const Queue& queue) {
        std::lock_guard lock(mutex_);
        std::erase_if(subscribers_, [&](const auto& s) { return s.queue.get() == &queue; });
    }

    void publish(const std::string& topic, const Message& message) {
        std::lock_guard lock(mutex_);
        for (auto& s : subscribers_) {
            if (s.topic == topic) s.queue->push(message);
        }
    }

    std::size_t subscribers(const std::string& topic) {
        std::lock_guard lock(mutex_);
        return static_cast<std::size_t>(
            std::count_if(subscribers_.begin(), subscribers_.end(),
                          [&](const auto& s) { return s.topic == topic; }));
    }

private:
    struct Subscriber {
        std::string topic;
        peers::Receiver* receiver;
        std::shared_ptr<Queue> queue;
    };

    void poll(bool spins) {
        while (!stops_) {
            {
                std::lock_guard lock(mutex_);
                for (auto& s : subscribers_) {
                    if (s.queue->claim())
                        pool_.give(
                            [receiver = s.receiver, queue = s.queue] { queue->serve(*receiver); });
                }
            }
            if (!spins) std::this_thread::sleep_for(poll_interval);
        }
    }

    std::mutex mutex_;
    std::vector<Subscriber> subscribers_;
    std::atomic<bool> stops_{false};
    Pool pool_;
    std::thread main_;
};

class BrokerSender final : public peers::Sender {
public:
    BrokerSender(Broker& broker, std::string topic, std::size_t size)
        : broker_(broker), topic_(std::move(topic)), size_(size) {}
    bool matched(std::size_t receivers) override {
        return broker_.subscribers(topic_) >= receivers;
    }
    std::span<std::byte> loan() override {
        if (!bytes_) bytes_ = std::make_shared_for_overwrite<std::byte[]>(size_);
        return {bytes_.get(), size_};
    }
    void publish() override {
        broker_.publish(topic_, {std::move(bytes_), size_});
        bytes_.reset();
    }

private:
    Broker& broker_;
    std::string topic_;
    std::size_t size_;
    std::shared_ptr<std::byte[]> bytes_;
};

class BrokerReceiver final : public peers::Receiver {
public:
    BrokerReceiver(Broker& broker, const std::string& topic, std::size_t depth)
        : broker_(broker), queue_(std::make_shared<Queue>(depth)) {
        broker_.add(topic, *this, queue_);
    }
    ~BrokerReceiver() override {
        broker_.remove(*queue_);
        queue_->attach(nullptr);
    }
    bool matched() override { return true; }
    std::span<const std::byte> take() override { return {}; }
    void wait(std::chrono::nanoseconds) override {}
    bool calls_back() const override { return true; }
    void attach(Handler* handler) override { queue_->attach(handler); }

private:
    Broker& broker_;
    std::shared_ptr<Queue> queue_;
};

class BrokerLink final : public peers::Link {
public:
    explicit BrokerLink(const Job& job)
        : job_(job), broker_(pool_threads, job.wait == peers::WaitKind::spin) {}
    std::unique_ptr<peers::Sender> sender(const std::string& topic, std::size_t) override {
        return std::make_unique<BrokerSender>(broker_, topic, job_.size);
    }
    std::unique_ptr<peers::Receiver> receiver(const std::string& topic, std::size_t) override {
        return std::make_unique<BrokerReceiver>(broker_, topic, job_.depth);
    }

private:
    Job job_;
    Broker broker_;
};

}  // namespace

std::unique_ptr<peers::Link> broker_link(const Job& job) {
    return std::make_unique<BrokerLink>(job);
}

}  // namespace published
