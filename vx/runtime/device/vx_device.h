/* The contract between compiled programs and device plugins. Written by `python -m vx.runtime.device_abi`: edit
   device_abi.py, which also explains it. */
#ifndef VX_DEVICE_H
#define VX_DEVICE_H

#include <stdint.h>

#define VX_PLUGIN_ABI (1)
#define VX_PARAMS_BYTES (4096)
#define VX_SET_BYTES (256)
#define VX_LAUNCH_PARAMS (128)
#define VX_DEVICE_OK (0)
#define VX_DEVICE_MISUSE (1)
#define VX_DEVICE_ABI (2)
#define VX_DEVICE_NO_LIBRARY (3)
#define VX_DEVICE_NO_DEVICE (4)
#define VX_DEVICE_ARCH (5)
#define VX_DEVICE_OLD_DRIVER (6)
#define VX_DEVICE_NO_MEMORY (7)
#define VX_DEVICE_KERNEL (8)
#define VX_DEVICE_DRIVER (9)
#define VX_DEVICE_TIMEOUT (10)
#define VX_DEVICE_NOT_FINITE (11)
#define VX_DEVICE_FAILED (12)
#define VX_ACCESS_UNKNOWN (0)
#define VX_ACCESS_EXPLICIT (1)
#define VX_ACCESS_HOST_READABLE (2)
#define VX_CONTROL_INIT (1)
#define VX_CONTROL_SHUTDOWN (2)
#define VX_CONTROL_DEVICE_COUNT (3)
#define VX_TOKEN_NOT_FINITE (0xffffffffu)
#define VX_EXPORT __attribute__((visibility("default")))

/* Issues the launches of a region; 0, or the status of the first vx_launch that failed. */
typedef int32_t (*vx_record)(const void *params);
/* Computes what a kernel computes, in the memory of one instance. */
typedef void (*vx_host_kernel)(void *const *args, const int32_t grid[3]);
/* Takes one event: its name, and its fields as JSON text without the braces. 0, or it could not be kept. */
typedef int32_t (*vx_event_sink)(const char *event, const char *fields);

typedef struct {
    const char *name; /* As the program spells it: `Device[1]`. */
    int32_t ordinal; /* The driver's number of the device. */
    uint32_t topology; /* The id that the vx_plugin_ entries use. */
    int32_t counter_arena; /* Arena that holds the device's counters; -1: none. */
    int32_t counters; /* How many; each is a u64 that the last kernel of a region increments. */
    int64_t counter_offset;
    int64_t error_offset; /* In the same arena: an i32 for each region, its error word; -1: none. */
} vx_device;

typedef struct {
    const char *space;
    int32_t device; /* Index in the manifest's devices. */
    int32_t pad;
    int64_t bytes; /* Exactly what the Plan admits. */
    int64_t reserve; /* What must stay free beside it. */
    int64_t window_offset; /* The part from which vx_plugin_alloc_and_transfer serves. */
    int64_t window_bytes; /* 0: it serves nothing here. */
} vx_arena;

typedef struct {
    const char *name; /* The symbol in the file. */
    const char *file; /* Relative to the manifest's directory. */
    const void *sha256; /* 32 bytes: of the file. */
    vx_host_kernel host; /* The same computation for libvx_host.so; null: none. */
    const char *provenance; /* vendor, emitted or host. */
    int32_t threads; /* Per block. */
    int32_t shared; /* Bytes of dynamic shared memory. */
    int32_t cluster_x; /* 0: no cluster. */
    int32_t cluster_y;
    int32_t cluster_z;
    int32_t dependent; /* 1: may start before the previous kernel ends (it waits by itself). */
    int32_t params; /* Parameters that vx_launch is given. */
    int32_t trailing; /* Null pointers that follow them. */
    int32_t grid_x; /* Grid when started by name through vx_plugin_dispatch_async. */
    int32_t grid_y;
    int32_t grid_z;
    int32_t pad;
} vx_kernel;

typedef struct {
    const char *name;
    vx_record record; /* Issues the launches. */
    int32_t graph; /* 1: recorded once and replayed; 0: launched one by one, each time. */
    int32_t counter; /* The device counter that its last kernel increments; -1: none. */
    const char *const *messages; /* What error words mean: n + 1 is messages[n]. */
    int32_t message_count;
    int32_t pad;
} vx_region;

