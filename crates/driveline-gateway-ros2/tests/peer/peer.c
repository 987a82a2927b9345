/* SPDX-License-Identifier: Apache-2.0
   A ROS 2 node as rmw_cyclonedds shows it on the wire: Debian's CycloneDDS, with types that its
   own idlc compiles. Programs marked with * end when standard input ends.

   peer pub TOPIC TYPE SIZE COUNT PERIOD_US QOS *
       Waits for a reader, writes COUNT samples, then waits. TYPE: string; image; image@SEC (stamp
       in seconds); image_short (rows longer than the data); image_frame (frame name of 48
       letters); bad (strings announced as images).
   peer sub TOPIC string|image QOS *
       Prints a line for each sample: number, length, checksum, frame, seconds of the stamp.
   peer sub TOPIC diagnostics QOS *
       Prints a line for each status: number, level, number of values, name, seconds of the stamp.
   peer clock SEC *
       Publishes simulation time on /clock, starting at SEC seconds.
   peer graph *
       Prints each discovered node, with its numbers of readers and writers.
   peer history TOPIC *
       Prints the announced history of each remote writer on the topic: all, or last and the depth.
   peer said TOPIC *
       Prints USER_DATA of each discovered remote writer and reader on the topic.
   peer ends pub|sub:TOPIC:QOS ... *
       Has writers and readers of strings on many topics; the writers write all the time. Prints
       once for each endpoint, with its index: matched, heard, or refused with the DDS policy.
   peer serve|call ...
       Services: see service.c.

   NODE in the environment is a namespace and a name. pub and sub announce this node on
   ros_discovery_info; serve does after its first response. Compiled with HUMBLE, discovery data
   has Humble's format, with ids of 24 bytes.
   QOS: letters r|b (reliability), t|v|s|p (durability: transient local, volatile, transient,
   persistent), then the depth; 0 keeps all. Further settings follow, each after a comma: d and l
   with milliseconds (deadline, lease), p|m (liveliness shown by participant, by topic). */
#include "peer.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef std_msgs_msg_dds__String_ String;
typedef sensor_msgs_msg_dds__Image_ Image;
typedef rmw_dds_common_msg_dds__ParticipantEntitiesInfo_ Info;

dds_entity_t ok(dds_entity_t code, const char* what) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", what, dds_strretcode(-code));
        exit(1);
    }
    return code;
}

dds_qos_t* qos_of(const char* text) {
    dds_qos_t* qos = dds_create_qos();
    dds_qset_reliability(
        qos, text[0] == 'r' ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT, DDS_SECS(10));
    dds_qset_durability(qos, text[1] == 't'   ? DDS_DURABILITY_TRANSIENT_LOCAL
                             : text[1] == 's' ? DDS_DURABILITY_TRANSIENT
                             : text[1] == 'p' ? DDS_DURABILITY_PERSISTENT
                                              : DDS_DURABILITY_VOLATILE);
    int depth = atoi(text + 2);
    dds_qset_history(qos, depth ? DDS_HISTORY_KEEP_LAST : DDS_HISTORY_KEEP_ALL, depth);
    if (depth) dds_qset_durability_service(qos, 0, DDS_HISTORY_KEEP_LAST, depth, -1, -1, -1);
    dds_liveliness_kind_t liveliness = DDS_LIVELINESS_AUTOMATIC;
    dds_duration_t lease = DDS_INFINITY;
    for (const char* more = strchr(text, ','); more; more = strchr(more + 1, ',')) {
        dds_duration_t time = DDS_MSECS(atoi(more + 2));
        if (more[1] == 'd')
            dds_qset_deadline(qos, time);
        else if (more[1] == 'l')
            lease = time;
        else
            liveliness = more[1] == 'm' ? DDS_LIVELINESS_MANUAL_BY_TOPIC
                                        : DDS_LIVELINESS_MANUAL_BY_PARTICIPANT;
    }
    dds_qset_liveliness(qos, liveliness, lease);
    dds_data_representation_id_t xcdr1 = DDS_DATA_REPRESENTATION_XCDR1;
    dds_qset_data_representation(qos, 1, &xcdr1);
    return qos;
}

