// SPDX-License-Identifier: Apache-2.0
// A component with unusual errors: without a text, with millions of bytes, with invisible
// characters.
#include <chrono>
#include <exception>
#include <string>

#include <driveline/driveline.hpp>

namespace {

struct WithoutText : std::exception {
    [[nodiscard]] const char* what() const noexcept override { return nullptr; }
};

}  // namespace

class Odd : public driveline::Component {
    driveline::Parameter<std::uint32_t> init_error_{*this, "init_error", 0u,
                                                    "length of init's error in bytes; 0 for none"};
    driveline::Timer timer_{*this, std::chrono::milliseconds(5),
                            [this](const driveline::TimerTick&) -> driveline::Status {
                                switch (++ticks_) {
                                    case 1:
                                        throw static_cast<const char*>(nullptr);
                                    case 2:
                                        throw nullptr;
                                    case 3:
                                        throw WithoutText();
                                    case 4:
                                        return driveline::Error{std::string("cut\0off", 7)};
                                    default:
                                        log_info("left\u202eright", std::string("zero\0byte", 9));
                                        finish();
                                        return {};
                                }
                            }};

    driveline::Status init() override {
        if (*init_error_ == 0) return {};
        return driveline::Error{std::string(*init_error_, 'e')};
    }

    int ticks_ = 0;
};
DRIVELINE_COMPONENT(Odd, "fails in odd ways");
