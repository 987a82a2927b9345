/* SPDX-License-Identifier: Apache-2.0 */
/* Work of a stage of a chain on its inputs (docs/protocols/chain.md): a shared library with these
 * five functions. Calls come one after the other, though not always from the same thread. In C++,
 * work.hpp defines them for a class. */
#ifndef DRIVELINE_PEERS_WORK_H
#define DRIVELINE_PEERS_WORK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WORK_ABI 1u
/* Return values of work_process(). */
#define WORK_FAILED (-1)
#define WORK_NOTHING 0
#define WORK_DONE 1

/* A message, without its head. Aligned to 16 bytes only where the middleware aligns its payloads:
 * copy what must be aligned. */
typedef struct work_input {
    const unsigned char* data;
    size_t size;
    /* Number of the source's sample from which it descends, and publish time of that sample
     * (CLOCK_MONOTONIC, nanoseconds). */
    uint64_t origin;
    uint64_t source_time_ns;
} work_input;

typedef struct work_call {
    /* Number of the source's sample, from 1: at a source, of the sample to make; else, that of the
     * first input. */
    uint64_t origin;
    /* The first input triggered the call. A source has no inputs. */
    const work_input* inputs;
    size_t input_count;
    /* Memory for the output; null and 0 at a sink. Its old content is undefined. */
    unsigned char* output;
    size_t capacity;
    /* Set by the work: number of bytes of the output. */
    size_t written;
} work_call;

/* WORK_ABI of the library. */
uint32_t work_abi(void);
/* `parameters`: a JSON object. Loads and computes as much as possible in advance. Returns null and
 * an error text in `error` if it fails. */
void* work_create(const char* parameters, char* error, size_t error_size);
/* Returns WORK_DONE; WORK_NOTHING if there is nothing to publish this time; or WORK_FAILED and
 * an error text in `error`, which ends the run. */
int work_process(void* work, work_call* call, char* error, size_t error_size);
/* Writes a JSON object of names and whole numbers with the results of the work, and a null byte.
 * Returns its length without the null byte; if that is `size` or more, the object did not fit. */
size_t work_report(void* work, char* json, size_t size);
void work_destroy(void* work);

#ifdef __cplusplus
}
#endif

#endif