int over(int wait_ms) {
    struct pollfd p = {.fd = 0, .events = POLLIN};
    char c;
    return poll(&p, 1, wait_ms) > 0 && read(0, &c, 1) <= 0;
}

unsigned sum(const unsigned char* data, size_t len) {
    unsigned hash = 2166136261u;
    for (size_t i = 0; i < len; i++) hash = (hash ^ data[i]) * 16777619u;
    return hash;
}

static dds_entity_t topic_of(dds_entity_t participant, const char* name, int image, int bad) {
    dds_topic_descriptor_t type =
        image ? sensor_msgs_msg_dds__Image__desc : std_msgs_msg_dds__String__desc;
    if (bad) type.m_typename = sensor_msgs_msg_dds__Image__desc.m_typename;
    return ok(dds_create_topic(participant, &type, name, NULL, NULL), "topic");
}

static dds_entity_t graph_topic(dds_entity_t participant) {
    return ok(dds_create_topic(participant, &rmw_dds_common_msg_dds__ParticipantEntitiesInfo__desc,
                               "ros_discovery_info", NULL, NULL),
              "topic");
}

/* Returns the id as rmw_dds_common has it: the bytes after DDS's id are zero. */
static rmw_dds_common_msg_dds__Gid_ gid_of(dds_entity_t entity) {
    rmw_dds_common_msg_dds__Gid_ gid = {{0}};
    dds_guid_t guid;
    ok(dds_get_guid(entity, &guid), "guid");
    memcpy(gid.data, guid.v, sizeof guid.v);
    return gid;
}

dds_entity_t graph_writer(dds_entity_t participant) {
    return getenv("NODE")
               ? ok(dds_create_writer(participant, graph_topic(participant), qos_of("rt1"), NULL),
                    "writer")
               : 0;
}

void announce(dds_entity_t participant, dds_entity_t graph, dds_entity_t endpoint, int writes) {
    char* namespace = getenv("NODE"), *name = namespace ? strchr(namespace, ' ') : NULL;
    if (!graph || !name) return;
    *name++ = 0;
    rmw_dds_common_msg_dds__Gid_ own = gid_of(endpoint);
    rmw_dds_common_msg_dds__NodeEntitiesInfo_ node = {0};
    strncpy(node.node_namespace, namespace, sizeof node.node_namespace - 1);
    strncpy(node.node_name, name, sizeof node.node_name - 1);
    if (writes) {
        node.writer_gid_seq._buffer = &own;
        node.writer_gid_seq._length = node.writer_gid_seq._maximum = 1;
    } else {
        node.reader_gid_seq._buffer = &own;
        node.reader_gid_seq._length = node.reader_gid_seq._maximum = 1;
    }
    Info info = {.gid = gid_of(participant)};
    info.node_entities_info_seq._buffer = &node;
    info.node_entities_info_seq._length = info.node_entities_info_seq._maximum = 1;
    ok(dds_write(graph, &info), "write");
}

