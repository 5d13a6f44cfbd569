/* Taking and giving back what one role needs: every check comes before anything is taken. */
#include "plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Plugin vxd;

uint32_t vx_device_abi(void) { return VX_PLUGIN_ABI; }

const char *vx_plugin_name(void) { return drv_traits.name; }

int vxd_need_open(void) {
    if (vxd.manifest) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_MISUSE, "the plugin is not open: call vx_open first");
}

int vxd_need_device(int32_t device) {
    TRY(vxd_need_open());
    if (device >= 0 && device < vxd.manifest->device_count) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_MISUSE, "device %d of the manifest's %d", device, vxd.manifest->device_count);
}

/* ---- checks ---------------------------------------------------------------------------------------- */
static int check_arena(const vx_manifest *m, const vx_arena *a) {
    if (a->device < 0 || a->device >= m->device_count)
        return vxd_fail(VX_DEVICE_ABI, "manifest: the arena of %s names device %d of %d", a->space, a->device,
                        m->device_count);
    if (a->bytes <= 0 || a->reserve < 0)
        return vxd_fail(VX_DEVICE_ABI, "manifest: the arena of %s has %lld bytes and a reserve of %lld", a->space,
                        (long long)a->bytes, (long long)a->reserve);
    if (a->window_offset < 0 || a->window_bytes < 0 || a->window_offset > a->bytes ||
        a->window_bytes > a->bytes - a->window_offset)
        return vxd_fail(VX_DEVICE_ABI, "manifest: the window of %s lies outside its arena", a->space);
    for (const vx_arena *other = m->arenas; other < a; other++)
        if (other->device == a->device && !strcmp(other->space, a->space))
            return vxd_fail(VX_DEVICE_ABI, "manifest: two arenas of %s on one device", a->space);
    return VX_DEVICE_OK;
}

static int check_device(const vx_manifest *m, const vx_device *d) {
    for (const vx_device *other = m->devices; other < d; other++)
        if (other->ordinal == d->ordinal || other->topology == d->topology)
            return vxd_fail(VX_DEVICE_ABI, "manifest: %s and %s are both device %d or topology %u", other->name,
                            d->name, d->ordinal, d->topology);
    if (d->counter_arena < 0) return VX_DEVICE_OK;
    if (d->counter_arena >= m->arena_count || &m->devices[m->arenas[d->counter_arena].device] != d)
        return vxd_fail(VX_DEVICE_ABI, "manifest: the counters of %s lie in no arena of its own", d->name);
    const vx_arena *a = &m->arenas[d->counter_arena];
    if (d->counters < 0 || d->counter_offset < 0 || d->counter_offset % 8 ||
        d->counter_offset > a->bytes - d->counters * INT64_C(8))
        return vxd_fail(VX_DEVICE_ABI, "manifest: the counters of %s do not lie in its arena", d->name);
    if (d->error_offset >= 0 && (d->error_offset % 4 || d->error_offset > a->bytes - m->region_count * INT64_C(4)))
        return vxd_fail(VX_DEVICE_ABI, "manifest: the error words of %s do not lie in its arena", d->name);
    return VX_DEVICE_OK;
}

static int check_manifest(const vx_manifest *m) {
    if (!m) return vxd_fail(VX_DEVICE_MISUSE, "vx_open was given no manifest");
    if (m->abi != VX_PLUGIN_ABI)
        return vxd_fail(VX_DEVICE_ABI, "the program was built for plugin interface %u, this plugin has %d: build the "
                                       "program again, or use the plugin that came with it",
                        m->abi, VX_PLUGIN_ABI);
    if (m->device_count < 1 || m->device_count > DRV_DEVICES || m->arena_count < 0 || m->kernel_count < 0 ||
        m->region_count < 0 || m->staging < 0)
        return vxd_fail(VX_DEVICE_ABI, "manifest: %d devices (at most %d), %d arenas, %d kernels, %d regions",
                        m->device_count, DRV_DEVICES, m->arena_count, m->kernel_count, m->region_count);
    for (int32_t i = 0; i < m->arena_count; i++) TRY(check_arena(m, &m->arenas[i]));
    for (int32_t i = 0; i < m->device_count; i++) TRY(check_device(m, &m->devices[i]));
    return VX_DEVICE_OK;
}

