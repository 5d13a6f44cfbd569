/* The vx_plugin_ entries: blocks of the windows that the Plan admits, kernels by name, futures. */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

#include "payload.h"

enum { ALIGNMENT = 256, FUTURES = 1024, KIND_LAST = 7 };

/* ---- blocks ---------------------------------------------------------------------------------------- */
typedef struct Block {
    struct Block *next; /* by offset within one arena */
    int64_t offset, bytes, rounded;
} Block;

static Block **blocks; /* one list an arena */

static int32_t device_at(uint32_t topology) {
    for (int32_t i = 0; i < vxd.manifest->device_count; i++)
        if (vxd.manifest->devices[i].topology == topology) return i;
    vxd_fail(VX_DEVICE_MISUSE, "topology %u is no device of this program", topology);
    return -1;
}

static int32_t window_at(uint32_t topology) {
    int32_t device = device_at(topology);
    for (int32_t i = 0; device >= 0 && i < vxd.manifest->arena_count; i++)
        if (vxd.manifest->arenas[i].device == device && vxd.manifest->arenas[i].window_bytes > 0) return i;
    if (device >= 0)
        vxd_fail(VX_DEVICE_NO_MEMORY, "the Plan admits no bytes for vx_plugin_alloc_and_transfer on %s",
                 vxd.manifest->devices[device].name);
    return -1;
}

/* The first gap that is large enough; the link to insert at. */
static Block **gap_for(const vx_arena *a, Block **list, int64_t rounded, int64_t *offset) {
    int64_t at = a->window_offset;
    Block **link = list;
    for (; *link && (*link)->offset - at < rounded; link = &(*link)->next) at = (*link)->offset + (*link)->rounded;
    *offset = at;
    return *link || a->window_offset + a->window_bytes - at >= rounded ? link : NULL;
}

static void *take_block(int32_t arena, int64_t bytes) {
    const vx_arena *a = &vxd.manifest->arenas[arena];
    if (!blocks && !(blocks = calloc((size_t)vxd.manifest->arena_count, sizeof *blocks))) {
        vxd_fail(VX_DEVICE_NO_MEMORY, "no host memory for the block table");
        return NULL;
    }
    int64_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, offset;
    Block **link = bytes > 0 && bytes <= a->window_bytes ? gap_for(a, &blocks[arena], rounded, &offset) : NULL;
    Block *block = link ? malloc(sizeof *block) : NULL;
    if (!block) {
        vxd_fail(VX_DEVICE_NO_MEMORY, "%lld bytes more do not fit the %lld that the Plan admits for "
                                      "vx_plugin_alloc_and_transfer in %s on %s",
                 (long long)bytes, (long long)a->window_bytes, a->space, vxd.manifest->devices[a->device].name);
        return NULL;
    }
    *block = (Block){*link, offset, bytes, rounded};
    *link = block;
    return vxd.arenas[arena].base + offset;
}

static Block **find_block(const void *address, int32_t *arena) {
    if (vxd_find(address, 1, arena)) return NULL;
    for (Block **link = *arena >= 0 && blocks ? &blocks[*arena] : NULL; link && *link; link = &(*link)->next)
        if (vxd.arenas[*arena].base + (*link)->offset == address) return link;
    vxd_fail(VX_DEVICE_MISUSE, "%p is not from vx_plugin_alloc_and_transfer, or was freed already", address);
    return NULL;
}

/* The device that `topology` names must be the one that holds the range. */
static int check_holder(const void *address, int64_t bytes, uint32_t topology) {
    int32_t arena, device = device_at(topology);
    if (device < 0) return VX_DEVICE_MISUSE;
    TRY(vxd_find(address, bytes, &arena));
    if (arena >= 0 && vxd_device_of(arena) == device) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_MISUSE, "%p is not memory of %s but of %s", address, vxd.manifest->devices[device].name,
                    arena < 0 ? "the host" : vxd.devices[vxd_device_of(arena)].declared->name);
}

static void drop_block(Block **link) {
    Block *block = *link;
    *link = block->next;
    free(block);
}

void *vx_plugin_alloc_and_transfer(uint64_t bytes, void *host, uint32_t topology, uint32_t access) {
    if (vxd_need_open()) return NULL;
    if (access > VX_ACCESS_HOST_READABLE || bytes > INT64_MAX) {
        vxd_fail(VX_DEVICE_MISUSE, "%llu bytes, access %u (0 unknown, 1 explicit, 2 host-readable)",
                 (unsigned long long)bytes, access);
        return NULL;
    }
    if (access == VX_ACCESS_HOST_READABLE) {
        vxd_fail(VX_DEVICE_MISUSE, "memory of a device is not readable by the host: ask for access 1 and read it back "
                                   "with vx_plugin_transfer_device_to_host");
        return NULL;
    }
    int32_t arena = window_at(topology);
    void *address = arena < 0 ? NULL : take_block(arena, (int64_t)bytes);
    if (!address || !host) return address;
    const vx_touch from = {.address = host, .bytes = (int64_t)bytes, .write = 1};
    if (vxd_move(address, host, (int64_t)bytes, NULL) == VX_DEVICE_OK && vxd_order_host(&from) == VX_DEVICE_OK)
        return address;
    drop_block(find_block(address, &arena));
    return NULL;
}

