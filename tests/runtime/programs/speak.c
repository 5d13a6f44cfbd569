/* Does what its first argument says; for tests of start-up, printing, aborting and the pool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vx_abi.h"

/* ---- printing ---------------------------------------------------------------------------------------------- */
static uint64_t stdin_bits[1 << 16];

static void print_numbers(const char *type) {
    int64_t words = 0, got;
    while ((got = vx_stdin_read((char *)stdin_bits + words, (int64_t)sizeof stdin_bits - words)) > 0) words += got;
    words /= 8;
    for (int64_t i = 0; i < words; i++) {
        double f64;
        float f32;
        memcpy(&f64, &stdin_bits[i], sizeof f64);
        memcpy(&f32, &stdin_bits[i], sizeof f32);
        if (!strcmp(type, "f64")) vx_print_f64(f64);
        if (!strcmp(type, "f32")) vx_print_f32(f32);
        if (!strcmp(type, "f16")) vx_print_f16((int32_t)stdin_bits[i]);
        if (!strcmp(type, "bf16")) vx_print_bf16((int32_t)stdin_bits[i]);
        if (!strcmp(type, "i64")) vx_print_i64((int64_t)stdin_bits[i]);
        if (!strcmp(type, "u64")) vx_print_u64(stdin_bits[i]);
        if (!strcmp(type, "i128") && i % 2 == 0) vx_print_i128(&stdin_bits[i]);
        if (!strcmp(type, "u128") && i % 2 == 0) vx_print_u128(&stdin_bits[i]);
        vx_print_str("\n");
    }
}

static void print_much(int64_t lines) {
    for (int64_t i = 0; i < lines; i++) {
        vx_print_i64(i);
        vx_print_str("\n");
    }
}

/* ---- the pool ---------------------------------------------------------------------------------------------- */
enum { MOST = 100000 };
static unsigned char visits[MOST];
static int64_t largest;

static void visit(void *context, int64_t begin, int64_t end) {
    if (end - begin > *(int64_t *)context) abort();
    for (int64_t i = begin; i < end; i++) visits[i]++; /* each index once: no two threads on one byte */
}

static void visit_nested(void *context, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        unsigned char *scratch = vx_thread_scratch(100 + i);
        memset(scratch, (int)i, (size_t)(100 + i));
        int64_t grain = 7;
        (void)context;
        vx_parallel(visit, &grain, 5, 7); /* inline: indices 0..5 are visited by every thread in turn */
        if (scratch[99 + i] != (unsigned char)i) abort();
    }
}

static void check_visits(int64_t count, int64_t grain) {
    memset(visits, 0, sizeof visits);
    vx_parallel(visit, &grain, count, grain);
    for (int64_t i = 0; i < MOST; i++)
        if (visits[i] != (i < count)) vx_abort("an index was not visited exactly once");
    largest = count > largest ? count : largest;
}

static void run_jobs(void) {
    for (int64_t round = 0; round < 400; round++) check_visits((round * 7919) % MOST, 1 + (round * 31) % 5000);
    for (int64_t round = 0; round < 20000; round++) {
        int64_t grain = 1;
        vx_parallel(visit, &grain, 3, 1);
        if (round % 4000 == 0) vx_time_sleep(2000000); /* long enough that the workers fall asleep */
    }
    int64_t grain = 1;
    check_visits(0, 1);
    vx_parallel(visit_nested, &grain, 1, 1);
    check_visits(MOST, 1);
    vx_print_i64(vx_thread_count());
}

static void nothing(void *context, int64_t begin, int64_t end) { (void)context, (void)begin, (void)end; }

static void time_launches(void) {
    enum { ROUNDS = 200000 };
    int64_t best = INT64_MAX;
    for (int run = 0; run < 5; run++) {
        int64_t start = vx_time_now();
        for (int i = 0; i < ROUNDS; i++) vx_parallel(nothing, NULL, 2, 1);
        int64_t each = (vx_time_now() - start) / ROUNDS;
        best = each < best ? each : best;
    }
    vx_print_i64(best);
}

/* ---- aborting ---------------------------------------------------------------------------------------------- */
static void abort_in_task(void *context, int64_t begin, int64_t end) {
    (void)context, (void)begin, (void)end;
    vx_abort("inside a task");
}

static void abort_by(const char *way) {
    vx_print_str("before");
    if (!strcmp(way, "message")) vx_abort("the message");
    if (!strcmp(way, "index")) vx_abort_index("Vec", 7, 3);
    if (!strcmp(way, "negative")) vx_alloc(-1);
    if (!strcmp(way, "huge")) vx_alloc((int64_t)1 << 60);
    if (!strcmp(way, "twice")) {
        char *block = vx_alloc(10);
        vx_free(block);
        vx_free(block);
    }
    if (!strcmp(way, "task")) vx_parallel(abort_in_task, NULL, 1000, 1);
}

int32_t vx_program_main(void) {
    const char *what = vx_arg_count() > 0 ? vx_arg(0) : "", *how = vx_arg_count() > 1 ? vx_arg(1) : "";
    if (!strcmp(what, "numbers")) print_numbers(how);
    if (!strcmp(what, "much")) print_much(atol(how));
    if (!strcmp(what, "jobs")) run_jobs();
    if (!strcmp(what, "launches")) time_launches();
    if (!strcmp(what, "abort")) abort_by(how);
    if (!strcmp(what, "status")) return atoi(how);
    if (!strcmp(what, "level")) vx_print_i64(vx_cpu_level());
    if (!strcmp(what, "threads")) vx_print_i64(vx_thread_count());
    if (!strcmp(what, "arguments"))
        for (int32_t i = -1; i <= vx_arg_count(); i++) {
            vx_print_str(vx_arg(i) ? vx_arg(i) : "(none)");
            vx_print_str("\n");
        }
    if (!strcmp(what, "trace")) {
        vx_trace_begin("one \"quoted\"\n");
        vx_trace_value("bytes", -5);
        vx_trace_end("one");
    }
    return 0;
}
