/* SPDX-License-Identifier: Apache-2.0 */
/* What a stage of a chain does with its inputs (docs/protocols/chain.md): a shared library with
 * these five functions. All calls come one after the other, though not always from the same thread.
 * In C++, work.hpp makes them of a class. */
#ifndef DRIVELINE_PEERS_WORK_H
#define DRIVELINE_PEERS_WORK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WORK_ABI 1u
/* What work_process() returns, besides. */
#define WORK_FAILED (-1)
#define WORK_NOTHING 0
#define WORK_DONE 1

/* A message, without its head. Aligned to 16 bytes only where the middleware aligns its payloads:
 * copy what must be aligned. */
typedef struct work_input {
    const unsigned char* data;
    size_t size;
    /* Number of the source's sample that it descends from, and when that was published
     * (CLOCK_MONOTONIC, nanoseconds). */
    uint64_t origin;
    uint64_t source_time_ns;
} work_input;

typedef struct work_call {
    /* Number of the source's sample, from 1: at a source, of the one to be made; else that of the
     * first input. */
    uint64_t origin;
    /* The first one triggered the call. A source has none. */
    const work_input* inputs;
    size_t input_count;
    /* Where the output goes; null and 0 at a sink. Its old content means nothing. */
    unsigned char* output;
    size_t capacity;
    /* Set by the work: bytes of output. */
    size_t written;
} work_call;

/* WORK_ABI of the library. */
uint32_t work_abi(void);
/* `parameters`: a JSON object. Loads and computes whatever can be beforehand. Returns null and a
 * sentence in `error` if something is wrong. */
void* work_create(const char* parameters, char* error, size_t error_size);
/* Returns WORK_DONE; WORK_NOTHING if there is nothing to publish this time; or WORK_FAILED and a
 * sentence in `error`, which ends the run. */
int work_process(void* work, work_call* call, char* error, size_t error_size);
/* Writes a JSON object of names and whole numbers that show what the work achieved, and a null
 * byte. Returns its length without that; if it is `size` or more, it did not fit. */
size_t work_report(void* work, char* json, size_t size);
void work_destroy(void* work);

#ifdef __cplusplus
}
#endif

#endif