typedef struct {
    uint32_t abi; /* VX_PLUGIN_ABI. */
    int32_t min_driver; /* As cuDriverGetVersion gives it (12080 is 12.8); 0: any. */
    const char *role;
    const char *isa; /* What the kernels are compiled for: `sm_90`. */
    const char *directory; /* Where kernel files are; null: `kernels` beside the executable. */
    const char *artifact; /* Hex SHA-256 of the artifact; or empty. */
    const char *machine; /* Hex SHA-256 of the machine file; or empty. */
    const char *plan; /* Hex SHA-256 of the Plan; or empty. */
    const vx_device *devices;
    const vx_arena *arenas;
    const vx_kernel *kernels;
    const vx_region *regions;
    int32_t device_count;
    int32_t arena_count;
    int32_t kernel_count;
    int32_t region_count;
    int64_t staging; /* Bytes of pinned memory through which vx_load goes, a device. */
    vx_event_sink sink; /* Takes evidence; null: none is made. */
} vx_manifest;

typedef struct {
    const void *address;
    int64_t bytes;
    int32_t write; /* 1: written (or both); 0: only read. */
    int32_t pad;
} vx_touch;

typedef struct {
    int64_t total; /* Of the device. */
    int64_t free_before; /* Just before the arenas were taken. */
    int64_t free_after; /* Just after. */
    int64_t free_warm; /* At vx_warm; -1 before. */
    int64_t free_end; /* Now. */
    int64_t arena_bytes; /* Sum of the arenas as admitted. */
    int64_t arena_rounded; /* The same, each rounded up to the driver's granule. */
    int64_t driver_bytes; /* What is taken beside the arenas: context, modules, graphs, other processes. */
    int64_t reserve; /* The largest reserve of the device's arenas. */
    int64_t allocations; /* Allocations of device memory, counted where the driver is called. */
    int64_t arenas; /* Arenas of this device: what `allocations` must be. */
    int64_t granule; /* To which the driver rounds. */
} vx_memory;

typedef struct {
    int64_t to_device_bytes; /* All counted where the driver is called. */
    int64_t to_device_calls;
    int64_t to_host_bytes;
    int64_t to_host_calls;
    int64_t peer_bytes;
    int64_t peer_calls;
    int64_t local_bytes; /* Within the device. */
    int64_t local_calls;
    int64_t loaded_bytes; /* The part of to_device that vx_load issued. */
    int64_t loads;
    int64_t launches; /* Kernels launched one by one, those recorded into a graph included. */
    int64_t graph_launches;
    int64_t graphs; /* Graphs made. */
} vx_traffic;

