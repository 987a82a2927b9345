/* SPDX-License-Identifier: Apache-2.0
   Services as rmw_cyclonedds shows them on the wire: names, QoS, ids in USER_DATA, 16 bytes before
   each request and response.

   peer serve SERVICE add DELAY_MS
       Responds with the sum. Exits without a response, in order, if the sum is 13.
   peer serve SERVICE trigger SIZE
       Responds with a text of SIZE bytes.
   peer serve SERVICE short 0
       Responds without the 16 bytes.
   peer serve SERVICE late MS
       Responds with the sum, but creates the writer of responses only after MS. Prints the number
       of requests received before.
   peer call SERVICE add A B
       Waits for a server and sends requests without end, B one greater each time. Prints each
       response, and a line if the server leaves while it waits for a response.
   peer call SERVICE crowd A B
       As add, with 501 readers of responses. CycloneDDS lists readers by the lowest byte of their
       numbers, and the reader that counts is far back in the list.
   peer call SERVICE again A B
       As add, but sends the next request if no response came in about a second. A restarted server
       may lose a request.
   peer call SERVICE trigger 0 COUNT
       Sends COUNT requests.
   peer call SERVICE short 0 COUNT
       Writes COUNT requests without the 16 bytes, and waits for no response.
   peer call SERVICE late A MS
       Requests A + A, and creates the reader of responses only after MS. */
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef example_interfaces_srv_dds__AddTwoInts_Request_ AddRequest;
typedef example_interfaces_srv_dds__AddTwoInts_Response_ AddResponse;
typedef std_srvs_srv_dds__Trigger_Request_ TriggerRequest;
typedef std_srvs_srv_dds__Trigger_Response_ TriggerResponse;

/* Beginning of each request and response. */
typedef struct {
    uint64_t guid;
    int64_t seq;
} Head;

typedef struct {
    dds_entity_t reader, writer, replies;
    dds_qos_t* qos;
    char id[64];
} End;

static dds_qos_t* qos_of_end(End* end, const char* key) {
    dds_qos_t* qos = qos_of("rv10");
    char data[96];
    int len = snprintf(data, sizeof data, "%s=%s;", key, end->id);
    dds_qset_userdata(qos, data, (size_t)len);
    return qos;
}

static dds_entity_t topic_of(dds_entity_t participant, const char* prefix, const char* service,
                             const char* suffix, const dds_topic_descriptor_t* type) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s%s", prefix, service, suffix);
    return ok(dds_create_topic(participant, type, name, NULL, NULL), "topic");
}

/* With `short`, written samples have no head; with `late`, the endpoint of replies comes later. */
static End end_of(dds_entity_t participant, const char* service, const char* kind, int serves) {
    int trigger = !strcmp(kind, "trigger"), brief = !strcmp(kind, "short"),
        late = !strcmp(kind, "late");
    const dds_topic_descriptor_t* request =
        trigger ? &std_srvs_srv_dds__Trigger_Request__desc
                : &example_interfaces_srv_dds__AddTwoInts_Request__desc;
    const dds_topic_descriptor_t* response =
        trigger ? &std_srvs_srv_dds__Trigger_Response__desc
                : &example_interfaces_srv_dds__AddTwoInts_Response__desc;
    const dds_topic_descriptor_t** written = serves ? &response : &request;
    dds_topic_descriptor_t other = test_Brief_desc;
    other.m_typename = (*written)->m_typename;
    if (brief) *written = &other;
    End end = {0};
    snprintf(end.id, sizeof end.id, " 1.10.%x", (unsigned)getpid());
    dds_entity_t requests = topic_of(participant, "rq", service, "Request", request);
    end.replies = topic_of(participant, "rr", service, "Reply", response);
    end.qos = qos_of_end(&end, serves ? "serviceid" : "clientid");
    for (int k = 0; !strcmp(kind, "crowd") && k < 500; k++)
        ok(dds_create_reader(participant, end.replies, qos_of("rv1"), NULL), "reader");
    if (!(late && !serves))
        end.reader =
            ok(dds_create_reader(participant, serves ? requests : end.replies, end.qos, NULL),
               "reader");
    if (!(late && serves))
        end.writer =
            ok(dds_create_writer(participant, serves ? end.replies : requests, end.qos, NULL),
               "writer");
    return end;
}