static void publish(dds_entity_t participant, char** arg) {
    int image = !strncmp(arg[1], "image", 5), bad = !strcmp(arg[1], "bad");
    int is_short = !strcmp(arg[1], "image_short"), has_frame = !strcmp(arg[1], "image_frame");
    const char* stamp = strchr(arg[1], '@');
    char frame[49] = "cam";
    if (has_frame) memset(frame, 'f', sizeof frame - 1);
    size_t size = strtoul(arg[2], NULL, 10);
    int count = atoi(arg[3]), period = atoi(arg[4]);
    dds_qos_t* qos = qos_of(arg[5]);
    dds_entity_t graph = graph_writer(participant);
    dds_entity_t writer =
        ok(dds_create_writer(participant, topic_of(participant, arg[0], image, bad), qos, NULL),
           "writer");
    announce(participant, graph, writer, 1);
    dds_publication_matched_status_t matched = {0};
    /* Transient local samples are written at once: late readers receive them. */
    while (arg[5][1] != 't' &&
           (dds_get_publication_matched_status(writer, &matched), !matched.current_count))
        if (over(5)) return;
    printf("matched\n");
    fflush(stdout);
    unsigned char* data = malloc(size + 1);
    for (int n = 0; n < count; n++) {
        memset(data, 'a' + n % 26, size);
        data[size] = 0;
        if (image) {
            Image sample = {.header = {{stamp ? atoi(stamp + 1) : 0, 0}, frame},
                            .height = 1 + (uint32_t)is_short,
                            .width = (uint32_t)size,
                            .encoding = "mono8",
                            .step = (uint32_t)size};
            sample.data._buffer = data;
            sample.data._length = sample.data._maximum = (uint32_t)size;
            ok(dds_write(writer, &sample), "write");
        } else {
            String sample = {.data = (char*)data};
            ok(dds_write(writer, &sample), "write");
        }
        if (period) usleep((useconds_t)period);
    }
    printf("written\n");
    fflush(stdout);
    while (!over(1000))
        ;
}

static void subscribe(dds_entity_t participant, char** arg) {
    int image = !strcmp(arg[1], "image");
    dds_entity_t graph = graph_writer(participant);
    dds_entity_t reader = ok(dds_create_reader(participant, topic_of(participant, arg[0], image, 0),
                                               qos_of(arg[2]), NULL),
                             "reader");
    announce(participant, graph, reader, 0);
    for (int n = 0; !over(0);) {
        void* sample = NULL;
        dds_sample_info_t info;
        int taken = ok(dds_take(reader, &sample, &info, 1, 1), "take");
        if (taken > 0 && info.valid_data) {
            const Image* i = sample;
            const String* s = sample;
            size_t len = image ? i->data._length : strlen(s->data);
            printf("%d %zu %u %s %d\n", n++, len,
                   sum(image ? i->data._buffer : (unsigned char*)s->data, len),
                   image ? i->header.frame_id : "-", image ? (int)i->header.stamp.sec : 0);
            fflush(stdout);
        }
        if (taken > 0)
            dds_return_loan(reader, &sample, taken);
        else if (over(1))
            return;
    }
}

static void diagnostics(dds_entity_t participant, char** arg) {
    dds_entity_t topic =
        ok(dds_create_topic(participant, &diagnostic_msgs_msg_dds__DiagnosticArray__desc, arg[0],
                            NULL, NULL),
           "topic");
    dds_entity_t reader = ok(dds_create_reader(participant, topic, qos_of(arg[2]), NULL), "reader");
    for (int n = 0; !over(1);) {
        void* sample = NULL;
        dds_sample_info_t info;
        if (ok(dds_take(reader, &sample, &info, 1, 1), "take") <= 0) continue;
        const diagnostic_msgs_msg_dds__DiagnosticArray_* all = sample;
        for (unsigned s = 0; info.valid_data && s < all->status._length; s++) {
            const diagnostic_msgs_msg_dds__DiagnosticStatus_* of = &all->status._buffer[s];
            printf("%d %u %u %s %d\n", n++, of->level, of->values._length, of->name,
                   (int)all->header.stamp.sec);
        }
        fflush(stdout);
        dds_return_loan(reader, &sample, 1);
    }
}

