/* Opens the plugin that its first argument names and runs a region on two stand-ins; for tests of devices.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vx_abi.h"
#define VX_DEVICE_TYPES_ONLY
#include "device/vx_device.h"

void vx_device_open(const char *plugin, const vx_manifest *manifest);
int32_t vx_device_close(void);
void *vx_device_tile(int32_t arena, int64_t offset, int64_t bytes);
int32_t vx_device_copy(void *target, const void *source, int64_t bytes);
int32_t vx_device_run(int32_t region, int32_t device, const void *params, int64_t bytes, const vx_touch *touches, int64_t count);
int32_t vx_device_access(const void *address, int64_t bytes, int32_t write);
int32_t vx_device_warm(void);

static int32_t triple(const void *params) {
    float *x;
    memcpy(&x, params, sizeof x);
    for (int i = 0; i < 4; i++) x[i] *= 3;
    return 0;
}

static const vx_device DEVICES[] = {{.name = "Device[0]", .ordinal = 0, .topology = 500, .counter_arena = -1, .error_offset = -1},
                                    {.name = "Device[1]", .ordinal = 1, .topology = 501, .counter_arena = -1, .error_offset = -1}};
static const vx_arena ARENAS[] = {{.space = "HBM", .device = 0, .bytes = 4096}, {.space = "HBM", .device = 1, .bytes = 4096}};
static const vx_region REGIONS[] = {{.name = "triple", .record = triple, .counter = -1}};
static const vx_manifest MANIFEST = {.abi = VX_PLUGIN_ABI, .role = "single", .isa = "", .artifact = "", .machine = "",
                                     .plan = "", .devices = DEVICES, .arenas = ARENAS, .regions = REGIONS,
                                     .device_count = 2, .arena_count = 2, .region_count = 1, .staging = 4096};

int32_t vx_program_main(void) {
    float data[4] = {1, 2, 3, 4}, back[4] = {0};
    vx_caller = "devices.vx:7";
    vx_device_open(vx_arg(0), &MANIFEST);
    float *first = vx_device_tile(0, 0, 16), *second = vx_device_tile(1, 0, 16);
    vx_device_copy(first, data, 16);
    vx_device_copy(second, first, 16);
    vx_touch touch = {.address = second, .bytes = 16, .write = 1};
    vx_device_run(0, 1, &second, sizeof second, &touch, 1);
    if (vx_arg_count() > 1) vx_device_run(0, 0, &second, sizeof second, &touch, 1);
    vx_device_copy(back, second, 16);
    vx_device_access(back, 16, 0);
    vx_device_warm();
    vx_device_close();
    printf("%g %g %g %g\n", (double)back[0], (double)back[1], (double)back[2], (double)back[3]);
    return 0;
}
