// SPDX-License-Identifier: Apache-2.0
// A second source file of the same library.
#include <chrono>
#include <cstdint>

#include <driveline/driveline.hpp>

namespace {

struct Late {
    std::uint64_t missed;
};
DRIVELINE_PLAIN(Late, "test/Late", missed);

/// A class without parameters. Loading a library constructs each class once to describe it.
class Quiet : public driveline::Component {
    driveline::Input<driveline::Bytes> raw_{*this, "raw", driveline::Bytes{"cdr"}, "anything"};
};
DRIVELINE_COMPONENT(Quiet, "does nothing");

/// Publishes the number of its missed deadlines, as counted by its events, every 20 ms.
class LateSource : public driveline::Component {
    driveline::Status on_event(const driveline::PortEvent& event) override {
        if (event.kind != driveline::Event::Kind::deadline_missed || !event.is_output ||
            event.port != "out")
            return {};
        missed_ += event.missed;
        if (missed_ != event.total)
            return driveline::Error{"missed and total disagree: " + event.text};
        return {};
    }
    driveline::Output<Late> out_{*this, "out"};
    std::uint64_t missed_ = 0;
    driveline::Timer timer_{
        *this, std::chrono::milliseconds(20),
        [this](const driveline::TimerTick&) { return out_.publish(Late{missed_}); }};
};
DRIVELINE_COMPONENT(LateSource, "keeps no deadline");

/// Finishes once both the publisher and this subscription were notified of a missed deadline.
class LateSink : public driveline::Component {
    driveline::Status on_trigger(const driveline::Invocation&) override {
        const auto late = in_.sample();
        if (!late || (*late)->missed == 0 || missed_ == 0) return {};
        log_info("both ends were notified");
        finish();
        return {};
    }
    driveline::Status on_event(const driveline::PortEvent& event) override {
        if (event.kind == driveline::Event::Kind::deadline_missed && !event.is_output &&
            event.port == "in")
            missed_ = event.total;
        return {};
    }
    driveline::Input<Late> in_{*this, "in"};
    std::uint64_t missed_ = 0;
};
DRIVELINE_COMPONENT(LateSink, "waits for a missed deadline");

}  // namespace
