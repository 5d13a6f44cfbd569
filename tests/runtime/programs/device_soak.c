/* The cuda plugin over the fake driver, all in C so that the address sanitizer sees all of it: many steps, calls that must
   be refused, and a driver that fails at every possible moment. Argument: the folder with all.cubin, and its SHA-256 in
   hex. Says what it did in its last line; ends with 1 at the first surprise. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vx_device.h"

enum { MIB = 1 << 20, SLOTS = 16, STEPS = 3000 };
static const int64_t LONG = INT64_MAX;

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            printf("line %d: %s (%s)\n", __LINE__, #condition, vx_last_error());       \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static char *base[2];
static void *ring;

static int32_t record_add(const void *params) {
    int64_t address;
    int32_t n = 4;
    float v = 1;
    memcpy(&address, params, sizeof address);
    void *args[] = {&address, &n, &v};
    return vx_launch(0, 1, 1, 1, args);
}

static int32_t record_token(const void *params) {
    (void)params;
    char *block = base[0] + 4096, *counter = base[0] + 8192;
    int32_t slots = SLOTS;
    void *args[] = {&ring, &block, &counter, &slots};
    return vx_launch(1, 1, 1, 1, args);
}

static unsigned char sha256[32];
static const vx_device DEVICES[] = {
    {.name = "Device[0]", .ordinal = 0, .topology = 500, .counter_arena = 0, .counters = 1, .counter_offset = 8192,
     .error_offset = 16384},
    {.name = "Device[1]", .ordinal = 1, .topology = 501, .counter_arena = -1, .error_offset = -1}};
static const vx_arena ARENAS[] = {
    {.space = "HBM", .device = 0, .bytes = 3 * MIB, .window_offset = MIB, .window_bytes = 65536},
    {.space = "HBM", .device = 1, .bytes = 3 * MIB, .window_offset = MIB, .window_bytes = 65536}};
static const vx_kernel KERNELS[] = {
    {.name = "add", .file = "all.cubin", .sha256 = sha256, .provenance = "emitted", .threads = 32, .params = 3, .trailing = 2,
     .grid_x = 1, .grid_y = 1, .grid_z = 1},
    {.name = "token", .file = "all.cubin", .sha256 = sha256, .provenance = "emitted", .threads = 1, .params = 4, .trailing = 2}};
static const vx_region REGIONS[] = {{.name = "add", .record = record_add, .graph = 1, .counter = -1},
                                    {.name = "token", .record = record_token, .graph = 1, .counter = 0}};
static int64_t event_count;

static int32_t count_event(const char *event, const char *fields) {
    event_count += *event && *fields;
    return 0;
}

static vx_manifest manifest = {.abi = VX_PLUGIN_ABI, .role = "soak", .isa = "sm_90", .artifact = "", .machine = "", .plan = "",
                               .devices = DEVICES, .arenas = ARENAS, .kernels = KERNELS, .regions = REGIONS,
                               .device_count = 2, .arena_count = 2, .kernel_count = 2, .region_count = 2, .staging = 8192};

static int32_t run_add(int device, char *at) {
    const vx_touch touch = {.address = at, .bytes = 16, .write = 1};
    return vx_run(0, device, &at, sizeof at, &touch, 1);
}

static int32_t run_token(void) {
    const vx_touch touch = {.address = base[0] + 4096, .bytes = 8192, .write = 1};
    return vx_run(1, 0, NULL, 0, &touch, 1);
}

static int32_t prepare(void) {
    const int32_t block[2] = {0, 0};
    int32_t status = vx_open(&manifest);
    if (status) return status;
    for (int i = 0; i < 2; i++) base[i] = vx_tile(i, 0, 3 * MIB);
    ring = vx_ring(0, SLOTS);
    return ring ? vx_set(base[0] + 4096, block, sizeof block) : VX_DEVICE_DRIVER;
}

/* What a program must never get through with. */
static void misuse(void) {
    char host[64];
    EXPECT(vx_copy(base[0] + 3 * MIB - 8, host, 16) == VX_DEVICE_MISUSE);
    EXPECT(vx_copy(host, host + 32, 16) == VX_DEVICE_MISUSE);
    EXPECT(run_add(0, base[1]) == VX_DEVICE_MISUSE);
    EXPECT(vx_unpin(host) == VX_DEVICE_MISUSE);
    EXPECT(vx_plugin_free(base[0], 500) == VX_DEVICE_MISUSE);
    EXPECT(vx_plugin_await_future(77) == VX_DEVICE_MISUSE);
    EXPECT(!vx_tile(7, 0, 1));
}

