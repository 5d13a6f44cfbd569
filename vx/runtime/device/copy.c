/* Moving bytes: between host, device and peer, weights by way of pinned staging, and the few words of a parameter
   block. The addresses say which of these it is. */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

/* Where a copy goes and which queue it is issued to. */
typedef struct {
    int32_t from, to; /* devices; -1: the host */
    int32_t device;
    Lane lane;
    CopyKind kind;
} Way;

static int way_of(const void *target, int64_t target_bytes, const void *source, int64_t source_bytes, Way *way) {
    int32_t to, from;
    TRY(vxd_find(target, target_bytes, &to));
    TRY(vxd_find(source, source_bytes, &from));
    way->to = to < 0 ? -1 : vxd_device_of(to);
    way->from = from < 0 ? -1 : vxd_device_of(from);
    if (way->to < 0 && way->from < 0)
        return vxd_fail(VX_DEVICE_MISUSE, "neither %p nor %p is on a device: the host copies its own memory", target,
                        source);
    if (way->from < 0) *way = (Way){-1, way->to, way->to, LANE_IN, COPY_TO_DEVICE};
    else if (way->to < 0) *way = (Way){way->from, -1, way->from, LANE_OUT, COPY_TO_HOST};
    else *way = (Way){way->from, way->to, way->from, LANE_OUT, COPY_LOCAL};
    return VX_DEVICE_OK;
}

static const char *place(int32_t device) { return device < 0 ? "host" : vxd.devices[device].declared->name; }

static void tell_copy(const Way *way, int64_t bytes, const bool *direct) {
    if (!vxd_evidence()) return;
    vxd_event(direct ? "peer" : "copy");
    vxd_text("from", place(way->from));
    vxd_text("to", place(way->to));
    vxd_number("bytes", bytes);
    if (direct) vxd_text("by", *direct ? "direct" : "host staging");
    vxd_event_end();
}

int vxd_move(void *target, const void *source, int64_t bytes, uint64_t *serial) {
    Way way;
    bool direct;
    TRY(way_of(target, bytes, source, bytes, &way));
    const vx_touch touches[] = {{.address = source, .bytes = bytes}, {.address = target, .bytes = bytes, .write = 1}};
    if ((const char *)target < (const char *)source + bytes && (const char *)source < (const char *)target + bytes)
        return vxd_fail(VX_DEVICE_MISUSE, "a copy of %lld bytes overlaps itself", (long long)bytes);
    bool peer = way.from >= 0 && way.to >= 0 && way.from != way.to;
    TRY(vxd_order_before(way.device, way.lane, touches, 2));
    if (peer) TRY(drv_copy_peer(way.from, way.lane, way.to, target, source, bytes, &direct));
    else TRY(drv_copy(way.device, way.lane, way.kind, target, source, bytes));
    tell_copy(&way, bytes, peer ? &direct : NULL);
    if (way.kind == COPY_TO_HOST) TRY(vxd_errors_follow(way.device));
    return vxd_order_after(way.device, way.lane, touches, 2, serial);
}

int32_t vx_copy(void *target, const void *source, int64_t bytes) {
    TRY(vxd_need_open());
    return bytes == 0 ? VX_DEVICE_OK : vxd_move(target, source, bytes, NULL);
}

int32_t vx_copy_rows(void *target, int64_t target_pitch, const void *source, int64_t source_pitch, int64_t bytes,
                     int64_t rows) {
    TRY(vxd_need_open());
    if (rows == 0 || bytes == 0) return VX_DEVICE_OK;
    if (rows < 0 || bytes < 0 || target_pitch < bytes || source_pitch < bytes ||
        target_pitch > INT64_MAX / 2 / rows || source_pitch > INT64_MAX / 2 / rows)
        return vxd_fail(VX_DEVICE_MISUSE, "%lld rows of %lld bytes, %lld and %lld apart", (long long)rows,
                        (long long)bytes, (long long)target_pitch, (long long)source_pitch);
    int64_t from = source_pitch * (rows - 1) + bytes, to = target_pitch * (rows - 1) + bytes;
    Way way;
    TRY(way_of(target, to, source, from, &way));
    if (way.from >= 0 && way.to >= 0 && way.from != way.to)
        return vxd_fail(VX_DEVICE_MISUSE, "rows are not copied between peers: copy whole ranges");
    const vx_touch touches[] = {{.address = source, .bytes = from}, {.address = target, .bytes = to, .write = 1}};
    const Rows all = {target, source, target_pitch, source_pitch, bytes, rows};
    TRY(vxd_order_before(way.device, way.lane, touches, 2));
    TRY(drv_copy_rows(way.device, way.lane, way.kind, &all));
    tell_copy(&way, bytes * rows, NULL);
    if (way.kind == COPY_TO_HOST) TRY(vxd_errors_follow(way.device));
    return vxd_order_after(way.device, way.lane, touches, 2, NULL);
}

