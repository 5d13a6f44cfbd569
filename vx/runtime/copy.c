/* Copying tensors between layouts: contiguous runs whole, the rest element by element. */
#include "internal.h"

#include <stdbool.h>
#include <string.h>

/* Dimensions of one copy, outermost first; strides in bytes. */
typedef struct {
    int64_t extents[VX_MAX_RANK], target[VX_MAX_RANK], source[VX_MAX_RANK];
    int32_t rank;
    int64_t run; /* bytes that are contiguous on both sides */
} Plan;

/* Drops dimensions of one element, and joins each dimension with the one inside it where both sides run on. */
static Plan plan_of(const int64_t *target, const int64_t *source, const int64_t *extents, int32_t rank, int64_t elem) {
    Plan p = {.rank = 0, .run = elem};
    for (int32_t i = 0; i < rank; i++) {
        if (extents[i] == 1) continue;
        int64_t t = target[i] * elem, s = source[i] * elem, outer = p.rank - 1;
        if (p.rank > 0 && p.target[outer] == t * extents[i] && p.source[outer] == s * extents[i]) {
            p.extents[outer] *= extents[i];
        } else {
            outer = p.rank++;
            p.extents[outer] = extents[i];
        }
        p.target[outer] = t;
        p.source[outer] = s;
    }
    int32_t last = p.rank - 1;
    if (p.rank > 0 && p.target[last] == elem && p.source[last] == elem) {
        p.run = elem * p.extents[last];
        p.rank = last;
    }
    return p;
}

/* One dimension of runs; the switch lets the compiler use plain moves for single elements. */
static void copy_row(char *target, const char *source, const Plan *p, int32_t level) {
    int64_t count = p->extents[level], t = p->target[level], s = p->source[level];
#define MOVE(bytes) \
    for (int64_t i = 0; i < count; i++) memcpy(target + i * t, source + i * s, bytes)
    switch (p->run) {
        case 1: MOVE(1); break;
        case 2: MOVE(2); break;
        case 4: MOVE(4); break;
        case 8: MOVE(8); break;
        case 16: MOVE(16); break;
        default: MOVE((size_t)p->run); break;
    }
#undef MOVE
}

static void copy_level(char *target, const char *source, const Plan *p, int32_t level) {
    if (level == p->rank - 1) {
        copy_row(target, source, p, level);
        return;
    }
    for (int64_t i = 0; i < p->extents[level]; i++)
        copy_level(target + i * p->target[level], source + i * p->source[level], p, level + 1);
}

typedef struct {
    char *target;
    const char *source;
} Block;

static void copy_part(void *context, int64_t begin, int64_t end) {
    Block *block = context;
    memcpy(block->target + begin, block->source + begin, (size_t)(end - begin));
}

/* Large blocks go over all threads: on first touch the system's clearing of pages costs more than the copy. */
static void copy_block(void *target, const void *source, int64_t bytes) {
    enum { PART = 1 << 20, SERIAL = 4 << 20 };
    Block block = {target, source};
    if (bytes < SERIAL) memcpy(target, source, (size_t)bytes);
    else vx_parallel(copy_part, &block, bytes, PART);
}

static void copy(void *target, const void *source, const Plan *plan) {
    if (plan->rank == 0) copy_block(target, source, plan->run);
    else copy_level(target, source, plan, 0);
}

/* Bytes from the first element to the end of the last. */
static int64_t reach(const Plan *p, const int64_t *strides) {
    int64_t bytes = p->run;
    for (int32_t i = 0; i < p->rank; i++) bytes += (p->extents[i] - 1) * strides[i];
    return bytes;
}

static bool overlap(const Plan *p, const char *target, const char *source) {
    return target < source + reach(p, p->source) && source < target + reach(p, p->target);
}

/* By way of a dense copy. */
static void copy_apart(void *target, const void *source, const Plan *plan) {
    Plan in = *plan, out = *plan;
    int64_t bytes = plan->run;
    for (int32_t i = plan->rank - 1; i >= 0; i--) {
        in.target[i] = out.source[i] = bytes;
        bytes *= plan->extents[i];
    }
    void *dense = vx_alloc(bytes);
    copy(dense, source, &in);
    copy(target, dense, &out);
    vx_free(dense);
}

void vx_copy_strided(void *target, const int64_t *target_strides, const void *source, const int64_t *source_strides,
                     const int64_t *extents, int32_t rank, int64_t elem_bytes) {
    if (rank < 0 || rank > VX_MAX_RANK) vx_fail("copy: a tensor of rank %d; at most %d", rank, VX_MAX_RANK);
    for (int32_t i = 0; i < rank; i++)
        if (extents[i] <= 0) return;
    Plan plan = plan_of(target_strides, source_strides, extents, rank, elem_bytes);
    if (overlap(&plan, target, source)) copy_apart(target, source, &plan);
    else copy(target, source, &plan);
}
