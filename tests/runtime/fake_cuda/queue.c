/* Streams, events, copies. An operation is done when something waits for it, and not before. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

static Stream *streams;
static Stream *gone; /* destroyed ones: an event may still name them */
static uint64_t clock_ticks;

Stream *fake_streams(void) { return streams; }

bool fake_capturing(void) {
    for (Stream *s = streams; s; s = s->next)
        if (s->capturing) return s->broken = true;
    return false;
}

/* ---- doing ----------------------------------------------------------------------------------------- */
void fake_execute(const Op *op) {
    switch (op->kind) {
        case OP_COPY: memcpy(op->target, op->snapshot ? op->snapshot : op->source, op->bytes); break;
        case OP_ROWS:
            for (size_t i = 0; i < op->rows; i++)
                memcpy(op->target + i * op->target_pitch, op->source + i * op->source_pitch, op->bytes);
            break;
        case OP_FILL: memset(op->target, op->value, op->bytes); break;
        case OP_KERNEL: fake_run_kernel(op); break;
        case OP_WAIT: fake_run(op->other, op->until); break;
        case OP_MARK: break;
    }
    clock_ticks++;
}

void fake_run(Stream *s, uint64_t until) {
    while (s->first && s->executed < until) {
        Op *op = s->first;
        fake_execute(op);
        s->first = op->next;
        if (!s->first) s->last = &s->first;
        s->executed = op->serial;
        free(op->snapshot);
        free(op);
    }
}

static bool touches(const Op *op, const char *memory, size_t bytes) {
    const char *ranges[] = {op->target, op->snapshot ? NULL : op->source};
    for (int i = 0; i < 2; i++)
        if (op->kind <= OP_FILL && ranges[i] >= memory && ranges[i] < memory + bytes) return true;
    for (int i = 0; op->kind == OP_KERNEL && i < PARAMS; i++)
        if (op->args[i] >= (uintptr_t)memory && op->args[i] < (uintptr_t)memory + bytes) return true;
    return false;
}

bool fake_pending(const char *memory, size_t bytes) {
    for (Stream *s = streams; s; s = s->next)
        for (Op *op = s->first; op; op = op->next)
            if (touches(op, memory, bytes)) return true;
    return false;
}

bool fake_pending_graph(const void *graph) {
    for (Stream *s = streams; s; s = s->next)
        for (Op *op = s->first; op; op = op->next)
            if (op->graph == graph) return true;
    return false;
}

int fake_append(Stream *s, Op op) {
    Op *kept = malloc(sizeof *kept);
    *kept = op;
    kept->next = NULL;
    if (s->capturing) {
        *s->captured_last = kept;
        s->captured_last = &kept->next;
        return SUCCESS;
    }
    kept->serial = ++s->issued;
    *s->last = kept;
    s->last = &kept->next;
    return SUCCESS;
}

int fake_check_stream(Stream *s) {
    if (!s || s->magic != STREAM) return fake_violation(INVALID_HANDLE, "a stream that is gone");
    if (!fake_current() || fake_current()->device != s->device)
        return fake_violation(INVALID_HANDLE, "a stream of device %d used while another device is selected", s->device);
    return SUCCESS;
}

#define CHECK(call)                     \
    do {                                \
        int checked_ = (call);          \
        if (checked_ != SUCCESS) return checked_; \
    } while (0)

/* ---- streams --------------------------------------------------------------------------------------- */
int cuStreamCreate(Stream **stream, unsigned flags) {
    CALL;
    if (flags != 1) return fake_violation(INVALID_VALUE, "a stream that waits for the default stream");
    Stream *s = calloc(1, sizeof *s);
    *s = (Stream){.magic = STREAM, .next = streams, .device = fake_current()->device};
    s->last = &s->first;
    streams = s;
    fake_live("stream", 1);
    *stream = s;
    return SUCCESS;
}

int cuStreamDestroy_v2(Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    if (stream->capturing) return fake_violation(ILLEGAL_CAPTURE, "a stream destroyed while recording");
    fake_run(stream, stream->issued);
    for (Stream **at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    stream->magic = 0;
    stream->next = gone;
    gone = stream;
    fake_live("stream", -1);
    return SUCCESS;
}

int cuStreamQuery(Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    NO_CAPTURE;
    if (!stream->first) return SUCCESS;
    fake_run(stream, stream->executed + 1); /* time passes */
    return NOT_READY;
}

int cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
    CALL;
    (void)flags;
    CHECK(fake_check_stream(stream));
    NO_CAPTURE;
    if (!event || event->magic != EVENT) return fake_violation(INVALID_HANDLE, "an event that is gone");
    if (!event->stream) return SUCCESS;
    return fake_append(stream, (Op){.kind = OP_WAIT, .other = event->stream, .until = event->serial});
}

/* ---- events ---------------------------------------------------------------------------------------- */
int cuEventCreate(Event **event, unsigned flags) {
    CALL;
    *event = calloc(1, sizeof **event);
    **event = (Event){.magic = EVENT, .device = fake_current()->device, .timed = !(flags & 2)};
    fake_live("event", 1);
    return SUCCESS;
}

static int check_event(const Event *event) {
    if (!event || event->magic != EVENT) return fake_violation(INVALID_HANDLE, "an event that is gone");
    if (!fake_current() || fake_current()->device != event->device)
        return fake_violation(INVALID_HANDLE, "an event of device %d used while another is selected", event->device);
    return SUCCESS;
}

