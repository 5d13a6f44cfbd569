/* Memory of tensors and vectors: aligned, checked, and on huge pages where that pays. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 2 << 20 };
static const int64_t LARGE = 4 << 20; /* from here on blocks start on a huge page */
static const uint64_t MARK = 0x76785f616c6c6f63;

/* Stands just before the memory handed out. */
typedef struct {
    void *block;
    uint64_t mark;
} Header;

static Header *header_of(void *memory) { return (Header *)memory - 1; }

static void *allocate(int64_t bytes, bool zero) {
    if (bytes < 0) vx_fail_called("memory: %lld bytes asked for, less than none", (long long)bytes);
    size_t alignment = bytes >= LARGE ? HUGE_PAGE : LINE;
    size_t total = (size_t)bytes + alignment + LINE;
    char *block = zero ? calloc(1, total) : malloc(total); /* calloc knows which pages the system gave zeroed */
    if (!block) vx_fail_called("memory: no room for %lld bytes", (long long)bytes);
    uintptr_t start = ((uintptr_t)block + sizeof(Header) + alignment - 1) & ~(uintptr_t)(alignment - 1);
    void *memory = block + (start - (uintptr_t)block);
    *header_of(memory) = (Header){block, MARK};
    if (bytes >= LARGE) {
        size_t whole = (size_t)bytes & ~(size_t)(HUGE_PAGE - 1);
        madvise(memory, whole, MADV_HUGEPAGE); /* advice: a system without huge pages may refuse */
    }
    return memory;
}

void *vx_alloc(int64_t bytes) { return allocate(bytes, false); }

void *vx_alloc_zero(int64_t bytes) { return allocate(bytes, true); }

void vx_free(void *memory) {
    if (!memory) return;
    Header *header = header_of(memory);
    if (header->mark != MARK) vx_fail("memory: freed twice, or not from vx_alloc");
    header->mark = 0;
    free(header->block);
}

void vx_copy(void *target, const void *source, int64_t bytes) {
    if (bytes > 0) memmove(target, source, (size_t)bytes);
}

int32_t vx_compare(const void *left, const void *right, int64_t bytes) {
    return bytes > 0 ? memcmp(left, right, (size_t)bytes) : 0;
}

int64_t vx_elem_bytes(int32_t elem) {
    static const int8_t bytes[] = {
        [VX_ELEM_BOOL] = 1, [VX_ELEM_I8] = 1,   [VX_ELEM_I16] = 2,  [VX_ELEM_I32] = 4,    [VX_ELEM_I64] = 8,
        [VX_ELEM_F32] = 4,  [VX_ELEM_F64] = 8,  [VX_ELEM_F16] = 2,  [VX_ELEM_BF16] = 2,   [VX_ELEM_U8] = 1,
        [VX_ELEM_U16] = 2,  [VX_ELEM_U32] = 4,  [VX_ELEM_U64] = 8,  [VX_ELEM_I128] = 16,  [VX_ELEM_U128] = 16,
        [VX_ELEM_F8E4M3] = 1, [VX_ELEM_F8E5M2] = 1,
    };
    return elem >= 0 && elem < (int32_t)sizeof bytes ? bytes[elem] : 0;
}
