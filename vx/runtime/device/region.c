/* Regions: recorded once as a graph for each content of their parameters, then replayed. */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 64, SCALAR = 8 };
static const char *const PROVENANCE[PROVENANCES] = {"emitted", "vendor", "host"};

typedef struct {
    void *graph; /* null: free */
    int32_t region, device;
    void *params;
    int64_t bytes;
    uint64_t used;
    Launched launched;
} Graph;

static Graph graphs[GRAPHS];
static uint64_t tick;

/* The region that is being recorded or launched. */
static struct {
    bool active;
    int32_t device;
    int status; /* of the first launch that failed */
    Launched launched;
} now;

static int provenance_of(const vx_kernel *k, Provenance *p) {
    for (int i = 0; i < PROVENANCES; i++)
        if (k->provenance && !strcmp(k->provenance, PROVENANCE[i])) {
            *p = (Provenance)i;
            return VX_DEVICE_OK;
        }
    return vxd_fail(VX_DEVICE_ABI, "manifest: kernel %s has provenance \"%s\"; it is vendor, emitted or host", k->name,
                    k->provenance ? k->provenance : "");
}

int vxd_start_kernel(int32_t device, int32_t kernel, const int32_t grid[3], void *const *args, Launched *launched) {
    static const uint64_t nothing;
    void *all[VX_LAUNCH_PARAMS];
    const vx_kernel *k = &vxd.manifest->kernels[kernel];
    Provenance provenance = EMITTED;
    for (int i = 0; i < 3; i++)
        if (grid[i] < 1)
            return vxd_fail(VX_DEVICE_MISUSE, "kernel %s: a grid of %d x %d x %d", k->name, grid[0], grid[1], grid[2]);
    TRY(provenance_of(k, &provenance));
    for (int32_t i = 0; i < k->params; i++) all[i] = args[i];
    for (int32_t i = 0; i < k->trailing; i++) all[k->params + i] = (void *)&nothing;
    const Launch launch = {vxd.devices[device].functions[kernel], {grid[0], grid[1], grid[2]}, k, all};
    int status = drv_launch(device, &launch);
    if (status) return vxd_while(status, "kernel %s on %s", k->name, vxd.devices[device].declared->name);
    launched->kernels[provenance]++;
    return VX_DEVICE_OK;
}

static int launch(int32_t kernel, const int32_t grid[3], void *const *args) {
    if (kernel < 0 || kernel >= vxd.manifest->kernel_count)
        return vxd_fail(VX_DEVICE_MISUSE, "kernel %d of %d", kernel, vxd.manifest->kernel_count);
    const vx_kernel *k = &vxd.manifest->kernels[kernel];
    if (k->params > 0 && !args) return vxd_fail(VX_DEVICE_MISUSE, "kernel %s was given no parameters", k->name);
    return vxd_start_kernel(now.device, kernel, grid, args, &now.launched);
}

int32_t vx_launch(int32_t kernel, int32_t grid_x, int32_t grid_y, int32_t grid_z, void *const *args) {
    TRY(vxd_need_open());
    if (!now.active) return vxd_fail(VX_DEVICE_MISUSE, "vx_launch belongs into the record function of a region");
    if (now.status) return now.status; /* the first failure counts; its message stays */
    const int32_t grid[3] = {grid_x, grid_y, grid_z};
    return now.status = launch(kernel, grid, args);
}

/* Calls the region's record function; nothing of it is left active afterwards. */
static int record(const vx_region *region, int32_t device, const void *params, Launched *launched) {
    now.active = true;
    now.device = device;
    now.status = VX_DEVICE_OK;
    now.launched = (Launched){0};
    int status = region->record(params);
    now.active = false;
    *launched = now.launched;
    if (now.status) return now.status;
    if (status) return vxd_fail(status, "region %s gave up with status %d", region->name, status);
    if (drv_traits.in_process && !launched->kernels[EMITTED] && !launched->kernels[VENDOR] && !launched->kernels[HOST])
        launched->kernels[HOST] = 1; /* the function itself */
    return VX_DEVICE_OK;
}

static Graph *find(int32_t region, int32_t device, const void *params, int64_t bytes) {
    for (int i = 0; i < GRAPHS; i++) {
        Graph *g = &graphs[i];
        if (g->graph && g->region == region && g->device == device && g->bytes == bytes &&
            (bytes == 0 || memcmp(g->params, params, (size_t)bytes) == 0))
            return g;
    }
    return NULL;
}

static void drop(Graph *g) {
    if (g->graph) drv_graph_free(g->device, g->graph);
    free(g->params);
    *g = (Graph){0};
}

