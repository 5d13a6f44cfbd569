/* The message of the last call that failed. */
#include "plugin.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE = 1024 };
static char message[MESSAGE];
static bool held;

void vxd_hold_message(bool hold) { held = hold; }

static void note(int status) {
    if (!vxd_evidence()) return;
    vxd_event("error");
    vxd_number("status", status);
    vxd_text("message", message);
    vxd_event_end();
}

int vxd_fail(int status, const char *format, ...) {
    if (held) return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    note(status);
    return status;
}

int vxd_while(int status, const char *format, ...) {
    if (held) return status;
    char doing[MESSAGE / 2], before[MESSAGE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    memcpy(before, message, sizeof before);
    snprintf(message, sizeof message, "%s: %.*s", doing, (int)(sizeof message - sizeof doing - 4), before);
    return status;
}

const char *vx_last_error(void) { return message; }
