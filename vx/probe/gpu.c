/* Measures the GPUs of the machine that it runs on, through the device plugin beside it: what programs do, with the
 * library that they do it with. Needs libcuda and nothing else. Prints one JSON document on stdout.
 *
 *   probe [ROUNDS]      samples of each size, 32 unless said
 *
 * What there is to measure stands in `probe.txt` beside it, one `KEY VALUE` a line; `vx machine probe --gpu` writes it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* realpath, readlink */
#endif

#include "gpu_facts.h"
#include "vx_abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VX_DEVICE_TYPES_ONLY
#include "device/vx_device.h"

enum { DEVICES = 16, SIZES = 64, WORKS = 8192, IDLE_NS = 2000000, WARM_ROUNDS = 2, REPEATS = 2, TEXT = 4096 };
enum { SUMS_BYTES = 1 << 16, BLOCK_BYTES = 1 << 14, STAGING = 32 << 20, SEARCH = 40 };
static const int64_t ALIGN = 4096;

#define ENTRIES(F)                                                                                         \
    F(uint32_t, vx_device_abi, (void))                                                                     \
    F(const char *, vx_last_error, (void))                                                                 \
    F(int32_t, vx_plugin_control, (uint32_t, void *))                                                      \
    F(int32_t, vx_open, (const vx_manifest *))                                                             \
    F(int32_t, vx_close, (void))                                                                           \
    F(void *, vx_tile, (int32_t, int64_t, int64_t))                                                        \
    F(int32_t, vx_copy, (void *, const void *, int64_t))                                                   \
    F(int32_t, vx_fill, (void *, const void *, int64_t, int64_t))                                          \
    F(int32_t, vx_load, (void *, const void *, int64_t))                                                   \
    F(int32_t, vx_run, (int32_t, int32_t, const void *, int64_t, const vx_touch *, int64_t))               \
    F(int32_t, vx_launch, (int32_t, int32_t, int32_t, int32_t, void *const *))                             \
    F(int32_t, vx_access, (const void *, int64_t, int32_t))                                                \
    F(int32_t, vx_sync, (void))                                                                            \
    F(void *, vx_pin, (int64_t))                                                                           \
    F(int32_t, vx_stamp, (int32_t))                                                                        \
    F(int32_t, vx_seconds, (int32_t, float *))                                                             \
    F(int32_t, vx_memory_of, (int32_t, vx_memory *))

#define MEMBER(type, name, params) type(*name) params;
static struct {
    ENTRIES(MEMBER)
} plugin;

static _Noreturn void fail(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    fputs("probe: ", stderr);
    vfprintf(stderr, format, rest);
    fputc('\n', stderr);
    va_end(rest);
    exit(1);
}

static void need(int32_t status) {
    if (status) fail("%s", plugin.vx_last_error());
}

/* ---- what to measure --------------------------------------------------------------------------------------- */
typedef struct {
    int32_t count;
    int64_t bytes[SIZES];
} Sizes;

typedef struct {
    char isa[32], tool[64], kernel[64];
    unsigned char sha256[32];
    int64_t min_driver, threads, shared, read;
    Sizes host, host_check, peer, peer_check; /* sizes of a table, and those held out */
} Settings;

static Settings settings;
static char folder[PATH_MAX];

static int64_t number(const char *text, int64_t least, int64_t most) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) fail("`%s` is not a number in range", text);
    return value;
}

static void find_folder(void) {
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder);
    if (length <= 0 || (size_t)length >= sizeof folder) fail("this program's folder cannot be read");
    while (folder[length - 1] != '/') length--;
    folder[length] = 0;
}

static const char *beside(const char *name) {
    static char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s%s", folder, name) >= (int)sizeof path) fail("the path of %s is too long", name);
    return path;
}

static void read_digest(const char *text) {
    for (int i = 0; i < 32; i++)
        if (sscanf(text + 2 * i, "%2hhx", &settings.sha256[i]) != 1) fail("probe.txt: `%s` is no SHA-256", text);
}

static bool read_size(const char *key, const char *value) {
    const struct { const char *key; Sizes *sizes; } lists[] = {
        {"host", &settings.host}, {"host_check", &settings.host_check},
        {"peer", &settings.peer}, {"peer_check", &settings.peer_check},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(key, lists[i].key)) continue;
        if (lists[i].sizes->count == SIZES) fail("probe.txt: more than %d sizes of %s", SIZES, key);
        lists[i].sizes->bytes[lists[i].sizes->count++] = number(value, 1, INT64_C(1) << 30);
        return true;
    }
    return false;
}