int32_t vx_plugin_free(void *device, uint32_t topology) {
    int32_t arena;
    TRY(vxd_need_open());
    TRY(check_holder(device, 1, topology));
    Block **link = find_block(device, &arena);
    if (!link) return VX_DEVICE_MISUSE;
    const vx_touch all = {.address = device, .bytes = (*link)->bytes, .write = 1};
    TRY(vxd_order_host(&all));
    drop_block(link);
    return VX_DEVICE_OK;
}

/* A range that must lie in one block. */
static int check_block(const void *address, int64_t bytes, uint32_t topology) {
    int32_t arena;
    TRY(check_holder(address, bytes, topology));
    Block **link = find_block(address, &arena);
    if (!link) return VX_DEVICE_MISUSE;
    if (bytes <= (*link)->bytes) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_MISUSE, "%lld bytes of a block of %lld", (long long)bytes, (long long)(*link)->bytes);
}

int32_t vx_plugin_transfer_device_to_host(void *device, void *host, uint64_t bytes, uint32_t topology) {
    TRY(vxd_need_open());
    if (bytes == 0) return VX_DEVICE_OK;
    TRY(check_holder(device, (int64_t)bytes, topology));
    TRY(vxd_move(host, device, (int64_t)bytes, NULL));
    return vx_access(host, (int64_t)bytes, 1);
}

void *vx_plugin_transfer_peer(void *source, uint32_t source_topology, uint32_t target_topology, uint64_t bytes) {
    if (vxd_need_open() || check_block(source, (int64_t)bytes, source_topology)) return NULL;
    int32_t arena = window_at(target_topology);
    void *target = arena < 0 ? NULL : take_block(arena, (int64_t)bytes);
    if (!target || vxd_move(target, source, (int64_t)bytes, NULL) == VX_DEVICE_OK) return target;
    drop_block(find_block(target, &arena));
    return NULL;
}

/* ---- futures --------------------------------------------------------------------------------------- */
typedef struct {
    uint32_t generation;
    bool live;
    uint64_t serial;
} Future;

static Future futures[FUTURES];

static uint64_t make_future(uint64_t serial) {
    for (uint32_t i = 0; i < FUTURES; i++) {
        Future *f = &futures[i];
        if (f->live) continue;
        *f = (Future){f->generation + 1, true, serial};
        return (uint64_t)f->generation << 32 | (i + 1);
    }
    vxd_fail(VX_DEVICE_MISUSE, "more than %d futures: release those that were awaited", FUTURES);
    return 0;
}

static Future *future_at(uint64_t handle) {
    uint32_t index = (uint32_t)handle;
    Future *f = index >= 1 && index <= FUTURES ? &futures[index - 1] : NULL;
    if (f && f->live && f->generation == handle >> 32) return f;
    vxd_fail(VX_DEVICE_MISUSE, "%#llx is no future, or was released already", (unsigned long long)handle);
    return NULL;
}

int32_t vx_plugin_await_future(uint64_t future) {
    TRY(vxd_need_open());
    const Future *f = future_at(future);
    return f ? vxd_order_await(f->serial) : VX_DEVICE_MISUSE;
}

int32_t vx_plugin_release_future(uint64_t future) {
    TRY(vxd_need_open());
    Future *f = future_at(future);
    if (!f) return VX_DEVICE_MISUSE;
    f->live = false;
    return VX_DEVICE_OK;
}

/* ---- kernels by name ------------------------------------------------------------------------------- */
/* A tensor argument: what its descriptor says, checked against the memory it points to. */
static int read_memref(const void *argument, int32_t tag, uint32_t topology, const char **data, vx_touch *touch) {
    static const int8_t BYTES[] = {0, 1, 1, 2, 4, 8, 4, 8, 2, 2};
    int32_t element = tag >> 8 & 255, rank = tag >> 16 & 255;
    if (element < 1 || element >= (int32_t)sizeof BYTES || rank > 8)
        return vxd_fail(VX_DEVICE_MISUSE, "element type %d, rank %d", element, rank);
    const int64_t *words = argument, *sizes = words + 3, *strides = sizes + rank;
    int64_t span = 1, bytes = BYTES[element];
    for (int32_t i = 0; i < rank; i++) {
        if (sizes[i] < 1 || strides[i] < 0 )
            return vxd_fail(VX_DEVICE_MISUSE, "extent %lld with stride %lld", (long long)sizes[i], (long long)strides[i]);
        int64_t reach;
        if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(span, reach, &span))
            return vxd_fail(VX_DEVICE_MISUSE, "extent %lld with stride %lld", (long long)sizes[i], (long long)strides[i]);
    }
    if (words[2] < 0 || words[2] > INT64_C(1) << 50 || span > INT64_C(1) << 50)
        return vxd_fail(VX_DEVICE_MISUSE, "offset %lld, %lld elements", (long long)words[2], (long long)span);
    *data = (const char *)(uintptr_t)words[1] + words[2] * bytes;
    *touch = (vx_touch){.address = *data, .bytes = span * bytes, .write = 1};
    return check_holder(touch->address, touch->bytes, topology);
}

