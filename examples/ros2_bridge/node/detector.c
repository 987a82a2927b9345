/* SPDX-License-Identifier: Apache-2.0
   Stands in for a ROS 2 detector node on machines without ROS 2. It uses Debian's CycloneDDS and
   types compiled by idlc, and looks like a ROS 2 node on the network. It finds the bright square in
   /camera/image (sensor_msgs/Image), publishes it on /detector/boxes
   (vision_msgs/Detection2DArray), and publishes a text on /detector/status (std_msgs/String).
   It does not depend on Driveline. Ends with SIGINT or SIGTERM. */
#include "dds/dds.h"
#include "types.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef sensor_msgs_msg_dds__Image_ Image;
typedef vision_msgs_msg_dds__Detection2DArray_ Boxes;
typedef std_msgs_msg_dds__String_ String;
typedef rmw_dds_common_msg_dds__Gid_ Gid;
typedef rmw_dds_common_msg_dds__NodeEntitiesInfo_ Node;
typedef rmw_dds_common_msg_dds__ParticipantEntitiesInfo_ Info;

enum { BRIGHT = 128, PRINT_EVERY = 25 };

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

/* QoS profiles as in ROS 2: rclcpp's SensorDataQoS is best effort and volatile. The status is
   transient local, so that late subscriptions receive it. */
static dds_qos_t* qos(dds_reliability_kind_t reliability, dds_durability_kind_t durability) {
    dds_qos_t* qos = dds_create_qos();
    dds_qset_reliability(qos, reliability, DDS_MSECS(100));
    dds_qset_durability(qos, durability);
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, 5);
    dds_data_representation_id_t xcdr1 = DDS_DATA_REPRESENTATION_XCDR1;
    dds_qset_data_representation(qos, 1, &xcdr1);
    return qos;
}

static dds_entity_t topic(dds_entity_t participant, const dds_topic_descriptor_t* type,
                          const char* name) {
    return ok(dds_create_topic(participant, type, name, NULL, NULL), name);
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
    dds_qos_t* kept = qos(DDS_RELIABILITY_RELIABLE, DDS_DURABILITY_TRANSIENT_LOCAL);
    dds_qset_history(kept, DDS_HISTORY_KEEP_LAST, 1);
    return ok(
        dds_create_writer(participant,
                          topic(participant, &rmw_dds_common_msg_dds__ParticipantEntitiesInfo__desc,
                                "ros_discovery_info"),
                          kept, NULL),
        "write ros_discovery_info");
}

static void publish_node_name(dds_entity_t participant, dds_entity_t graph, dds_entity_t images,
                              dds_entity_t boxes, dds_entity_t status) {
    Gid readers[] = {gid(images)}, writers[] = {gid(boxes), gid(status)};
    Node node = {.node_namespace = "/", .node_name = "detector"};
    node.reader_gid_seq._buffer = readers;
    node.reader_gid_seq._length = node.reader_gid_seq._maximum = 1;
    node.writer_gid_seq._buffer = writers;
    node.writer_gid_seq._length = node.writer_gid_seq._maximum = 2;
    Info info = {.gid = gid(participant)};
    info.node_entities_info_seq._buffer = &node;
    info.node_entities_info_seq._length = info.node_entities_info_seq._maximum = 1;
    ok(dds_write(graph, &info), "write ros_discovery_info");
}

/* Finds the rectangle around all bright pixels. Returns 0 if there are none. */
static int find(const Image* image, vision_msgs_msg_dds__BoundingBox2D_* box) {
    uint32_t left = image->width, top = image->height, right = 0, bottom = 0;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            if (image->data._buffer[(size_t)y * image->step + x] >= BRIGHT) {
                left = x < left ? x : left;
                right = x + 1 > right ? x + 1 : right;
                top = y < top ? y : top;
                bottom = y + 1;
            }
    box->size_x = right > left ? right - left : 0;
    box->size_y = bottom > top ? bottom - top : 0;
    box->center.position.x = left + box->size_x / 2;
    box->center.position.y = top + box->size_y / 2;
    return right > left;
}

