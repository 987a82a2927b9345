// SPDX-License-Identifier: Apache-2.0
// Wrong use returns an error with cause and place, and never crashes.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <driveline/protobuf.hpp>

#include "driveline/msgs/lane_markings.pb.h"
#include "domain.hpp"

namespace other {

// The type demo::Speed as another program declares it, with another field.
struct Speed {
    std::uint64_t time_ns;
    double kilometres_per_hour;
};
DRIVELINE_PLAIN(Speed, "demo/Speed", time_ns, kilometres_per_hour);

}  // namespace other

namespace demo {

struct Speed {
    std::uint64_t time_ns;
    double metres_per_second;
};
DRIVELINE_PLAIN(Speed, "demo/Speed", time_ns, metres_per_second);

struct Object {
    int value;
};

}  // namespace demo

namespace {

using driveline::Image;

void expect(const driveline::Error& error, dl_status status,
            const std::vector<std::string>& words) {
    EXPECT_EQ(error.status, status) << error.message;
    for (const auto& word : words)
        EXPECT_NE(error.message.find(word), std::string::npos)
            << "no '" << word << "' in: " << error.message;
}

TEST(Errors, NamesAreChecked) {
    test::Domain domain;
    expect(domain.context.node("two words").error(), DL_ERROR_NAME, {"two words"});
    expect(domain.node.publisher<Image>("a//b").error(), DL_ERROR_NAME, {"a//b"});
    expect(domain.node.subscription<Image>("").error(), DL_ERROR_NAME, {});
    expect(driveline::topic_id("?").error(), DL_ERROR_NAME, {"?"});
}

TEST(Errors, ADomainDirectoryThatIsAFileIsReported) {
    test::Directory directory;
    const std::string file = directory / "file";
    std::fclose(std::fopen(file.c_str(), "w"));
    auto context = driveline::Context::create("test", file);
    // Some errors may only occur when the first host topic is created.
    const auto error =
        context
            ? context->node("n")->publisher<Image>("t", {.reach = driveline::Reach::host}).error()
            : context.error();
    EXPECT_NE(error.message.find(file), std::string::npos) << error.message;
}

class LoanErrors : public testing::TestWithParam<driveline::Reach> {
protected:
    test::Domain domain_;
};
INSTANTIATE_TEST_SUITE_P(Reach, LoanErrors,
                         testing::Values(driveline::Reach::process, driveline::Reach::host),
                         [](const auto& p) {
                             return p.param == driveline::Reach::process ? "process" : "host";
                         });

TEST_P(LoanErrors, TooLongAndTooManyAreRefused) {
    auto publisher =
        domain_.node
            .publisher<Image>("camera", {.reach = GetParam(), .max_payload = 4096, .loans = 2})
            .value();
    expect(publisher.loan(640, 480, driveline::Encoding::bgr8).error(), DL_ERROR_TOO_LONG,
           {"'camera'", "4096", "max_payload"});
    auto first = publisher.loan(10).value();
    auto second = publisher.loan(10).value();
    expect(publisher.loan(10).error(), DL_ERROR_LOANS_OUT, {"'camera'", "2"});
    { const auto dropped = std::move(first); }
    EXPECT_TRUE(publisher.loan(10)) << "a dropped loan is not returned";
}

TEST_P(LoanErrors, ALoanIsPublishedOnce) {
    auto publisher = domain_.node.publisher<Image>("camera", {.reach = GetParam()}).value();
    auto loan = publisher.loan(10).value();
    EXPECT_TRUE(loan);
    EXPECT_TRUE(publisher.publish(std::move(loan)));
    EXPECT_FALSE(loan);  // NOLINT: the point of the test
    expect(publisher.publish(std::move(loan)).error(), DL_ERROR_ARGUMENT,
           {"loan", "published"});  // NOLINT: likewise
    EXPECT_EQ(publisher.stats().published, 1u);
}

TEST_P(LoanErrors, ALoanBelongsToItsPublisher) {
    auto one = domain_.node.publisher<Image>("one", {.reach = GetParam()}).value();
    auto two = domain_.node.publisher<Image>("two", {.reach = GetParam()}).value();
    auto loan = one.loan(10).value();
    EXPECT_FALSE(two.publish(std::move(loan)));
    EXPECT_EQ(two.stats().published, 0u);
    EXPECT_TRUE(one.loan(10)) << "the refused loan is not returned";
}

TEST_P(LoanErrors, AMismatchOfTypesNamesTheFirstFieldThatDiffers) {
    auto publisher = domain_.node.publisher<demo::Speed>("speed", {.reach = GetParam()}).value();
    auto subscription =
        domain_.node.subscription<other::Speed>("speed", {.reach = GetParam()}).value();
    std::optional<driveline::Event> event;
    ASSERT_TRUE(test::eventually([&] { return (event = subscription.poll_event()).has_value(); }));
    EXPECT_EQ(event->kind, driveline::Event::Kind::refused);
    for (const char* word : {"speed", "demo/Speed", "metres_per_second", "kilometres_per_hour"}) {
        EXPECT_NE(event->text.find(word), std::string::npos) << event->text;
    }
    ASSERT_TRUE(test::eventually([&] { return (event = publisher.poll_event()).has_value(); }));
    EXPECT_EQ(event->kind, driveline::Event::Kind::refused);
    EXPECT_EQ(publisher.matched(), 0u);
}

TEST(Errors, AnEmptyPointerIsNotPublished) {
    test::Domain domain;
    auto publisher = domain.node.publisher<demo::Object>("object").value();
    expect(publisher.publish(std::unique_ptr<demo::Object>()).error(), DL_ERROR_ARGUMENT, {"null"});
}

template <class T>
concept HasRows = requires(const T& loan) {
    loan.image();
};
static_assert(HasRows<driveline::ImageLoan>);
static_assert(!HasRows<driveline::Loan<Image>>, "a loan without a width and height has no rows");

TEST(Errors, AnImageWhoseNumbersDoNotFitItsPixelsIsNotRead) {
    test::Domain domain;
    auto link = test::Link<Image>::make(domain);
    auto loan = link.publisher.loan(100).value();
    loan.head() = driveline::make_image({}, 20, 20, driveline::Encoding::mono8).value();
    link.publisher.publish(std::move(loan)).value();
    expect(link.subscription.latest().error(), DL_ERROR_DECODE,
           {"sample 1", "20 rows", "need 400", "100 bytes"});
    auto good = link.publisher.loan(10, 10, driveline::Encoding::mono8).value();
    link.publisher.publish(std::move(good)).value();
    EXPECT_EQ(link.receive()->width, 10u) << "the next image is not read";
}

TEST(Errors, ParametersKeepTheirTypeAndSuggestNames) {
    test::Domain domain;
    domain.node.declare_parameter("canny_low", 50).value();
    domain.node.declare_parameter("rate_hz", 10.0).value();
    domain.node.declare_parameter("model", std::string("none")).value();
    domain.node.declare_parameter("enabled", true).value();
    EXPECT_EQ(domain.node.parameter<int>("canny_low").value(), 50);
    EXPECT_EQ(domain.node.parameter<std::string>("model").value(), "none");
    EXPECT_TRUE(domain.node.parameter<bool>("enabled").value());
    domain.node.set_parameter("rate_hz", 25).value();
    EXPECT_EQ(domain.node.parameter<double>("rate_hz").value(), 25.0);
    expect(domain.node.parameter<int>("cany_low").error(), DL_ERROR_PARAMETER,
           {"cany_low", "canny_low"});
    expect(domain.node.set_parameter("canny_low", std::string("much")).error(), DL_ERROR_PARAMETER,
           {"canny_low", "integer", "text"});
    expect(domain.node.parameter<double>("canny_low").error(), DL_ERROR_PARAMETER,
           {"canny_low", "an integer"});
    domain.node.set_parameter("canny_low", 300).value();
    expect(domain.node.parameter<std::uint8_t>("canny_low").error(), DL_ERROR_PARAMETER,
           {"300", "255"});
    domain.node.set_parameter("canny_low", -1).value();
    expect(domain.node.parameter<std::uint64_t>("canny_low").error(), DL_ERROR_PARAMETER, {"-1"});
}

TEST(CLibrary, NullIsRefusedByName) {
    dl_context* context = nullptr;
    EXPECT_EQ(dl_context_new(nullptr, nullptr, &context), DL_ERROR_ARGUMENT);
    EXPECT_NE(std::strstr(dl_last_error(), "'name'"), nullptr) << dl_last_error();
    EXPECT_EQ(dl_context_new("x", nullptr, nullptr), DL_ERROR_ARGUMENT);
    EXPECT_NE(std::strstr(dl_last_error(), "'context'"), nullptr) << dl_last_error();
    EXPECT_EQ(dl_context_new("\xff", nullptr, &context), DL_ERROR_ARGUMENT);
    EXPECT_NE(std::strstr(dl_last_error(), "UTF-8"), nullptr) << dl_last_error();

    dl_node* node = nullptr;
    dl_publisher* publisher = nullptr;
    dl_subscription* subscription = nullptr;
    dl_loan* loan = nullptr;
    dl_sample* sample = nullptr;
    std::uint64_t number = 0;
    int flag = 0;
    std::size_t size = 0;
    std::uint8_t* data = nullptr;
    const std::uint8_t* const_data = nullptr;
    const void* object = nullptr;
    dl_event event{};
    EXPECT_EQ(dl_node_new(nullptr, "n", &node), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_publisher_new(nullptr, "t", nullptr, nullptr, &publisher), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_publisher_loan(nullptr, 1, &loan), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_publisher_publish(nullptr, &loan, &number), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_publisher_publish(nullptr, nullptr, nullptr), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_publisher_publish_object(nullptr, &number, nullptr, 0, nullptr),
              DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_publisher_poll_event(nullptr, &event), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_publisher_matched(nullptr), 0u);
    EXPECT_EQ(dl_loan_payload(nullptr, &data, &size), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_loan_shrink(nullptr, 1), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_subscription_new(nullptr, "t", nullptr, nullptr, &subscription),
              DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_subscription_latest(nullptr, &sample), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_subscription_wait(nullptr, 0, 0, 0, &flag), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_subscription_fd(nullptr, &flag), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_sample_payload(nullptr, &const_data, &size), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_sample_object(nullptr, "x", &object), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_sample_clone(nullptr, &sample), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_sample_get_header(nullptr, nullptr), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_schema_hash(nullptr, nullptr), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_schema_name(nullptr).len, 0u);
    EXPECT_EQ(dl_component_io_finish(nullptr), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_component_io_output(nullptr, 0), nullptr);
    EXPECT_EQ(dl_invocation_trigger(nullptr), -1);
    EXPECT_EQ(dl_invocation_sample(nullptr, 0, &sample), DL_ERROR_ARGUMENT);
    // Dropping null has no effect.
    dl_context_drop(nullptr);
    dl_context_drop(&context);
    dl_node_drop(&node);
    dl_publisher_drop(&publisher);
    dl_subscription_drop(&subscription);
    dl_loan_drop(&loan);
    dl_sample_drop(&sample);
    dl_schema_drop(nullptr);
    dl_string_drop(nullptr);
}

struct RawPublisher {
    test::Directory directory;
    dl_context* context = nullptr;
    dl_node* node = nullptr;
    dl_schema* schema = nullptr;
    dl_publisher* publisher = nullptr;

