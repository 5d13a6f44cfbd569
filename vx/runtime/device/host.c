/* The stand-in: each instance is host memory of its own, filled with NaN bytes, and a kernel is a function of the
   program. Everything is done when a call returns. Its evidence is of tier T1. */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { GRANULE = 1 << 21, POISON = 0xFF };
static const int64_t CAPACITY = INT64_C(1) << 40; /* admission has compared with the machine's; here is no limit */

const DriverTraits drv_traits = {"host", "T1", false, false, true};

typedef struct Taken {
    struct Taken *next;
    char *memory;
    int64_t bytes;
} Taken;

typedef struct {
    bool open;
    int32_t ordinal;
    int64_t used;
    Taken *taken;
    vx_traffic traffic;
    int64_t allocations;
} Instance;

static Instance instances[DRV_DEVICES];

int drv_start(int32_t *version) {
    *version = INT32_MAX; /* no driver, so none that is too old */
    return VX_DEVICE_OK;
}

const char *drv_library(void) { return "stand-in"; }

const char *drv_tier(void) { return drv_traits.tier; }

int drv_count(int32_t *count) {
    *count = DRV_DEVICES;
    return VX_DEVICE_OK;
}

int drv_inspect(int32_t ordinal, const char *isa) {
    (void)ordinal;
    (void)isa;
    return VX_DEVICE_OK;
}

int drv_open(int32_t device, int32_t ordinal, DeviceFacts *facts) {
    instances[device] = (Instance){.open = true, .ordinal = ordinal};
    *facts = (DeviceFacts){.name = "host memory (stand-in)", .isa = "host", .granule = GRANULE};
    strcpy(facts->uuid, "standin-0");
    facts->uuid[strlen(facts->uuid) - 1] = (char)('a' + ordinal);
    return VX_DEVICE_OK;
}

int drv_close(int32_t device) {
    while (instances[device].taken) drv_free(device, instances[device].taken->memory);
    instances[device].open = false;
    return VX_DEVICE_OK;
}

int drv_memory(int32_t device, int64_t *free, int64_t *total) {
    *total = CAPACITY;
    *free = CAPACITY - instances[device].used;
    return VX_DEVICE_OK;
}

static int64_t rounded(int64_t bytes) { return (bytes + GRANULE - 1) / GRANULE * GRANULE; }