static void clock_of(dds_entity_t participant, int begin) {
    dds_entity_t topic = ok(
        dds_create_topic(participant, &rosgraph_msgs_msg_dds__Clock__desc, "rt/clock", NULL, NULL),
        "topic");
    dds_entity_t writer = ok(dds_create_writer(participant, topic, qos_of("bv1"), NULL), "writer");
    rosgraph_msgs_msg_dds__Clock_ now = {.clock = {begin, 0}};
    while (!over(10)) {
        ok(dds_write(writer, &now), "write");
        now.clock.nanosec += 10000000;
        now.clock.sec += now.clock.nanosec / 1000000000;
        now.clock.nanosec %= 1000000000;
    }
}

static void graph(dds_entity_t participant) {
    dds_entity_t reader = ok(
        dds_create_reader(participant, graph_topic(participant), qos_of("rt100"), NULL), "reader");
    while (!over(1)) {
        void* sample = NULL;
        dds_sample_info_t info;
        int taken = ok(dds_take(reader, &sample, &info, 1, 1), "take");
        if (taken > 0 && info.valid_data) {
            const Info* i = sample;
            for (uint32_t k = 0; k < i->node_entities_info_seq._length; k++) {
                const rmw_dds_common_msg_dds__NodeEntitiesInfo_* n =
                    &i->node_entities_info_seq._buffer[k];
                printf("%s %s %u %u\n", n->node_namespace, n->node_name, n->reader_gid_seq._length,
                       n->writer_gid_seq._length);
            }
            fflush(stdout);
        }
        if (taken > 0) dds_return_loan(reader, &sample, taken);
    }
}

/* Prints USER_DATA of each endpoint on the topic. */
static void said(dds_entity_t participant, const char* topic) {
    dds_entity_t of[] = {DDS_BUILTIN_TOPIC_DCPSPUBLICATION, DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION};
    for (int k = 0; k < 2; k++)
        of[k] = ok(dds_create_reader(participant, of[k], NULL, NULL), "reader");
    for (int k = 0; !over(1); k = 1 - k) {
        void* sample = NULL;
        dds_sample_info_t info;
        int taken = ok(dds_take(of[k], &sample, &info, 1, 1), "take");
        const dds_builtintopic_endpoint_t* e = sample;
        if (taken > 0 && info.valid_data && !strcmp(e->topic_name, topic)) {
            void* data = NULL;
            size_t len = 0;
            dds_qget_userdata(e->qos, &data, &len);
            printf("%s %.*s\n", k ? "reader" : "writer", (int)len, data ? (char*)data : "");
            fflush(stdout);
            dds_free(data);
        }
        if (taken > 0) dds_return_loan(of[k], &sample, taken);
    }
}

/* Prints the history of publishers, as `ros2 topic info -v` shows it. */
static void history(dds_entity_t participant, const char* topic) {
    dds_entity_t writers =
        ok(dds_create_reader(participant, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, NULL, NULL), "reader");
    while (!over(1)) {
        void* sample = NULL;
        dds_sample_info_t info;
        int taken = ok(dds_take(writers, &sample, &info, 1, 1), "take");
        const dds_builtintopic_endpoint_t* e = sample;
        if (taken > 0 && info.valid_data && !strcmp(e->topic_name, topic)) {
            dds_history_kind_t kind = DDS_HISTORY_KEEP_LAST;
            int32_t depth = 0;
            dds_qget_history(e->qos, &kind, &depth);
            if (kind == DDS_HISTORY_KEEP_ALL)
                printf("all\n");
            else
                printf("last %d\n", (int)depth);
            fflush(stdout);
        }
        if (taken > 0) dds_return_loan(writers, &sample, taken);
    }
}

static const char* policy(uint32_t id) {
    return id == DDS_RELIABILITY_QOS_POLICY_ID  ? "RELIABILITY"
           : id == DDS_DURABILITY_QOS_POLICY_ID ? "DURABILITY"
           : id == DDS_DEADLINE_QOS_POLICY_ID   ? "DEADLINE"
           : id == DDS_LIVELINESS_QOS_POLICY_ID ? "LIVELINESS"
                                                : "another";
}