int cuEventDestroy_v2(Event *event) {
    CALL;
    CHECK(check_event(event));
    event->magic = 0;
    free(event);
    fake_live("event", -1);
    return SUCCESS;
}

int cuEventRecord(Event *event, Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    CHECK(check_event(event));
    NO_CAPTURE;
    fake_append(stream, (Op){.kind = OP_MARK});
    event->stream = stream;
    event->serial = stream->issued;
    return SUCCESS;
}

int cuEventQuery(Event *event) {
    CALL;
    CHECK(check_event(event));
    NO_CAPTURE;
    if (!event->stream || event->stream->executed >= event->serial) return SUCCESS;
    fake_run(event->stream, event->stream->executed + 1);
    return NOT_READY;
}

int cuEventSynchronize(Event *event) {
    CALL;
    CHECK(check_event(event));
    NO_CAPTURE;
    if (event->stream) fake_run(event->stream, event->serial);
    return SUCCESS;
}

int cuEventElapsedTime(float *milliseconds, Event *first, Event *second) {
    CALL;
    CHECK(check_event(first));
    CHECK(check_event(second));
    if (!first->timed || !second->timed) return fake_violation(INVALID_HANDLE, "an event without time");
    *milliseconds = (float)(second->serial - first->serial);
    return SUCCESS;
}

/* ---- copies ---------------------------------------------------------------------------------------- */
static int check_device(const void *address, size_t bytes, int device) {
    Block *b = fake_block(address, bytes);
    if (!b || b->device < 0) return fake_violation(INVALID_VALUE, "%zu bytes that are not in one piece of device memory", bytes);
    if (b->device != device) return fake_violation(INVALID_VALUE, "memory of device %d used on device %d", b->device, device);
    return SUCCESS;
}

int cuMemsetD8Async(Address target, unsigned char value, size_t bytes, Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    CHECK(check_device((void *)(uintptr_t)target, bytes, stream->device));
    return fake_append(stream, (Op){.kind = OP_FILL, .target = (char *)(uintptr_t)target, .bytes = bytes, .value = value});
}

int cuMemcpyHtoDAsync_v2(Address target, const void *source, size_t bytes, Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    CHECK(check_device((void *)(uintptr_t)target, bytes, stream->device));
    Op op = {.kind = OP_COPY, .target = (char *)(uintptr_t)target, .source = source, .bytes = bytes};
    if (!fake_block(source, bytes)) { /* pageable memory is read before the call returns */
        op.snapshot = malloc(bytes);
        memcpy(op.snapshot, source, bytes);
    }
    return fake_append(stream, op);
}

int cuMemcpyDtoHAsync_v2(void *target, Address source, size_t bytes, Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    CHECK(check_device((void *)(uintptr_t)source, bytes, stream->device));
    fake_append(stream, (Op){.kind = OP_COPY, .target = target, .source = (char *)(uintptr_t)source, .bytes = bytes});
    if (!fake_block(target, bytes)) fake_run(stream, stream->issued); /* pageable memory: done when it returns */
    return SUCCESS;
}

int cuMemcpyDtoDAsync_v2(Address target, Address source, size_t bytes, Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    CHECK(check_device((void *)(uintptr_t)target, bytes, stream->device));
    CHECK(check_device((void *)(uintptr_t)source, bytes, stream->device));
    return fake_append(stream, (Op){.kind = OP_COPY, .target = (char *)(uintptr_t)target,
                                    .source = (char *)(uintptr_t)source, .bytes = bytes});
}

int cuMemcpyPeerAsync(Address target, Context *to, Address source, Context *from, size_t bytes, Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    CHECK(check_device((void *)(uintptr_t)target, bytes, to->device));
    CHECK(check_device((void *)(uintptr_t)source, bytes, from->device));
    return fake_append(stream, (Op){.kind = OP_COPY, .target = (char *)(uintptr_t)target,
                                    .source = (char *)(uintptr_t)source, .bytes = bytes});
}

typedef struct {
    size_t source_x, source_y;
    int source_type;
    const void *source_host;
    Address source_device;
    void *source_array;
    size_t source_pitch, target_x, target_y;
    int target_type;
    void *target_host;
    Address target_device;
    void *target_array;
    size_t target_pitch, width, height;
} Rows;

int cuMemcpy2DAsync_v2(const Rows *r, Stream *stream) {
    CALL;
    CHECK(fake_check_stream(stream));
    size_t from = r->source_pitch * (r->height - 1) + r->width, to = r->target_pitch * (r->height - 1) + r->width;
    const char *source = r->source_type == 1 ? r->source_host : (char *)(uintptr_t)r->source_device;
    char *target = r->target_type == 1 ? r->target_host : (char *)(uintptr_t)r->target_device;
    if (r->source_type == 2) CHECK(check_device(source, from, stream->device));
    if (r->target_type == 2) CHECK(check_device(target, to, stream->device));
    fake_append(stream, (Op){.kind = OP_ROWS, .target = target, .source = source, .bytes = r->width, .rows = r->height,
                             .target_pitch = r->target_pitch, .source_pitch = r->source_pitch});
    if (r->source_type == 1 || r->target_type == 1) fake_run(stream, stream->issued);
    return SUCCESS;
}
