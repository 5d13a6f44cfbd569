/* Devices, contexts, memory, and the record of calls and violations. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const char vx_fake_cuda[] = "this library runs nothing on a device";

static Context contexts[DEVICES];
static Context *current;
static Block *blocks;
static char violation_text[512], fail_name[64];
static int violations, fail_at;

/* ---- record ---------------------------------------------------------------------------------------- */
static struct {
    const char *name;
    int value;
} calls[96], live[16];

static int *find(void *table, int size, const char *name) {
    struct { const char *name; int value; } *rows = table;
    int i = 0;
    while (i < size - 1 && rows[i].name && strcmp(rows[i].name, name)) i++;
    if (!rows[i].name) rows[i].name = strdup(name);
    return &rows[i].value;
}

int fake_calls(const char *name) { return *find(calls, 96, name); }
int fake_alive(const char *kind) { return *find(live, 16, kind); }
int fake_violations(void) { return violations; }
const char *fake_violation_text(void) { return violation_text; }
void fake_live(const char *kind, int change) { *find(live, 16, kind) += change; }

void fake_reset(void) {
    for (int i = 0; i < 96; i++) calls[i].value = 0;
    violations = 0;
    violation_text[0] = 0;
}

int fake_enter(const char *name) {
    int count = ++*find(calls, 96, name);
    return !strcmp(name, fail_name) && count == fail_at ? INJECTED : SUCCESS;
}

int fake_violation(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!violations++) vsnprintf(violation_text, sizeof violation_text, format, arguments);
    va_end(arguments);
    return status;
}

int fake_setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static size_t memory_of_device(void) { return (size_t)fake_setting("FAKE_CUDA_MEMORY", 64 << 20); }

/* ---- driver ---------------------------------------------------------------------------------------- */
int cuInit(unsigned flags) {
    (void)flags;
    const char *fail = getenv("FAKE_CUDA_FAIL");
    fail_name[0] = 0;
    fail_at = 1;
    if (fail) sscanf(fail, "%63[^:]:%d", fail_name, &fail_at);
    fail_at += *find(calls, 96, fail_name); /* counted from here */
    CALL;
    return fake_setting("FAKE_CUDA_DEVICES", 1) > 0 ? SUCCESS : NO_DEVICE;
}

int cuDriverGetVersion(int *version) {
    CALL;
    *version = fake_setting("FAKE_CUDA_VERSION", 13000);
    return SUCCESS;
}

int cuGetErrorName(int error, const char **text) {
    static char name[32];
    snprintf(name, sizeof name, "FAKE_ERROR_%d", error);
    *text = name;
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text) {
    *text = error == INJECTED ? "injected by the test" : "refused by the fake driver";
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    CALL;
    *count = fake_setting("FAKE_CUDA_DEVICES", 1);
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    CALL;
    *device = ordinal;
    return ordinal >= 0 && ordinal < fake_setting("FAKE_CUDA_DEVICES", 1) ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int room, int device) {
    CALL;
    snprintf(name, (size_t)room, "Fake GPU %d (fake libcuda)", device);
    return SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    CALL;
    memset(uuid, 0xfa, 16);
    uuid[15] = (unsigned char)device;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    CALL;
    (void)device;
    int sm = fake_setting("FAKE_CUDA_SM", 90);
    *value = attribute == 75 ? sm / 10 : attribute == 76 ? sm % 10 : 0;
    return attribute == 75 || attribute == 76 ? SUCCESS : INVALID_VALUE;
}

