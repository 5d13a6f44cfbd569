/* The contract between compiled programs and the runtime. Written by `python -m vx.runtime.abi`: edit abi.py. */
#ifndef VX_ABI_H
#define VX_ABI_H

#include <stdint.h>

#define VX_ABI_VERSION (1)
#define VX_EXIT_ABORT (101)
#define VX_EXIT_OUTPUT (102)
#define VX_EXIT_REFUSED (103)
#define VX_MAX_RANK (8)
#define VX_MODEL_GENERATED (-1)
#define VX_SHA256_STATE_BYTES (128)
#define VX_TRACE_VERSION (1)
#define VX_ELEM_BOOL (1)
#define VX_ELEM_I8 (2)
#define VX_ELEM_I16 (3)
#define VX_ELEM_I32 (4)
#define VX_ELEM_I64 (5)
#define VX_ELEM_F32 (6)
#define VX_ELEM_F64 (7)
#define VX_ELEM_F16 (8)
#define VX_ELEM_BF16 (9)
#define VX_ELEM_U8 (10)
#define VX_ELEM_U16 (11)
#define VX_ELEM_U32 (12)
#define VX_ELEM_U64 (13)
#define VX_ELEM_I128 (14)
#define VX_ELEM_U128 (15)
#define VX_ELEM_I4 (16)
#define VX_ELEM_U4 (17)
#define VX_ELEM_F8E4M3 (18)
#define VX_ELEM_F8E5M2 (19)
#define VX_ELEM_F4E2M1 (20)
#define VX_FILE_READ (0)
#define VX_FILE_CREATE (1)
#define VX_FILE_APPEND (2)

/* Works on indices begin..end of a parallel loop. */
typedef void (*vx_task)(void *context, int64_t begin, int64_t end);

typedef struct {
    const char *name;
    int64_t offset;
    int64_t bytes;
    int32_t elem;
    int32_t pad;
    int64_t count;
    uint64_t key;
    float scale;
    float bias;
} vx_model_entry;

extern const vx_model_entry vx_model_table[];
extern const int32_t vx_model_count;
extern const char *const vx_model_file;
extern const int64_t vx_model_random_seed;
extern const char *vx_caller;