static void read_setting(const char *key, const char *value) {
    if (read_size(key, value)) return;
    if (!strcmp(key, "isa")) snprintf(settings.isa, sizeof settings.isa, "%s", value);
    else if (!strcmp(key, "tool")) snprintf(settings.tool, sizeof settings.tool, "%s", value);
    else if (!strcmp(key, "kernel")) snprintf(settings.kernel, sizeof settings.kernel, "%s", value);
    else if (!strcmp(key, "sha256")) read_digest(value);
    else if (!strcmp(key, "min_driver")) settings.min_driver = number(value, 0, INT32_MAX);
    else if (!strcmp(key, "threads")) settings.threads = number(value, 1, 1024);
    else if (!strcmp(key, "shared")) settings.shared = number(value, 0, INT32_MAX);
    else if (!strcmp(key, "read")) settings.read = number(value, BLOCK_BYTES, INT64_C(1) << 33);
    else fail("probe.txt: `%s` is not a setting", key);
}

static void read_settings(void) {
    char line[256];
    FILE *file = fopen(beside("probe.txt"), "re");
    if (!file) fail("%s: %s", beside("probe.txt"), strerror(errno));
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *space = strchr(line, ' ');
        if (!space) fail("probe.txt: `%s` has no value", line);
        *space = 0;
        read_setting(line, space + 1);
    }
    fclose(file);
    if (!settings.host.count || !settings.read || !settings.threads) fail("probe.txt is not whole");
}

static int64_t largest(const Sizes *sizes) {
    int64_t most = 0;
    for (int32_t i = 0; i < sizes->count; i++)
        if (sizes->bytes[i] > most) most = sizes->bytes[i];
    return most;
}