    RawPublisher() {
        EXPECT_EQ(dl_context_new("c", (directory / "domain").c_str(), &context), DL_OK);
        EXPECT_EQ(dl_node_new(context, "n", &node), DL_OK);
        EXPECT_EQ(dl_schema_new(DL_KIND_BYTES, "bytes", "text", nullptr, &schema), DL_OK);
        EXPECT_EQ(dl_publisher_new(node, "t", schema, nullptr, &publisher), DL_OK);
    }
    RawPublisher(const RawPublisher&) = delete;
    RawPublisher& operator=(const RawPublisher&) = delete;
    ~RawPublisher() {
        dl_publisher_drop(&publisher);
        dl_schema_drop(&schema);
        dl_node_drop(&node);
        dl_context_drop(&context);
        EXPECT_EQ(context, nullptr);
    }
};

TEST(CLibrary, AConsumedHandleIsNullAndItsSecondUseAnError) {
    RawPublisher c;
    dl_loan* loan = nullptr;
    ASSERT_EQ(dl_publisher_loan(c.publisher, 3, &loan), DL_OK);
    ASSERT_EQ(dl_publisher_publish(c.publisher, &loan, nullptr), DL_OK);
    EXPECT_EQ(loan, nullptr);
    EXPECT_EQ(dl_publisher_publish(c.publisher, &loan, nullptr), DL_ERROR_ARGUMENT);
    EXPECT_NE(std::strstr(dl_last_error(), "published"), nullptr) << dl_last_error();
}

TEST(CLibrary, BytesAndValuesAreNotMixedUp) {
    RawPublisher c;
    static bool dropped = false;
    auto vtable = driveline::detail::sized<dl_object_vtable>();
    vtable.type_id = "int";
    vtable.clone = [](const void* object) { return const_cast<void*>(object); };
    vtable.drop = [](void*) { dropped = true; };
    int value = 1;
    EXPECT_EQ(dl_publisher_publish_object(c.publisher, &value, &vtable, 0, nullptr),
              DL_ERROR_WRONG_KIND);
    EXPECT_TRUE(dropped) << "a moved object is dropped also after an error";
    dl_object_vtable bad = vtable;
    bad.size = offsetof(dl_object_vtable, encode);
    EXPECT_EQ(dl_publisher_publish_object(c.publisher, &value, &bad, 0, nullptr),
              DL_ERROR_ARGUMENT);
    EXPECT_NE(std::strstr(dl_last_error(), "vtable->size = 48"), nullptr) << dl_last_error();
    bad = vtable;
    bad.clone = nullptr;
    EXPECT_EQ(dl_publisher_publish_object(c.publisher, &value, &bad, 0, nullptr),
              DL_ERROR_ARGUMENT);

    dl_schema* schema = nullptr;
    dl_publisher* objects = nullptr;
    dl_loan* loan = nullptr;
    ASSERT_EQ(dl_schema_new(DL_KIND_OBJECT, "x", "c++", nullptr, &schema), DL_OK);
    ASSERT_EQ(dl_publisher_new(c.node, "objects", schema, nullptr, &objects), DL_OK);
    EXPECT_EQ(dl_publisher_loan(objects, 1, &loan), DL_ERROR_WRONG_KIND);
    dl_publisher_drop(&objects);
    dl_schema_drop(&schema);
}

TEST(CLibrary, SchemasAreChecked) {
    dl_schema* schema = nullptr;
    EXPECT_EQ(dl_schema_new(DL_KIND_PLAIN, nullptr, nullptr, "nonsense", &schema), DL_ERROR_SCHEMA);
    EXPECT_NE(std::strstr(dl_last_error(), "line 1"), nullptr) << dl_last_error();
    EXPECT_EQ(dl_schema_new(DL_KIND_PLAIN, nullptr, nullptr, nullptr, &schema), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_schema_new(DL_KIND_PROTOBUF, "x.Y", nullptr, nullptr, &schema), DL_ERROR_ARGUMENT);
    EXPECT_EQ(dl_schema_new(99, "x", "y", "z", &schema), DL_ERROR_ARGUMENT);
    const std::string long_text(40'000, 'x');
    EXPECT_EQ(dl_schema_new(DL_KIND_BYTES, "x", "y", long_text.c_str(), &schema), DL_ERROR_SCHEMA);
    EXPECT_EQ(schema, nullptr);

    const auto hash = [](const char* encoding) {
        dl_schema* s = nullptr;
        std::array<std::uint8_t, 32> out{};
        EXPECT_EQ(dl_schema_new(DL_KIND_BYTES, "name", encoding, nullptr, &s), DL_OK);
        EXPECT_EQ(dl_schema_hash(s, reinterpret_cast<std::uint8_t(*)[32]>(out.data())), DL_OK);
        const dl_text name = dl_schema_name(s);
        EXPECT_EQ(std::string(name.data, name.len), "name");
        dl_schema_drop(&s);
        return out;
    };
    EXPECT_EQ(hash("cdr"), hash("cdr"));
    EXPECT_NE(hash("cdr"), hash("json"));
}

TEST(CLibrary, OptionsOfOtherReleasesAreAcceptedOrRefused) {
    RawPublisher c;
    dl_publisher* publisher = nullptr;
    struct {
        dl_publisher_options known;
        std::uint64_t newer;
    } options{};
    options.known.size = sizeof options;
    EXPECT_EQ(dl_publisher_new(c.node, "newer", c.schema, &options.known, &publisher), DL_OK)
        << dl_last_error();
    dl_publisher_drop(&publisher);
    options.newer = 1;
    EXPECT_EQ(dl_publisher_new(c.node, "newer", c.schema, &options.known, &publisher),
              DL_ERROR_ARGUMENT);
    EXPECT_NE(std::strstr(dl_last_error(), "update the library"), nullptr) << dl_last_error();
    for (const std::size_t size : {std::size_t{0}, offsetof(dl_publisher_options, pins),
                                   sizeof options.known - 1, std::size_t{5000}}) {
        options.known.size = size;
        EXPECT_EQ(dl_publisher_new(c.node, "wrong", c.schema, &options.known, &publisher),
                  DL_ERROR_ARGUMENT);
        EXPECT_NE(std::strstr(dl_last_error(), "sizeof(dl_publisher_options)"), nullptr)
            << dl_last_error();
    }
    options.known.size = sizeof options.known;
    options.known.qos.reserved[6] = 1;
    EXPECT_EQ(dl_publisher_new(c.node, "newer", c.schema, &options.known, &publisher),
              DL_ERROR_ARGUMENT);
    options.known.qos.reserved[6] = 0;
    options.known.size = sizeof options.known;
    options.known.reach = 17;
    EXPECT_EQ(dl_publisher_new(c.node, "wrong", c.schema, &options.known, &publisher),
              DL_ERROR_ARGUMENT);
    EXPECT_NE(std::strstr(dl_last_error(), "reach"), nullptr) << dl_last_error();
}

/// A struct of the C library as in a later release, with more fields.
template <class T>
struct Later {
    T known = driveline::detail::sized<T>();
    std::uint64_t later = 0x1122334455667788;

    Later() { known.size = sizeof *this; }
    void expect_untouched() const {
        EXPECT_EQ(later, 0x1122334455667788u);
        EXPECT_EQ(known.size, sizeof *this);
    }
};

TEST(CLibrary, ResultsForOtherReleasesHaveTheKnownFields) {
    RawPublisher c;
    dl_subscription* subscription = nullptr;
    ASSERT_EQ(dl_subscription_new(c.node, "t", c.schema, nullptr, &subscription), DL_OK);
    dl_loan* loan = nullptr;
    ASSERT_EQ(dl_publisher_loan(c.publisher, 3, &loan), DL_OK);
    ASSERT_EQ(dl_publisher_publish(c.publisher, &loan, nullptr), DL_OK);
    dl_sample* sample = nullptr;
    ASSERT_EQ(dl_subscription_latest(subscription, &sample), DL_OK);
    auto number = driveline::detail::sized<dl_parameter_value>();
    number.kind = DL_PARAMETER_INTEGER;
    number.integer = 5;
    ASSERT_EQ(dl_node_declare_parameter(c.node, "n", &number), DL_OK);

    const auto check = [](auto later, const auto& call, const auto& filled) {
        EXPECT_EQ(call(&later.known), DL_OK) << dl_last_error();
        EXPECT_TRUE(filled(later.known));
        later.expect_untouched();
        later.known.size = sizeof later.known.size;  // Smaller than in the first release.
        EXPECT_EQ(call(&later.known), DL_ERROR_ARGUMENT);
        EXPECT_NE(std::strstr(dl_last_error(), "sizeof(dl_"), nullptr) << dl_last_error();
    };
    check(
        Later<dl_sample_header>(), [&](auto* h) { return dl_sample_get_header(sample, h); },
        [](const auto& h) { return h.sequence == 1; });
    check(
        Later<dl_origin>(), [&](auto* o) { return dl_sample_get_origin(sample, 0, o); },
        [](const auto& o) { return o.topic_id != 0; });
    check(
        Later<dl_publisher_stats>(),
        [&](auto* s) { return dl_publisher_get_stats(c.publisher, s); },
        [](const auto& s) { return s.published == 1; });
    check(
        Later<dl_subscription_stats>(),
        [&](auto* s) { return dl_subscription_get_stats(subscription, s); },
        [](const auto& s) { return s.received == 1; });
    check(
        Later<dl_parameter_value>(), [&](auto* v) { return dl_node_get_parameter(c.node, "n", v); },
        [](const auto& v) { return v.integer == 5; });
    check(
        Later<dl_event>(), [&](auto* e) { return dl_publisher_poll_event(c.publisher, e); },
        [](const auto& e) { return e.kind == DL_EVENT_MATCHED && e.text_len > 0; });
    // The refused call has not consumed an event.
    check(
        Later<dl_event>(), [&](auto* e) { return dl_subscription_poll_event(subscription, e); },
        [](const auto& e) { return e.kind == DL_EVENT_MATCHED; });

    Later<dl_parameter_value> later;
    later.known.kind = DL_PARAMETER_INTEGER;
    EXPECT_EQ(dl_node_set_parameter(c.node, "n", &later.known), DL_ERROR_ARGUMENT)
        << "a field of a later release is set, and would have no effect";
    later.later = 0;
    EXPECT_EQ(dl_node_set_parameter(c.node, "n", &later.known), DL_OK) << dl_last_error();
    dl_sample_drop(&sample);
    dl_subscription_drop(&subscription);
}

TEST(CLibrary, TextsOfEventsBelongToTheCaller) {
    RawPublisher c;
    dl_subscription* subscription = nullptr;
    ASSERT_EQ(dl_subscription_new(c.node, "t", c.schema, nullptr, &subscription), DL_OK);
    // Two threads use one handle, each with its own memory.
    std::array<std::array<char, 256>, 2> texts{};
    std::array<dl_event, 2> events{};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
            events[t] = driveline::detail::sized<dl_event>();
            events[t].text = texts[t].data();
            events[t].text_capacity = texts[t].size();
            EXPECT_EQ(dl_publisher_poll_event(c.publisher, &events[t]), DL_OK);
        });
    }
    for (auto& thread : threads) thread.join();
    const std::size_t got = events[0].kind == DL_EVENT_MATCHED ? 0 : 1;
    EXPECT_EQ(events[got].kind, static_cast<std::uint32_t>(DL_EVENT_MATCHED));
    EXPECT_EQ(std::strlen(texts[got].data()), events[got].text_len);
    EXPECT_EQ(events[1 - got].kind, static_cast<std::uint32_t>(DL_EVENT_NONE));
    EXPECT_EQ(events[1 - got].text_len, 0u);
    // A received text stays valid after later calls and after the objects are dropped.
    const std::string before = texts[got].data();
    dl_subscription_drop(&subscription);
    auto next = driveline::detail::sized<dl_event>();
    EXPECT_EQ(dl_publisher_poll_event(c.publisher, &next), DL_OK) << "without memory for a text";
    EXPECT_EQ(next.kind, static_cast<std::uint32_t>(DL_EVENT_UNMATCHED));
    EXPECT_GT(next.text_len, 0u);
    EXPECT_EQ(texts[got].data(), before);
}

