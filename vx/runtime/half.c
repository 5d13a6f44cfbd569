/* 16-bit floats in software, the same bits on every machine. */
#include "internal.h"

#include <string.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float vx_bf16_to_f32(uint16_t bits) { return float_of((uint32_t)bits << 16); }

uint16_t vx_f32_to_bf16(float value) {
    uint32_t bits = bits_of(value);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40); /* a quiet NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float vx_f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) { /* fraction * 2^-24, exact in f32 */
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t vx_f32_to_f16(float value) {
    uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more round to infinity */
    if (magnitude < 0x38800000) { /* below 2^-14: adding 1/2 leaves the multiple of 2^-24 in the low bits, rounded */
        float shifted = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000) >> 13));
}

#ifdef __clang__ /* zig cc; only the sanitizer tests compile this with gcc, whose run-time library has it */
/* Without optimisation LLVM passes bfloat values on as floats and back through this function, which zig's
   compiler-rt does not have. Such a float is always a bfloat value, so nothing is rounded. */
__bf16 __truncsfbf2(float value);
__attribute__((weak)) __bf16 __truncsfbf2(float value) {
    uint16_t bits = vx_f32_to_bf16(value);
    __bf16 result;
    memcpy(&result, &bits, sizeof result);
    return result;
}
#endif
