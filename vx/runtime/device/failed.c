/* Checks that kernels make: an error word for each region, in device memory, whose copy the host looks at where it waits
   for results anyway. */
#include "plugin.h"

#include <string.h>

static int64_t size_of_words(void) { return vxd.manifest->region_count * (int64_t)sizeof(int32_t); }

static char *words_at(int32_t device) {
    const vx_device *d = vxd.devices[device].declared;
    return vxd.arenas[d->counter_arena].base + d->error_offset;
}

int vxd_errors_ready(int32_t device) {
    const vx_device *d = vxd.devices[device].declared;
    void *memory;
    if (d->counter_arena < 0 || d->error_offset < 0 || vxd.manifest->region_count == 0) return VX_DEVICE_OK;
    TRY(drv_pin(device, size_of_words(), &memory));
    memset(memory, 0, (size_t)size_of_words());
    vxd.devices[device].errors = memory;
    return drv_fill(device, LANE_RUN, words_at(device), size_of_words(), 0);
}

int vxd_errors_follow(int32_t device) {
    void *copy = vxd.devices[device].errors;
    return copy ? drv_copy(device, LANE_OUT, COPY_TO_HOST, copy, words_at(device), size_of_words()) : VX_DEVICE_OK;
}

int vxd_errors_look(int32_t device) {
    const Device *d = &vxd.devices[device];
    for (int32_t r = 0; d->errors && r < vxd.manifest->region_count; r++) {
        const vx_region *region = &vxd.manifest->regions[r];
        int32_t word = d->errors[r];
        if (word == 0) continue;
        bool known = word > 0 && word <= region->message_count;
        return vxd_fail(VX_DEVICE_FAILED, "region %s on %s: %s", region->name, d->declared->name,
                        known ? region->messages[word - 1] : "a kernel failed without saying how");
    }
    return VX_DEVICE_OK;
}

int vxd_errors_fetch(int32_t device) {
    if (!vxd.devices[device].errors) return VX_DEVICE_OK;
    TRY(drv_drain(device));
    TRY(vxd_errors_follow(device));
    TRY(drv_drain(device));
    return vxd_errors_look(device);
}

void vxd_errors_forget(int32_t device) {
    if (vxd.devices[device].errors) drv_unpin(device, vxd.devices[device].errors);
    vxd.devices[device].errors = NULL;
}