typedef struct {
    void *args[VX_LAUNCH_PARAMS];
    const char *data[VX_LAUNCH_PARAMS]; /* addresses of tensors, to which args point */
    vx_touch touches[VX_LAUNCH_PARAMS];
    int64_t touch_count;
} Call;

static int read_arguments(void **args, const int32_t *tags, int64_t count, uint32_t topology, Call *call) {
    for (int64_t i = 0; i < count; i++) {
        int32_t kind = tags[i] & 255;
        if (kind > KIND_LAST || tags[i] >> 24 || !args[i])
            return vxd_fail(VX_DEVICE_MISUSE, "argument %lld with tag %#x", (long long)i, (unsigned)tags[i]);
        call->args[i] = kind == 0 ? (void *)&call->data[i] : args[i];
        if (kind != 0) continue;
        int status = read_memref(args[i], tags[i], topology, &call->data[i], &call->touches[call->touch_count++]);
        if (status) return vxd_while(status, "argument %lld", (long long)i);
    }
    return VX_DEVICE_OK;
}

static int32_t kernel_named(const char *name) {
    for (int32_t i = 0; i < vxd.manifest->kernel_count; i++)
        if (!strcmp(vxd.manifest->kernels[i].name, name)) return i;
    vxd_fail(VX_DEVICE_KERNEL, "the artifact has no kernel `%s`", name);
    return -1;
}

static int start(const Payload *p, void **args, const int32_t *tags, int64_t count, uint64_t *serial) {
    Call call = {.touch_count = 0};
    int32_t device = device_at(p->topology);
    int32_t kernel = device < 0 ? -1 : kernel_named(p->kernel);
    if (kernel < 0) return VX_DEVICE_MISUSE;
    const vx_kernel *k = &vxd.manifest->kernels[kernel];
    const char *place = vxd.devices[device].declared->name;
    if (*p->place && strcmp(p->place, place))
        return vxd_fail(VX_DEVICE_MISUSE, "topology %u is %s, not %s", p->topology, place, p->place);
    if (count != k->params || (count && (!args || !tags)))
        return vxd_fail(VX_DEVICE_MISUSE, "kernel %s takes %d arguments, not %lld", k->name, k->params, (long long)count);
    TRY(read_arguments(args, tags, count, p->topology, &call));
    const int32_t grid[3] = {k->grid_x, k->grid_y, k->grid_z};
    TRY(vxd_order_before(device, LANE_RUN, call.touches, call.touch_count));
    Launched launched = {{0}};
    TRY(vxd_start_kernel(device, kernel, grid, call.args, &launched));
    TRY(vxd_tell_dispatch(k->name, device, &launched, "launches", false));
    return vxd_order_after(device, LANE_RUN, call.touches, call.touch_count, serial);
}

uint64_t vx_plugin_dispatch_async(const void *payload, uint64_t bytes, void **args, const int32_t *tags,
                                  int64_t arg_count) {
    Payload p;
    uint64_t serial;
    if (vxd_need_open()) return 0;
    const char *wrong = vxd_parse_payload(payload, bytes, &p);
    if (wrong) {
        vxd_fail(VX_DEVICE_MISUSE, "the payload of a dispatch is refused: %s", wrong);
        return 0;
    }
    return start(&p, args, tags, arg_count, &serial) ? 0 : make_future(serial);
}

int32_t vx_plugin_control(uint32_t opcode, void *payload) {
    int32_t version;
    switch (opcode) {
        case VX_CONTROL_INIT: return vx_open(payload);
        case VX_CONTROL_SHUTDOWN: return vx_close();
        case VX_CONTROL_DEVICE_COUNT:
            if (!payload) return vxd_fail(VX_DEVICE_MISUSE, "the device count needs an int32_t to write to");
            TRY(drv_start(&version));
            return drv_count(payload);
        default: return vxd_fail(VX_DEVICE_MISUSE, "control opcode %u (1 init, 2 shutdown, 3 device count)", opcode);
    }
}

void vxd_compat_forget(void) {
    for (int32_t i = 0; blocks && i < vxd.manifest->arena_count; i++)
        while (blocks[i]) drop_block(&blocks[i]);
    free(blocks);
    blocks = NULL;
    for (int i = 0; i < FUTURES; i++) futures[i].live = false; /* generations go on: an old handle stays refused */
}