static int check_driver(const vx_manifest *m, int32_t *version) {
    int32_t count;
    TRY(drv_start(version));
    if (*version < m->min_driver)
        return vxd_fail(VX_DEVICE_OLD_DRIVER, "the driver supports CUDA %d.%d, the kernels need %d.%d: install a newer "
                                              "driver, or build with an older --ptxas",
                        *version / 1000, *version % 1000 / 10, m->min_driver / 1000, m->min_driver % 1000 / 10);
    TRY(drv_count(&count));
    for (int32_t i = 0; i < m->device_count; i++) {
        const vx_device *d = &m->devices[i];
        if (d->ordinal < 0 || d->ordinal >= count)
            return vxd_fail(VX_DEVICE_NO_DEVICE, "%s was placed on, but this machine has %d device%s: nothing runs "
                                                 "elsewhere by itself; use a machine with %d, or another machine file",
                            d->name, count, count == 1 ? "" : "s", d->ordinal + 1);
        int status = drv_inspect(d->ordinal, m->isa);
        if (status) return vxd_while(status, "%s", d->name);
    }
    return VX_DEVICE_OK;
}

static int check_memory(int32_t device) {
    Device *d = &vxd.devices[device];
    int64_t need = 0, reserve = 0;
    TRY(drv_memory(device, &d->free_before, &d->total));
    for (int32_t i = 0; i < vxd.manifest->arena_count; i++) {
        const vx_arena *a = &vxd.manifest->arenas[i];
        if (a->device != device) continue;
        need += a->bytes;
        if (a->reserve > reserve) reserve = a->reserve;
    }
    if (d->free_before >= need + reserve) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_NO_MEMORY, "%s (%s) has %lld of %lld bytes free; the program needs %lld and a reserve of "
                                         "%lld: end what else uses the device, or use a larger one",
                    d->declared->name, d->facts.name, (long long)d->free_before, (long long)d->total, (long long)need,
                    (long long)reserve);
}

/* ---- taking ---------------------------------------------------------------------------------------- */
static int open_device(int32_t i) {
    Device *d = &vxd.devices[i];
    d->declared = &vxd.manifest->devices[i];
    d->free_warm = -1;
    TRY(drv_open(i, d->declared->ordinal, &d->facts));
    return drv_selected(i, &d->ordinal);
}

static int take_arena(int32_t i) {
    Arena *a = &vxd.arenas[i];
    int32_t device = a->declared->device, owner;
    int64_t total;
    Device *d = &vxd.devices[device];
    void *base;
    TRY(drv_alloc(device, a->declared->bytes, &base));
    a->base = base;
    TRY(drv_memory(device, &d->free_after, &total));
    TRY(drv_owner(device, base, &owner));
    if (owner == d->ordinal) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_DRIVER, "the arena of %s for %s is on device %d", a->declared->space, d->declared->name,
                    owner);
}

static int take_staging(int32_t device) {
    Device *d = &vxd.devices[device];
    if (!vxd.manifest->staging) return VX_DEVICE_OK;
    void *memory;
    TRY(drv_pin(device, vxd.manifest->staging, &memory));
    d->staging = memory;
    for (int i = 0; i < 2; i++) TRY(drv_event(device, false, &d->staged[i]));
    return VX_DEVICE_OK;
}

static int zero_counters(int32_t device) {
    const vx_device *d = vxd.devices[device].declared;
    if (d->counter_arena >= 0 && d->counters > 0)
        TRY(drv_fill(device, LANE_RUN, vxd.arenas[d->counter_arena].base + d->counter_offset, d->counters * INT64_C(8), 0));
    return drv_drain(device);
}

