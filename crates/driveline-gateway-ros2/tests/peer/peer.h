/* SPDX-License-Identifier: Apache-2.0
   Declarations that the parts of the node share. */
#pragma once
#include "dds/dds.h"
#include "types.h"
#include <stddef.h>

/* Returns `code`, or ends the program if it is an error. */
dds_entity_t ok(dds_entity_t code, const char* what);
dds_qos_t* qos_of(const char* text);
/* Returns 1 if standard input has ended, within `wait_ms`. */
int over(int wait_ms);
unsigned sum(const unsigned char* data, size_t len);

/* Creates the node's writer of ros_discovery_info; 0 without NODE. */
dds_entity_t graph_writer(dds_entity_t participant);
/* Announces the node of an endpoint on ros_discovery_info; call it once. */
void announce(dds_entity_t participant, dds_entity_t graph, dds_entity_t endpoint, int writes);

/* Runs serve or call; returns 0 if the arguments are for neither. */
int service(dds_entity_t participant, int count, char** arg);
