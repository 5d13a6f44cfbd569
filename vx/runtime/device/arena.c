/* Whose an address is: one arena's, the host's, or nobody's. */
#include "plugin.h"

int32_t vxd_device_of(int32_t arena) { return vxd.arenas[arena].declared->device; }

int vxd_find(const void *address, int64_t bytes, int32_t *arena) {
    uintptr_t start = (uintptr_t)address;
    *arena = -1;
    if (!address || bytes < 0 || start + (uintptr_t)bytes < start)
        return vxd_fail(VX_DEVICE_MISUSE, "%lld bytes at address %p are no memory", (long long)bytes, address);
    for (int32_t i = 0; i < vxd.manifest->arena_count; i++) {
        const Arena *a = &vxd.arenas[i];
        uintptr_t base = (uintptr_t)a->base, end = base + (uintptr_t)a->declared->bytes;
        if (start >= end || start + (uintptr_t)bytes <= base) continue;
        if (start < base || start + (uintptr_t)bytes > end)
            return vxd_fail(VX_DEVICE_MISUSE,
                            "%lld bytes at %p run %s the arena of %s on %s, which has %lld bytes: the Plan admits "
                            "nothing there",
                            (long long)bytes, address, start < base ? "into" : "past the end of",
                            a->declared->space, vxd.devices[a->declared->device].declared->name,
                            (long long)a->declared->bytes);
        *arena = i;
        return VX_DEVICE_OK;
    }
    return VX_DEVICE_OK;
}

void *vx_tile(int32_t arena, int64_t offset, int64_t bytes) {
    if (vxd_need_open()) return NULL;
    if (arena < 0 || arena >= vxd.manifest->arena_count) {
        vxd_fail(VX_DEVICE_MISUSE, "arena %d of %d", arena, vxd.manifest->arena_count);
        return NULL;
    }
    const Arena *a = &vxd.arenas[arena];
    if (offset < 0 || bytes < 0 || offset > a->declared->bytes || bytes > a->declared->bytes - offset) {
        vxd_fail(VX_DEVICE_MISUSE, "%lld bytes at offset %lld do not lie in the arena of %s on %s, which has %lld",
                 (long long)bytes, (long long)offset, a->declared->space,
                 vxd.devices[a->declared->device].declared->name, (long long)a->declared->bytes);
        return NULL;
    }
    return a->base + offset;
}

int32_t vx_owner(const void *address, int32_t *ordinal) {
    int32_t arena;
    TRY(vxd_need_open());
    TRY(vxd_find(address, 1, &arena));
    if (arena < 0) return vxd_fail(VX_DEVICE_MISUSE, "address %p is in no arena", address);
    return drv_owner(vxd_device_of(arena), address, ordinal);
}
