// SPDX-License-Identifier: Apache-2.0
// SIM, as its paper describes it: one writer, two buffers in shared memory, and a word that names
// the newest one. The writer fills the other buffer and switches the word; a reader copies the
// newest one. The reader does not check again after copying, so a reader that is slower than two
// samples gets a mixture. This is the published algorithm, implemented to show this effect.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <thread>

#include "links.hpp"

namespace published {
namespace {

using namespace std::chrono_literals;
using peers::Job;

/// At the beginning of the shared memory.
struct alignas(64) Shared {
    /// Number of samples published; the newest is in buffer `count` mod 2. Readers also sleep on
    /// this word.
    std::atomic<std::uint32_t> count;
    /// Number of readers that have connected.
    std::atomic<std::uint32_t> readers;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free,
              "another process uses the same word");

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

class Memory {
public:
    Memory(const Job& job, const std::string& topic, std::size_t distance)
        : path_(job.domain_dir / (topic + ".sim")),
          distance_(distance == 0 ? (job.size + 63) / 64 * 64 : distance),
          bytes_(sizeof(Shared) + distance_ + job.size) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
        if (base_ != nullptr) munmap(base_, bytes_);
    }

    /// Creates the shared memory; called by the writer. A reader finds it only once it is complete.
    void create() {
        auto unfinished = path_;
        unfinished += ".new";
        const int fd = ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes_)) != 0)
            fail("making " + unfinished.string());
        map(fd);
        // Touches all pages now, so that no measured sample causes page faults.
        std::memset(base_, 0, bytes_);
        std::filesystem::rename(unfinished, path_);
    }

    /// Called by a reader; returns false while there is no shared memory.
    bool open() {
        if (base_ != nullptr) return true;
        const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) return false;
        map(fd);
        shared().readers.fetch_add(1);
        return true;
    }

    Shared& shared() const { return *static_cast<Shared*>(base_); }
    std::byte* buffer(std::uint32_t count) const {
        return static_cast<std::byte*>(base_) + sizeof(Shared) + (count % 2 == 0 ? 0 : distance_);
    }

private:
    void map(int fd) {
        void* base =
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        ::close(fd);
        if (base == MAP_FAILED) fail("mapping " + path_.string());
        base_ = base;
    }

    std::filesystem::path path_;
    std::size_t distance_;
    std::size_t bytes_;
    void* base_ = nullptr;
};

class Writer final : public peers::Sender {
public:
    Writer(const Job& job, const std::string& topic, std::size_t distance)
        : memory_(job, topic, distance), size_(job.size) {
        memory_.create();
    }

    bool matched(std::size_t receivers) override {
        return memory_.shared().readers.load() >= receivers;
    }

    std::span<std::byte> loan() override {
        return {memory_.buffer(memory_.shared().count.load() + 1), size_};
    }

    void publish() override {
        auto& count = memory_.shared().count;
        count.fetch_add(1);
        syscall(SYS_futex, &count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }

private:
    Memory memory_;
    std::size_t size_;
};

class Reader final : public peers::Receiver {
public:
    Reader(const Job& job, const std::string& topic, std::size_t distance)
        : memory_(job, topic, distance), payload_(job.size, std::byte{1}) {}

    bool matched() override { return memory_.open(); }

    std::span<const std::byte> take() override {
        if (!memory_.open()) return {};
        const auto count = memory_.shared().count.load();
        if (count == seen_) return {};
        // During this copy, the writer may return to this buffer.
        std::memcpy(payload_.data(), memory_.buffer(count), payload_.size());
        seen_ = count;
        return payload_;
    }

    void wait(std::chrono::nanoseconds limit) override {
        if (!memory_.open()) {
            std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(limit, 500us));
            return;
        }
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
        const timespec timeout{static_cast<time_t>(seconds.count()),
                               static_cast<long>((limit - seconds).count())};
        // The call returns at once if the word has already changed; take() checks it.
        syscall(SYS_futex, &memory_.shared().count, FUTEX_WAIT, seen_, &timeout, nullptr, 0);
    }

private:
    Memory memory_;
    std::vector<std::byte> payload_;
    std::uint32_t seen_ = 0;
};

class TwoBufferLink final : public peers::Link {
public:
    TwoBufferLink(const Job& job, std::size_t distance) : job_(job), distance_(distance) {}
    void resize(std::size_t size) override { job_.size = size; }
    std::unique_ptr<peers::Sender> sender(const std::string& topic, std::size_t) override {
        return std::make_unique<Writer>(job_, topic, distance_);
    }
    std::unique_ptr<peers::Receiver> receiver(const std::string& topic, std::size_t) override {
        return std::make_unique<Reader>(job_, topic, distance_);
    }

private:
    Job job_;
    std::size_t distance_;
};

}  // namespace

std::unique_ptr<peers::Link> two_buffer_link(const Job& job, std::size_t second_buffer_distance) {
    return std::make_unique<TwoBufferLink>(job, second_buffer_distance);
}

}  // namespace published
