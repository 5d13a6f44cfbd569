/* What the runtime's files share with each other; programs see only vx_abi.h. Include it first. */
#ifndef VX_INTERNAL_H
#define VX_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity, accept4, MADV_HUGEPAGE */
#endif

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vx_abi.h"

/* As vx_abort, with printf's formatting. */
_Noreturn void vx_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As vx_fail, with the place that vx_caller names. */
_Noreturn void vx_fail_called(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* output.c: bytes to the buffered stdout. */
void vx_put(const void *data, size_t bytes);

/* trace.c: one event, its fields as JSON text without braces; the end of the trace, once. */
void vx_trace_event(const char *event, const char *fields);
void vx_trace_finish(int32_t status);

/* number.c: shortest text of a value into `text` (at most VX_NUMBER_BYTES, no NUL); its length. */
enum { VX_NUMBER_BYTES = 64 };
size_t vx_text_i64(char *text, int64_t value);
size_t vx_text_u64(char *text, uint64_t value);
size_t vx_text_u128(char *text, uint64_t high, uint64_t low, bool negative);
size_t vx_text_f64(char *text, double value);
size_t vx_text_f32(char *text, float value);
size_t vx_text_f16(char *text, uint16_t bits);
size_t vx_text_bf16(char *text, uint16_t bits);

/* half.c: 16-bit floats; to 16 bits rounds to nearest, ties to even. */
float vx_f16_to_f32(uint16_t bits);
float vx_bf16_to_f32(uint16_t bits);
uint16_t vx_f32_to_f16(float value);
uint16_t vx_f32_to_bf16(float value);

/* random.c: `count` values of generated tensor `entry`, in memory of vx_alloc. */
void *vx_random_tensor(const vx_model_entry *entry, uint64_t seed);

/* identity.c: SHA-256 in hexadecimal of this executable, of its machine files, of its admission record; or empty. */
typedef struct {
    char artifact[65], machine[65], plan[65];
} vx_identity_text;
extern const vx_identity_text vx_identity;

/* Bytes of one element in host memory; 0 for an unknown tag or a type smaller than a byte. */
int64_t vx_elem_bytes(int32_t elem);

#endif
