/* Token rings: pinned words that a device writes and the host reads, without a call of the driver between. */
#include "plugin.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { RINGS = 16, LEAST_SLOTS = 16, MOST_SLOTS = 1 << 20, SPINS = 4096 };
static const uint64_t EMPTY = UINT64_MAX;

typedef struct {
    _Atomic uint64_t *words; /* null: free */
    int32_t device, slots;
} Ring;

static Ring rings[RINGS];

static void clear(const Ring *ring) {
    for (int32_t i = 0; i < ring->slots; i++) atomic_store_explicit(&ring->words[i], EMPTY, memory_order_relaxed);
}

void *vx_ring(int32_t device, int32_t slots) {
    if (vxd_need_device(device)) return NULL;
    if (slots < LEAST_SLOTS || slots > MOST_SLOTS || slots & (slots - 1)) {
        vxd_fail(VX_DEVICE_MISUSE, "a ring of %d slots: a power of two from %d to %d", slots, LEAST_SLOTS, MOST_SLOTS);
        return NULL;
    }
    for (int i = 0; i < RINGS; i++) {
        void *memory;
        if (rings[i].words) continue;
        if (drv_pin(device, slots * (int64_t)sizeof *rings[i].words, &memory)) return NULL;
        rings[i] = (Ring){memory, device, slots};
        clear(&rings[i]);
        return memory;
    }
    vxd_fail(VX_DEVICE_MISUSE, "more than %d token rings", RINGS);
    return NULL;
}

static Ring *ring_at(const void *memory) {
    for (int i = 0; i < RINGS; i++)
        if (memory && rings[i].words == memory) return &rings[i];
    vxd_fail(VX_DEVICE_MISUSE, "%p is no token ring", memory);
    return NULL;
}

static int64_t clock_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Whether the slot holds `position`; what it holds is taken out. */
static bool take(const Ring *ring, int64_t position, uint64_t *word) {
    _Atomic uint64_t *slot = &ring->words[position & (ring->slots - 1)];
    *word = atomic_load_explicit(slot, memory_order_acquire);
    if (*word == EMPTY || (int64_t)(*word >> 32) != position) return false;
    atomic_store_explicit(slot, EMPTY, memory_order_relaxed);
    return true;
}

static int missing(const Ring *ring, int64_t position, uint64_t word) {
    const char *name = vxd.devices[ring->device].declared->name;
    TRY(vxd_errors_fetch(ring->device)); /* that is why, then */
    if (word != EMPTY && (int64_t)(word >> 32) > position)
        return vxd_fail(VX_DEVICE_MISUSE, "the token at position %lld of %s was overwritten by that at %lld: read each "
                                          "before the ring has gone round",
                        (long long)position, name, (long long)(word >> 32));
    return vxd_fail(VX_DEVICE_DRIVER, "%s has ended all its work, but stored no token for position %lld", name,
                    (long long)position);
}

static int wait(const Ring *ring, int64_t position, int64_t deadline, uint64_t *word) {
    for (;;) {
        for (int spin = 0; spin < SPINS; spin++)
            if (take(ring, position, word)) return VX_DEVICE_OK;
        bool done;
        TRY(drv_lane_done(ring->device, LANE_RUN, &done)); /* an error of the device appears here */
        if (done) return take(ring, position, word) ? VX_DEVICE_OK : missing(ring, position, *word);
        if (clock_now() > deadline)
            return vxd_fail(VX_DEVICE_TIMEOUT, "%s has not stored a token for position %lld in time",
                            vxd.devices[ring->device].declared->name, (long long)position);
    }
}

static void tell(const Ring *ring, int64_t position) {
    if (!vxd_evidence()) return;
    vxd_event("token");
    vxd_event_device(ring->device);
    vxd_number("position", position);
    vxd_event_end();
}

int32_t vx_token(void *memory, int64_t position, int64_t deadline, int32_t *token) {
    uint64_t word;
    TRY(vxd_need_open());
    const Ring *ring = ring_at(memory);
    if (!ring || position < 0 || position > INT32_MAX)
        return ring ? vxd_fail(VX_DEVICE_MISUSE, "position %lld", (long long)position) : VX_DEVICE_MISUSE;
    TRY(wait(ring, position, deadline, &word));
    if ((uint32_t)word == VX_TOKEN_NOT_FINITE)
        return vxd_fail(VX_DEVICE_NOT_FINITE, "the logits at position %lld on %s are not finite", (long long)position,
                        vxd.devices[ring->device].declared->name);
    *token = (int32_t)(uint32_t)word;
    tell(ring, position);
    return VX_DEVICE_OK;
}

int32_t vx_ring_clear(void *memory, int64_t *dropped) {
    TRY(vxd_need_open());
    const Ring *ring = ring_at(memory);
    if (!ring) return VX_DEVICE_MISUSE;
    TRY(drv_drain(ring->device));
    int64_t unread = 0;
    for (int32_t i = 0; i < ring->slots; i++)
        unread += atomic_load_explicit(&ring->words[i], memory_order_acquire) != EMPTY;
    clear(ring);
    *dropped = unread;
    if (vxd_evidence()) {
        vxd_event("dropped");
        vxd_event_device(ring->device);
        vxd_number("tokens", unread);
        vxd_event_end();
    }
    return VX_DEVICE_OK;
}

void vxd_ring_forget(void) {
    for (int i = 0; i < RINGS; i++)
        if (rings[i].words) drv_unpin(rings[i].device, (void *)rings[i].words);
    memset(rings, 0, sizeof rings);
}
