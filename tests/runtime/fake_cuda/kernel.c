/* Modules, kernels of a few known behaviours, recordings and graphs.

   A kernel file is text: `FAKECUBIN`, then lines `NAME BEHAVIOUR TRAILING`, then `end`. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                     \
    do {                                \
        int checked_ = (call);          \
        if (checked_ != SUCCESS) return checked_; \
    } while (0)

/* Each parameter is a pointer into memory (p), an i32 (i), an i64 (l) or an f32 (f). */
static const struct {
    const char *name, *params;
} BEHAVIOURS[] = {
    {"count", "p"},     /* counter += 1 */
    {"add", "pif"},     /* x[0..n] += v */
    {"late_add", "pifi"}, /* the same: everything here is late */
    {"copy", "ppi"},    /* target[0..n] = source[0..n], i32 */
    {"token", "pppi"},  /* ring, block, counter, slots: see below */
    {"link", "p"},      /* x[0] += 1, f32 */
    {"read_all", "plp"},
    {"sum", "ppi"}, /* sums[0] = the sum of the i32 in so many blocks of 16 KiB */
    {"fail", "pi"}, /* error word, code */
    {"nothing", ""},
};
enum { COUNT, ADD, LATE_ADD, COPY, TOKEN, LINK, READ_ALL, SUM, FAIL, NOTHING, BEHAVIOUR_COUNT };

typedef struct Function {
    uint32_t magic;
    struct Function *next;
    int device, behaviour, trailing;
    char name[64];
} Function;

typedef struct {
    uint32_t magic;
    int device;
    Function *functions;
} Module;

typedef struct {
    uint32_t magic;
    int device;
    Op *ops;
} Graph; /* and what is made of it */

/* ---- kernels --------------------------------------------------------------------------------------- */
static void *pointer(uint64_t word) { return (void *)(uintptr_t)word; }