TEST(CLibrary, EachThreadHasItsOwnError) {
    dl_set_last_error("mine");
    std::thread([] {
        EXPECT_STREQ(dl_last_error(), "");
        dl_set_last_error("the other's");
    }).join();
    EXPECT_STREQ(dl_last_error(), "mine");
    dl_set_last_error(nullptr);
    EXPECT_STREQ(dl_last_error(), "");
}

TEST(CLibrary, ASecondThreadOnASubscriptionGetsAnError) {
    test::Domain domain;
    RawPublisher c;
    dl_subscription* subscription = nullptr;
    ASSERT_EQ(dl_subscription_new(c.node, "t", c.schema, nullptr, &subscription), DL_OK);
    std::thread waiting([&] {
        int ready = 0;
        dl_status status = DL_ERROR_BUSY;
        // The first wait may begin during a call of the other thread.
        while (status == DL_ERROR_BUSY) {
            status = dl_subscription_wait(subscription, -1, DL_WAIT_BLOCK, 0, &ready);
        }
        EXPECT_EQ(status, DL_OK);
        EXPECT_EQ(ready, 1);
    });
    // While the other thread waits, calls of this thread are refused.
    dl_sample* sample = nullptr;
    EXPECT_TRUE(test::eventually(
        [&] { return dl_subscription_latest(subscription, &sample) == DL_ERROR_BUSY; }));
    dl_loan* loan = nullptr;
    ASSERT_EQ(dl_publisher_loan(c.publisher, 1, &loan), DL_OK);
    ASSERT_EQ(dl_publisher_publish(c.publisher, &loan, nullptr), DL_OK);
    waiting.join();
    ASSERT_EQ(dl_subscription_latest(subscription, &sample), DL_OK);
    EXPECT_NE(sample, nullptr);
    dl_sample_drop(&sample);
    dl_subscription_drop(&subscription);
}

