/* SPDX-License-Identifier: Apache-2.0
   Stands in for a ROS 2 node with rmw_cyclonedds_cpp on machines without ROS 2. It uses Debian's
   CycloneDDS and types compiled by idlc, and looks like a ROS 2 node on the network. It serves
   /ros/add and calls /driveline/add twice a second. It does not depend on Driveline. Ends with
   SIGINT or SIGTERM. */
#include "dds/dds.h"
#include "types.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef example_interfaces_srv_dds__AddTwoInts_Request_ Request;
typedef example_interfaces_srv_dds__AddTwoInts_Response_ Response;
typedef rmw_dds_common_msg_dds__Gid_ Gid;
typedef rmw_dds_common_msg_dds__NodeEntitiesInfo_ Node;
typedef rmw_dds_common_msg_dds__ParticipantEntitiesInfo_ Info;

/* A server or a client of a service. Requests and responses are two topics. */
typedef struct {
    dds_entity_t reader, writer;
} Endpoint;

static volatile sig_atomic_t over = 0;

static void end(int signal) {
    (void)signal;
    over = 1;
}

static dds_entity_t ok(dds_entity_t code, const char* what) {
    if (code < 0) {
        fprintf(stderr, "error: %s: %s\n", what, dds_strretcode(-code));
        exit(1);
    }
    return code;
}

/* Creates a server (key "serviceid") or a client (key "clientid"). USER_DATA of reader and writer
   contains the key, so that other nodes recognise them as one endpoint. */
static Endpoint create_endpoint(dds_entity_t node, const char* service, const char* key) {
    char requests[128], replies[128], data[64];
    snprintf(requests, sizeof requests, "rq%sRequest", service);
    snprintf(replies, sizeof replies, "rr%sReply", service);
    int len = snprintf(data, sizeof data, "%s=%d;", key, (int)getpid());
    dds_qos_t* qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(1));
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, 10);
    dds_data_representation_id_t xcdr1 = DDS_DATA_REPRESENTATION_XCDR1;
    dds_qset_data_representation(qos, 1, &xcdr1);
    dds_qset_userdata(qos, data, (size_t)len);
    dds_entity_t request =
        ok(dds_create_topic(node, &example_interfaces_srv_dds__AddTwoInts_Request__desc, requests,
                            NULL, NULL),
           requests);
    dds_entity_t reply =
        ok(dds_create_topic(node, &example_interfaces_srv_dds__AddTwoInts_Response__desc, replies,
                            NULL, NULL),
           replies);
    int serves = key[0] == 's';
    Endpoint made = {ok(dds_create_reader(node, serves ? request : reply, qos, NULL), service),
                     ok(dds_create_writer(node, serves ? reply : request, qos, NULL), service)};
    dds_delete_qos(qos);
    return made;
}

static Gid gid(dds_entity_t entity) {
    Gid gid;
    dds_guid_t guid;
    ok(dds_get_guid(entity, &guid), "own id");
    memcpy(gid.data, guid.v, sizeof gid.data);
    return gid;
}

/* DDS has no nodes: a participant publishes on ros_discovery_info which nodes it has, and which
   readers and writers belong to each. As in rmw, this writer is created before the readers and
   writers of the node, so that their node name is known as soon as they are discovered. */
static dds_entity_t graph_writer(dds_entity_t participant) {
    dds_qos_t* qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(1));
    dds_qset_durability(qos, DDS_DURABILITY_TRANSIENT_LOCAL);
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, 1);
    dds_data_representation_id_t xcdr1 = DDS_DATA_REPRESENTATION_XCDR1;
    dds_qset_data_representation(qos, 1, &xcdr1);
    dds_entity_t topic =
        ok(dds_create_topic(participant, &rmw_dds_common_msg_dds__ParticipantEntitiesInfo__desc,
                            "ros_discovery_info", NULL, NULL),
           "ros_discovery_info");
    dds_entity_t graph =
        ok(dds_create_writer(participant, topic, qos, NULL), "write ros_discovery_info");
    dds_delete_qos(qos);
    return graph;
}