static float as_f32(uint64_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Position p is block[0]: the token is (block[1] + 7 * p) % 97, the next position is p + 1. */
static void run_token(const Op *op) {
    uint64_t *ring = pointer(op->args[0]);
    int32_t *block = pointer(op->args[1]), position = block[0];
    uint32_t token = block[1] < 0 ? 0xFFFFFFFFu : (uint32_t)((block[1] + 7 * position) % 97);
    ring[position & ((int32_t)op->args[3] - 1)] = (uint64_t)position << 32 | token;
    block[0] = position + 1;
    ++*(uint64_t *)pointer(op->args[2]);
}

static void run_sum(const Op *op) {
    const int32_t *data = pointer(op->args[0]);
    int32_t sum = 0;
    for (int64_t i = 0; i < (int64_t)(int32_t)op->args[2] * 4096; i++) sum += data[i];
    *(int32_t *)pointer(op->args[1]) = sum;
}

void fake_run_kernel(const Op *op) {
    switch (op->behaviour) {
        case COUNT: ++*(uint64_t *)pointer(op->args[0]); break;
        case LINK: ++*(float *)pointer(op->args[0]); break;
        case FAIL: *(int32_t *)pointer(op->args[0]) = (int32_t)op->args[1]; break;
        case ADD:
        case LATE_ADD:
            for (int32_t i = 0; i < (int32_t)op->args[1]; i++) ((float *)pointer(op->args[0]))[i] += as_f32(op->args[2]);
            break;
        case COPY: memmove(pointer(op->args[0]), pointer(op->args[1]), (size_t)(int32_t)op->args[2] * 4); break;
        case TOKEN: run_token(op); break;
        case SUM: run_sum(op); break;
        default: break;
    }
}

/* ---- modules --------------------------------------------------------------------------------------- */
static int add_function(Module *m, const char *name, const char *behaviour, int trailing) {
    for (int i = 0; i < BEHAVIOUR_COUNT; i++) {
        if (strcmp(behaviour, BEHAVIOURS[i].name)) continue;
        Function *f = calloc(1, sizeof *f);
        *f = (Function){.magic = FUNCTION, .next = m->functions, .device = m->device, .behaviour = i, .trailing = trailing};
        snprintf(f->name, sizeof f->name, "%s", name);
        m->functions = f;
        return SUCCESS;
    }
    return INVALID_IMAGE;
}

int cuModuleLoadData(Module **module, const char *image) {
    CALL;
    NO_CAPTURE;
    char name[64], behaviour[64];
    int trailing, used;
    if (strncmp(image, "FAKECUBIN\n", 10)) return INVALID_IMAGE;
    Module *m = calloc(1, sizeof *m);
    *m = (Module){.magic = MODULE, .device = fake_current()->device};
    for (image += 10; strncmp(image, "end\n", 4); image += used)
        if (sscanf(image, "%63s %63s %d\n%n", name, behaviour, &trailing, &used) != 3 ||
            add_function(m, name, behaviour, trailing))
            return INVALID_IMAGE;
    fake_live("module", 1);
    *module = m;
    return SUCCESS;
}

int cuModuleUnload(Module *module) {
    CALL;
    if (module->magic != MODULE) return fake_violation(INVALID_HANDLE, "a module unloaded twice");
    if (module->device != fake_current()->device) return fake_violation(INVALID_HANDLE, "a module of another device");
    for (Function *f = module->functions; f;) {
        Function *next = f->next;
        free(f);
        f = next;
    }
    module->magic = 0;
    free(module);
    fake_live("module", -1);
    return SUCCESS;
}

int cuModuleGetFunction(Function **function, Module *module, const char *name) {
    CALL;
    for (Function *f = module->functions; f; f = f->next)
        if (!strcmp(f->name, name)) return (*function = f), SUCCESS;
    return NOT_FOUND;
}

int cuFuncGetAttribute(int *value, int attribute, Function *function) {
    CALL;
    (void)function;
    *value = attribute == 0 ? 1024 : 0;
    return SUCCESS;
}

int cuFuncSetAttribute(Function *function, int attribute, int value) {
    CALL;
    (void)function;
    return attribute == 8 && value <= 232448 ? SUCCESS : INVALID_VALUE;
}

typedef struct {
    int id, pad;
    union {
        char room[64];
        unsigned cluster[3];
        int dependent;
    } value;
} Attribute;

typedef struct {
    unsigned grid[3], block[3], shared;
    Stream *stream;
    Attribute *attributes;
    unsigned count;
} How;

static int read_params(const Function *f, int device, void **params, Op *op) {
    const char *kinds = BEHAVIOURS[f->behaviour].params;
    int count = (int)strlen(kinds);
    for (int i = 0; i < count; i++) {
        memcpy(&op->args[i], params[i], kinds[i] == 'p' || kinds[i] == 'l' ? 8 : 4);
        Block *b = kinds[i] == 'p' ? fake_block(pointer(op->args[i]), 1) : NULL;
        if (kinds[i] != 'p') continue;
        if (!b) return fake_violation(INVALID_VALUE, "kernel %s: parameter %d points nowhere", f->name, i);
        if (b->device >= 0 && b->device != device)
            return fake_violation(INVALID_VALUE, "kernel %s on device %d reads memory of device %d", f->name, device, b->device);
    }
    for (int i = 0; i < f->trailing; i++)
        if (*(uint64_t *)params[count + i])
            return fake_violation(INVALID_VALUE, "kernel %s: trailing parameter %d is not null", f->name, i);
    return SUCCESS;
}

int cuLaunchKernelEx(const How *how, Function *function, void **params, void **extra) {
    CALL;
    (void)extra;
    CHECK(fake_check_stream(how->stream));
    if (function->magic != FUNCTION) return fake_violation(INVALID_HANDLE, "a kernel that is gone");
    if (function->device != how->stream->device) return fake_violation(INVALID_HANDLE, "a kernel of another device");
    for (unsigned i = 0; i < how->count; i++) {
        if (how->attributes[i].id == 6 && how->attributes[i].value.dependent == 1) fake_enter("dependent launch");
        else if (how->attributes[i].id == 4 && how->attributes[i].value.cluster[0]) fake_enter("cluster launch");
        else return fake_violation(INVALID_VALUE, "launch attribute %d", how->attributes[i].id);
    }
    Op op = {.kind = OP_KERNEL, .behaviour = function->behaviour};
    CHECK(read_params(function, how->stream->device, params, &op));
    return fake_append(how->stream, op);
}

/* ---- graphs ---------------------------------------------------------------------------------------- */
int cuStreamBeginCapture_v2(Stream *stream, int mode) {
    CALL;
    CHECK(fake_check_stream(stream));
    if (stream->capturing || mode != 1) return fake_violation(ILLEGAL_CAPTURE, "recording begun twice");
    stream->capturing = true;
    stream->broken = false;
    stream->captured = NULL;
    stream->captured_last = &stream->captured;
    return SUCCESS;
}

static void free_ops(Op *op) {
    while (op) {
        Op *next = op->next;
        free(op->snapshot);
        free(op);
        op = next;
    }
}

int cuStreamEndCapture(Stream *stream, Graph **graph) {
    int entered = fake_enter(__func__);
    CHECK(fake_check_stream(stream));
    *graph = NULL;
    if (!stream->capturing) return fake_violation(ILLEGAL_CAPTURE, "recording ended that was not begun");
    stream->capturing = false; /* also when it fails */
    if (stream->broken || entered) {
        free_ops(stream->captured);
        return entered ? entered : ILLEGAL_CAPTURE;
    }
    Graph *g = malloc(sizeof *g);
    *g = (Graph){GRAPH, stream->device, stream->captured};
    fake_live("graph", 1);
    *graph = g;
    return SUCCESS;
}

static Op *copy_ops(const Op *op) {
    Op *first = NULL, **last = &first;
    for (; op; op = op->next) {
        *last = malloc(sizeof **last);
        **last = *op;
        (*last)->next = NULL;
        last = &(*last)->next;
    }
    return first;
}

int cuGraphInstantiateWithFlags(Graph **exec, const Graph *graph, unsigned long long flags) {
    CALL;
    (void)flags;
    NO_CAPTURE;
    *exec = malloc(sizeof **exec);
    **exec = (Graph){EXEC, graph->device, copy_ops(graph->ops)};
    fake_live("exec", 1);
    return SUCCESS;
}

static int drop(Graph *graph, uint32_t magic, const char *kind) {
    if (!graph || graph->magic != magic) return fake_violation(INVALID_HANDLE, "a graph destroyed twice");
    free_ops(graph->ops);
    graph->magic = 0;
    free(graph);
    fake_live(kind, -1);
    return SUCCESS;
}

int cuGraphDestroy(Graph *graph) {
    CALL;
    return drop(graph, GRAPH, "graph");
}

int cuGraphExecDestroy(Graph *exec) {
    CALL;
    if (fake_pending_graph(exec)) return fake_violation(INVALID_HANDLE, "a graph destroyed while it runs");
    return drop(exec, EXEC, "exec");
}

static int check_exec(const Graph *exec, Stream *stream) {
    CHECK(fake_check_stream(stream));
    if (exec->magic != EXEC) return fake_violation(INVALID_HANDLE, "a graph that is gone");
    return exec->device == stream->device ? SUCCESS : fake_violation(INVALID_HANDLE, "a graph of another device");
}

int cuGraphUpload(Graph *exec, Stream *stream) {
    CALL;
    return check_exec(exec, stream);
}

int cuGraphLaunch(Graph *exec, Stream *stream) {
    CALL;
    NO_CAPTURE;
    CHECK(check_exec(exec, stream));
    for (const Op *op = exec->ops; op; op = op->next) {
        Op mine = *op;
        mine.graph = exec;
        fake_append(stream, mine);
    }
    return SUCCESS;
}