/* ---- contexts -------------------------------------------------------------------------------------- */
int cuDevicePrimaryCtxRetain(Context **context, int device) {
    CALL;
    contexts[device].magic = CONTEXT;
    contexts[device].device = device;
    contexts[device].refs++;
    fake_live("context", 1);
    *context = &contexts[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    CALL;
    if (contexts[device].refs == 0) return fake_violation(INVALID_CONTEXT, "context of device %d released twice", device);
    for (Stream *s = fake_streams(); s; s = s->next)
        if (s->device == device) return fake_violation(INVALID_CONTEXT, "context of device %d released with a stream", device);
    fake_live("context", -1);
    if (--contexts[device].refs == 0) contexts[device].magic = 0;
    return SUCCESS;
}

int cuCtxSetCurrent(Context *context) {
    CALL;
    if (!context || context->magic != CONTEXT) return fake_violation(INVALID_CONTEXT, "a context that is gone was selected");
    current = context;
    return SUCCESS;
}

Context *fake_current(void) { return current && current->magic == CONTEXT ? current : NULL; }

int cuCtxGetDevice(int *device) {
    CALL;
    if (!fake_current()) return INVALID_CONTEXT;
    *device = fake_setting("FAKE_CUDA_LIE", 0) ? 0 : current->device;
    return SUCCESS;
}

int cuCtxSynchronize(void) {
    CALL;
    NO_CAPTURE;
    for (Stream *s = fake_streams(); s; s = s->next)
        if (s->device == current->device) fake_run(s, s->issued);
    return SUCCESS;
}

int cuDeviceCanAccessPeer(int *can, int from, int to) {
    CALL;
    *can = from != to && fake_setting("FAKE_CUDA_PEER", 1);
    return SUCCESS;
}

int cuCtxEnablePeerAccess(Context *peer, unsigned flags) {
    CALL;
    (void)flags;
    return peer->magic == CONTEXT && peer != current ? SUCCESS : fake_violation(INVALID_CONTEXT, "peer access to itself");
}

/* ---- memory ---------------------------------------------------------------------------------------- */
static size_t rounded(size_t bytes) { return (bytes + GRANULE - 1) / GRANULE * GRANULE; }

Block *fake_block(const void *address, size_t bytes) {
    const char *at = address;
    for (Block *b = blocks; b; b = b->next)
        if (at >= b->memory && at + bytes <= b->memory + b->bytes) return b;
    return NULL;
}

static int take(void **memory, size_t bytes, int device, int fill) {
    Block *b = malloc(sizeof *b);
    void *got = mmap(NULL, rounded(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *b = (Block){blocks, got, bytes, device};
    memset(got, fill, bytes);
    blocks = b;
    fake_live(device < 0 ? "pinned" : "memory", 1);
    *memory = got;
    return SUCCESS;
}

static int give(const void *memory, bool pinned) {
    for (Block **at = &blocks; *at; at = &(*at)->next) {
        Block *b = *at;
        if (b->memory != memory || (b->device < 0) != pinned) continue;
        if (fake_pending(b->memory, b->bytes)) return fake_violation(INVALID_VALUE, "memory freed while work uses it");
        *at = b->next;
        munmap(b->memory, rounded(b->bytes));
        free(b);
        fake_live(pinned ? "pinned" : "memory", -1);
        return SUCCESS;
    }
    return fake_violation(INVALID_VALUE, "freed twice, or memory of something else");
}

int cuMemGetAllocationGranularity(size_t *granule, const void *properties, int option) {
    CALL;
    (void)properties;
    (void)option;
    *granule = GRANULE;
    return SUCCESS;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    CALL;
    if (!fake_current()) return INVALID_CONTEXT;
    *total = memory_of_device();
    *free = *total - CONTEXT_BYTES;
    for (Block *b = blocks; b; b = b->next)
        if (b->device == current->device) *free -= rounded(b->bytes);
    return SUCCESS;
}

int cuMemAlloc_v2(Address *address, size_t bytes) {
    size_t free, total;
    void *memory;
    CALL;
    NO_CAPTURE;
    if (!fake_current()) return fake_violation(INVALID_CONTEXT, "memory taken without a device");
    cuMemGetInfo_v2(&free, &total);
    if (rounded(bytes) + (size_t)fake_setting("FAKE_CUDA_SCRAPS", 0) * GRANULE > free) return NO_MEMORY;
    take(&memory, bytes, fake_setting("FAKE_CUDA_MISPLACE", 0) ? 0 : current->device, 0xFF);
    *address = (Address)(uintptr_t)memory;
    return SUCCESS;
}

int cuMemFree_v2(Address address) {
    CALL;
    NO_CAPTURE;
    Block *b = fake_block((void *)(uintptr_t)address, 1);
    if (b && b->device != current->device && !fake_setting("FAKE_CUDA_MISPLACE", 0))
        return fake_violation(INVALID_VALUE, "memory freed on another device");
    return give((void *)(uintptr_t)address, false);
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    CALL;
    NO_CAPTURE;
    if (flags != 3) return fake_violation(INVALID_VALUE, "pinned memory that not every device reaches");
    return take(memory, bytes, -1, 0xEE);
}

int cuMemFreeHost(void *memory) {
    CALL;
    return give(memory, true);
}

int cuPointerGetAttribute(int *value, int attribute, Address address) {
    CALL;
    Block *b = fake_block((void *)(uintptr_t)address, 1);
    if (attribute != 9 || !b || b->device < 0) return INVALID_VALUE;
    *value = b->device;
    return SUCCESS;
}