int drv_alloc(int32_t device, int64_t bytes, void **address) {
    Instance *i = &instances[device];
    Taken *taken = malloc(sizeof *taken);
    void *memory = mmap(NULL, (size_t)rounded(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                        -1, 0);
    if (!taken || memory == MAP_FAILED) {
        free(taken);
        return vxd_fail(VX_DEVICE_NO_MEMORY, "the host has no %lld bytes for the stand-in of a device", (long long)bytes);
    }
    memset(memory, POISON, (size_t)bytes);
    *taken = (Taken){i->taken, memory, bytes};
    i->taken = taken;
    i->used += rounded(bytes);
    i->allocations++;
    *address = memory;
    return VX_DEVICE_OK;
}

int drv_free(int32_t device, void *address) {
    Instance *i = &instances[device];
    for (Taken **at = &i->taken; *at; at = &(*at)->next) {
        Taken *taken = *at;
        if (taken->memory != address) continue;
        *at = taken->next;
        i->used -= rounded(taken->bytes);
        munmap(taken->memory, (size_t)rounded(taken->bytes));
        free(taken);
        return VX_DEVICE_OK;
    }
    return vxd_fail(VX_DEVICE_MISUSE, "%p is no memory of instance %d", address, instances[device].ordinal);
}

int drv_owner(int32_t device, const void *address, int32_t *ordinal) {
    (void)device;
    const char *at = address;
    for (int32_t i = 0; i < DRV_DEVICES; i++)
        for (const Taken *taken = instances[i].taken; taken; taken = taken->next)
            if (at >= taken->memory && at < taken->memory + taken->bytes) {
                *ordinal = instances[i].ordinal;
                return VX_DEVICE_OK;
            }
    return vxd_fail(VX_DEVICE_MISUSE, "%p is memory of no instance", address);
}

int drv_selected(int32_t device, int32_t *ordinal) {
    *ordinal = instances[device].ordinal;
    return VX_DEVICE_OK;
}

int drv_pin(int32_t device, int64_t bytes, void **memory) {
    (void)device;
    *memory = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
    return *memory ? VX_DEVICE_OK : vxd_fail(VX_DEVICE_NO_MEMORY, "no %lld bytes of host memory", (long long)bytes);
}

int drv_unpin(int32_t device, void *memory) {
    (void)device;
    free(memory);
    return VX_DEVICE_OK;
}

int drv_fill(int32_t device, Lane lane, void *target, int64_t bytes, uint8_t value) {
    (void)device;
    (void)lane;
    memset(target, value, (size_t)bytes);
    return VX_DEVICE_OK;
}

static void count_copy(int32_t device, CopyKind kind, int64_t bytes) {
    vx_traffic *t = &instances[device].traffic;
    if (kind == COPY_TO_HOST) t->to_host_bytes += bytes, t->to_host_calls++;
    else if (kind == COPY_LOCAL) t->local_bytes += bytes, t->local_calls++;
    else t->to_device_bytes += bytes, t->to_device_calls++;
    if (kind == COPY_LOAD) t->loaded_bytes += bytes, t->loads++;
}

int drv_copy(int32_t device, Lane lane, CopyKind kind, void *target, const void *source, int64_t bytes) {
    (void)lane;
    memcpy(target, source, (size_t)bytes);
    count_copy(device, kind, bytes);
    return VX_DEVICE_OK;
}

int drv_copy_rows(int32_t device, Lane lane, CopyKind kind, const Rows *rows) {
    (void)lane;
    for (int64_t i = 0; i < rows->rows; i++)
        memcpy((char *)rows->target + i * rows->target_pitch, (const char *)rows->source + i * rows->source_pitch,
               (size_t)rows->bytes);
    count_copy(device, kind, rows->bytes * rows->rows);
    return VX_DEVICE_OK;
}

int drv_copy_peer(int32_t source_device, Lane lane, int32_t target_device, void *target, const void *source,
                  int64_t bytes, bool *direct) {
    (void)lane;
    (void)target_device;
    memcpy(target, source, (size_t)bytes);
    instances[source_device].traffic.peer_bytes += bytes;
    instances[source_device].traffic.peer_calls++;
    *direct = false; /* it is the host that copies */
    return VX_DEVICE_OK;
}

/* An event is the moment it was recorded. */
typedef struct timespec Moment;

int drv_event(int32_t device, bool timed, void **event) {
    (void)device;
    (void)timed;
    *event = calloc(1, sizeof(Moment));
    return *event ? VX_DEVICE_OK : vxd_fail(VX_DEVICE_NO_MEMORY, "no host memory for an event");
}

int drv_event_free(int32_t device, void *event) {
    (void)device;
    free(event);
    return VX_DEVICE_OK;
}

int drv_record(int32_t device, Lane lane, void *event) {
    (void)device;
    (void)lane;
    clock_gettime(CLOCK_MONOTONIC, event);
    return VX_DEVICE_OK;
}

int drv_wait(int32_t device, Lane lane, void *event) {
    (void)device;
    (void)lane;
    (void)event;
    return VX_DEVICE_OK;
}

int drv_await(int32_t device, void *event) {
    (void)device;
    (void)event;
    return VX_DEVICE_OK;
}

int drv_done(int32_t device, void *event, bool *done) {
    (void)device;
    (void)event;
    *done = true;
    return VX_DEVICE_OK;
}

int drv_elapsed(int32_t device, void *first, void *second, float *seconds) {
    (void)device;
    const Moment *a = first, *b = second;
    *seconds = (float)((double)(b->tv_sec - a->tv_sec) + 1e-9 * (double)(b->tv_nsec - a->tv_nsec));
    return VX_DEVICE_OK;
}

int drv_drain(int32_t device) {
    (void)device;
    return VX_DEVICE_OK;
}

int drv_lane_done(int32_t device, Lane lane, bool *done) {
    (void)device;
    (void)lane;
    *done = true;
    return VX_DEVICE_OK;
}

int drv_module(int32_t device, const void *image, int64_t bytes, const char *file, void **module) {
    (void)device;
    (void)image;
    (void)bytes;
    *module = NULL;
    return vxd_fail(VX_DEVICE_KERNEL, "the stand-in runs no kernel files (%s)", file);
}

int drv_module_free(int32_t device, void *module) {
    (void)device;
    (void)module;
    return VX_DEVICE_OK;
}

int drv_function(int32_t device, void *module, const vx_kernel *kernel, void **function) {
    (void)device;
    (void)module;
    memcpy(function, &kernel->host, sizeof *function);
    return VX_DEVICE_OK;
}

int drv_launch(int32_t device, const Launch *launch) {
    launch->kernel->host(launch->args, launch->grid);
    instances[device].traffic.launches++;
    return VX_DEVICE_OK;
}

static int no_graphs(void) { return vxd_fail(VX_DEVICE_MISUSE, "the stand-in records no graphs"); }

int drv_capture_begin(int32_t device) {
    (void)device;
    return no_graphs();
}

int drv_capture_end(int32_t device, void **graph) {
    (void)device;
    if (graph) *graph = NULL;
    return no_graphs();
}

int drv_graph_launch(int32_t device, void *graph) {
    (void)device;
    (void)graph;
    return no_graphs();
}

int drv_graph_free(int32_t device, void *graph) {
    (void)device;
    (void)graph;
    return VX_DEVICE_OK;
}

const vx_traffic *drv_traffic(int32_t device) { return &instances[device].traffic; }

int64_t drv_allocations(int32_t device) { return instances[device].allocations; }