/* ---- the plugin -------------------------------------------------------------------------------------------- */
static void load_plugin(void) {
    void *library = dlopen(beside("libvx_cuda.so"), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("%s: it belongs beside this program", dlerror());
#define FIND(type, name, params)                                        \
    {                                                                   \
        void *found = dlsym(library, #name);                            \
        if (!found) fail("libvx_cuda.so has no %s", #name);             \
        memcpy((char *)&plugin + offsetof(__typeof__(plugin), name), &found, sizeof found); \
    }
    ENTRIES(FIND)
    if (plugin.vx_device_abi() != VX_PLUGIN_ABI)
        fail("libvx_cuda.so has interface %u, this program needs %d", plugin.vx_device_abi(), VX_PLUGIN_ABI);
}

typedef struct {
    uint64_t data, sums;
    int32_t blocks, programs;
} ReadParams;

static int32_t record_read(const void *params) {
    ReadParams p;
    memcpy(&p, params, sizeof p);
    void *const args[] = {&p.data, &p.sums, &p.blocks};
    return plugin.vx_launch(0, p.programs, 1, 1, args);
}

static char opened[TEXT], found_devices[DEVICES][TEXT];
static int32_t found_count;

static int32_t note_event(const char *event, const char *fields) {
    if (!strcmp(event, "open")) snprintf(opened, sizeof opened, "%s", fields);
    if (!strcmp(event, "device") && found_count < DEVICES)
        snprintf(found_devices[found_count++], TEXT, "%s", fields);
    return 0;
}

/* Opens devices `first` to `first + count - 1`, each with one arena of `bytes`. */
static int32_t open_devices(int32_t first, int32_t count, int64_t bytes, bool evidence) {
    static vx_manifest manifest;
    static vx_device devices[DEVICES];
    static vx_arena arenas[DEVICES];
    static char names[DEVICES][16];
    static vx_kernel kernel;
    static const vx_region region = {.name = "read", .record = record_read, .counter = -1};
    for (int32_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "Device[%d]", first + i);
        devices[i] = (vx_device){.name = names[i], .ordinal = first + i, .topology = (uint32_t)(500 + i),
                                 .counter_arena = -1, .error_offset = -1};
        arenas[i] = (vx_arena){.space = "HBM", .device = i, .bytes = bytes};
    }
    kernel = (vx_kernel){.name = settings.kernel, .file = "read.cubin", .sha256 = settings.sha256,
                         .provenance = "emitted", .threads = (int32_t)settings.threads,
                         .shared = (int32_t)settings.shared, .params = 3, .trailing = 2,
                         .grid_x = 1, .grid_y = 1, .grid_z = 1};
    manifest = (vx_manifest){.abi = VX_PLUGIN_ABI, .min_driver = (int32_t)settings.min_driver, .role = "probe",
                             .isa = settings.isa, .directory = folder, .artifact = "", .machine = "", .plan = "",
                             .devices = devices, .arenas = arenas, .kernels = &kernel, .regions = &region,
                             .device_count = count, .arena_count = count, .kernel_count = 1, .region_count = 1,
                             .staging = STAGING, .sink = evidence ? note_event : NULL};
    return plugin.vx_open(&manifest);
}

/* ---- memory ------------------------------------------------------------------------------------------------ */
static bool granted(int32_t device, int64_t bytes) {
    int32_t status = open_devices(device, 1, bytes, false);
    if (status == VX_DEVICE_OK) need(plugin.vx_close());
    else if (status != VX_DEVICE_NO_MEMORY) need(status);
    return status == VX_DEVICE_OK;
}

/* The most bytes, in whole granules, that one allocation can have: down in growing steps, then halving what is between. */
static int64_t largest_allocation(int32_t device, int64_t free, int64_t granule) {
    int64_t most = free / granule, fits = most, step = 1, refused = most + 1;
    for (int32_t tries = 0; fits > 0 && !granted(device, fits * granule); tries++, step *= 2) {
        if (tries == SEARCH) fail("device %d grants no allocation", device);
        refused = fits;
        fits = fits > step ? fits - step : 0;
    }
    while (fits > 0 && refused - fits > 1) {
        int64_t middle = fits + (refused - fits) / 2;
        if (granted(device, middle * granule)) fits = middle;
        else refused = middle;
    }
    return fits * granule;
}

static void put_memory(int32_t device) {
    static const char UUID_IS[] = "\"uuid\":\"";
    char uuid[64];
    vx_memory m;
    need(open_devices(device, 1, BLOCK_BYTES, true));
    need(plugin.vx_memory_of(0, &m));
    need(plugin.vx_close());
    const char *fields = found_devices[found_count - 1], *at = strstr(fields, UUID_IS);
    printf("%s{%s, \"free_loaded\": %lld, \"granule\": %lld, \"largest\": %lld", device ? ",\n  " : "", fields,
           (long long)m.free_before, (long long)m.granule, (long long)largest_allocation(device, m.free_before, m.granule));
    if (at && sscanf(at + sizeof UUID_IS - 1, "%63[^\"]", uuid) == 1) gpu_put_peaks(device, uuid);
    putchar('}');
}

/* ---- transfers --------------------------------------------------------------------------------------------- */
typedef enum { IN, OUT, PINNED_IN, PINNED_OUT, LOAD, PEER, KINDS } Kind;
static const char *const KIND_NAMES[] = {"in", "out", "pinned_in", "pinned_out", "load", "peer"};

typedef struct {
    Kind kind;
    int32_t device, other; /* `other`: where a peer copy goes */
    int64_t bytes;
    int64_t *samples;
} Work;

/* Host memory larger than the caches, of which each sample takes another part. */
typedef struct {
    char *block;
    int64_t bytes, next;
} Room;

static Work works[WORKS];
static int32_t work_count;
static Room pageable, pinned;

static char *take(Room *room, int64_t bytes) {
    if (room->next + bytes > room->bytes) room->next = 0;
    char *part = room->block + room->next;
    room->next += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return part;
}

static void add_work(Kind kind, int32_t device, int32_t other, const Sizes *sizes, int32_t rounds) {
    for (int32_t i = 0; i < sizes->count; i++) {
        if (work_count == WORKS) fail("too much work");
        int64_t *samples = calloc((size_t)rounds, sizeof *samples);
        if (!samples) fail("out of memory");
        works[work_count++] = (Work){kind, device, other, sizes->bytes[i], samples};
    }
}

/* Tables are made of device 0, and of copies from 0 to 1; on others the sizes that check them are measured. */
static void plan_work(int32_t devices, int32_t rounds) {
    for (int32_t d = 0; d < devices; d++)
        for (Kind kind = IN; kind <= LOAD; kind++) {
            if (d == 0) add_work(kind, d, -1, &settings.host, rounds);
            add_work(kind, d, -1, &settings.host_check, rounds);
        }
    for (int32_t d = 1; d < devices; d++) {
        if (d == 1) add_work(PEER, 0, 1, &settings.peer, rounds);
        add_work(PEER, 0, d, &settings.peer_check, rounds);
        add_work(PEER, d, 0, &settings.peer_check, rounds);
    }
}

/* As a compiled program waits: host memory until it may be written again, devices until all is done. */
static int64_t copy_once(const Work *w) {
    bool is_pinned = w->kind == PINNED_IN || w->kind == PINNED_OUT, outwards = w->kind == OUT || w->kind == PINNED_OUT;
    char *tile = plugin.vx_tile(w->device, SUMS_BYTES, w->bytes);
    char *other = w->kind == PEER ? plugin.vx_tile(w->other, SUMS_BYTES, w->bytes)
                                  : take(is_pinned ? &pinned : &pageable, w->bytes);
    if (!tile || !other) fail("%s", plugin.vx_last_error());
    int64_t begin = vx_time_now();
    if (w->kind == LOAD) need(plugin.vx_load(tile, other, w->bytes));
    else if (outwards) need(plugin.vx_copy(other, tile, w->bytes));
    else if (w->kind == PEER) need(plugin.vx_copy(other, tile, w->bytes));
    else need(plugin.vx_copy(tile, other, w->bytes));
    if (w->kind == LOAD || w->kind == PEER) need(plugin.vx_sync());
    else need(plugin.vx_access(other, w->bytes, 1));
    return vx_time_now() - begin;
}

static void shuffle(int32_t *order, int32_t count, uint64_t *state) {
    for (int32_t i = count - 1; i > 0; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int32_t other = (int32_t)((*state >> 33) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static int by_value(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Sorts the samples. */
static double median(int64_t *samples, int32_t count) {
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    return count % 2 ? (double)samples[count / 2] : ((double)samples[count / 2 - 1] + (double)samples[count / 2]) / 2;
}

static void put_transfers(int32_t rounds) {
    static int32_t order[WORKS];
    static double medians[REPEATS][WORKS];
    uint64_t state = (uint64_t)vx_time_now();
    for (int32_t i = 0; i < work_count; i++) order[i] = i;
    for (int32_t repeat = 0; repeat < REPEATS; repeat++) {
        for (int32_t round = -WARM_ROUNDS; round < rounds; round++) {
            shuffle(order, work_count, &state);
            for (int32_t i = 0; i < work_count; i++) {
                vx_time_sleep(IDLE_NS);
                int64_t spent = copy_once(&works[order[i]]);
                if (round >= 0) works[order[i]].samples[round] = spent;
            }
        }
        for (int32_t i = 0; i < work_count; i++) medians[repeat][i] = median(works[i].samples, rounds);
    }
    printf(" \"transfers\": [");
    for (int32_t i = 0; i < work_count; i++)
        printf("%s\n  {\"kind\": \"%s\", \"device\": %d, \"other\": %d, \"bytes\": %lld, \"ns\": [%.1f, %.1f]}", i ? "," : "",
               KIND_NAMES[works[i].kind], works[i].device, works[i].other, (long long)works[i].bytes, medians[0][i],
               medians[1][i]);
    printf("\n ],\n");
}

/* ---- reading ----------------------------------------------------------------------------------------------- */
/* By the device's clock. */
static int64_t read_once(int32_t device, int32_t programs) {
    char *data = plugin.vx_tile(device, SUMS_BYTES, settings.read), *sums = plugin.vx_tile(device, 0, SUMS_BYTES);
    const vx_touch touches[] = {{.address = data, .bytes = settings.read}, {.address = sums, .bytes = SUMS_BYTES, .write = 1}};
    const ReadParams params = {(uint64_t)(uintptr_t)data, (uint64_t)(uintptr_t)sums,
                               (int32_t)(settings.read / BLOCK_BYTES), programs};
    float seconds;
    vx_time_sleep(IDLE_NS);
    need(plugin.vx_stamp(device));
    need(plugin.vx_run(0, device, &params, sizeof params, touches, 2));
    need(plugin.vx_stamp(device));
    need(plugin.vx_seconds(device, &seconds));
    return (int64_t)((double)seconds * 1e9);
}

/* Ones are summed, so that what was read shows. */
static void check_sum(int32_t device, int32_t programs) {
    static int32_t sums[SUMS_BYTES / 4];
    const int32_t one = 1, zero = 0;
    char *data = plugin.vx_tile(device, SUMS_BYTES, settings.read), *tile = plugin.vx_tile(device, 0, SUMS_BYTES);
    need(plugin.vx_fill(data, &one, 4, settings.read / 4));
    need(plugin.vx_fill(tile, &zero, 4, SUMS_BYTES / 4));
    read_once(device, programs);
    need(plugin.vx_copy(sums, tile, SUMS_BYTES));
    need(plugin.vx_access(sums, SUMS_BYTES, 1));
    int64_t all = 0, expected = settings.read / BLOCK_BYTES * (BLOCK_BYTES / 4);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) all += sums[i];
    if (all != expected)
        fail("device %d read %lld words of %lld: its kernel does not do what it says", device, (long long)all, (long long)expected);
}

static void put_read(int32_t device, int32_t rounds) {
    static const int32_t GRIDS[] = {512, 1024, 2048, 4096, 8192, 16384};
    int64_t *samples = calloc((size_t)rounds, sizeof *samples), best = INT64_MAX;
    int32_t programs = 0;
    double medians[REPEATS];
    if (!samples) fail("out of memory");
    check_sum(device, GRIDS[0]);
    for (size_t g = 0; g < sizeof GRIDS / sizeof *GRIDS; g++)
        for (int32_t i = 0; i < 5; i++) {
            int64_t spent = read_once(device, GRIDS[g]);
            if (spent < best) best = spent, programs = GRIDS[g];
        }
    for (int32_t repeat = 0; repeat < REPEATS; repeat++) {
        for (int32_t i = 0; i < rounds; i++) samples[i] = read_once(device, programs);
        medians[repeat] = median(samples, rounds);
    }
    check_sum(device, programs);
    printf("%s\n  {\"device\": %d, \"bytes\": %lld, \"programs\": %d, \"ns\": [%.1f, %.1f]}", device ? "," : "", device,
           (long long)(settings.read / BLOCK_BYTES * BLOCK_BYTES), programs, medians[0], medians[1]);
    free(samples);
}

/* ---- all of it --------------------------------------------------------------------------------------------- */
static void put_head(int32_t rounds) {
    char date[32];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    printf("{\"format\": 1,\n \"date\": \"%s\",\n \"tool\": \"%s\",\n \"rounds\": %d,\n", date, settings.tool, rounds);
}

static void open_for_transfers(int32_t devices) {
    int64_t host = largest(&settings.host), peer = largest(&settings.peer), room = 4 * host > 512 << 20 ? 4 * host : 512 << 20;
    if (host < 1 << 20) room = 4 << 20;
    int64_t most = host > peer ? host : peer;
    if (settings.read > most) most = settings.read;
    need(open_devices(0, devices, SUMS_BYTES + most, false));
    pageable = (Room){vx_alloc(room), room, 0};
    pinned = (Room){plugin.vx_pin(room), room, 0};
    if (!pinned.block) fail("%s", plugin.vx_last_error());
    memset(pageable.block, 1, (size_t)room);
    memset(pinned.block, 1, (size_t)room);
}

int32_t vx_program_main(void) {
    int32_t rounds = vx_arg(0) ? (int32_t)number(vx_arg(0), 1, 10000) : 32, devices = 0;
    find_folder();
    read_settings();
    load_plugin();
    need(plugin.vx_plugin_control(VX_CONTROL_DEVICE_COUNT, &devices));
    if (devices < 1) fail("this machine has no device");
    if (devices > DEVICES) devices = DEVICES;
    put_head(rounds);
    printf(" \"devices\": [\n  ");
    for (int32_t d = 0; d < devices; d++) put_memory(d);
    printf("\n ],\n \"open\": {%s},\n", opened);
    gpu_put_driver();
    open_for_transfers(devices);
    printf(" \"reads\": [");
    for (int32_t d = 0; d < devices; d++) put_read(d, rounds);
    printf("\n ],\n");
    plan_work(devices, rounds);
    put_transfers(rounds);
    need(plugin.vx_close());
    printf(" \"whole\": true}\n");
    fflush(stdout);
    return ferror(stdout) ? 1 : 0;
}
