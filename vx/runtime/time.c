/* Clocks. */
#include "internal.h"

#include <errno.h>
#include <time.h>

static const int64_t SECOND = 1000000000;

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

int64_t vx_time_now(void) { return read_clock(CLOCK_MONOTONIC); }

int64_t vx_time_unix(void) { return read_clock(CLOCK_REALTIME); }

void vx_time_sleep(int64_t nanoseconds) {
    if (nanoseconds <= 0) return;
    struct timespec rest = {.tv_sec = nanoseconds / SECOND, .tv_nsec = nanoseconds % SECOND};
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR) {}
}
