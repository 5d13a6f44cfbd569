/* Who waits for whom. Work is noted with its footprint; later work that overlaps it where one of the two writes waits
   for its event, and nothing else does. Work of one queue is in order by itself. */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

enum { WORKS = 512, TIDY_FROM = 128 };

typedef struct {
    uint64_t serial; /* 0: none */
    int32_t device;
    Lane lane;
    bool marked; /* its event is recorded */
    bool done;
    bool held; /* somebody has its serial */
    uint64_t waited; /* queues that wait for it already */
    vx_touch *touches;
    int64_t count, room;
    void *event; /* taken when first needed */
} Work;

static Work works[WORKS]; /* a ring: serials first..next-1, each at serial % WORKS */
static uint64_t first = 1, next = 1;
static uint64_t last[DRV_DEVICES][LANES]; /* the latest of each queue */

/* Events that no work has at the moment; as many exist as were ever needed at once. */
static struct {
    void *events[WORKS];
    int32_t count;
} spare[DRV_DEVICES];

static Work *work_at(uint64_t serial) { return &works[serial % WORKS]; }

static uint64_t lane_bit(int32_t device, Lane lane) { return UINT64_C(1) << (device * LANES + (int)lane); }

static bool overlap(const vx_touch *a, const vx_touch *b) {
    const char *x = a->address, *y = b->address;
    return (a->write || b->write) && x < y + b->bytes && y < x + a->bytes;
}

static bool conflict(const Work *w, const vx_touch *touches, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < w->count; j++)
            if (overlap(&touches[i], &w->touches[j])) return true;
    return false;
}

/* The event of `w`; what comes after it in its queue has not been issued yet when it is not marked. */
static int mark(Work *w) {
    if (w->marked) return VX_DEVICE_OK;
    if (!w->event && spare[w->device].count > 0) w->event = spare[w->device].events[--spare[w->device].count];
    if (!w->event) TRY(drv_event(w->device, false, &w->event));
    TRY(drv_record(w->device, w->lane, w->event));
    w->marked = true;
    return VX_DEVICE_OK;
}

static void leave(Work *w) {
    if (w->event) spare[w->device].events[spare[w->device].count++] = w->event;
    w->event = NULL;
}

static void retire(void) {
    while (first < next && work_at(first)->done) leave(work_at(first++));
}

/* The host waits for `w`, and so for all before it in its queue. */
static int await(Work *w) {
    if (w->done) return VX_DEVICE_OK;
    TRY(mark(w));
    TRY(drv_await(w->device, w->event));
    for (uint64_t s = first; s <= w->serial; s++) {
        Work *other = work_at(s);
        if (other->device == w->device && other->lane == w->lane) other->done = true;
    }
    retire();
    return VX_DEVICE_OK;
}

/* Forgets what has ended, oldest first; waits for the oldest if there is no room. */
static int make_room(void) {
    while (first < next && next - first >= TIDY_FROM) {
        Work *w = work_at(first);
        bool done = false;
        if (!w->done) {
            TRY(mark(w));
            TRY(drv_done(w->device, w->event, &done));
            w->done = done;
        }
        if (!w->done) break;
        retire();
    }
    return next - first >= WORKS ? await(work_at(first)) : VX_DEVICE_OK;
}

static bool same(const Work *w, const vx_touch *touches, int64_t count) {
    if (w->count != count) return false;
    for (int64_t i = 0; i < count; i++) {
        const vx_touch *a = &w->touches[i], *b = &touches[i];
        if (a->address != b->address || a->bytes != b->bytes || !a->write != !b->write) return false;
    }
    return true;
}

static Work *latest(int32_t device, Lane lane) {
    uint64_t serial = last[device][lane];
    return serial >= first && serial < next ? work_at(serial) : NULL;
}

int vxd_order_before(int32_t device, Lane lane, const vx_touch *touches, int64_t count) {
    uint64_t own = lane_bit(device, lane), covered = own;
    for (uint64_t s = next; s-- > first;) {
        Work *w = work_at(s);
        uint64_t bit = lane_bit(w->device, w->lane);
        if (w->done || covered & bit || !conflict(w, touches, count)) continue;
        covered |= bit; /* older work of that queue has ended by then */
        if (w->waited & own) continue;
        TRY(mark(w));
        TRY(drv_wait(device, lane, w->event));
        w->waited |= own;
    }
    /* Once more work follows, a mark would come too late; a repetition of the same work takes its place. */
    Work *before = latest(device, lane);
    if (before && !before->done && !same(before, touches, count)) TRY(mark(before));
    return VX_DEVICE_OK;
}

static int keep(Work *w, const vx_touch *touches, int64_t count) {
    if (w->room < count) {
        vx_touch *more = realloc(w->touches, (size_t)count * sizeof *more);
        if (!more) return vxd_fail(VX_DEVICE_NO_MEMORY, "no host memory for the footprint of a region");
        w->touches = more;
        w->room = count;
    }
    if (count) memcpy(w->touches, touches, (size_t)count * sizeof *touches);
    w->count = count;
    return VX_DEVICE_OK;
}

int vxd_order_after(int32_t device, Lane lane, const vx_touch *touches, int64_t count, uint64_t *serial) {
    Work *w = latest(device, lane);
    bool again = w && same(w, touches, count);
    if (!again || w->serial != next - 1) {
        if (again && !w->held) w->done = true; /* whoever would wait for it waits for its repetition */
        retire();
        TRY(make_room());
        w = work_at(next);
        TRY(keep(w, touches, count));
        w->serial = next++;
        w->device = device;
        w->lane = lane;
        w->held = false;
        last[device][lane] = w->serial;
    }
    w->marked = w->done = false;
    w->waited = 0;
    w->held = w->held || serial;
    if (serial) *serial = w->serial;
    return VX_DEVICE_OK;
}

int vxd_order_host(const vx_touch *touch) {
    for (uint64_t s = next; s-- > first;) {
        Work *w = work_at(s);
        if (!w->done && conflict(w, touch, 1)) TRY(await(w));
    }
    return VX_DEVICE_OK;
}

int vxd_order_await(uint64_t serial) { return serial >= first && serial < next ? await(work_at(serial)) : VX_DEVICE_OK; }

int vxd_order_drain(void) {
    for (int32_t i = 0; i < vxd.manifest->device_count; i++) TRY(drv_drain(i));
    while (first < next) leave(work_at(first++));
    return VX_DEVICE_OK;
}

void vxd_order_forget(void) {
    while (first < next) leave(work_at(first++));
    for (int32_t d = 0; d < DRV_DEVICES; d++)
        while (spare[d].count > 0) drv_event_free(d, spare[d].events[--spare[d].count]);
    for (int32_t i = 0; i < WORKS; i++) {
        free(works[i].touches);
        works[i] = (Work){0};
    }
    first = next = 1;
    memset(last, 0, sizeof last);
}