static void publish_node_name(dds_entity_t participant, dds_entity_t graph, const Endpoint* server,
                              const Endpoint* client) {
    Gid readers[] = {gid(server->reader), gid(client->reader)},
        writers[] = {gid(server->writer), gid(client->writer)};
    Node node = {.node_namespace = "/", .node_name = "adder"};
    node.reader_gid_seq._buffer = readers;
    node.reader_gid_seq._length = node.reader_gid_seq._maximum = 2;
    node.writer_gid_seq._buffer = writers;
    node.writer_gid_seq._length = node.writer_gid_seq._maximum = 2;
    Info info = {.gid = gid(participant)};
    info.node_entities_info_seq._buffer = &node;
    info.node_entities_info_seq._length = info.node_entities_info_seq._maximum = 1;
    ok(dds_write(graph, &info), "write ros_discovery_info");
}

static void serve(const Endpoint* server) {
    void* sample = NULL;
    dds_sample_info_t info;
    while (ok(dds_take(server->reader, &sample, &info, 1, 1), "take a request") > 0) {
        const Request* request = sample;
        if (info.valid_data) {
            Response response = {request->client, request->number,
                                 (int64_t)((uint64_t)request->a + (uint64_t)request->b)};
            printf("asked for %lld + %lld by /ros/add: %lld\n", (long long)request->a,
                   (long long)request->b, (long long)response.sum);
            dds_return_t written = dds_write(server->writer, &response);
            if (written < 0)
                fprintf(stderr, "error: an answer was not written: %s\n", dds_strretcode(-written));
        }
        dds_return_loan(server->reader, &sample, 1);
    }
}

/* Returns 1 if a server can receive a request and its response can reach this client. */
static int has_server(const Endpoint* client) {
    dds_publication_matched_status_t requests = {0};
    dds_subscription_matched_status_t replies = {0};
    ok(dds_get_publication_matched_status(client->writer, &requests), "matches");
    ok(dds_get_subscription_matched_status(client->reader, &replies), "matches");
    return requests.current_count > 0 && replies.current_count > 0;
}

static void print_responses(const Endpoint* client, uint64_t id) {
    void* sample = NULL;
    dds_sample_info_t info;
    while (ok(dds_take(client->reader, &sample, &info, 1, 1), "take a response") > 0) {
        const Response* response = sample;
        if (info.valid_data && response->client == id)
            printf("/driveline/add answers call %lld: %lld\n", (long long)response->number,
                   (long long)response->sum);
        dds_return_loan(client->reader, &sample, 1);
    }
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, end);
    signal(SIGTERM, end);
    const char* id = getenv("ROS_DOMAIN_ID");
    dds_entity_t node = ok(dds_create_participant(id ? (dds_domainid_t)atoi(id) : 0, NULL, NULL),
                           "take part in DDS");
    dds_entity_t graph = graph_writer(node);
    Endpoint server = create_endpoint(node, "/ros/add", "serviceid"),
             client = create_endpoint(node, "/driveline/add", "clientid");
    publish_node_name(node, graph, &server, &client);
    dds_instance_handle_t own;
    ok(dds_get_instance_handle(client.writer, &own), "own id");
    printf("a ROS 2 node without ROS 2: serves /ros/add, calls /driveline/add\n");
    dds_time_t next = dds_time();
    for (int64_t number = 1; !over; dds_sleepfor(DDS_MSECS(5))) {
        serve(&server);
        print_responses(&client, own);
        if (dds_time() >= next && has_server(&client)) {
            Request request = {own, number, number, 2};
            ok(dds_write(client.writer, &request), "write a request");
            number++;
            next = dds_time() + DDS_MSECS(500);
        }
    }
    dds_delete(node);
    return 0;
}