/* A free place: the one unused for longest, once nothing runs on its device. */
static int free_place(Graph **place) {
    Graph *oldest = &graphs[0];
    for (int i = 0; i < GRAPHS; i++) {
        if (!graphs[i].graph) {
            *place = &graphs[i];
            return VX_DEVICE_OK;
        }
        if (graphs[i].used < oldest->used) oldest = &graphs[i];
    }
    TRY(drv_drain(oldest->device));
    drop(oldest);
    *place = oldest;
    return VX_DEVICE_OK;
}

static int make(int32_t region, int32_t device, const void *params, int64_t bytes, Graph **made) {
    Graph *g;
    TRY(free_place(&g));
    *g = (Graph){.region = region, .device = device, .bytes = bytes};
    g->params = malloc((size_t)bytes + 1);
    if (!g->params) return vxd_fail(VX_DEVICE_NO_MEMORY, "no host memory for a graph");
    if (bytes) memcpy(g->params, params, (size_t)bytes);
    int status = drv_capture_begin(device);
    if (!status) {
        status = record(&vxd.manifest->regions[region], device, params, &g->launched);
        /* A recording that failed is ended too; the first message is the one that counts. */
        if (status) drv_capture_end(device, NULL);
        else status = drv_capture_end(device, &g->graph);
    }
    if (status) drop(g);
    else vxd.devices[device].warming = true;
    *made = g;
    return status;
}

static int replay(int32_t region, int32_t device, const void *params, int64_t bytes, Launched *launched, bool *made) {
    Graph *g = find(region, device, params, bytes);
    *made = !g;
    if (!g) TRY(make(region, device, params, bytes, &g));
    g->used = ++tick;
    *launched = g->launched;
    return drv_graph_launch(device, g->graph);
}

static int check_touches(const vx_region *region, int32_t device, const vx_touch *touches, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const vx_touch *t = &touches[i];
        int32_t arena;
        if (t->bytes == 0) continue; /* an empty tensor, wherever it would be */
        TRY(vxd_find(t->address, t->bytes, &arena));
        int32_t owner = arena < 0 ? -1 : vxd_device_of(arena);
        if (owner == device || (arena < 0 && vxd_is_pinned(t->address, t->bytes))) continue;
        if (arena < 0 && drv_traits.in_process && t->bytes <= SCALAR) continue;
        return vxd_fail(VX_DEVICE_MISUSE, "region %s runs on %s, but %p is memory of %s: transfer it first", region->name,
                        vxd.devices[device].declared->name, t->address,
                        owner < 0 ? "the host" : vxd.devices[owner].declared->name);
    }
    return VX_DEVICE_OK;
}

int vxd_tell_dispatch(const char *name, int32_t device, const Launched *launched, const char *by, bool recorded) {
    int32_t ordinal;
    if (!vxd_evidence()) return VX_DEVICE_OK;
    TRY(drv_selected(device, &ordinal));
    vxd_event("dispatch");
    vxd_text("region", name);
    vxd_text("device", vxd.devices[device].declared->name);
    vxd_number("ordinal", ordinal);
    vxd_text("uuid", vxd.devices[device].facts.uuid);
    vxd_text("by", by);
    vxd_number("recorded", recorded);
    for (int i = 0; i < PROVENANCES; i++) vxd_number(PROVENANCE[i], launched->kernels[i]);
    vxd_event_end();
    return VX_DEVICE_OK;
}

int32_t vx_run(int32_t region, int32_t device, const void *params, int64_t params_bytes, const vx_touch *touches,
               int64_t touch_count) {
    Launched launched;
    bool made = false;
    TRY(vxd_need_device(device));
    if (region < 0 || region >= vxd.manifest->region_count)
        return vxd_fail(VX_DEVICE_MISUSE, "region %d of %d", region, vxd.manifest->region_count);
    const vx_region *r = &vxd.manifest->regions[region];
    if (now.active) return now.status = vxd_fail(VX_DEVICE_MISUSE, "region %s was started inside another one", r->name);
    if (params_bytes < 0 || params_bytes > VX_PARAMS_BYTES || (params_bytes && !params) || touch_count < 0)
        return vxd_fail(VX_DEVICE_MISUSE, "region %s: %lld bytes of parameters, at most %d", r->name,
                        (long long)params_bytes, VX_PARAMS_BYTES);
    TRY(check_touches(r, device, touches, touch_count));
    TRY(vxd_order_before(device, LANE_RUN, touches, touch_count));
    bool graph = r->graph && drv_traits.graphs;
    int status = graph ? replay(region, device, params, params_bytes, &launched, &made)
                       : record(r, device, params, &launched);
    if (status) return vxd_while(status, "region %s", r->name);
    TRY(vxd_tell_dispatch(r->name, device, &launched, graph ? "graph" : "launches", made));
    return vxd_order_after(device, LANE_RUN, touches, touch_count, NULL);
}

void vxd_region_forget(void) {
    for (int i = 0; i < GRAPHS; i++) drop(&graphs[i]);
    now.active = false;
    tick = 0;
}
