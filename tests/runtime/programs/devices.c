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
int32_t vx_device_warm(void);
int32_t vx_plugin_control(uint32_t opcode, void *payload);
void vx_device_move(void *target, const void *source, int64_t bytes, int32_t sides);
void vx_device_move_strided(void *target, const int64_t *target_strides, const void *source, const int64_t *source_strides,
                            const int64_t *extents, int32_t rank, int64_t elem_bytes, int32_t sides);

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

enum { TO_HOST = 1, FROM_HOST = 2, X = 3, Y = 4, Z = 5 };

/* A tensor whose layout is `order` of its dimensions, slowest first, with a gap after each row. */
static void layout(const int order[3], const int64_t extents[3], int64_t strides[3]) {
    int64_t step = 1;
    for (int i = 2; i >= 0; i--) {
        strides[order[i]] = step;
        step = step * extents[order[i]] + (i == 2);
    }
}

/* Through both devices and back, each leg between other layouts; how many elements differ, or were written beside. */
static int move_around(const int order[4][3]) {
    const int64_t extents[3] = {X, Y, Z};
    float out[256], back[256];
    int64_t strides[4][3];
    char *places[2] = {vx_device_tile(0, 1024, 1024), vx_device_tile(1, 2048, 1024)};
    for (int i = 0; i < 4; i++) layout(order[i], extents, strides[i]);
    for (int i = 0; i < 256; i++) out[i] = (float)i, back[i] = -1;
    vx_device_move_strided(places[0], strides[1], out, strides[0], extents, 3, 4, FROM_HOST);
    vx_device_move_strided(places[1], strides[2], places[0], strides[1], extents, 3, 4, 0);
    vx_device_move_strided(back, strides[3], places[1], strides[2], extents, 3, 4, TO_HOST);
    int wrong = 0, written = 0;
    for (int i = 0; i < X * Y * Z; i++) {
        const int64_t at[3] = {i / (Y * Z), i / Z % Y, i % Z};
        int64_t from = 0, to = 0;
        for (int d = 0; d < 3; d++) from += at[d] * strides[0][d], to += at[d] * strides[3][d];
        wrong += out[from] != back[to];
    }
    for (int i = 0; i < 256; i++) written += back[i] >= 0;
    return wrong + abs(written - X * Y * Z);
}

static int move_everywhere(void) {
    static const int ORDERS[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    int wrong = 0;
    for (int i = 0; i < 6 * 6 * 6 * 6; i++) {
        const int picked[4] = {i % 6, i / 6 % 6, i / 36 % 6, i / 216};
        int order[4][3];
        for (int k = 0; k < 4; k++) memcpy(order[k], ORDERS[picked[k]], sizeof order[k]);
        wrong += move_around((const int(*)[3])order);
    }
    return wrong;
}

int32_t vx_program_main(void) {
    float data[4] = {1, 2, 3, 4}, back[4] = {0};
    int32_t count = 0;
    vx_caller = "devices.vx:7";
    if (!strcmp(vx_arg(0), "early")) return vx_plugin_control(VX_CONTROL_DEVICE_COUNT, &count);
    vx_device_open(vx_arg(0), &MANIFEST);
    float *first = vx_device_tile(0, 0, 16), *second = vx_device_tile(1, 0, 16);
    if (vx_plugin_control(VX_CONTROL_DEVICE_COUNT, &count) || count != 16) return 4;
    vx_device_move(first, data, 16, FROM_HOST);
    vx_device_copy(second, first, 16);
    vx_touch touch = {.address = second, .bytes = 16, .write = 1};
    vx_device_run(0, 1, &second, sizeof second, &touch, 1);
    if (vx_arg_count() > 1) vx_device_run(0, 0, &second, sizeof second, &touch, 1);
    vx_device_move(back, second, 16, TO_HOST);
    if (!vx_trace_enabled() && move_everywhere()) return 3;
    vx_device_warm();
    vx_device_close();
    printf("%g %g %g %g\n", (double)back[0], (double)back[1], (double)back[2], (double)back[3]);
    return 0;
}
