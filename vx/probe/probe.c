/* Measures what programs do, with the runtime that they do it with. Prints one line a sample.
 *
 *   measure ROUNDS SEED PEER WORK…   WORK is copy:BYTES or network:BYTES; each round does every one once, in an
 *                                    order of its own, and prints `WORK NANOSECONDS`
 *   read ROUNDS BYTES                prints `one NANOSECONDS`, `all NANOSECONDS`, `cached NANOSECONDS BYTES`
 *   facts                            prints `threads N` and `level N`
 *   serve ADDRESS SECONDS            receives what a measuring peer sends; prints `port N` first
 */
#include "vx_abi.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKS = 256, IDLE_NS = 2000000, HELLO_NS = 2000000000 };
static const int64_t MOST_BYTES = (int64_t)1 << 30, SECOND = 1000000000;
static const uint64_t MAGIC = 0x31656f6270207876; /* "vx prob1" */

static _Noreturn void fail(const char *what, int64_t code) {
    char message[256];
    snprintf(message, sizeof message, "%s: %s", what, code < 0 ? vx_error_text((int32_t)-code) : "unexpected answer");
    vx_abort(message);
}

static int64_t number(const char *text, int64_t least, int64_t most) {
    char *end;
    errno = 0;
    long long value = text ? strtoll(text, &end, 10) : 0;
    if (!text || errno || end == text || *end || value < least || value > most) fail("not a number in range", 0);
    return value;
}

/* An arena as a role has it, in use. */
static char *new_arena(int64_t bytes) {
    char *arena = vx_alloc(bytes);
    memset(arena, 1, (size_t)bytes);
    return arena;
}

/* ---- the network ------------------------------------------------------------------------------------------- */
typedef struct {
    uint64_t magic, bytes;
} Message;

/* Serves one peer until it is done, is silent or says something else. */
static void serve_peer(int32_t socket, char *room, int64_t room_bytes, int64_t end) {
    for (bool first = true;; first = false) {
        Message message;
        int64_t now = vx_time_now(), by = now + (first ? HELLO_NS : 10 * SECOND);
        if (by > end) by = end;
        if (vx_tcp_read_exact(socket, &message, sizeof message, by) != sizeof message) return;
        if (message.magic != MAGIC || message.bytes > (uint64_t)room_bytes) return;
        int64_t bytes = (int64_t)message.bytes;
        if (vx_tcp_read_exact(socket, room, bytes, by) != bytes) return;
        if (vx_tcp_write_all(socket, &message, sizeof message, by) < 0) return;
    }
}

static void serve(void) {
    enum { ROOM = 128 << 20 };
    int64_t end = vx_time_now() + number(vx_arg(2), 1, 1000000) * SECOND;
    int32_t listener = vx_tcp_listen(vx_arg(1), 8);
    if (listener < 0) fail(vx_arg(1), listener);
    printf("port %d\n", vx_tcp_port(listener));
    fflush(stdout);
    char *room = new_arena(ROOM);
    for (;;) {
        int32_t socket = vx_tcp_accept(listener, end);
        if (socket == -ETIMEDOUT) return;
        if (socket < 0) fail("waiting for a peer", socket);
        serve_peer(socket, room, ROOM, end);
        vx_tcp_close(socket);
    }
}

/* From the first byte sent to the answer to the last. */
static int64_t send_and_wait(int32_t socket, char *data, int64_t bytes) {
    Message answer, *message = (Message *)data; /* the header goes with the data, in one piece */
    *message = (Message){MAGIC, (uint64_t)bytes};
    int64_t begin = vx_time_now(), by = begin + 30 * SECOND;
    int64_t sent = vx_tcp_write_all(socket, data, (int64_t)sizeof *message + bytes, by);
    if (sent < 0) fail("sending to the peer", sent);
    int64_t got = vx_tcp_read_exact(socket, &answer, sizeof answer, by);
    if (got != sizeof answer || answer.magic != MAGIC) fail("the peer's answer", got < 0 ? got : 0);
    return vx_time_now() - begin;
}

/* ---- rounds ------------------------------------------------------------------------------------------------ */
typedef struct {
    const char *name;
    bool network;
    int64_t bytes;
} Work;

/* Data that nobody read lately: parts of a block larger than the caches, one after the other. */
typedef struct {
    char *block;
    int64_t bytes, next;
} Source;

static Source new_source(int64_t largest) {
    int64_t bytes = 2 * largest > (256 << 20) ? 2 * largest : 256 << 20;
    Source source = {vx_alloc(bytes), bytes, 0};
    memset(source.block, 1, (size_t)bytes);
    return source;
}

static char *take(Source *source, int64_t bytes) {
    if (source->next + bytes > source->bytes) source->next = 0;
    char *part = source->block + source->next;
    source->next += (bytes + 4095) & ~(int64_t)4095;
    return part;
}

/* What `transfer` does on this machine: a copy by one thread to the tile's place in the arena. */
static int64_t copy_once(char *arena, Source *source, int64_t bytes) {
    const char *part = take(source, bytes);
    int64_t begin = vx_time_now();
    vx_copy(arena, part, bytes);
    return vx_time_now() - begin;
}