TEST(CLibrary, ManyThreadsMayPublishThroughOneHandle) {
    test::Domain domain;
    auto publisher = domain.node.publisher<demo::Object>("objects").value();
    auto subscription =
        domain.node.subscription<demo::Object>("objects", {.qos = {.depth = 1024}}).value();
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 200; ++i) publisher.publish(demo::Object{i}).value();
        });
    }
    for (auto& thread : threads) thread.join();
    std::uint64_t count = 0;
    while (auto sample = subscription.take().value()) EXPECT_EQ(sample->sequence(), ++count);
    EXPECT_EQ(count, 800u);
}

TEST(Errors, NamesAndTextsWithAZeroByteAreRefusedAndNotCut) {
    const test::Domain domain;
    const std::string cut("a\0b", 3);
    const auto refused = [](const auto& result, dl_status status) {
        ASSERT_FALSE(result.has_value());
        EXPECT_EQ(result.error().status, static_cast<std::int32_t>(status))
            << result.error().message;
        EXPECT_NE(result.error().message.find("'a\\0b' contains a zero byte"), std::string::npos)
            << result.error().message;
    };
    refused(domain.node.publisher<Image>(cut), DL_ERROR_NAME);
    refused(domain.node.subscription<Image>(cut), DL_ERROR_NAME);
    refused(domain.node.publisher("bytes", driveline::Bytes{"cdr", cut}), DL_ERROR_SCHEMA);
    refused(domain.node.client<Image, Image>(cut), DL_ERROR_NAME);
    refused(domain.node.service<Image, Image>(cut), DL_ERROR_NAME);
    refused(domain.node.declare_parameter(cut, 1), DL_ERROR_PARAMETER);
    refused(domain.node.declare_parameter("p", cut), DL_ERROR_PARAMETER);
    refused(domain.node.parameter<int>(cut), DL_ERROR_PARAMETER);
    refused(domain.context.node(cut), DL_ERROR_NAME);
    refused(driveline::Context::create(cut, domain.directory / "domain"), DL_ERROR_NAME);
    refused(driveline::Context::create("x", cut), DL_ERROR_ARGUMENT);
    refused(driveline::topic_id(cut), DL_ERROR_NAME);
}

}  // namespace
