/* The end of a program that cannot go on: one line on stderr, one status. */
#include "internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

_Noreturn void vx_fail(const char *format, ...) {
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&reported)) {
        for (;;) pause(); /* another thread is ending the process */
    }
    vx_flush();
    va_list arguments;
    va_start(arguments, format);
    fputs("vx: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    fflush(stderr);
    _exit(VX_EXIT_ABORT);
}

_Noreturn void vx_abort(const char *message) { vx_fail("%s", message); }

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
