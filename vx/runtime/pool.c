/* The thread pool behind parallel loops.
 *
 * One job at a time, its indices handed out in chunks by a shared counter. The launcher works too, and waits
 * only for workers that entered the job: one that is asleep or not scheduled is never waited for. All of a
 * job's state is in `pool`; launching allocates nothing. */
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 1024, CACHE_LINE = 128, STACK_BYTES = 8 << 20, SPIN_NANOSECONDS = 50000, SPINS_PER_LOOK = 64 };

/* gate: bits 63:32 number of the job, bit 31 open, bits 30:0 workers inside. The plain fields are written
 * only while the gate is closed and nobody is inside, and read only by those who entered. */
static struct {
    _Alignas(CACHE_LINE) _Atomic uint64_t gate;
    vx_task task;
    void *context;
    int64_t count, grain;
    _Alignas(CACHE_LINE) _Atomic int64_t next;
    _Alignas(CACHE_LINE) _Atomic int32_t sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    int32_t threads;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

static const uint64_t OPEN = 1u << 31, INSIDE = (1u << 31) - 1, ONE_JOB = (uint64_t)1 << 32;

static _Thread_local bool inside_job;

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* ---- workers ----------------------------------------------------------------------------------------------- */
static void work_on_job(void) {
    vx_task task = pool.task;
    void *context = pool.context;
    int64_t count = pool.count, grain = pool.grain;
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&pool.next, grain, memory_order_relaxed);
        if (begin >= count) return;
        task(context, begin, count - begin < grain ? count : begin + grain);
    }
}

static bool has_job(uint64_t gate, uint64_t last) { return (gate & OPEN) && gate >> 32 != last; }

/* Waits for an open job other than `last` by looking, up to a time. */
static bool spin_for_job(uint64_t last) {
    int64_t until = vx_time_now() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (has_job(atomic_load_explicit(&pool.gate, memory_order_relaxed), last)) return true;
            relax();
        }
    } while (vx_time_now() < until);
    return false;
}

/* `sleepers` is raised before the last look and the launcher opens the gate before it reads `sleepers`
 * (both sequentially consistent): one of the two sees the other. */
static void sleep_for_job(uint64_t last) {
    pthread_mutex_lock(&pool.mutex);
    atomic_fetch_add(&pool.sleepers, 1);
    while (!has_job(atomic_load(&pool.gate), last)) pthread_cond_wait(&pool.work, &pool.mutex);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.mutex);
}

/* Enters the open job, if there is one besides `last`; `last` becomes its number. */
static bool enter_job(uint64_t *last) {
    uint64_t gate = atomic_load_explicit(&pool.gate, memory_order_relaxed);
    while (has_job(gate, *last)) {
        if (atomic_compare_exchange_weak_explicit(&pool.gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
            *last = gate >> 32;
            return true;
        }
        relax();
    }
    return false;
}

static void *worker(void *unused) {
    (void)unused;
    uint64_t last = 0;
    inside_job = true;
    for (;;) {
        if (!spin_for_job(last)) sleep_for_job(last);
        if (!enter_job(&last)) continue;
        work_on_job();
        atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_release);
    }
    return NULL;
}

/* ---- how many ---------------------------------------------------------------------------------------------- */
static int32_t threads_asked_for(const char *text) {
    char *end;
    errno = 0;
    long threads = strtol(text, &end, 10);
    if (errno || end == text || *end || threads < 1 || threads > MOST_THREADS)
        vx_fail("VX_THREADS is \"%s\": it must be a whole number from 1 to %d", text, MOST_THREADS);
    return (int32_t)threads;
}

static int32_t cores_allowed(void) {
    cpu_set_t set;
    int32_t cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return cores > MOST_THREADS ? MOST_THREADS : cores;
}

/* Up to two numbers at the start of a file; how many there were. */
static int read_numbers(const char *path, long long *first, long long *second) {
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    int count = fscanf(file, "%lld %lld", first, second);
    fclose(file);
    return count < 0 ? 0 : count;
}

/* Cores' worth of time that a container may use, rounded up; 0 if unlimited (written "max" or -1). */
static int64_t container_limit(void) {
    long long quota = 0, period = 0, unused;
    bool known = read_numbers("/sys/fs/cgroup/cpu.max", &quota, &period) == 2 ||
                 (read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota, &unused) == 1 &&
                  read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period, &unused) == 1);
    return known && quota > 0 && period > 0 ? (quota + period - 1) / period : 0;
}

static int32_t wanted_threads(void) {
    const char *asked = getenv("VX_THREADS");
    if (asked) return threads_asked_for(asked);
    int32_t cores = cores_allowed();
    int64_t limit = container_limit();
    return limit > 0 && limit < cores ? (int32_t)limit : cores;
}

int32_t vx_thread_count(void) {
    if (pool.threads == 0) pool.threads = wanted_threads();
    return pool.threads;
}

static void start_worker(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(&thread, &attributes, worker, NULL);
    pthread_attr_destroy(&attributes);
    if (error) vx_fail("threads: the system refused one of %d (VX_THREADS): %s", pool.threads, strerror(error));
}

static void start_workers_once(void) {
    static bool started;
    if (started) return;
    started = true;
    for (int32_t i = 1; i < pool.threads; i++) start_worker();
}

/* ---- launching --------------------------------------------------------------------------------------------- */
static void wake(int64_t helpers) {
    int32_t asleep = atomic_load(&pool.sleepers);
    if (asleep == 0) return;
    pthread_mutex_lock(&pool.mutex);
    if (helpers >= asleep) pthread_cond_broadcast(&pool.work);
    else
        for (int64_t i = 0; i < helpers; i++) pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
}

static void wait_for_workers(void) {
    for (int spins = 0; atomic_load_explicit(&pool.gate, memory_order_acquire) & INSIDE; spins++) {
        if (spins < 4096) relax();
        else sched_yield(); /* a worker lost its core: let it have this one */
    }
}

static void run_inline(vx_task task, void *context, int64_t count, int64_t grain) {
    for (int64_t begin = 0; begin < count; begin += grain)
        task(context, begin, count - begin < grain ? count : begin + grain);
}

void vx_parallel(vx_task task, void *context, int64_t count, int64_t grain) {
    if (grain < 1) vx_fail("vx_parallel: a grain of %lld", (long long)grain);
    if (count <= grain || inside_job || vx_thread_count() == 1) {
        run_inline(task, context, count, grain);
        return;
    }
    start_workers_once();
    pool.task = task;
    pool.context = context;
    pool.count = count;
    pool.grain = grain;
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    uint64_t job = (atomic_load_explicit(&pool.gate, memory_order_relaxed) & ~INSIDE & ~OPEN) + ONE_JOB;
    atomic_store(&pool.gate, job | OPEN);
    wake((count - 1) / grain);
    inside_job = true;
    work_on_job();
    inside_job = false;
    atomic_fetch_and_explicit(&pool.gate, ~OPEN, memory_order_acq_rel);
    wait_for_workers();
}

/* ---- scratch ----------------------------------------------------------------------------------------------- */
void *vx_thread_scratch(int64_t bytes) {
    static _Thread_local void *scratch;
    static _Thread_local int64_t capacity;
    if (bytes > capacity || !scratch) {
        vx_free(scratch);
        scratch = NULL;
        scratch = vx_alloc(bytes);
        capacity = bytes;
    }
    return scratch;
}
