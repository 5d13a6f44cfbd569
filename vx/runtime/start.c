/* Start-up: from the C library's `main` to the program's, and back to a flushed exit. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>

static int argument_count;
static char **arguments;

int32_t vx_arg_count(void) { return argument_count; }

const char *vx_arg(int32_t index) { return index >= 0 && index < argument_count ? arguments[index] : NULL; }

const char *vx_env(const char *name) { return getenv(name); }

_Noreturn void vx_exit(int32_t status) {
    vx_flush();
    /* The system keeps eight bits: a failure must not become 0 by losing the others. */
    int code = status & 255;
    exit(status != 0 && code == 0 ? 255 : code);
}

int main(int argc, char **argv) {
    /* A closed pipe or connection is an error of the call that met it, with a message. */
    signal(SIGPIPE, SIG_IGN);
    argument_count = argc > 0 ? argc - 1 : 0;
    arguments = argv + 1;
    vx_exit(vx_program_main());
}