static int32_t by_name(void) {
    static const char payload[] = "add abi=1 topo=501";
    float data[4] = {1, 2, 3, 4}, v = 10;
    int32_t n = 4, tags[] = {0 | 6 << 8 | 1 << 16, 4, 6};
    void *tile = vx_plugin_alloc_and_transfer(sizeof data, data, 501, VX_ACCESS_EXPLICIT);
    if (!tile) return VX_DEVICE_DRIVER;
    int64_t descriptor[] = {0, (int64_t)(uintptr_t)tile, 0, 4, 1};
    void *args[] = {descriptor, &n, &v};
    uint64_t future = vx_plugin_dispatch_async(payload, sizeof payload - 1, args, tags, 3);
    int32_t status = future ? vx_plugin_await_future(future) : VX_DEVICE_DRIVER;
    if (future) EXPECT(vx_plugin_release_future(future) == VX_DEVICE_OK);
    if (!status) status = vx_plugin_transfer_device_to_host(tile, data, sizeof data, 501);
    if (!status) EXPECT(data[0] == 11 && data[3] == 14);
    return vx_plugin_free(tile, 501) == VX_DEVICE_OK ? status : VX_DEVICE_DRIVER;
}

/* Every kind of work once; the first failure, if any. */
static int32_t step(int position, char *pinned) {
    int32_t status, token;
    if ((status = vx_copy(base[0], pinned, 64))) return status;
    if ((status = run_add(0, base[0]))) return status;
    if ((status = vx_copy(base[1], base[0], 64))) return status;
    if ((status = run_add(1, base[1]))) return status;
    if ((status = vx_copy(pinned + 64, base[1], 64))) return status;
    if ((status = run_token())) return status;
    if ((status = vx_token(ring, position, LONG, &token))) return status;
    EXPECT(token == 7 * position % 97);
    if ((status = vx_access(pinned + 64, 64, 0))) return status;
    EXPECT(((float *)(pinned + 64))[0] == ((float *)pinned)[0] + 2);
    return position % 16 ? VX_DEVICE_OK : by_name();
}

static void soak(void) {
    EXPECT(prepare() == VX_DEVICE_OK);
    char *pinned = vx_pin(128);
    char weights[20000] = {1, 2, 3};
    EXPECT(vx_load(base[0] + 2 * MIB, weights, sizeof weights) == VX_DEVICE_OK);
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < 16; k++) ((float *)pinned)[k] = (float)(i % 100);
        EXPECT(step(i, pinned) == VX_DEVICE_OK);
        EXPECT(vx_access(pinned, 64, 1) == VX_DEVICE_OK);
        if (i % 100 == 0) misuse();
    }
    int64_t count;
    EXPECT(vx_counter(0, 0, &count) == VX_DEVICE_OK && count == STEPS);
    EXPECT(vx_warm() == VX_DEVICE_OK);
    EXPECT(vx_close() == VX_DEVICE_OK);
}

/* One whole life with call `at` of `function` failing. 1 if that call was made. */
static int life_with_failure(const char *function, int at) {
    char setting[80];
    snprintf(setting, sizeof setting, "%s:%d", function, at);
    setenv("FAKE_CUDA_FAIL", setting, 1);
    int32_t status = prepare();
    char *pinned = status ? NULL : vx_pin(128);
    if (pinned) memset(pinned, 0, 128);
    for (int i = 0; !status && pinned && i < 3; i++) status = step(i, pinned);
    int failed = status || !pinned;
    if (vx_close() && !failed) failed = 1;
    unsetenv("FAKE_CUDA_FAIL");
    return failed;
}

int main(int argc, char **argv) {
    static const char *const FUNCTIONS[] = {
        "cuCtxSetCurrent", "cuCtxGetDevice", "cuCtxSynchronize", "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemHostAlloc",
        "cuPointerGetAttribute", "cuMemsetD8Async", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyPeerAsync",
        "cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess", "cuStreamCreate", "cuStreamQuery", "cuStreamWaitEvent",
        "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuEventCreate", "cuEventRecord", "cuEventSynchronize",
        "cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute", "cuLaunchKernelEx", "cuGraphInstantiateWithFlags",
        "cuGraphUpload", "cuGraphLaunch", "cuDevicePrimaryCtxRetain", "cuInit", "cuDeviceGet"};
    EXPECT(argc == 3);
    for (int i = 0; i < 32; i++) sscanf(argv[2] + 2 * i, "%2hhx", &sha256[i]);
    manifest.directory = argv[1];
    manifest.sink = count_event;
    soak();
    int failures = 0;
    for (size_t f = 0; f < sizeof FUNCTIONS / sizeof *FUNCTIONS; f++)
        for (int at = 1, more = 1, next; at <= 55; next = at + more, more = at, at = next)
            failures += life_with_failure(FUNCTIONS[f], at);
    manifest.sink = NULL;
    EXPECT(prepare() == VX_DEVICE_OK && vx_close() == VX_DEVICE_OK);
    EXPECT(event_count > 0);
    void *fake = dlopen("libcuda.so.1", RTLD_NOW);
    int (*violations)(void);
    const char *(*words)(void);
    *(void **)&violations = dlsym(fake, "fake_violations");
    *(void **)&words = dlsym(fake, "fake_violation_text");
    printf("%d failures, %d violations %s\n", failures, violations(), words());
    return violations() != 0;
}
