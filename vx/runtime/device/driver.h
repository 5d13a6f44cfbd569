/* What a plugin's common code asks of a driver: cuda_*.c for a GPU, host.c for the stand-in. Devices are indices of
   the manifest. Every function that returns a status sets the message when it is not OK. */
#ifndef VX_DEVICE_DRIVER_H
#define VX_DEVICE_DRIVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr, MAP_ANONYMOUS, clock_gettime */
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vx_device.h"

enum { DRV_DEVICES = 16 };

/* A device's queues; work in one runs in order. */
typedef enum { LANE_RUN, LANE_IN, LANE_OUT, LANES } Lane;

typedef enum { COPY_TO_DEVICE, COPY_TO_HOST, COPY_LOCAL, COPY_LOAD } CopyKind;

typedef struct {
    const char *name;
    const char *tier; /* T1: a stand-in; T2: the placed device */
    bool images;      /* kernels come from files */
    bool graphs;      /* launches can be recorded */
    bool in_process;  /* a record function may compute by itself, and write scalars of the host */
} DriverTraits;
extern const DriverTraits drv_traits;

typedef struct {
    char name[128];
    char uuid[48];
    char isa[16]; /* sm_90 */
    int64_t granule;
} DeviceFacts;

typedef struct {
    void *function;
    int32_t grid[3];
    const vx_kernel *kernel;
    void *const *args; /* trailing ones included */
} Launch;

/* The library, usable: `version` as cuDriverGetVersion gives it, `path` and what it calls itself. */
int drv_start(int32_t *version);
const char *drv_library(void);
/* "T2" only for a real device: a driver that calls itself fake makes it T1. */
const char *drv_tier(void);
int drv_count(int32_t *count);

/* Whether this device runs code for `isa`; takes nothing. */
int drv_inspect(int32_t ordinal, const char *isa);
int drv_open(int32_t device, int32_t ordinal, DeviceFacts *facts);
/* Gives back all that is left of the device: queues, events, context. */
int drv_close(int32_t device);

int drv_memory(int32_t device, int64_t *free, int64_t *total);
int drv_alloc(int32_t device, int64_t bytes, void **address);
int drv_free(int32_t device, void *address);
/* The driver's number of the device that holds `address`, and its own number of the device that is current after
   `device` has been selected. */
int drv_owner(int32_t device, const void *address, int32_t *ordinal);
int drv_selected(int32_t device, int32_t *ordinal);
int drv_pin(int32_t device, int64_t bytes, void **memory);
int drv_unpin(int32_t device, void *memory);

int drv_fill(int32_t device, Lane lane, void *target, int64_t bytes, uint8_t value);
int drv_copy(int32_t device, Lane lane, CopyKind kind, void *target, const void *source, int64_t bytes);
typedef struct {
    void *target;
    const void *source;
    int64_t target_pitch, source_pitch, bytes, rows;
} Rows;
int drv_copy_rows(int32_t device, Lane lane, CopyKind kind, const Rows *rows);
/* In a queue of the source. `direct` says whether the driver moves it without the host. */
int drv_copy_peer(int32_t source_device, Lane lane, int32_t target_device, void *target, const void *source,
                  int64_t bytes, bool *direct);

int drv_event(int32_t device, bool timed, void **event);
int drv_event_free(int32_t device, void *event);
int drv_record(int32_t device, Lane lane, void *event);
int drv_wait(int32_t device, Lane lane, void *event); /* the queue waits */
int drv_await(int32_t device, void *event);           /* the host waits */
int drv_done(int32_t device, void *event, bool *done);
int drv_elapsed(int32_t device, void *first, void *second, float *seconds);
int drv_drain(int32_t device);
int drv_lane_done(int32_t device, Lane lane, bool *done);

int drv_module(int32_t device, const void *image, int64_t bytes, const char *file, void **module);
int drv_module_free(int32_t device, void *module);
/* The function in `module` (null without images), checked against the kernel's launch figures. */
int drv_function(int32_t device, void *module, const vx_kernel *kernel, void **function);
int drv_launch(int32_t device, const Launch *launch);
int drv_capture_begin(int32_t device);
/* Ends recording; `graph` null if it is to be thrown away. */
int drv_capture_end(int32_t device, void **graph);
int drv_graph_launch(int32_t device, void *graph);
int drv_graph_free(int32_t device, void *graph);

/* Summed where the driver is called. */
const vx_traffic *drv_traffic(int32_t device);
int64_t drv_allocations(int32_t device);

#endif
