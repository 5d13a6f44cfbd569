/* Events for the program's trace. This file knows nothing of the Plan: it writes what it is told. */
#include "plugin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 4096 };
static char fields[ROOM];
static size_t used;
static const char *event;
static bool lost; /* an event was too long, or the sink refused it */

bool vxd_evidence(void) { return vxd.manifest && vxd.manifest->sink; }

bool vxd_evidence_lost(void) { return lost; }

void vxd_event(const char *name) {
    event = name;
    used = 0;
}

static void put(const char *text, size_t length) {
    if (used + length >= ROOM) {
        lost = true;
        return;
    }
    memcpy(fields + used, text, length);
    used += length;
}

static void put_key(const char *key) {
    if (used) put(",", 1);
    put("\"", 1);
    put(key, strlen(key));
    put("\":", 2);
}

void vxd_text(const char *key, const char *value) {
    put_key(key);
    put("\"", 1);
    for (const unsigned char *at = (const unsigned char *)(value ? value : ""); *at; at++) {
        char code[8];
        if (*at == '"' || *at == '\\') put((char[]){'\\', (char)*at}, 2);
        else if (*at < 0x20) put(code, (size_t)snprintf(code, sizeof code, "\\u%04x", *at));
        else put((const char *)at, 1);
    }
    put("\"", 1);
}

void vxd_number(const char *key, int64_t value) {
    char text[24];
    put_key(key);
    put(text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

void vxd_event_device(int32_t device) {
    const Device *d = &vxd.devices[device];
    vxd_text("device", d->declared->name);
    vxd_number("ordinal", d->ordinal);
    vxd_text("uuid", d->facts.uuid);
}

void vxd_event_end(void) {
    fields[used] = 0;
    if (vxd.manifest->sink(event, fields) != 0) lost = true;
}