#ifndef VX_DEVICE_TYPES_ONLY
/* VX_PLUGIN_ABI of the plugin. */
VX_EXPORT uint32_t vx_device_abi(void);
/* `cuda`, `host`, … */
VX_EXPORT const char *vx_plugin_name(void);
/* What the last call that failed found, and what to do. Valid until the next call. */
VX_EXPORT const char *vx_last_error(void);
/* Checks abi, driver, devices, architecture, kernel files and free memory, in this order and before anything is taken; then takes the arenas, loads the kernels, zeroes the counters. */
VX_EXPORT int32_t vx_open(const vx_manifest *manifest);
/* Waits for all work, reads the counters back, gives everything back. Closed already: MISUSE. */
VX_EXPORT int32_t vx_close(void);
/* The address of bytes of an arena; null if they do not lie in it. */
VX_EXPORT void *vx_tile(int32_t arena, int64_t offset, int64_t bytes);
/* Copies between host, device and peer; asynchronous. */
VX_EXPORT int32_t vx_copy(void *target, const void *source, int64_t bytes);
/* As vx_copy, `rows` rows of `bytes`, whose starts are `*_pitch` bytes apart; not between peers. */
VX_EXPORT int32_t vx_copy_rows(void *target, int64_t target_pitch, const void *source, int64_t source_pitch, int64_t bytes, int64_t rows);
/* Fills `count` elements of 1, 2, 4 or 8 bytes with `value`; asynchronous, `value` is read before it returns. */
VX_EXPORT int32_t vx_fill(void *target, const void *value, int64_t element_bytes, int64_t count);
/* Copies a weight from host memory (the mapped model file) by way of the pinned staging. `source` is read before it returns. */
VX_EXPORT int32_t vx_load(void *target, const void *source, int64_t bytes);
/* Writes a few words (a multiple of 4, at most SET_BYTES) in order with the device's regions; `value` is read before it returns. */
VX_EXPORT int32_t vx_set(void *target, const void *value, int64_t bytes);
/* Issues a region on a device; asynchronous. `touches` is its footprint. */
VX_EXPORT int32_t vx_run(int32_t region, int32_t device, const void *params, int64_t params_bytes, const vx_touch *touches, int64_t touch_count);
/* One kernel, only inside a region's `record`. `args` point to the parameters, as many as the manifest says; they are read before it returns. */
VX_EXPORT int32_t vx_launch(int32_t kernel, int32_t grid_x, int32_t grid_y, int32_t grid_z, void *const *args);
/* Waits until the host may read (write = 0), or write or free (1), this memory. */
VX_EXPORT int32_t vx_access(const void *address, int64_t bytes, int32_t write);
/* Waits for all work in flight and reports its errors. */
VX_EXPORT int32_t vx_sync(void);
/* Pinned host memory, which every device can reach; null: none. */
VX_EXPORT void *vx_pin(int64_t bytes);
/* Gives it back, after the work in flight that uses it. */
VX_EXPORT int32_t vx_unpin(void *memory);
/* A token ring of a device: `slots` words (a power of two, at least 16), in pinned host memory, all empty. The device sees it at the same address. Given back by vx_close. */
VX_EXPORT void *vx_ring(int32_t device, int32_t slots);
/* Waits until the ring holds `position`, or until `deadline` (as vx_time_now). NOT_FINITE if that is what the device says; DRIVER if its work ended or failed without storing it. */
VX_EXPORT int32_t vx_token(void *ring, int64_t position, int64_t deadline, int32_t *token);
/* Waits for the device, empties the ring and counts what nobody read (steps enqueued beyond a stop). */
VX_EXPORT int32_t vx_ring_clear(void *ring, int64_t *dropped);
/* Waits for all work and notes each device's free memory: from here on it must not change. */
VX_EXPORT int32_t vx_warm(void);
/* Evidence that a phase (`prefill`, `decode`) begins (1) or ends (0). */
VX_EXPORT int32_t vx_phase(const char *name, int32_t begin);
/* Waits for the device and reads one of its counters. */
VX_EXPORT int32_t vx_counter(int32_t device, int32_t index, int64_t *value);
/* Waits for the device; the time between the last two vx_stamp calls by its own clock. */
VX_EXPORT int32_t vx_seconds(int32_t device, float *seconds);
/* Marks a point between the device's regions for vx_seconds. */
VX_EXPORT int32_t vx_stamp(int32_t device);
/* A device's memory figures, from the driver. */
VX_EXPORT int32_t vx_memory_of(int32_t device, vx_memory *figures);
/* What was moved and launched on a device. */
VX_EXPORT int32_t vx_traffic_of(int32_t device, vx_traffic *figures);
/* The driver's own number of the device that holds an address. */
VX_EXPORT int32_t vx_owner(const void *address, int32_t *ordinal);
/* Bytes of the window of `topology`'s first arena that has one; copies `host` in if it is not null. Null: refused. */
VX_EXPORT void *vx_plugin_alloc_and_transfer(uint64_t bytes, void *host, uint32_t topology, uint32_t access);
/* Starts the kernel that `payload` names (`NAME abi=1 topo=ID …`); a future, or 0: refused. */
VX_EXPORT uint64_t vx_plugin_dispatch_async(const void *payload, uint64_t bytes, void **args, const int32_t *tags, int64_t arg_count);
/* Waits for it. */
VX_EXPORT int32_t vx_plugin_await_future(uint64_t future);
/* Gives the handle back; its work goes on. */
VX_EXPORT int32_t vx_plugin_release_future(uint64_t future);
/* Copies and waits. */
VX_EXPORT int32_t vx_plugin_transfer_device_to_host(void *device, void *host, uint64_t bytes, uint32_t topology);
/* A copy in the target's window. Null: refused. */
VX_EXPORT void *vx_plugin_transfer_peer(void *source, uint32_t source_topology, uint32_t target_topology, uint64_t bytes);
/* Gives back what alloc_and_transfer or transfer_peer gave; anything else is refused. */
VX_EXPORT int32_t vx_plugin_free(void *device, uint32_t topology);
/* See Control. */
VX_EXPORT int32_t vx_plugin_control(uint32_t opcode, void *payload);
#endif

#endif
