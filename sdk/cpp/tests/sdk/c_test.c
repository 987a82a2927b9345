// SPDX-License-Identifier: Apache-2.0
// A program in C: publishes three texts to itself. Usage: sdk_c_tests DOMAIN_DIRECTORY
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <driveline/driveline.h>

#define CHECK(condition)                                                                         \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, dl_last_error()); \
            return EXIT_FAILURE;                                                                 \
        }                                                                                        \
    } while (0)

int main(int argc, char** argv) {
    dl_context* context = NULL;
    dl_node* node = NULL;
    dl_schema* schema = NULL;
    dl_publisher* publisher = NULL;
    dl_subscription* subscription = NULL;
    CHECK(argc == 2);
    CHECK(dl_context_new("c", argv[1], &context) == DL_OK);
    CHECK(dl_node_new(context, "c", &node) == DL_OK);
    CHECK(dl_schema_new(DL_KIND_BYTES, "text", "text", NULL, &schema) == DL_OK);
    dl_publisher_options options = {.size = sizeof options, .max_payload = 64};
    dl_subscription_options wishes = {.size = sizeof wishes, .qos = {.depth = 4}};
    CHECK(dl_publisher_new(node, "greetings", schema, &options, &publisher) == DL_OK);
    CHECK(dl_subscription_new(node, "greetings", schema, &wishes, &subscription) == DL_OK);
    CHECK(dl_publisher_matched(publisher) == 1);
    char text[128];
    dl_event event = {.size = sizeof event, .text = text, .text_capacity = sizeof text};
    CHECK(dl_publisher_poll_event(publisher, &event) == DL_OK);
    CHECK(event.kind == DL_EVENT_MATCHED && strlen(text) == event.text_len);

    for (int i = 0; i < 3; ++i) {
        dl_loan* loan = NULL;
        uint8_t* data = NULL;
        size_t length = 0;
        uint64_t sequence = 0;
        CHECK(dl_publisher_loan(publisher, 32, &loan) == DL_OK);
        CHECK(dl_loan_payload(loan, &data, &length) == DL_OK && length == 32);
        CHECK(dl_loan_shrink(loan, (size_t)snprintf((char*)data, length, "greeting %d", i) + 1) ==
              DL_OK);
        CHECK(dl_publisher_publish(publisher, &loan, &sequence) == DL_OK);
        CHECK(loan == NULL && sequence == (uint64_t)i + 1);
    }
    for (int i = 0; i < 3; ++i) {
        dl_sample* sample = NULL;
        const uint8_t* data = NULL;
        size_t length = 0;
        char expected[32];
        CHECK(dl_subscription_take(subscription, &sample) == DL_OK && sample != NULL);
        CHECK(dl_sample_payload(sample, &data, &length) == DL_OK);
        snprintf(expected, sizeof expected, "greeting %d", i);
        CHECK(length == strlen(expected) + 1 && strcmp((const char*)data, expected) == 0);
        dl_sample_drop(&sample);
        CHECK(sample == NULL);
    }
    dl_subscription_drop(&subscription);
    dl_publisher_drop(&publisher);
    dl_schema_drop(&schema);
    dl_node_drop(&node);
    dl_context_drop(&context);
    return EXIT_SUCCESS;
}
