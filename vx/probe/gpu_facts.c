/* What the driver and NVML say of a GPU beyond what programs need: the driver's version, and what its memory and links
 * could reach at most. Both are opened with dlopen; what they do not say is left out. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "gpu_facts.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MEMORY_KHZ = 36, MEMORY_BUS_BITS = 37, NVML_OK = 0, NVLINKS = 36, NVML_ON = 1, VERSION = 96 };

typedef struct NvmlDevice *NvmlDevice;
static struct {
    int (*nvmlInit_v2)(void);
    int (*nvmlSystemGetDriverVersion)(char *, unsigned);
    int (*nvmlDeviceGetHandleByUUID)(const char *, NvmlDevice *);
    int (*nvmlDeviceGetMaxPcieLinkGeneration)(NvmlDevice, unsigned *);
    int (*nvmlDeviceGetMaxPcieLinkWidth)(NvmlDevice, unsigned *);
    int (*nvmlDeviceGetNvLinkState)(NvmlDevice, unsigned, int *);
    int (*nvmlDeviceGetNvLinkVersion)(NvmlDevice, unsigned, unsigned *);
} nvml;

static bool find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool have_nvml(void) {
    static int state; /* 0: not tried, 1: usable, -1: not */
    if (state) return state > 0;
    state = -1;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
#define FIND(name) find(library, #name, &nvml.name)
    if (FIND(nvmlInit_v2) && FIND(nvmlSystemGetDriverVersion) && FIND(nvmlDeviceGetHandleByUUID) &&
        FIND(nvmlDeviceGetMaxPcieLinkGeneration) && FIND(nvmlDeviceGetMaxPcieLinkWidth) &&
        FIND(nvmlDeviceGetNvLinkState) && FIND(nvmlDeviceGetNvLinkVersion) && nvml.nvmlInit_v2() == NVML_OK)
        state = 1;
    return state > 0;
}

/* Text that needs nothing escaped in JSON. */
static void plain(char *text) {
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\') *c = ' ';
}

void gpu_put_driver(void) {
    char version[VERSION] = "", module[512] = "";
    if (have_nvml() && nvml.nvmlSystemGetDriverVersion(version, sizeof version) != NVML_OK) version[0] = 0;
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    if (file && !fgets(module, sizeof module, file)) module[0] = 0;
    if (file) fclose(file);
    plain(version);
    plain(module);
    printf(" \"driver_version\": \"%s\",\n \"module\": \"%s\",\n", version, module);
}

static void put_memory_peak(int ordinal) {
    int (*device_of)(int *, int), (*attribute_of)(int *, int, int), device, khz, bits;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !find(library, "cuDeviceGet", &device_of) || !find(library, "cuDeviceGetAttribute", &attribute_of)) return;
    if (device_of(&device, ordinal) || attribute_of(&khz, MEMORY_KHZ, device) || attribute_of(&bits, MEMORY_BUS_BITS, device))
        return;
    printf(", \"memory_khz\": %d, \"bus_bits\": %d", khz, bits);
}

static void put_links(NvmlDevice device) {
    unsigned version = 0;
    int links = 0;
    for (unsigned link = 0; link < NVLINKS; link++) {
        int state;
        if (nvml.nvmlDeviceGetNvLinkState(device, link, &state) != NVML_OK || state != NVML_ON) continue;
        links += nvml.nvmlDeviceGetNvLinkVersion(device, link, &version) == NVML_OK;
    }
    printf(", \"nvlinks\": %d, \"nvlink_version\": %u", links, version);
}

void gpu_put_peaks(int ordinal, const char *uuid) {
    NvmlDevice device;
    unsigned generation, width;
    put_memory_peak(ordinal);
    if (!have_nvml() || nvml.nvmlDeviceGetHandleByUUID(uuid, &device) != NVML_OK) return;
    if (nvml.nvmlDeviceGetMaxPcieLinkGeneration(device, &generation) == NVML_OK &&
        nvml.nvmlDeviceGetMaxPcieLinkWidth(device, &width) == NVML_OK)
        printf(", \"pcie_generation\": %u, \"pcie_width\": %u", generation, width);
    put_links(device);
}