/* Copies the id under this key in USER_DATA. Returns 0 if there is none. */
static int id_of(const dds_qos_t* qos, const char* key, char* id, size_t room) {
    void* data = NULL;
    size_t len = 0, key_len = strlen(key);
    int found = 0;
    if (dds_qget_userdata(qos, &data, &len) && data) {
        char *text = strndup(data, len), *rest = text;
        for (char* part; (part = strsep(&rest, ";"));)
            if (!strncmp(part, key, key_len) && part[key_len] == '=') {
                snprintf(id, room, "%s", part + key_len + 1);
                found = 1;
            }
        free(text);
        dds_free(data);
    }
    return found;
}

/* Returns 1 if a matched reader has this id under this key. */
static int has_reader(dds_entity_t writer, const char* key, const char* id) {
    dds_instance_handle_t readers[64];
    int count = ok(dds_get_matched_subscriptions(writer, readers, 64), "matches"), found = 0;
    for (int i = 0; i < count && i < 64; i++) {
        dds_builtintopic_endpoint_t* reader = dds_get_matched_subscription_data(writer, readers[i]);
        char of_reader[64];
        if (reader && id_of(reader->qos, key, of_reader, sizeof of_reader) &&
            !strcmp(id, of_reader))
            found = 1;
        if (reader) dds_builtintopic_free_endpoint(reader);
    }
    return found;
}

/* Returns 1 if a server is available, by the rule of rmw_service_server_is_available: a reader and
 * a writer with the same id are matched; if no reader has an id, any reader and any writer. */
static int available(const End* end) {
    dds_instance_handle_t readers[64], writers[64];
    int reader_count = ok(dds_get_matched_subscriptions(end->writer, readers, 64), "matches"),
        ids = 0;
    int count = ok(dds_get_matched_publications(end->reader, writers, 64), "matches"), found = 0;
    for (int i = 0; i < reader_count && i < 64; i++) {
        dds_builtintopic_endpoint_t* reader =
            dds_get_matched_subscription_data(end->writer, readers[i]);
        char id[64];
        if (reader && id_of(reader->qos, "serviceid", id, sizeof id)) ids = 1;
        if (reader) dds_builtintopic_free_endpoint(reader);
    }
    if (!ids) return reader_count > 0 && count > 0;
    for (int i = 0; i < count && i < 64; i++) {
        dds_builtintopic_endpoint_t* writer =
            dds_get_matched_publication_data(end->reader, writers[i]);
        char id[64];
        if (writer && id_of(writer->qos, "serviceid", id, sizeof id) &&
            has_reader(end->writer, "serviceid", id))
            found = 1;
        if (writer) dds_builtintopic_free_endpoint(writer);
    }
    return found;
}

/* Waits up to 100 ms for the client's reader, which may be discovered after its request arrives (as
 * rmw_send_response). Returns 0 if the reader does not appear. */
static int wait_for_client(const End* end, dds_instance_handle_t asks) {
    dds_builtintopic_endpoint_t* writer = dds_get_matched_publication_data(end->reader, asks);
    char id[64];
    if (!writer) return 0;
    int has_id = id_of(writer->qos, "clientid", id, sizeof id);
    dds_builtintopic_free_endpoint(writer);
    for (int n = 0; has_id && n < 10; n++) {
        if (has_reader(end->writer, "clientid", id)) return 1;
        usleep(10000);
    }
    return !has_id;
}

