/* Devices: their contexts, streams and memory. Whatever a driver owns is kept per device. */
#include "cuda_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Cuda devices[DRV_DEVICES];

int cuda_enter(int32_t device, Cuda **c) {
    int current;
    *c = &devices[device];
    if (!(*c)->context) return vxd_fail(VX_DEVICE_MISUSE, "device %d is not open", device);
    TRY(cuda_check(cu.cuCtxSetCurrent((*c)->context), "selecting a device"));
    TRY(cuda_check(cu.cuCtxGetDevice(&current), "reading the selected device back"));
    if (current == (*c)->handle) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_DRIVER, "device %d was selected, but the driver is on device %d", (*c)->handle, current);
}

/* ---- what runs where ------------------------------------------------------------------------------- */
static int capability(int handle, int *major, int *minor) {
    TRY(cuda_check(cu.cuDeviceGetAttribute(major, CU_MAJOR, handle), "asking the architecture"));
    return cuda_check(cu.cuDeviceGetAttribute(minor, CU_MINOR, handle), "asking the architecture");
}

/* Code for sm_XY runs on the same major number from Y on; with a suffix (sm_90a) only on that very one. */
static bool runs(const char *isa, int major, int minor) {
    int number;
    char suffix = 0;
    if (sscanf(isa ? isa : "", "sm_%d%c", &number, &suffix) < 1) return false;
    return number / 10 == major && (suffix ? number % 10 == minor : number % 10 <= minor);
}

int drv_inspect(int32_t ordinal, const char *isa) {
    int handle, major, minor;
    TRY(cuda_check(cu.cuDeviceGet(&handle, ordinal), "looking at a device"));
    TRY(capability(handle, &major, &minor));
    if (runs(isa, major, minor)) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_ARCH, "device %d is sm_%d%d, the kernels are compiled for %s: build for a machine file with "
                                    "isa: sm_%d%d",
                    ordinal, major, minor, isa ? isa : "nothing", major, minor);
}

/* ---- opening --------------------------------------------------------------------------------------- */
static int read_facts(const Cuda *c, DeviceFacts *facts) {
    int major, minor;
    CuUuid uuid;
    size_t granule;
    TRY(capability(c->handle, &major, &minor));
    snprintf(facts->isa, sizeof facts->isa, "sm_%d%d", major, minor);
    TRY(cuda_check(cu.cuDeviceGetName(facts->name, sizeof facts->name, c->handle), "asking a device's name"));
    TRY(cuda_check(cu.cuDeviceGetUuid_v2(&uuid, c->handle), "asking a device's UUID"));
    char *at = facts->uuid + sprintf(facts->uuid, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
    const CuProperties properties = {.type = CU_PINNED_ON_DEVICE, .location = {CU_ON_DEVICE, c->handle}};
    TRY(cuda_check(cu.cuMemGetAllocationGranularity(&granule, &properties, 0), "asking the allocation granule"));
    facts->granule = (int64_t)granule;
    return VX_DEVICE_OK;
}

int drv_open(int32_t device, int32_t ordinal, DeviceFacts *facts) {
    Cuda *c = &devices[device];
    *c = (Cuda){.ordinal = ordinal};
    TRY(cuda_check(cu.cuDeviceGet(&c->handle, ordinal), "opening a device"));
    TRY(cuda_check(cu.cuDevicePrimaryCtxRetain(&c->context, c->handle), "making a context"));
    TRY(cuda_enter(device, &c));
    for (int i = 0; i < LANES; i++)
        TRY(cuda_check(cu.cuStreamCreate(&c->lanes[i], CU_STREAM_ALONE), "making a stream"));
    c->open = true;
    return read_facts(c, facts);
}

int drv_close(int32_t device) {
    Cuda *c = &devices[device];
    if (!c->context) return VX_DEVICE_OK;
    int status = cuda_enter(device, &c);
    for (int i = 0; !status && i < LANES; i++)
        if (c->lanes[i]) cu.cuStreamDestroy_v2(c->lanes[i]);
    int result = cu.cuDevicePrimaryCtxRelease_v2(c->handle);
    *c = (Cuda){0};
    return status ? status : cuda_check(result, "giving a context back");
}

int drv_selected(int32_t device, int32_t *ordinal) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuCtxGetDevice(ordinal), "reading the selected device back");
}

/* ---- memory ---------------------------------------------------------------------------------------- */
int drv_memory(int32_t device, int64_t *free, int64_t *total) {
    Cuda *c;
    size_t f, t;
    TRY(cuda_enter(device, &c));
    TRY(cuda_check(cu.cuMemGetInfo_v2(&f, &t), "asking the free memory"));
    *free = (int64_t)f;
    *total = (int64_t)t;
    return VX_DEVICE_OK;
}

int drv_alloc(int32_t device, int64_t bytes, void **address) {
    Cuda *c;
    CuAddress given;
    TRY(cuda_enter(device, &c));
    int status = cuda_check(cu.cuMemAlloc_v2(&given, (size_t)bytes), "taking device memory");
    if (status) return vxd_while(status, "%lld bytes in one piece on device %d", (long long)bytes, c->ordinal);
    c->allocations++;
    *address = (void *)(uintptr_t)given;
    return VX_DEVICE_OK;
}

int drv_free(int32_t device, void *address) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuMemFree_v2((CuAddress)(uintptr_t)address), "giving device memory back");
}

int drv_owner(int32_t device, const void *address, int32_t *ordinal) {
    Cuda *c;
    int number;
    TRY(cuda_enter(device, &c));
    TRY(cuda_check(cu.cuPointerGetAttribute(&number, CU_POINTER_ORDINAL, (CuAddress)(uintptr_t)address),
                   "asking which device holds an address"));
    *ordinal = number;
    return VX_DEVICE_OK;
}

int drv_pin(int32_t device, int64_t bytes, void **memory) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    int status = cuda_check(cu.cuMemHostAlloc(memory, (size_t)bytes, CU_HOST_PORTABLE | CU_HOST_MAPPED), "pinning memory");
    return status ? vxd_while(status, "%lld bytes of pinned host memory", (long long)bytes) : VX_DEVICE_OK;
}

int drv_unpin(int32_t device, void *memory) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuMemFreeHost(memory), "giving pinned memory back");
}

const vx_traffic *drv_traffic(int32_t device) { return &devices[device].traffic; }

int64_t drv_allocations(int32_t device) { return devices[device].allocations; }