/* The hex SHA-256 of a file; empty if there is none. */
static void file_sha256(const char *path, char hex[65]) {
    char part[1 << 14];
    uint64_t state[16];
    unsigned char digest[32];
    hex[0] = 0;
    FILE *file = fopen(path, "rbe");
    if (!file) return;
    vx_sha256_begin(state);
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;) vx_sha256_update(state, part, (int64_t)got);
    bool whole = !ferror(file);
    fclose(file);
    vx_sha256_end(state, digest);
    for (int i = 0; whole && i < 32; i++) sprintf(hex + 2 * i, "%02x", digest[i]);
}

static void tell_opened(void) {
    const vx_manifest *m = vxd.manifest;
    char sha256[65];
    file_sha256(drv_library(), sha256);
    vxd_event("open");
    vxd_text("role", m->role);
    vxd_text("plugin", drv_traits.name);
    vxd_text("tier", drv_tier());
    vxd_text("library", drv_library());
    vxd_text("library_sha256", sha256);
    vxd_number("driver", vxd.driver);
    vxd_text("isa", m->isa);
    vxd_text("artifact", m->artifact);
    vxd_text("machine", m->machine);
    vxd_text("plan", m->plan);
    vxd_event_end();
    for (int32_t i = 0; i < m->device_count; i++) {
        const Device *d = &vxd.devices[i];
        vxd_event("device");
        vxd_event_device(i);
        vxd_text("name", d->facts.name);
        vxd_text("isa", d->facts.isa);
        vxd_number("total", d->total);
        vxd_number("free", d->free_before);
        vxd_event_end();
    }
    for (int32_t i = 0; i < m->arena_count; i++) {
        const vx_arena *a = &m->arenas[i];
        vxd_event("arena");
        vxd_event_device(a->device);
        vxd_text("space", a->space);
        vxd_number("bytes", a->bytes);
        vxd_number("reserve", a->reserve);
        vxd_event_end();
    }
}

static int take(void) {
    const vx_manifest *m = vxd.manifest;
    for (int32_t i = 0; i < m->device_count; i++) TRY(open_device(i));
    for (int32_t i = 0; i < m->device_count; i++) TRY(check_memory(i));
    TRY(vxd_load_kernels());
    for (int32_t i = 0; i < m->device_count; i++) {
        int64_t total;
        TRY(drv_memory(i, &vxd.devices[i].free_before, &total));
        vxd.devices[i].free_after = vxd.devices[i].free_before;
    }
    for (int32_t i = 0; i < m->arena_count; i++) TRY(take_arena(i));
    for (int32_t i = 0; i < m->device_count; i++) TRY(take_staging(i));
    TRY(vxd_set_ready());
    for (int32_t i = 0; i < m->device_count; i++) TRY(vxd_errors_ready(i));
    for (int32_t i = 0; i < m->device_count; i++) TRY(zero_counters(i));
    return VX_DEVICE_OK;
}

/* ---- giving back ----------------------------------------------------------------------------------- */
static void give_back(void) {
    const vx_manifest *m = vxd.manifest;
    for (int32_t i = 0; i < m->device_count; i++)
        if (vxd.devices[i].declared) drv_drain(i); /* memory is not freed under work in flight */
    vxd_region_forget();
    vxd_compat_forget();
    vxd_order_forget();
    vxd_ring_forget();
    vxd_copy_forget();
    vxd_set_forget();
    vxd_unload_kernels();
    for (int32_t i = 0; vxd.arenas && i < m->arena_count; i++)
        if (vxd.arenas[i].base) drv_free(m->arenas[i].device, vxd.arenas[i].base);
    for (int32_t i = 0; i < m->device_count; i++) {
        Device *d = &vxd.devices[i];
        for (int k = 0; k < 2; k++) {
            if (d->staged[k]) drv_event_free(i, d->staged[k]);
            if (d->stamps[k]) drv_event_free(i, d->stamps[k]);
        }
        if (d->staging) drv_unpin(i, d->staging);
        vxd_errors_forget(i);
        drv_close(i);
    }
    free(vxd.arenas);
    vxd = (Plugin){0};
}

