// SPDX-License-Identifier: Apache-2.0
// A library of a later release, whose tables are longer. With CLASS_SIZE, its table is damaged.
#include <stdlib.h>

#include <driveline/driveline.h>

typedef struct {
    dl_component_vtable known;
    void (*later)(void);
    uint64_t later_still;
} later_vtable;

typedef struct {
    dl_component_library known;
    const char* later;
} later_library;

static int create(void** component) {
    *component = malloc(1);
    return *component == NULL;
}
static int describe(void* component, dl_class_builder* builder) {
    (void)component;
    dl_parameter_value number = {
        .size = sizeof number, .kind = DL_PARAMETER_INTEGER, .integer = 42};
    return dl_class_add_parameter(builder, "answer", &number, NULL) != DL_OK;
}
static void destroy(void* component) { free(component); }

#ifndef CLASS_SIZE
#define CLASS_SIZE sizeof(later_vtable)
#endif

static const later_vtable future = {
    .known = {.size = CLASS_SIZE,
              .name = "Future",
              .create = create,
              .describe = describe,
              .destroy = destroy},
    .later = abort,
    .later_still = 7,
};
static const dl_component_vtable* const classes[] = {&future.known};

const dl_component_library* driveline_component_entry(void);

const dl_component_library* driveline_component_entry(void) {
    static const later_library library = {
        .known = {.abi = DL_COMPONENT_ABI,
                  .size = sizeof library,
                  .classes = classes,
                  .class_count = 1,
                  .sdk_version = "9.9"},
        .later = "something",
    };
    return &library.known;
}
