/* `print` of every type to the buffered stdout. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

void vx_print_bytes(const void *data, int64_t bytes) {
    if (bytes > 0) vx_put(data, (size_t)bytes);
}

void vx_print_str(const char *text) { vx_put(text, strlen(text)); }

void vx_print_bool(int32_t value) { vx_print_str(value ? "true" : "false"); }

void vx_print_i64(int64_t value) {
    char text[VX_NUMBER_BYTES];
    vx_put(text, vx_text_i64(text, value));
}

void vx_print_u64(uint64_t value) {
    char text[VX_NUMBER_BYTES];
    vx_put(text, vx_text_u64(text, value));
}

static void print_128(const void *value, bool is_signed) {
    uint64_t halves[2];
    memcpy(halves, value, sizeof halves);
    char text[VX_NUMBER_BYTES];
    vx_put(text, vx_text_u128(text, halves[1], halves[0], is_signed && halves[1] >> 63));
}

void vx_print_i128(const void *value) { print_128(value, true); }

void vx_print_u128(const void *value) { print_128(value, false); }

void vx_print_f64(double value) {
    char text[VX_NUMBER_BYTES];
    vx_put(text, vx_text_f64(text, value));
}

void vx_print_f32(float value) {
    char text[VX_NUMBER_BYTES];
    vx_put(text, vx_text_f32(text, value));
}

void vx_print_f16(int32_t bits) {
    char text[VX_NUMBER_BYTES];
    vx_put(text, vx_text_f16(text, (uint16_t)bits));
}

void vx_print_bf16(int32_t bits) {
    char text[VX_NUMBER_BYTES];
    vx_put(text, vx_text_bf16(text, (uint16_t)bits));
}

/* ---- tensors ----------------------------------------------------------------------------------------------- */
static void print_rounded(double value) {
    char text[VX_NUMBER_BYTES];
    vx_put(text, (size_t)snprintf(text, sizeof text, "%.6g", value));
}

#define READ(type) (*(const type *)at)

static bool print_integer(const char *at, int32_t elem) {
    switch (elem) {
        case VX_ELEM_BOOL: vx_print_bool(READ(uint8_t)); return true;
        case VX_ELEM_I8: vx_print_i64(READ(int8_t)); return true;
        case VX_ELEM_I16: vx_print_i64(READ(int16_t)); return true;
        case VX_ELEM_I32: vx_print_i64(READ(int32_t)); return true;
        case VX_ELEM_I64: vx_print_i64(READ(int64_t)); return true;
        case VX_ELEM_U8: vx_print_u64(READ(uint8_t)); return true;
        case VX_ELEM_U16: vx_print_u64(READ(uint16_t)); return true;
        case VX_ELEM_U32: vx_print_u64(READ(uint32_t)); return true;
        case VX_ELEM_U64: vx_print_u64(READ(uint64_t)); return true;
        case VX_ELEM_I128: vx_print_i128(at); return true;
        case VX_ELEM_U128: vx_print_u128(at); return true;
        default: return false;
    }
}

static void print_element(const char *at, int32_t elem) {
    if (print_integer(at, elem)) return;
    switch (elem) {
        case VX_ELEM_F32: print_rounded(READ(float)); return;
        case VX_ELEM_F64: print_rounded(READ(double)); return;
        case VX_ELEM_F16: print_rounded(vx_f16_to_f32(READ(uint16_t))); return;
        case VX_ELEM_BF16: print_rounded(vx_bf16_to_f32(READ(uint16_t))); return;
        default: vx_fail("print: a tensor of element type %d has no text", elem);
    }
}

typedef struct {
    const int64_t *extents, *strides;
    int64_t elem_bytes;
    int32_t elem, rank;
} Layout;

static void print_level(const char *data, const Layout *layout, int32_t level) {
    if (level == layout->rank) {
        print_element(data, layout->elem);
        return;
    }
    vx_put("[", 1);
    for (int64_t i = 0; i < layout->extents[level]; i++) {
        if (i > 0 && level == layout->rank - 1) vx_put(",   ", 4);
        if (i > 0 && level < layout->rank - 1) {
            vx_put(",\n", 2);
            for (int32_t space = 0; space <= level; space++) vx_put(" ", 1);
        }
        print_level(data + i * layout->strides[level] * layout->elem_bytes, layout, level + 1);
    }
    vx_put("]", 1);
}

void vx_print_tensor(const void *data, int32_t elem, int32_t rank, const int64_t *extents, const int64_t *strides) {
    if (rank < 0 || rank > VX_MAX_RANK) vx_fail("print: a tensor of rank %d; at most %d", rank, VX_MAX_RANK);
    Layout layout = {extents, strides, vx_elem_bytes(elem), elem, rank};
    print_level(data, &layout, 0);
}