int32_t vx_open(const vx_manifest *manifest) {
    if (vxd.manifest)
        return vxd_fail(VX_DEVICE_MISUSE, "the plugin is open already, for role %s: vx_close it first",
                        vxd.manifest->role);
    TRY(check_manifest(manifest));
    int32_t driver;
    TRY(check_driver(manifest, &driver));
    vxd.manifest = manifest;
    vxd.driver = driver;
    vxd.arenas = calloc((size_t)manifest->arena_count + 1, sizeof *vxd.arenas);
    int status = vxd.arenas ? vxd_read_kernels() : vxd_fail(VX_DEVICE_NO_MEMORY, "no host memory for the arena table");
    for (int32_t i = 0; !status && i < manifest->arena_count; i++) vxd.arenas[i].declared = &manifest->arenas[i];
    if (!status) status = take();
    vxd_drop_images();
    vxd_hold_message(status != VX_DEVICE_OK);
    if (status) give_back();
    else if (vxd_evidence()) tell_opened();
    vxd_hold_message(false);
    return status;
}

static int tell_counters(int32_t device) {
    const vx_manifest *m = vxd.manifest;
    for (int32_t r = 0; r < m->region_count; r++) {
        int64_t count;
        if (m->regions[r].counter < 0 || m->regions[r].counter >= vxd.devices[device].declared->counters) continue;
        TRY(vx_counter(device, m->regions[r].counter, &count));
        vxd_event("counter");
        vxd_event_device(device);
        vxd_text("region", m->regions[r].name);
        vxd_number("count", count);
        vxd_event_end();
    }
    return VX_DEVICE_OK;
}

static void tell_traffic(int32_t device, const vx_traffic *t) {
    vxd_event("traffic");
    vxd_event_device(device);
    const struct { const char *key; int64_t value; } rows[] = {
        {"to_device_bytes", t->to_device_bytes}, {"to_device_calls", t->to_device_calls},
        {"to_host_bytes", t->to_host_bytes}, {"to_host_calls", t->to_host_calls},
        {"peer_bytes", t->peer_bytes}, {"peer_calls", t->peer_calls}, {"local_bytes", t->local_bytes},
        {"local_calls", t->local_calls}, {"loaded_bytes", t->loaded_bytes}, {"loads", t->loads},
        {"launches", t->launches}, {"graph_launches", t->graph_launches}, {"graphs", t->graphs},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) vxd_number(rows[i].key, rows[i].value);
    vxd_event_end();
}

static int tell_memory(int32_t device) {
    vx_memory f;
    TRY(vx_memory_of(device, &f));
    vxd_event("memory");
    vxd_event_device(device);
    const struct { const char *key; int64_t value; } rows[] = {
        {"total", f.total}, {"free_before", f.free_before}, {"free_after", f.free_after}, {"free_warm", f.free_warm},
        {"free_end", f.free_end}, {"arena_bytes", f.arena_bytes}, {"arena_rounded", f.arena_rounded},
        {"driver_bytes", f.driver_bytes}, {"reserve", f.reserve}, {"allocations", f.allocations},
        {"arenas", f.arenas}, {"granule", f.granule},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) vxd_number(rows[i].key, rows[i].value);
    vxd_event_end();
    return VX_DEVICE_OK;
}

int32_t vx_close(void) {
    TRY(vxd_need_open());
    int status = vx_sync();
    for (int32_t i = 0; !status && vxd_evidence() && i < vxd.manifest->device_count; i++) {
        status = tell_counters(i);
        tell_traffic(i, drv_traffic(i));
        if (!status) status = tell_memory(i);
    }
    if (vxd_evidence()) {
        vxd_event("close");
        vxd_text("role", vxd.manifest->role);
        vxd_number("status", status);
        vxd_event_end();
        if (!status && vxd_evidence_lost()) status = vxd_fail(VX_DEVICE_MISUSE, "evidence could not be written in full");
    }
    vxd_hold_message(status != VX_DEVICE_OK);
    give_back();
    vxd_hold_message(false);
    return status;
}
