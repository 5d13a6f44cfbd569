/* libcuda: opened by its name alone, checked for every function before the first is called. */
#include "cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const DriverTraits drv_traits = {"cuda", "T2", true, true, false};

CudaFunctions cu;

static void *library; /* stays open: drivers do not like to be unloaded */
static char path[512];

int cuda_check(int result, const char *doing) {
    const char *name = NULL, *text = NULL;
    if (result == CU_OK) return VX_DEVICE_OK;
    if (cu.cuGetErrorName(result, &name) != CU_OK) name = NULL;
    if (cu.cuGetErrorString(result, &text) != CU_OK) text = NULL;
    return vxd_fail(result == CU_OUT_OF_MEMORY ? VX_DEVICE_NO_MEMORY : VX_DEVICE_DRIVER, "%s: the driver says %s (%d): %s",
                    doing, name ? name : "an unknown error", result, text ? text : "no explanation");
}

static int find_functions(void) {
#define FIND(name, arguments)                                                                                      \
    *(void **)&cu.name = dlsym(library, #name);                                                                    \
    if (!cu.name)                                                                                                  \
        return vxd_fail(VX_DEVICE_NO_LIBRARY, "%s has no %s: the driver is too old for this program; install a newer one", \
                        path, #name);
    CUDA_FUNCTIONS(FIND)
#undef FIND
    return VX_DEVICE_OK;
}

static int open_library(void) {
    if (library) return VX_DEVICE_OK;
    void *opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return vxd_fail(VX_DEVICE_NO_LIBRARY, "the NVIDIA driver's library libcuda.so.1 cannot be opened (%s): install the "
                                              "driver, or run on a machine that has a GPU; nothing runs elsewhere by itself",
                        dlerror());
    Dl_info info;
    void *any = dlsym(opened, "cuInit");
    snprintf(path, sizeof path, "%s", any && dladdr(any, &info) ? info.dli_fname : "libcuda.so.1");
    library = opened;
    return VX_DEVICE_OK;
}

int drv_start(int32_t *version) {
    TRY(open_library());
    TRY(find_functions());
    int result = cu.cuInit(0);
    if (result == CU_NO_DEVICE)
        return vxd_fail(VX_DEVICE_NO_DEVICE, "the NVIDIA driver finds no GPU on this machine (check nvidia-smi and "
                                             "CUDA_VISIBLE_DEVICES); nothing runs elsewhere by itself");
    TRY(cuda_check(result, "starting the driver"));
    return cuda_check(cu.cuDriverGetVersion(version), "asking the driver's version");
}

const char *drv_library(void) { return path; }

const char *drv_tier(void) { return dlsym(library, "vx_fake_cuda") ? "T1" : drv_traits.tier; }

int drv_count(int32_t *count) { return cuda_check(cu.cuDeviceGetCount(count), "counting devices"); }
