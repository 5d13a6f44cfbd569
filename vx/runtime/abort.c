/* The end of a program that cannot go on: one line on stderr, one status. */
#include "internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Noreturn void leave(int status, const char *format, va_list arguments) {
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&reported)) {
        for (;;) pause(); /* another thread is ending the process */
    }
    vx_flush();
    fputs("vx: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    fflush(stderr);
    vx_trace_finish(status);
    _exit(status);
}

_Noreturn void vx_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    leave(VX_EXIT_ABORT, format, arguments);
}

static _Noreturn void refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    leave(VX_EXIT_REFUSED, format, arguments);
}

_Noreturn void vx_abort(const char *message) { vx_fail("%s", message); }

_Noreturn void vx_refuse(const char *message) { refuse("%s", message); }

const char *vx_caller;

_Noreturn void vx_fail_called(const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (vx_caller) vx_fail("%s at %s", message, vx_caller);
    vx_fail("%s", message);
}

_Noreturn void vx_abort_called(const char *message) { vx_fail_called("%s", message); }

_Noreturn void vx_abort_range(const char *what, int64_t index, int64_t count) {
    vx_fail_called("%s: index %lld is outside 0..%lld", what, (long long)index, (long long)count);
}

_Noreturn void vx_abort_index(const char *what, int64_t index, int64_t count) {
    vx_fail("%s: index %lld is outside 0..%lld", what, (long long)index, (long long)count);
}
