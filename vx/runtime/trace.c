/* Events as JSON lines in the file that VX_TRACE names; without it, one comparison a call. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *file;
static enum { UNOPENED, OFF, ON } state = UNOPENED;

static void open_trace(void) {
    const char *path = getenv("VX_TRACE");
    state = path && *path ? ON : OFF;
    if (state == OFF) return;
    file = fopen(path, "we");
    if (!file) vx_fail("VX_TRACE: %s: %s", path, strerror(errno));
    setvbuf(file, NULL, _IOLBF, 1 << 12);
}

int32_t vx_trace_enabled(void) {
    if (state == UNOPENED) open_trace();
    return state == ON;
}

static void put_json_text(const char *text) {
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\') fprintf(file, "\\%c", *at);
        else if (*at < 0x20) fprintf(file, "\\u%04x", *at);
        else fputc(*at, file);
    }
    fputc('"', file);
}

static void put_event(const char *event, const char *name, const int64_t *value) {
    if (!vx_trace_enabled()) return;
    fprintf(file, "{\"ns\":%lld,\"event\":\"%s\",\"name\":", (long long)vx_time_now(), event);
    put_json_text(name);
    if (value) fprintf(file, ",\"value\":%lld", (long long)*value);
    fputs("}\n", file);
    if (ferror(file)) vx_fail("VX_TRACE: the trace cannot be written: %s", strerror(errno));
}

void vx_trace_begin(const char *name) { put_event("begin", name, NULL); }

void vx_trace_end(const char *name) { put_event("end", name, NULL); }

void vx_trace_value(const char *name, int64_t value) { put_event("value", name, &value); }
