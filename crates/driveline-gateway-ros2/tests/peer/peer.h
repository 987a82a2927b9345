/* SPDX-License-Identifier: Apache-2.0
   What the parts of the node share. */
#pragma once
#include "dds/dds.h"
#include "types.h"
#include <stddef.h>

/* Ends the program if this is an error. */
dds_entity_t ok(dds_entity_t code, const char* what);
dds_qos_t* qos_of(const char* text);
/* Whether standard input has ended. */
int over(int wait_ms);
unsigned sum(const unsigned char* data, size_t len);

/* What a node of ROS 2 has before any endpoint; 0: it is none. */
dds_entity_t graph_writer(dds_entity_t participant);
/* Says whose node an endpoint is; once. */
void announce(dds_entity_t participant, dds_entity_t graph, dds_entity_t endpoint, int writes);

/* serve and call; 0: neither. */
int service(dds_entity_t participant, int count, char** arg);