static void shuffle(Work *works, int32_t count, uint64_t *state) {
    for (int32_t i = count - 1; i > 0; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int32_t other = (int32_t)((*state >> 33) % (uint64_t)(i + 1));
        Work kept = works[i];
        works[i] = works[other];
        works[other] = kept;
    }
}

static Work work_of(const char *text) {
    const char *colon = strchr(text, ':');
    if (!colon) fail("not a piece of work", 0);
    return (Work){text, *text == 'n', number(colon + 1, 0, MOST_BYTES)};
}

static int32_t connect_to(const char *address) {
    int32_t socket = vx_tcp_connect(address, vx_time_now() + 5 * SECOND);
    if (socket < 0) fail(address, socket);
    return socket;
}

static void measure(void) {
    static Work works[WORKS];
    int32_t count = vx_arg_count() - 4;
    if (count < 1 || count > WORKS) fail("too much work", 0);
    int64_t rounds = number(vx_arg(1), 1, 100000), largest = 0;
    uint64_t state = (uint64_t)number(vx_arg(2), 0, INT64_MAX);
    bool network = false;
    for (int32_t i = 0; i < count; i++) {
        works[i] = work_of(vx_arg(4 + i));
        network |= works[i].network;
        if (works[i].bytes > largest) largest = works[i].bytes;
    }
    Source source = new_source(largest + 4096);
    char *arena = new_arena(largest + 1);
    int32_t socket = network ? connect_to(vx_arg(3)) : -1;
    for (int64_t round = -2; round < rounds; round++) { /* the first two are for pages, caches and windows to settle */
        shuffle(works, count, &state);
        for (int32_t i = 0; i < count; i++) {
            Work work = works[i];
            vx_time_sleep(IDLE_NS);
            int64_t spent = work.network ? send_and_wait(socket, take(&source, work.bytes + 16), work.bytes)
                                         : copy_once(arena, &source, work.bytes);
            if (round >= 0) printf("%s %lld\n", work.name, (long long)spent);
        }
        fflush(stdout);
    }
}

/* ---- reading ----------------------------------------------------------------------------------------------- */
typedef struct {
    const uint64_t *data;
    int64_t again; /* how often each part is read */
    uint64_t sum;
} Reading;

/* Sums 8 bytes at a time, in enough chains that only memory holds it up. */
static void read_part(void *context, int64_t begin, int64_t end) {
    typedef uint64_t Vector __attribute__((vector_size(64), aligned(64)));
    Reading *reading = context;
    enum { LANES = 8 };
    Vector sums[LANES] = {0};
    for (int64_t time = 0; time < reading->again; time++) {
        const Vector *at = (const Vector *)(reading->data + begin), *last = (const Vector *)(reading->data + end);
        for (; at + LANES <= last; at += LANES)
            for (int i = 0; i < LANES; i++) sums[i] += at[i];
        __asm__ volatile("" ::: "memory");
    }
    uint64_t sum = 0;
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 8; j++) sum += sums[i][j];
    __atomic_fetch_add(&reading->sum, sum, __ATOMIC_RELAXED);
}

static int64_t timed(Reading *reading, int64_t words, int64_t grain, bool alone) {
    int64_t begin = vx_time_now();
    if (alone)
        for (int64_t at = 0; at < words; at += grain) read_part(reading, at, words - at < grain ? words : at + grain);
    else
        vx_parallel(read_part, reading, words, grain);
    return vx_time_now() - begin;
}

static void read_memory(void) {
    enum { GRAIN = 1 << 17, CACHED = 2048, AGAIN = 2000 }; /* words: 1 MiB, and 16 KiB for each thread */
    int64_t rounds = number(vx_arg(1), 1, 100000), bytes = number(vx_arg(2), 1 << 20, (int64_t)1 << 36);
    int64_t words = bytes / 8, threads = vx_thread_count(), cached = CACHED * threads;
    uint64_t *data = vx_alloc(bytes);
    memset(data, 1, (size_t)bytes);
    Reading large = {data, 1, 0}, small = {data, AGAIN, 0};
    for (int64_t round = 0; round < rounds; round++) {
        vx_time_sleep(IDLE_NS);
        printf("one %lld\n", (long long)timed(&large, words, GRAIN, true));
        vx_time_sleep(IDLE_NS);
        printf("all %lld\n", (long long)timed(&large, words, GRAIN, false));
        vx_time_sleep(IDLE_NS);
        printf("cached %lld\n", (long long)timed(&small, cached, CACHED, false) / AGAIN);
        fflush(stdout);
    }
    printf("cached_bytes %lld\n", (long long)cached * 8);
    if (large.sum + small.sum == 1) printf("\n"); /* the sums are used */
}

int32_t vx_program_main(void) {
    const char *mode = vx_arg(0);
    if (!mode) fail("no mode", 0);
    if (strcmp(mode, "measure") == 0) measure();
    else if (strcmp(mode, "read") == 0) read_memory();
    else if (strcmp(mode, "serve") == 0) serve();
    else if (strcmp(mode, "facts") == 0) printf("threads %d\nlevel %d\n", vx_thread_count(), vx_cpu_level());
    else fail(mode, 0);
    fflush(stdout);
    return ferror(stdout) ? 1 : 0;
}