/* Doubles what is there until all of it is: a pattern that is no single byte. */
static int spread(int32_t device, char *target, const char *value, int64_t size, int64_t bytes) {
    char seed[VX_SET_BYTES];
    int64_t have = bytes < VX_SET_BYTES ? bytes : VX_SET_BYTES / size * size;
    for (int64_t at = 0; at < have; at += size) memcpy(seed + at, value, (size_t)size);
    TRY(drv_copy(device, LANE_IN, COPY_TO_DEVICE, target, seed, have));
    for (int64_t more; have < bytes; have += more) {
        more = have < bytes - have ? have : bytes - have;
        TRY(drv_copy(device, LANE_IN, COPY_LOCAL, target + have, target, more));
    }
    return VX_DEVICE_OK;
}

int32_t vx_fill(void *target, const void *value, int64_t element_bytes, int64_t count) {
    TRY(vxd_need_open());
    if (count == 0) return VX_DEVICE_OK;
    if ((element_bytes != 1 && element_bytes != 2 && element_bytes != 4 && element_bytes != 8) || count < 0 ||
        count > INT64_MAX / 8)
        return vxd_fail(VX_DEVICE_MISUSE, "%lld elements of %lld bytes", (long long)count, (long long)element_bytes);
    int64_t bytes = element_bytes * count;
    int32_t arena;
    TRY(vxd_find(target, bytes, &arena));
    if (arena < 0) return vxd_fail(VX_DEVICE_MISUSE, "%p is not on a device", target);
    int32_t device = vxd_device_of(arena);
    const vx_touch touch = {.address = target, .bytes = bytes, .write = 1};
    const unsigned char *first = value;
    bool same = true;
    for (int64_t i = 1; i < element_bytes; i++) same = same && first[i] == first[0];
    TRY(vxd_order_before(device, LANE_IN, &touch, 1));
    if (same) TRY(drv_fill(device, LANE_IN, target, bytes, first[0]));
    else TRY(spread(device, target, value, element_bytes, bytes));
    return vxd_order_after(device, LANE_IN, &touch, 1, NULL);
}

/* One half of the staging, filled and sent. */
static int send_part(int32_t device, char *target, const char *source, int64_t bytes) {
    Device *d = &vxd.devices[device];
    int32_t half = d->staging_next;
    char *staged = d->staging + half * (vxd.manifest->staging / 2);
    if (d->staging_busy[half]) TRY(drv_await(device, d->staged[half]));
    memcpy(staged, source, (size_t)bytes);
    TRY(drv_copy(device, LANE_IN, COPY_LOAD, target, staged, bytes));
    TRY(drv_record(device, LANE_IN, d->staged[half]));
    d->staging_busy[half] = true;
    d->staging_next = !half;
    return VX_DEVICE_OK;
}

int32_t vx_load(void *target, const void *source, int64_t bytes) {
    TRY(vxd_need_open());
    if (bytes == 0) return VX_DEVICE_OK;
    Way way;
    TRY(way_of(target, bytes, source, bytes, &way));
    int64_t half = vxd.manifest->staging / 2;
    if (way.from >= 0 || half <= 0)
        return vxd_fail(VX_DEVICE_MISUSE, way.from >= 0 ? "vx_load reads host memory; vx_copy copies between devices"
                                                        : "the manifest has no staging, which vx_load needs");
    const vx_touch touch = {.address = target, .bytes = bytes, .write = 1};
    TRY(vxd_order_before(way.to, LANE_IN, &touch, 1));
    for (int64_t at = 0; at < bytes; at += half)
        TRY(send_part(way.to, (char *)target + at, (const char *)source + at, bytes - at < half ? bytes - at : half));
    if (vxd_evidence()) {
        int32_t arena;
        TRY(vxd_find(target, bytes, &arena));
        vxd_event("stage");
        vxd_event_device(way.to);
        vxd_text("space", vxd.arenas[arena].declared->space);
        vxd_number("offset", (char *)target - vxd.arenas[arena].base);
        vxd_number("bytes", bytes);
        vxd_event_end();
    }
    return vxd_order_after(way.to, LANE_IN, &touch, 1, NULL);
}

int32_t vx_access(const void *address, int64_t bytes, int32_t write) {
    TRY(vxd_need_open());
    const vx_touch touch = {.address = address, .bytes = bytes, .write = write};
    if (bytes > 0) TRY(vxd_order_host(&touch));
    for (int32_t i = 0; i < vxd.manifest->device_count; i++) {
        TRY(vxd_errors_look(i));
        TRY(vxd_note_warm(i));
    }
    return VX_DEVICE_OK;
}

