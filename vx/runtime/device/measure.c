/* What the driver says: memory, counters, times. Nothing here is taken from the Plan but the figures it is to be
   compared with. */
#include "plugin.h"

#include <string.h>

static int64_t rounded(int64_t bytes, int64_t granule) { return (bytes + granule - 1) / granule * granule; }

int32_t vx_memory_of(int32_t device, vx_memory *figures) {
    TRY(vxd_need_device(device));
    const Device *d = &vxd.devices[device];
    vx_memory f = {.free_before = d->free_before, .free_after = d->free_after, .free_warm = d->free_warm,
                   .granule = d->facts.granule, .allocations = drv_allocations(device)};
    TRY(drv_memory(device, &f.free_end, &f.total));
    for (int32_t i = 0; i < vxd.manifest->arena_count; i++) {
        const vx_arena *a = &vxd.manifest->arenas[i];
        if (a->device != device) continue;
        f.arenas++;
        f.arena_bytes += a->bytes;
        f.arena_rounded += rounded(a->bytes, f.granule);
        if (a->reserve > f.reserve) f.reserve = a->reserve;
    }
    f.driver_bytes = f.total - (d->free_warm >= 0 ? d->free_warm : f.free_end) - f.arena_rounded;
    *figures = f;
    return VX_DEVICE_OK;
}

int32_t vx_traffic_of(int32_t device, vx_traffic *figures) {
    TRY(vxd_need_device(device));
    *figures = *drv_traffic(device);
    return VX_DEVICE_OK;
}

int vxd_note_warm(int32_t device) {
    Device *d = &vxd.devices[device];
    int64_t total;
    if (!d->warming) return VX_DEVICE_OK;
    d->warming = false;
    return drv_memory(device, &d->free_warm, &total);
}

int32_t vx_warm(void) {
    TRY(vx_sync());
    for (int32_t i = 0; i < vxd.manifest->device_count; i++) {
        int64_t total;
        TRY(drv_memory(i, &vxd.devices[i].free_warm, &total));
    }
    return VX_DEVICE_OK;
}

int32_t vx_phase(const char *name, int32_t begin) {
    TRY(vxd_need_open());
    if (!vxd_evidence()) return VX_DEVICE_OK;
    vxd_event("phase");
    vxd_text("name", name);
    vxd_text("edge", begin ? "begin" : "end");
    vxd_event_end();
    return VX_DEVICE_OK;
}

int32_t vx_counter(int32_t device, int32_t index, int64_t *value) {
    TRY(vxd_need_device(device));
    const vx_device *d = vxd.devices[device].declared;
    if (d->counter_arena < 0 || index < 0 || index >= d->counters)
        return vxd_fail(VX_DEVICE_MISUSE, "counter %d of the %d of %s", index, d->counter_arena < 0 ? 0 : d->counters,
                        d->name);
    const char *at = vxd.arenas[d->counter_arena].base + d->counter_offset + index * INT64_C(8);
    TRY(drv_drain(device));
    TRY(drv_copy(device, LANE_OUT, COPY_TO_HOST, value, at, sizeof *value));
    return drv_drain(device);
}

int32_t vx_stamp(int32_t device) {
    TRY(vxd_need_device(device));
    Device *d = &vxd.devices[device];
    void **stamp = &d->stamps[d->stamped % 2];
    if (!*stamp) TRY(drv_event(device, true, stamp));
    TRY(drv_record(device, LANE_RUN, *stamp));
    d->stamped++;
    return VX_DEVICE_OK;
}

int32_t vx_seconds(int32_t device, float *seconds) {
    TRY(vxd_need_device(device));
    Device *d = &vxd.devices[device];
    if (d->stamped < 2) return vxd_fail(VX_DEVICE_MISUSE, "vx_seconds needs two vx_stamp calls on %s", d->declared->name);
    TRY(drv_drain(device));
    return drv_elapsed(device, d->stamps[d->stamped % 2], d->stamps[(d->stamped + 1) % 2], seconds);
}
