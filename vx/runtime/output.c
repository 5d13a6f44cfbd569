/* Standard output through one buffer: written when full, at a newline on a terminal, and at the end. */
#include "internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CAPACITY = 1 << 16 };
static char buffer[CAPACITY];
static size_t used;
static enum { UNKNOWN, TERMINAL, OTHER } destination = UNKNOWN;

static bool interrupted(int file) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN) return false;
    struct pollfd ready = {.fd = file, .events = POLLOUT};
    poll(&ready, 1, -1);
    return true;
}

/* What was not written is lost whatever we do; a program must not look successful then. A reader that left, such as
   `head`, has seen what it wanted: nothing is said about that. */
static _Noreturn void output_lost(void) {
    if (errno != EPIPE) fprintf(stderr, "vx: standard output: %s\n", strerror(errno));
    _exit(VX_EXIT_OUTPUT);
}

static void write_all(const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t written = write(STDOUT_FILENO, data, bytes);
        if (written >= 0) {
            data += written;
            bytes -= (size_t)written;
        } else if (!interrupted(STDOUT_FILENO)) {
            output_lost();
        }
    }
}

void vx_flush(void) {
    size_t bytes = used;
    used = 0; /* first: an error below must not write it again */
    write_all(buffer, bytes);
}

static bool to_terminal(void) {
    if (destination == UNKNOWN) destination = isatty(STDOUT_FILENO) ? TERMINAL : OTHER;
    return destination == TERMINAL;
}

void vx_put(const void *data, size_t bytes) {
    if (bytes == 0) return;
    if (bytes > CAPACITY - used) vx_flush();
    if (bytes > CAPACITY) {
        write_all(data, bytes);
        return;
    }
    memcpy(buffer + used, data, bytes);
    used += bytes;
    if (to_terminal() && memchr(data, '\n', bytes)) vx_flush();
}

void vx_eprint_bytes(const void *data, int64_t bytes) {
    vx_flush();
    const char *rest = data;
    while (bytes > 0) {
        ssize_t written = write(STDERR_FILENO, rest, (size_t)bytes);
        if (written < 0 && !interrupted(STDERR_FILENO)) return; /* nowhere left to say so */
        if (written > 0) {
            rest += written;
            bytes -= written;
        }
    }
}
