/* SPDX-License-Identifier: Apache-2.0
   A camera and its reader as ROS 2 nodes, on Debian's CycloneDDS with types compiled by its idlc.
   They measure the latency of images: stamps are CLOCK_MONOTONIC, in the first eight bytes of the
   pixels. Both endpoints are reliable and volatile, with depth 16.

   timing pub TOPIC SIZE COUNT PERIOD_US
       Waits for a reader and writes COUNT images. Exits when standard input ends.
   timing sub TOPIC
       When standard input ends, prints the latency of each image, in ns. */
#include "dds/dds.h"
#include "types.h"
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef sensor_msgs_msg_dds__Image_ Image;
enum { MOST = 100000 };

static dds_entity_t ok(dds_entity_t code, const char* what) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", what, dds_strretcode(-code));
        exit(1);
    }
    return code;
}

static int64_t ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Returns 1 if standard input has ended. */
static int over(int wait_ms) {
    struct pollfd p = {.fd = 0, .events = POLLIN};
    char c;
    return poll(&p, 1, wait_ms) > 0 && read(0, &c, 1) <= 0;
}

static dds_qos_t* qos(void) {
    dds_qos_t* qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(10));
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, 16);
    dds_data_representation_id_t xcdr1 = DDS_DATA_REPRESENTATION_XCDR1;
    dds_qset_data_representation(qos, 1, &xcdr1);
    return qos;
}

static void publish(dds_entity_t writer, size_t size, int count, int64_t period_ns) {
    dds_publication_matched_status_t matched = {0};
    while (dds_get_publication_matched_status(writer, &matched), !matched.current_count)
        if (over(5)) return;
    unsigned char* data = calloc(1, size);
    Image image = {.header = {{0, 0}, "cam"},
                   .height = 1,
                   .width = (uint32_t)size,
                   .encoding = "mono8",
                   .step = (uint32_t)size};
    image.data._buffer = data;
    image.data._length = image.data._maximum = (uint32_t)size;
    /* Waits half a second, so that routes and buffers exist before the first image. */
    int64_t due = ns(CLOCK_MONOTONIC) + 500000000;
    for (int n = 0; n < count; n++, due += period_ns) {
        struct timespec until = {due / 1000000000, due % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
        int64_t now = ns(CLOCK_MONOTONIC);
        memcpy(data, &now, sizeof now);
        ok(dds_write(writer, &image), "write");
    }
    printf("written\n");
    fflush(stdout);
    while (!over(1000))
        ;
}

static void subscribe(dds_entity_t participant, dds_entity_t reader) {
    static int64_t took[MOST];
    int count = 0;
    dds_entity_t set = ok(dds_create_waitset(participant), "wait set");
    ok(dds_waitset_attach(set, ok(dds_create_readcondition(reader, DDS_ANY_STATE), "condition"), 0),
       "attach");
    while (!over(0)) {
        dds_waitset_wait(set, NULL, 0, DDS_MSECS(50));
        void* sample = NULL;
        dds_sample_info_t info;
        int taken;
        while ((taken = ok(dds_take(reader, &sample, &info, 1, 1), "take")) > 0) {
            int64_t now = ns(CLOCK_MONOTONIC), sent;
            if (info.valid_data && count < MOST) {
                memcpy(&sent, ((Image*)sample)->data._buffer, sizeof sent);
                took[count++] = now - sent;
            }
            dds_return_loan(reader, &sample, taken);
        }
    }
    for (int n = 0; n < count; n++) printf("%lld\n", (long long)took[n]);
    fflush(stdout);
}

int main(int count, char** arg) {
    int publishes = count == 6 && !strcmp(arg[1], "pub");
    if (!publishes && (count != 3 || strcmp(arg[1], "sub"))) return 2;
    dds_entity_t participant =
        ok(dds_create_participant((dds_domainid_t)atoi(getenv("ROS_DOMAIN_ID")), NULL, NULL),
           "participant");
    dds_entity_t topic =
        ok(dds_create_topic(participant, &sensor_msgs_msg_dds__Image__desc, arg[2], NULL, NULL),
           "topic");
    if (publishes)
        publish(ok(dds_create_writer(participant, topic, qos(), NULL), "writer"),
                strtoul(arg[3], NULL, 10), atoi(arg[4]), atoll(arg[5]) * 1000);
    else
        subscribe(participant, ok(dds_create_reader(participant, topic, qos(), NULL), "reader"));
    dds_delete(participant);
    return 0;
}