static void serve(dds_entity_t participant, char** arg) {
    int trigger = !strcmp(arg[1], "trigger"), brief = !strcmp(arg[1], "short"),
        late = !strcmp(arg[1], "late"), number = atoi(arg[2]);
    dds_entity_t graph = graph_writer(participant);
    End end = end_of(participant, arg[0], arg[1], 1);
    char* text = calloc((size_t)number + 1, 1);
    memset(text, 'x', (size_t)number);
    printf("serves\n");
    fflush(stdout);
    if (late) {
        if (over(number)) return;
        dds_sample_info_t info;
        void* sample = NULL;
        int early = ok(dds_read(end.reader, &sample, &info, 1, 1), "read");
        printf("%d too early\n", early);
        if (early) dds_return_loan(end.reader, &sample, 1);
        end.writer = ok(dds_create_writer(participant, end.replies, end.qos, NULL), "writer");
        number = 0;
    }
    while (!over(0)) {
        void* sample = NULL;
        dds_sample_info_t info;
        int taken = ok(dds_take(end.reader, &sample, &info, 1, 1), "take");
        if (taken > 0 && info.valid_data) {
            Head head = *(Head*)sample;
            const AddRequest* add = sample;
            if (trigger)
                printf("asked %lld\n", (long long)head.seq);
            else
                printf("asked %lld: %lld %lld\n", (long long)head.seq, (long long)add->a,
                       (long long)add->b);
            fflush(stdout);
            if (!trigger && add->a + add->b == 13) return;
            if (!trigger && number) usleep((useconds_t)number * 1000);
            AddResponse of_add = {head.guid, head.seq, trigger ? 0 : add->a + add->b};
            TriggerResponse of_trigger = {head.guid, head.seq, 1, text};
            test_Brief of_brief = {{7, 7, 7}};
            if (!wait_for_client(&end, info.publication_handle))
                printf("no client to answer\n");
            else
                ok(dds_write(end.writer, brief     ? (void*)&of_brief
                                         : trigger ? (void*)&of_trigger
                                                   : (void*)&of_add),
                   "write");
            announce(participant, graph, end.reader, 0);
            graph = 0;
        }
        if (taken > 0)
            dds_return_loan(end.reader, &sample, taken);
        else if (over(1))
            return;
    }
}

static void call(dds_entity_t participant, char** arg) {
    int trigger = !strcmp(arg[1], "trigger"), brief = !strcmp(arg[1], "short"),
        late = !strcmp(arg[1], "late"), again = !strcmp(arg[1], "again");
    long long a = atoll(arg[2]), b = atoll(arg[3]);
    End end = end_of(participant, arg[0], arg[1], 0);
    dds_instance_handle_t guid;
    ok(dds_get_instance_handle(end.writer, &guid), "handle");
    if (late) {
        dds_publication_matched_status_t matched = {0};
        while (dds_get_publication_matched_status(end.writer, &matched), !matched.current_count)
            if (over(2)) return;
        AddRequest first = {guid, 1, a, a};
        ok(dds_write(end.writer, &first), "write");
        if (over((int)b)) return;
        end.reader = ok(dds_create_reader(participant, end.replies, end.qos, NULL), "reader");
    }
    while (!late && !available(&end))
        if (over(2)) return;
    printf("available\n");
    fflush(stdout);
    for (int64_t seq = 1; !over(0) && (late ? seq == 1 : seq <= b || !(trigger || brief)); seq++) {
        AddRequest of_add = {guid, seq, a, b + seq - 1};
        TriggerRequest of_trigger = {guid, seq, 0};
        test_Brief of_brief = {{7, 7, 7}};
        if (!late)
            ok(dds_write(end.writer, brief     ? (void*)&of_brief
                                     : trigger ? (void*)&of_trigger
                                               : (void*)&of_add),
               "write");
        for (int answered = brief, alone = late, waits = 0; !answered; waits++) {
            if (again && waits >= 1000) break;
            void* sample = NULL;
            dds_sample_info_t info;
            int taken = ok(dds_take(end.reader, &sample, &info, 1, 1), "take");
            if (taken > 0 && info.valid_data && ((Head*)sample)->guid == guid) {
                const AddResponse* add = sample;
                const TriggerResponse* t = sample;
                if (trigger)
                    printf("answer %lld: %d %zu %u\n", (long long)t->seq, t->success,
                           strlen(t->message), sum((unsigned char*)t->message, strlen(t->message)));
                else
                    printf("answer %lld: %lld\n", (long long)add->seq, (long long)add->sum);
                fflush(stdout);
                answered = add->seq == seq;
                usleep(2000);
            }
            if (taken == 0 && !alone && !available(&end)) {
                printf("unavailable\n");
                fflush(stdout);
                alone = 1;
            }
            if (taken > 0)
                dds_return_loan(end.reader, &sample, taken);
            else if (over(1))
                return;
        }
    }
    printf("done\n");
    fflush(stdout);
    while (!over(1000))
        ;
}

int service(dds_entity_t participant, int count, char** arg) {
    if (count == 5 && !strcmp(arg[1], "serve"))
        serve(participant, arg + 2);
    else if (count == 6 && !strcmp(arg[1], "call"))
        call(participant, arg + 2);
    else
        return 0;
    return 1;
}