int32_t vx_sync(void) {
    TRY(vxd_need_open());
    TRY(vxd_order_drain());
    for (int32_t i = 0; i < vxd.manifest->device_count; i++) TRY(vxd_errors_fetch(i));
    return VX_DEVICE_OK;
}

/* ---- pinned memory --------------------------------------------------------------------------------- */
typedef struct Pin {
    struct Pin *next;
    char *memory;
    int64_t bytes;
} Pin;

static Pin *pins;

void *vx_pin(int64_t bytes) {
    if (vxd_need_open()) return NULL;
    Pin *pin = malloc(sizeof *pin);
    void *memory;
    if (!pin || bytes <= 0) {
        vxd_fail(pin ? VX_DEVICE_MISUSE : VX_DEVICE_NO_MEMORY, "%lld bytes of pinned memory", (long long)bytes);
    } else if (drv_pin(0, bytes, &memory) == VX_DEVICE_OK) {
        *pin = (Pin){pins, memory, bytes};
        pins = pin;
        return memory;
    }
    free(pin);
    return NULL;
}

int32_t vx_unpin(void *memory) {
    TRY(vxd_need_open());
    for (Pin **at = &pins; *at; at = &(*at)->next) {
        Pin *pin = *at;
        if (pin->memory != memory) continue;
        const vx_touch touch = {.address = memory, .bytes = pin->bytes, .write = 1};
        TRY(vxd_order_host(&touch));
        *at = pin->next;
        free(pin);
        return drv_unpin(0, memory);
    }
    return vxd_fail(VX_DEVICE_MISUSE, "%p is not from vx_pin, or was given back already", memory);
}

bool vxd_is_pinned(const void *address, int64_t bytes) {
    const char *at = address;
    for (const Pin *pin = pins; pin; pin = pin->next)
        if (at >= pin->memory && at + bytes <= pin->memory + pin->bytes) return true;
    return false;
}

void vxd_copy_forget(void) {
    while (pins) {
        Pin *pin = pins;
        pins = pin->next;
        drv_unpin(0, pin->memory);
        free(pin);
    }
}

/* ---- a few words ----------------------------------------------------------------------------------- */
enum { SLOTS = 64 };

/* Pinned slots that are written one after another; each has an event of the copy that reads it. */
typedef struct {
    char *memory;
    void *events[SLOTS];
    bool busy[SLOTS];
    int32_t next;
} Words;

static Words words[DRV_DEVICES];

int vxd_set_ready(void) {
    for (int32_t i = 0; i < vxd.manifest->device_count; i++) {
        void *memory;
        TRY(drv_pin(i, SLOTS * VX_SET_BYTES, &memory));
        words[i].memory = memory;
    }
    return VX_DEVICE_OK;
}

void vxd_set_forget(void) {
    for (int32_t i = 0; i < vxd.manifest->device_count; i++) {
        for (int32_t s = 0; s < SLOTS; s++)
            if (words[i].events[s]) drv_event_free(i, words[i].events[s]);
        if (words[i].memory) drv_unpin(i, words[i].memory);
        words[i] = (Words){0};
    }
}

int32_t vx_set(void *target, const void *value, int64_t bytes) {
    TRY(vxd_need_open());
    if (bytes < 4 || bytes > VX_SET_BYTES || bytes % 4 || !value)
        return vxd_fail(VX_DEVICE_MISUSE, "vx_set of %lld bytes: a multiple of 4, at most %d", (long long)bytes,
                        VX_SET_BYTES);
    int32_t arena;
    TRY(vxd_find(target, bytes, &arena));
    if (arena < 0) return vxd_fail(VX_DEVICE_MISUSE, "vx_set to %p, which is on no device", target);
    int32_t device = vxd_device_of(arena);
    Words *w = &words[device];
    int32_t slot = w->next;
    if (w->busy[slot]) TRY(drv_await(device, w->events[slot]));
    if (!w->events[slot]) TRY(drv_event(device, false, &w->events[slot]));
    char *from = w->memory + slot * VX_SET_BYTES;
    memcpy(from, value, (size_t)bytes);
    const vx_touch touch = {.address = target, .bytes = bytes, .write = 1};
    TRY(vxd_order_before(device, LANE_RUN, &touch, 1));
    TRY(drv_copy(device, LANE_RUN, COPY_TO_DEVICE, target, from, bytes));
    TRY(drv_record(device, LANE_RUN, w->events[slot]));
    w->busy[slot] = true;
    w->next = (slot + 1) % SLOTS;
    return vxd_order_after(device, LANE_RUN, &touch, 1, NULL);
}