/* A writer or a reader, and marks of the lines already printed for it. */
typedef struct {
    dds_entity_t entity;
    int writes, matched, heard, refused;
} End;

/* Returns the number of matches. `refused`: policy of the last refused match, or null. */
static uint32_t matches(const End* end, const char** refused) {
    uint32_t matched, total, id;
    if (end->writes) {
        dds_publication_matched_status_t of;
        dds_offered_incompatible_qos_status_t unmet;
        ok(dds_get_publication_matched_status(end->entity, &of), "status");
        ok(dds_get_offered_incompatible_qos_status(end->entity, &unmet), "status");
        matched = of.total_count, total = unmet.total_count, id = unmet.last_policy_id;
    } else {
        dds_subscription_matched_status_t of;
        dds_requested_incompatible_qos_status_t unmet;
        ok(dds_get_subscription_matched_status(end->entity, &of), "status");
        ok(dds_get_requested_incompatible_qos_status(end->entity, &unmet), "status");
        matched = of.total_count, total = unmet.total_count, id = unmet.last_policy_id;
    }
    *refused = total ? policy(id) : NULL;
    return matched;
}

static int hears(dds_entity_t reader) {
    void* sample = NULL;
    dds_sample_info_t info;
    int taken = ok(dds_take(reader, &sample, &info, 1, 1), "take"),
        heard = taken > 0 && info.valid_data;
    if (taken > 0) dds_return_loan(reader, &sample, taken);
    return heard;
}

static void ends(dds_entity_t participant, int count, char** arg) {
    End* all = calloc((size_t)count, sizeof *all);
    for (int k = 0; k < count; k++) {
        char *topic = strchr(arg[k], ':'), *qos = topic ? strchr(topic + 1, ':') : NULL;
        if (!qos) exit(2);
        *qos++ = 0;
        dds_entity_t of = topic_of(participant, topic + 1, 0, 0);
        all[k].writes = arg[k][0] == 'p';
        all[k].entity = ok(all[k].writes ? dds_create_writer(participant, of, qos_of(qos), NULL)
                                         : dds_create_reader(participant, of, qos_of(qos), NULL),
                           arg[k]);
    }
    String hello = {.data = "hello"};
    while (!over(20)) {
        for (int k = 0; k < count; k++) {
            End* end = &all[k];
            const char* refused;
            uint32_t matched = matches(end, &refused);
            if (matched && !end->matched++) printf("%d matched\n", k);
            if (refused && !end->refused++) printf("%d refused %s\n", k, refused);
            if (end->writes)
                ok(dds_write(end->entity, &hello), "write");
            else if (hears(end->entity) && !end->heard++)
                printf("%d heard\n", k);
        }
        fflush(stdout);
    }
}

int main(int count, char** arg) {
    dds_entity_t participant =
        ok(dds_create_participant((dds_domainid_t)atoi(getenv("ROS_DOMAIN_ID")), NULL, NULL),
           "participant");
    if (count == 8 && !strcmp(arg[1], "pub"))
        publish(participant, arg + 2);
    else if (count == 5 && !strcmp(arg[1], "sub") && !strcmp(arg[3], "diagnostics"))
        diagnostics(participant, arg + 2);
    else if (count == 5 && !strcmp(arg[1], "sub"))
        subscribe(participant, arg + 2);
    else if (count == 3 && !strcmp(arg[1], "clock"))
        clock_of(participant, atoi(arg[2]));
    else if (count == 2 && !strcmp(arg[1], "graph"))
        graph(participant);
    else if (count == 3 && !strcmp(arg[1], "said"))
        said(participant, arg[2]);
    else if (count == 3 && !strcmp(arg[1], "history"))
        history(participant, arg[2]);
    else if (count > 2 && !strcmp(arg[1], "ends"))
        ends(participant, count - 2, arg + 2);
    else if (!service(participant, count, arg))
        return 2;
    dds_delete(participant);
    return 0;
}
