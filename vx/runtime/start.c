/* Start-up: from the C library's `main` to the program's, and back to a flushed exit. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

static int argument_count;
static char **arguments;

int32_t vx_arg_count(void) { return argument_count; }

const char *vx_arg(int32_t index) { return index >= 0 && index < argument_count ? arguments[index] : NULL; }

const char *vx_env(const char *name) { return getenv(name); }

_Noreturn void vx_exit(int32_t status) {
    vx_flush();
    /* The system keeps eight bits: a failure must not become 0 by losing the others. */
    int code = status & 255;
    if (status != 0 && code == 0) code = 255;
    vx_trace_finish(code);
    exit(code);
}

static char *stack_top;
static size_t stack_bytes;

/* An access just below the stack is a recursion without end: say so. Any other is left to the system. */
static void on_bad_access(int number, siginfo_t *what, void *context) {
    (void)context;
    const size_t margin = 1 << 20;
    uintptr_t below = (uintptr_t)stack_top - (uintptr_t)what->si_addr;
    if (below > stack_bytes / 2 && below < stack_bytes + margin) {
        vx_fail("stack overflow: calls are nested too deeply for %zu KiB of stack", stack_bytes >> 10);
    }
    signal(number, SIG_DFL);
}

static void watch_stack(char *top) {
    static char spare[1 << 16]; /* the handler cannot run on the stack that is full */
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    stack_top = top;
    stack_bytes = limit.rlim_cur;
    sigaltstack(&(stack_t){.ss_sp = spare, .ss_size = sizeof spare}, NULL);
    struct sigaction action = {.sa_sigaction = on_bad_access, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
}

int main(int argc, char **argv) {
    /* A closed pipe or connection is an error of the call that met it, with a message. */
    signal(SIGPIPE, SIG_IGN);
    watch_stack(__builtin_frame_address(0));
    argument_count = argc > 0 ? argc - 1 : 0;
    arguments = argv + 1;
    vx_exit(vx_program_main());
}
