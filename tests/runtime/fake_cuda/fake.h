/* A driver library without a device, for tests: memory of the host, work done as late as the rules of streams and events
   allow, so that a missing wait shows as a wrong result. Every misuse is counted as a violation and kept as text.

   Environment, read by cuInit: FAKE_CUDA_DEVICES, FAKE_CUDA_VERSION, FAKE_CUDA_SM, FAKE_CUDA_MEMORY (bytes of each
   device), FAKE_CUDA_PEER (0: no peer access), FAKE_CUDA_FAIL=NAME:N (call N of function NAME from now on fails),
   FAKE_CUDA_SCRAPS (granules that are free but in no piece), FAKE_CUDA_LIE (cuCtxGetDevice answers 0),
   FAKE_CUDA_MISPLACE (memory is made on device 0). */
#ifndef FAKE_H
#define FAKE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICES = 8, PARAMS = 16, GRANULE = 1 << 21, CONTEXT_BYTES = 3 << 20 };

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NO_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    PEER_ALREADY = 704,
    ILLEGAL_CAPTURE = 900,
    INJECTED = 999,
};

typedef uint64_t Address;

typedef struct {
    uint32_t magic;
    int device, refs;
} Context;

typedef enum { OP_COPY, OP_ROWS, OP_FILL, OP_KERNEL, OP_MARK, OP_WAIT } OpKind;

typedef struct Op {
    struct Op *next;
    OpKind kind;
    uint64_t serial;
    char *target;
    const char *source;
    char *snapshot; /* of pageable host memory; freed with the operation */
    size_t bytes, rows, target_pitch, source_pitch;
    unsigned char value;
    int behaviour;
    uint64_t args[PARAMS];
    const void *graph; /* that launched it */
    struct Stream *other; /* OP_WAIT: until `other` has done operation `until` */
    uint64_t until;
} Op;

typedef struct Stream {
    uint32_t magic;
    struct Stream *next;
    int device;
    Op *first, **last;
    uint64_t issued, executed;
    bool capturing, broken;
    Op *captured, **captured_last;
} Stream;

typedef struct {
    uint32_t magic;
    int device;
    bool timed;
    Stream *stream; /* null: never recorded */
    uint64_t serial;
} Event;

typedef struct Block {
    struct Block *next;
    char *memory;
    size_t bytes;
    int device; /* -1: pinned */
} Block;

enum { CONTEXT = 0xC0117E17, STREAM = 0x57e4a111, EVENT = 0xe7e27777, MODULE = 0x30d01e00, FUNCTION = 0xf00c7102,
       GRAPH = 0x94a94000, EXEC = 0xe8ec0000 };

/* Counts the call; not 0: the status that it must return at once. */
int fake_enter(const char *name);
int fake_violation(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
Context *fake_current(void);
/* Null, or the block that holds all of the range. */
Block *fake_block(const void *address, size_t bytes);
void fake_live(const char *kind, int change);
int fake_setting(const char *name, int otherwise);

int fake_append(Stream *s, Op op);
void fake_run(Stream *s, uint64_t until);
bool fake_pending(const char *memory, size_t bytes);
bool fake_pending_graph(const void *graph);
void fake_execute(const Op *op);
void fake_run_kernel(const Op *op);
Stream *fake_streams(void);
bool fake_capturing(void);
int fake_check_stream(Stream *s);

#define CALL                                   \
    do {                                       \
        int entered_ = fake_enter(__func__);   \
        if (entered_ != SUCCESS) return entered_; \
    } while (0)
#define NO_CAPTURE                                                                              \
    do {                                                                                        \
        if (fake_capturing()) return fake_violation(ILLEGAL_CAPTURE, "%s while recording", __func__); \
    } while (0)

#endif
