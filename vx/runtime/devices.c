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

static void need_plugin(void) {
    if (!library) vx_fail_called("devices: no role of this program has opened any");
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
    own.artifact = vx_identity.artifact;
    own.machine = vx_identity.machine;
    own.plan = vx_identity.plan;
    own.sink = vx_trace_enabled() ? to_trace : NULL;
    check(plugin.vx_open(&own));
}

/* ---- tensors --------------------------------------------------------------------------------------- */
/* The host goes on only when it may touch its side again: to read what came, or to overwrite what was sent. */
static void settle(const void *target, int64_t target_bytes, const void *source, int64_t source_bytes, int32_t sides) {
    if (sides & VX_MOVE_TO_HOST) vx_device_access(target, target_bytes, 1);
    if (sides & VX_MOVE_FROM_HOST) vx_device_access(source, source_bytes, 1);
}

void vx_device_move(void *target, const void *source, int64_t bytes, int32_t sides) {
    if (bytes <= 0) return;
    vx_device_copy(target, source, bytes);
    settle(target, bytes, source, bytes, sides);
}

/* Strides in bytes; the elements of the dimensions from `rank` on are one run on both sides. */
typedef struct {
    int64_t extents[VX_MAX_RANK], target[VX_MAX_RANK], source[VX_MAX_RANK], run;
    int32_t rank;
    bool rows; /* the driver may copy many at once */
} Shape;

static bool on_one_device(const void *target, const void *source) {
    int32_t there, here;
    vx_device_owner(target, &there);
    vx_device_owner(source, &here);
    return there == here;
}

static void move_level(char *target, const char *source, const Shape *s, int32_t level) {
    if (level == s->rank) {
        vx_device_copy(target, source, s->run);
        return;
    }
    int64_t count = s->extents[level], t = s->target[level], f = s->source[level];
    if (level == s->rank - 1 && s->rows && t >= s->run && f >= s->run) {
        vx_device_copy_rows(target, t, source, f, s->run, count);
        return;
    }
    for (int64_t i = 0; i < count; i++) move_level(target + i * t, source + i * f, s, level + 1);
}

static int64_t reach(const Shape *s, const int64_t *strides) {
    int64_t bytes = s->run;
    for (int32_t i = 0; i < s->rank; i++) bytes += (s->extents[i] - 1) * strides[i];
    return bytes;
}

void vx_device_move_strided(void *target, const int64_t *target_strides, const void *source, const int64_t *source_strides,
                            const int64_t *extents, int32_t rank, int64_t elem_bytes, int32_t sides) {
    Shape s = {.run = elem_bytes, .rank = rank};
    if (rank < 0 || rank > VX_MAX_RANK) vx_fail("devices: a tensor of rank %d; at most %d", rank, VX_MAX_RANK);
    for (int32_t i = 0; i < rank; i++) {
        if (extents[i] <= 0) return;
        s.extents[i] = extents[i];
        s.target[i] = target_strides[i] * elem_bytes;
        s.source[i] = source_strides[i] * elem_bytes;
    }
    while (s.rank > 0) {
        int32_t last = s.rank - 1;
        if (s.extents[last] > 1 && (s.target[last] != s.run || s.source[last] != s.run)) break;
        s.run *= s.extents[last];
        s.rank--;
    }
    s.rows = sides != 0 || on_one_device(target, source);
    move_level(target, source, &s, 0);
    settle(target, reach(&s, s.target), source, reach(&s, s.source), sides);
}
