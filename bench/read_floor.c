/* How fast this machine reads memory: the floor of batch-1 decoding, whose every step reads all weights once.
 *
 *   read_floor BYTES THREADS PASSES   ->   one line, gigabytes per second of each pass
 *
 * In each pass every thread reads its share of one buffer front to back and adds it up in eight vectors; a pass
 * ends when all have. The first is not counted. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef uint64_t vec __attribute__((vector_size(64)));
enum { LANES = 8, MAX_THREADS = 256 };

static const vec *data;
static size_t vectors;
static int threads, passes;
static pthread_barrier_t gate;
static uint64_t sums[MAX_THREADS * 8];

static uint64_t read_share(size_t begin, size_t end)
{
    vec lane[LANES] = {0};
    for (size_t i = begin; i + LANES <= end; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += data[i + j];
    vec all = lane[0];
    for (int j = 1; j < LANES; j++)
        all += lane[j];
    return all[0] + all[1] + all[2] + all[3] + all[4] + all[5] + all[6] + all[7];
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *worker(void *argument)
{
    size_t number = (size_t)(uintptr_t)argument;
    size_t share = vectors / (size_t)threads;
    double bytes = (double)(share * (size_t)threads * sizeof(vec)), last = 0;
    for (int pass = -1; pass < passes; pass++) {
        sums[number * 8] += read_share(number * share, (number + 1) * share);
        pthread_barrier_wait(&gate);
        double now = seconds();
        if (number == 0 && pass >= 0)
            printf("%.3f ", 1e-9 * bytes / (now - last));
        last = now;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    size_t bytes = (size_t)strtoull(argv[1], NULL, 10);
    threads = atoi(argv[2]);
    passes = atoi(argv[3]);
    if (threads < 1 || threads > MAX_THREADS || bytes < 4096 * MAX_THREADS)
        return 2;
    vectors = bytes / sizeof(vec);
    vec *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory)
        return 2;
    for (size_t i = 0; i < vectors; i++)
        memory[i] = (vec){i, i + 1, i + 2, i + 3};
    data = memory;
    pthread_barrier_init(&gate, NULL, (unsigned)threads);
    pthread_t handles[MAX_THREADS];
    for (int i = 1; i < threads; i++)
        if (pthread_create(&handles[i], NULL, worker, (void *)(uintptr_t)i))
            return 2;
    worker(NULL);
    uint64_t sum = sums[0];
    for (int i = 1; i < threads; i++) {
        pthread_join(handles[i], NULL);
        sum += sums[i * 8];
    }
    fprintf(stderr, "sum %llu\n", (unsigned long long)sum);
    return 0;
}
