/* SPDX-License-Identifier: Apache-2.0
   What the parts of the node share. */
#pragma once
#include "dds/dds.h"
#include "types.h"
#include <stddef.h>

/* Ends the program if this is an error. */
dds_entity_t ok(dds_entity_t code, const char *what);
dds_qos_t *qos_of(const char *text);
/* Whether standard input has ended. */
int over(int wait_ms);
unsigned sum(const unsigned char *data, size_t len);

/* serve and call; 0: neither. */
int service(dds_entity_t participant, int count, char **arg);