/* Defined by the program: its `main`. The runtime's start-up calls it. */
int32_t vx_program_main(void);
/* 64-byte aligned memory, contents undefined. Aborts if there is none. */
void *vx_alloc(int64_t bytes);
/* As vx_alloc, zeroed. */
void *vx_alloc_zero(int64_t bytes);
/* Gives back what vx_alloc gave; null is allowed. */
void vx_free(void *memory);
/* Flushes stdout, prints `vx: message`, exits EXIT_ABORT. */
_Noreturn void vx_abort(const char *message);
/* As vx_abort, with EXIT_REFUSED: a role that is not part of the build is entered. */
_Noreturn void vx_refuse(const char *message);
/* As vx_abort: `index` is outside 0..count of `what`. */
_Noreturn void vx_abort_index(const char *what, int64_t index, int64_t count);
/* As vx_abort, with the place in vx_caller. */
_Noreturn void vx_abort_called(const char *message);
/* As vx_abort_index, with the place in vx_caller. */
_Noreturn void vx_abort_range(const char *what, int64_t index, int64_t count);
/* task(context, begin, end) over all of 0..count, at most `grain` indices a call; nested calls run inline. */
void vx_parallel(vx_task task, void *context, int64_t count, int64_t grain);
/* Threads that vx_parallel uses (VX_THREADS). */
int32_t vx_thread_count(void);
/* This thread's scratch memory, at least `bytes`; valid until its next call. */
void *vx_thread_scratch(int64_t bytes);
/* x86-64 level 1 to 4 (VX_CPU_LEVEL may lower it); 0 on other machines. */
int32_t vx_cpu_level(void);
/* Copies a tensor; strides in elements. Where the two overlap, as if the source had been read in full before. */
void vx_copy_strided(void *target, const int64_t *target_strides, const void *source, const int64_t *source_strides, const int64_t *extents, int32_t rank, int64_t elem_bytes);
/* The bytes of entry `index` of vx_model_table. Aborts if it cannot be read. */
const void *vx_model_tensor(int32_t index);
/* Writes out what was printed. */
void vx_flush(void);
void vx_print_i64(int64_t value);
void vx_print_u64(uint64_t value);
/* Points to 16 bytes, little-endian. */
void vx_print_i128(const void *value);
/* Points to 16 bytes, little-endian. */
void vx_print_u128(const void *value);
void vx_print_f32(float value);
void vx_print_f64(double value);
/* Bits 15:0 of `bits`. */
void vx_print_f16(int32_t bits);
/* Bits 15:0 of `bits`. */
void vx_print_bf16(int32_t bits);
/* `true` or `false`. */
void vx_print_bool(int32_t value);
void vx_print_str(const char *text);
void vx_print_bytes(const void *data, int64_t bytes);
/* Nested rows, six significant digits; strides in elements. */
void vx_print_tensor(const void *data, int32_t elem, int32_t rank, const int64_t *extents, const int64_t *strides);
/* Bytes read, 0 at the end, or -errno. */
int64_t vx_stdin_read(void *data, int64_t bytes);
/* To stderr, unbuffered; flushes stdout first. */
void vx_eprint_bytes(const void *data, int64_t bytes);
/* Flushes and ends the process. */
_Noreturn void vx_exit(int32_t status);
/* Writes the text (at most 64 bytes, no NUL); its length. */
int64_t vx_format_i64(int64_t value, void *text);
/* As vx_format_i64. */
int64_t vx_format_u64(uint64_t value, void *text);
/* As vx_format_i64. */
int64_t vx_format_f32(float value, void *text);
/* As vx_format_i64. */
int64_t vx_format_f64(double value, void *text);
/* 1 if all of the text is one number, written to `value`; else 0. */
int32_t vx_parse_f64(const char *text, int64_t bytes, double *value);
/* As vx_parse_f64, rounded once to f32. */
int32_t vx_parse_f32(const char *text, int64_t bytes, float *value);
/* Arguments after the program's name. */
int32_t vx_arg_count(void);
/* Argument `index`, from 0; null outside. */
const char *vx_arg(int32_t index);
/* An environment variable, or null. */
const char *vx_env(const char *name);
/* memmove */
void vx_copy(void *target, const void *source, int64_t bytes);
/* memcmp: negative, 0 or positive. */
int32_t vx_compare(const void *left, const void *right, int64_t bytes);
/* FILE_* mode; a descriptor or -errno. */
int32_t vx_file_open(const char *path, int32_t mode);
/* Bytes, or -errno (a directory is -EISDIR). */
int64_t vx_file_size(int32_t file);
/* Reads until `bytes` or the end; bytes read, or -errno. */
int64_t vx_file_read(int32_t file, void *data, int64_t bytes);
/* Writes all; `bytes`, or -errno. */
int64_t vx_file_write(int32_t file, const void *data, int64_t bytes);
/* 0 or -errno. */
int32_t vx_file_close(int32_t file);
/* The first `bytes` of a file, read-only; null if refused. */
void *vx_file_map(int32_t file, int64_t bytes);
void vx_file_unmap(void *data, int64_t bytes);
/* What an errno means, in English. */
const char *vx_error_text(int32_t code);
/* Monotonic nanoseconds. */
int64_t vx_time_now(void);
/* Nanoseconds since 1970 (UTC). */
int64_t vx_time_unix(void);
void vx_time_sleep(int64_t nanoseconds);
/* CRC-32C continued from `crc` (0 at first). */
uint32_t vx_crc32c(uint32_t crc, const void *data, int64_t bytes);
/* `state`: SHA256_STATE_BYTES. */
void vx_sha256_begin(void *state);
void vx_sha256_update(void *state, const void *data, int64_t bytes);
/* Writes 32 bytes. */
void vx_sha256_end(void *state, void *digest);
/* `address` is HOST:PORT (port 0: any free one); a descriptor or -errno. */
int32_t vx_tcp_listen(const char *address, int32_t backlog);
/* The local port, or -errno. */
int32_t vx_tcp_port(int32_t socket);
/* A descriptor or -errno. */
int32_t vx_tcp_accept(int32_t socket, int64_t deadline);
/* A descriptor or -errno. */
int32_t vx_tcp_connect(const char *address, int64_t deadline);
/* At least one byte; 0 at the end of the stream. */
int64_t vx_tcp_read(int32_t socket, void *data, int64_t bytes, int64_t deadline);
/* `bytes`, or fewer if the stream ended. */
int64_t vx_tcp_read_exact(int32_t socket, void *data, int64_t bytes, int64_t deadline);
/* At least one byte written. */
int64_t vx_tcp_write(int32_t socket, const void *data, int64_t bytes, int64_t deadline);
/* `bytes`. */
int64_t vx_tcp_write_all(int32_t socket, const void *data, int64_t bytes, int64_t deadline);
/* Ends our side of the stream; the peer reads its end. */
int32_t vx_tcp_finish(int32_t socket);
void vx_tcp_close(int32_t socket);
/* 1 if VX_TRACE names a file. */
int32_t vx_trace_enabled(void);
void vx_trace_begin(const char *name);
void vx_trace_end(const char *name);
void vx_trace_value(const char *name, int64_t value);

#endif