static void detect(const Image* image, dds_entity_t boxes) {
    static unsigned long count = 0;
    /* Accepts only images with one byte per pixel and enough data for their size. */
    if (image->step < image->width ||
        image->data._length / (image->step ? image->step : 1) < image->height) {
        fprintf(stderr, "error: an image of %ux%u %s does not have one byte per pixel\n",
                image->width, image->height, image->encoding);
        return;
    }
    vision_msgs_msg_dds__ObjectHypothesisWithPose_ result = {
        .hypothesis = {.class_id = "square", .score = 1}};
    vision_msgs_msg_dds__Detection2D_ detection = {.header = image->header, .id = ""};
    detection.results._buffer = &result;
    detection.results._length = detection.results._maximum = 1;
    Boxes message = {.header = image->header};
    message.detections._buffer = &detection;
    message.detections._length = message.detections._maximum = find(image, &detection.bbox) ? 1 : 0;
    /* A failed write is not fatal: the next image produces the next message. */
    dds_return_t written = dds_write(boxes, &message);
    if (written < 0)
        fprintf(stderr, "error: /detector/boxes was not written: %s\n", dds_strretcode(-written));
    if (++count % PRINT_EVERY == 0) {
        printf("picture %lu from /camera/image: %ux%u %s, frame '%s'; %u box to /detector/boxes\n",
               count, image->width, image->height, image->encoding, image->header.frame_id,
               message.detections._length);
        fflush(stdout);
    }
}

int main(void) {
    signal(SIGINT, end);
    signal(SIGTERM, end);
    const char* id = getenv("ROS_DOMAIN_ID");
    dds_entity_t node = ok(dds_create_participant(id ? (dds_domainid_t)atoi(id) : 0, NULL, NULL),
                           "take part in DDS");
    dds_entity_t graph = graph_writer(node);
    dds_entity_t images = ok(
        dds_create_reader(node, topic(node, &sensor_msgs_msg_dds__Image__desc, "rt/camera/image"),
                          qos(DDS_RELIABILITY_BEST_EFFORT, DDS_DURABILITY_VOLATILE), NULL),
        "read /camera/image");
    dds_entity_t boxes =
        ok(dds_create_writer(
               node, topic(node, &vision_msgs_msg_dds__Detection2DArray__desc, "rt/detector/boxes"),
               qos(DDS_RELIABILITY_RELIABLE, DDS_DURABILITY_VOLATILE), NULL),
           "write /detector/boxes");
    dds_entity_t status = ok(
        dds_create_writer(node, topic(node, &std_msgs_msg_dds__String__desc, "rt/detector/status"),
                          qos(DDS_RELIABILITY_RELIABLE, DDS_DURABILITY_TRANSIENT_LOCAL), NULL),
        "write /detector/status");
    publish_node_name(node, graph, images, boxes, status);
    String text = {.data = "looks for bright squares"};
    ok(dds_write(status, &text), "write /detector/status");
    dds_entity_t wait = ok(dds_create_waitset(node), "wait");
    ok(dds_waitset_attach(wait, ok(dds_create_readcondition(images, DDS_ANY_STATE), "wait"), 0),
       "wait");
    printf(
        "a ROS 2 node without ROS 2: reads /camera/image, publishes /detector/boxes and "
        "/detector/status\n");
    fflush(stdout);
    while (!over) {
        dds_waitset_wait(wait, NULL, 0, DDS_MSECS(100));
        void* sample = NULL;
        dds_sample_info_t info;
        while (!over && ok(dds_take(images, &sample, &info, 1, 1), "take a picture") > 0) {
            if (info.valid_data) detect(sample, boxes);
            dds_return_loan(images, &sample, 1);
        }
    }
    dds_delete(node);
    return 0;
}
