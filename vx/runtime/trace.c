/* Evidence: events as JSON lines in the file that VX_TRACE names; without it, one comparison a call. The first line is
   `run`; the last is `end` and holds the number of lines before it and their SHA-256. docs/reference/evidence.md has
   every event. */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHA256 = 32, LINE = 8192 };

static FILE *file;
static enum { UNOPENED, OFF, ON } state = UNOPENED;
static int64_t lines;
static uint64_t digest_state[VX_SHA256_STATE_BYTES / 8];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool put_line(const char *event, const char *fields) {
    char line[LINE];
    int length = snprintf(line, sizeof line, "{\"seq\":%" PRId64 ",\"ns\":%" PRId64 ",\"event\":\"%s\"%s%s}\n", lines,
                          vx_time_now(), event, *fields ? "," : "", fields);
    if (length < 0 || length >= LINE) return false;
    vx_sha256_update(digest_state, line, length);
    lines++;
    return fwrite(line, 1, (size_t)length, file) == (size_t)length && fflush(file) == 0;
}

static void open_trace(void) {
    const char *path = getenv("VX_TRACE");
    state = OFF;
    if (!path || !*path) return;
    file = fopen(path, "we");
    if (!file) vx_fail("VX_TRACE: %s: %s", path, strerror(errno));
    state = ON;
    vx_sha256_begin(digest_state);
    char fields[128];
    snprintf(fields, sizeof fields, "\"schema\":\"vx-evidence\",\"version\":%d,\"abi\":%d,\"unix_ns\":%" PRId64,
             VX_TRACE_VERSION, VX_ABI_VERSION, vx_time_unix());
    if (!put_line("run", fields)) vx_fail("VX_TRACE: the trace cannot be written: %s", strerror(errno));
}

int32_t vx_trace_enabled(void) {
    if (state == UNOPENED) open_trace();
    return state == ON;
}

void vx_trace_event(const char *event, const char *fields) {
    if (!vx_trace_enabled()) return;
    pthread_mutex_lock(&mutex);
    bool written = put_line(event, fields);
    pthread_mutex_unlock(&mutex);
    if (!written) vx_fail("VX_TRACE: the event %s cannot be written: %s", event, strerror(errno));
}

/* Text as JSON, without an end if there is no room: put_line refuses what is too long. */
static void json_text(char *json, size_t room, const char *text) {
    size_t used = 0;
    json[used++] = '"';
    for (const unsigned char *at = (const unsigned char *)text; *at && used + 8 < room; at++) {
        if (*at == '"' || *at == '\\') used += (size_t)sprintf(json + used, "\\%c", *at);
        else if (*at < 0x20) used += (size_t)sprintf(json + used, "\\u%04x", *at);
        else json[used++] = (char)*at;
    }
    json[used++] = '"';
    json[used] = 0;
}

static void named(const char *event, const char *name, const char *key, const char *value) {
    char quoted[LINE / 2], fields[LINE - 256];
    json_text(quoted, sizeof quoted, name);
    snprintf(fields, sizeof fields, "\"name\":%s,\"%s\":%s", quoted, key, value);
    vx_trace_event(event, fields);
}

void vx_trace_begin(const char *name) {
    if (vx_trace_enabled()) named("phase", name, "edge", "\"begin\"");
}

void vx_trace_end(const char *name) {
    if (vx_trace_enabled()) named("phase", name, "edge", "\"end\"");
}

void vx_trace_value(const char *name, int64_t value) {
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, value);
    if (vx_trace_enabled()) named("value", name, "value", number);
}

void vx_trace_finish(int32_t status) {
    if (state != ON) return;
    unsigned char digest[SHA256];
    char fields[192];
    pthread_mutex_lock(&mutex);
    state = OFF; /* nothing follows */
    vx_sha256_end(digest_state, digest);
    int used = snprintf(fields, sizeof fields, "\"events\":%" PRId64 ",\"status\":%d,\"sha256\":\"", lines, status);
    for (int i = 0; i < SHA256; i++) used += snprintf(fields + used, sizeof fields - (size_t)used, "%02x", digest[i]);
    snprintf(fields + used, sizeof fields - (size_t)used, "\"");
    put_line("end", fields); /* a trace without it is unfinished, which a report refuses */
    fclose(file);
    pthread_mutex_unlock(&mutex);
}
