/* The program's side of its device plugin: finds `libvx_<name>.so` beside the executable and passes calls on. A call that
   fails ends the program with the plugin's message: nothing runs elsewhere. */
#include "internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VX_DEVICE_TYPES_ONLY
#include "device/vx_device.h"
#include "vx_forward.h"

static void *library;
static char opened[64]; /* its name */

static int32_t check(int32_t status) {
    if (status != VX_DEVICE_OK) vx_fail_called("%s", plugin.vx_last_error());
    return status;
}

static void *check_address(void *address) {
    if (!address) vx_fail_called("%s", plugin.vx_last_error());
    return address;
}

static void path_of(const char *name, char path[PATH_MAX]) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self);
    if (length <= 0 || (size_t)length >= sizeof self) vx_fail("devices: this executable's directory cannot be read");
    while (self[length - 1] != '/') length--;
    if (snprintf(path, PATH_MAX, "%.*slibvx_%s.so", (int)length, self, name) >= PATH_MAX)
        vx_fail("devices: the path of libvx_%s.so is too long", name);
}

static void load(const char *name) {
    char path[PATH_MAX];
    if (library && !strcmp(opened, name)) return;
    if (library) vx_fail("devices: this process has opened libvx_%s.so; it cannot open libvx_%s.so too", opened, name);
    path_of(name, path);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) vx_fail("devices: %s: it belongs beside the executable", dlerror());
    for (size_t i = 0; i < sizeof MEMBERS / sizeof *MEMBERS; i++) {
        void *found = dlsym(library, MEMBERS[i].name);
        if (!found) vx_fail("devices: %s has no %s: it is not the plugin this program was built with", path, MEMBERS[i].name);
        memcpy((char *)&plugin + MEMBERS[i].at, &found, sizeof found);
    }
    snprintf(opened, sizeof opened, "%s", name);
}

static int32_t to_trace(const char *event, const char *fields) {
    vx_trace_event(event, fields);
    return 0;
}

void vx_device_open(const char *name, const vx_manifest *manifest) {
    static vx_manifest own; /* the plugin keeps its address */
    load(name);
    if (plugin.vx_device_abi() != VX_PLUGIN_ABI)
        vx_fail("devices: libvx_%s.so has interface %u, this program needs %d: use the plugin it was built with", name,
                plugin.vx_device_abi(), VX_PLUGIN_ABI);
    own = *manifest;
    own.sink = vx_trace_enabled() ? to_trace : NULL;
    check(plugin.vx_open(&own));
}
