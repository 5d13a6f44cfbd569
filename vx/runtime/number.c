/* Numbers as text and back: the fewest digits that read back as the same value of the same type. */
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- integers ---------------------------------------------------------------------------------------------- */
size_t vx_text_u64(char *text, uint64_t value) {
    return (size_t)snprintf(text, VX_NUMBER_BYTES, "%llu", (unsigned long long)value);
}

size_t vx_text_i64(char *text, int64_t value) {
    return (size_t)snprintf(text, VX_NUMBER_BYTES, "%lld", (long long)value);
}

size_t vx_text_u128(char *text, uint64_t high, uint64_t low, bool negative) {
    unsigned __int128 value = (unsigned __int128)high << 64 | low;
    if (negative) value = -value;
    char reversed[VX_NUMBER_BYTES];
    size_t digits = 0, length = 0;
    do {
        reversed[digits++] = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value);
    if (negative) text[length++] = '-';
    while (digits) text[length++] = reversed[--digits];
    return length;
}

/* ---- floats ------------------------------------------------------------------------------------------------ */
/* A float type seen through f64, which holds every value of each exactly. */
typedef struct {
    int sure_digits;         /* so many always survive decimal -> type -> decimal (normal numbers) */
    int most_digits;         /* so many always identify a value */
    double smallest_normal;
    bool (*reads_as)(const char *text, double value);
} FloatType;

static bool reads_as_f64(const char *text, double value) { return strtod(text, NULL) == value; }
static bool reads_as_f32(const char *text, double value) { return strtof(text, NULL) == (float)value; }
/* Texts of so few digits are never within an f64's or f32's rounding of a tie, so rounding twice is exact. */
static bool reads_as_f16(const char *text, double value) {
    return vx_f16_to_f32(vx_f32_to_f16(strtof(text, NULL))) == value;
}
static bool reads_as_bf16(const char *text, double value) {
    return vx_bf16_to_f32(vx_f32_to_bf16(strtof(text, NULL))) == value;
}

static const FloatType F64 = {15, 17, 0x1p-1022, reads_as_f64};
static const FloatType F32 = {6, 9, 0x1p-126, reads_as_f32};
static const FloatType F16 = {3, 5, 0x1p-14, reads_as_f16};
static const FloatType BF16 = {2, 4, 0x1p-126, reads_as_bf16};

/* Significant digits without trailing zeros, and the power of ten of the first. */
typedef struct {
    char digits[VX_NUMBER_BYTES];
    int count, exponent;
} Decimal;

static Decimal decimal_of(const char *scientific) {
    Decimal d = {{0}, 0, 0};
    const char *at = scientific;
    for (; *at && *at != 'e'; at++)
        if (*at != '.') d.digits[d.count++] = *at;
    d.exponent = atoi(at + 1);
    while (d.count > 1 && d.digits[d.count - 1] == '0') d.count--;
    return d;
}

/* A power of two has more room above than below: the digits nearest to it may read back as its lower
 * neighbour although the next digits up are still its own. */
static bool next_up(char *scientific, int digits, double value, const FloatType *type) {
    int exponent;
    if (frexp(value, &exponent) != 0.5) return false;
    char *last = scientific + (digits == 1 ? 0 : digits);
    if (*last == '9') return false; /* a carry would make a shorter text, tried before */
    ++*last;
    if (type->reads_as(scientific, value)) return true;
    --*last;
    return false;
}

static Decimal shortest(double magnitude, const FloatType *type) {
    char text[VX_NUMBER_BYTES];
    int digits = magnitude < type->smallest_normal ? 1 : type->sure_digits;
    for (;; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, magnitude);
        if (digits >= type->most_digits || type->reads_as(text, magnitude)) break;
        if (next_up(text, digits, magnitude, type)) break;
    }
    return decimal_of(text);
}

static size_t lay_out(char *text, const Decimal *d) {
    size_t length = 0;
    int point = d->exponent + 1; /* digits before the point */
    if (d->exponent <= -5 || d->exponent >= 16) {
        text[length++] = d->digits[0];
        if (d->count > 1) text[length++] = '.';
        memcpy(text + length, d->digits + 1, (size_t)(d->count - 1));
        length += (size_t)(d->count - 1);
        return length + (size_t)snprintf(text + length, 8, "e%+03d", d->exponent);
    }
    if (point <= 0) {
        text[length++] = '0';
        text[length++] = '.';
        for (int i = point; i < 0; i++) text[length++] = '0';
        memcpy(text + length, d->digits, (size_t)d->count);
        return length + (size_t)d->count;
    }
    for (int i = 0; i < d->count || i < point; i++) {
        if (i == point) text[length++] = '.';
        text[length++] = i < d->count ? d->digits[i] : '0';
    }
    return length;
}

static size_t text_of(char *text, double value, const FloatType *type) {
    if (isnan(value)) return memcpy(text, "nan", 3), 3;
    size_t sign = signbit(value) ? 1 : 0;
    if (sign) *text++ = '-';
    if (isinf(value)) return memcpy(text, "inf", 3), sign + 3;
    if (value == 0) return *text = '0', sign + 1;
    Decimal d = shortest(fabs(value), type);
    return sign + lay_out(text, &d);
}

size_t vx_text_f64(char *text, double value) { return text_of(text, value, &F64); }
size_t vx_text_f32(char *text, float value) { return text_of(text, value, &F32); }
size_t vx_text_f16(char *text, uint16_t bits) { return text_of(text, vx_f16_to_f32(bits), &F16); }
size_t vx_text_bf16(char *text, uint16_t bits) { return text_of(text, vx_bf16_to_f32(bits), &BF16); }

int64_t vx_format_i64(int64_t value, void *text) { return (int64_t)vx_text_i64(text, value); }
int64_t vx_format_u64(uint64_t value, void *text) { return (int64_t)vx_text_u64(text, value); }
int64_t vx_format_f32(float value, void *text) { return (int64_t)vx_text_f32(text, value); }
int64_t vx_format_f64(double value, void *text) { return (int64_t)vx_text_f64(text, value); }

/* ---- reading ----------------------------------------------------------------------------------------------- */
/* Decimal floats, nan and inf; no spaces, no hexadecimal. */
static bool is_number(const char *text, int64_t bytes) {
    enum { LONGEST = 400 };
    if (bytes < 1 || bytes > LONGEST) return false;
    for (int64_t i = 0; i < bytes; i++)
        if (!strchr("+-.0123456789eEinfaINFA", text[i]) || !text[i]) return false;
    return true;
}

static bool copy_number(char *copy, const char *text, int64_t bytes) {
    if (!is_number(text, bytes)) return false;
    memcpy(copy, text, (size_t)bytes);
    copy[bytes] = 0;
    return true;
}

int32_t vx_parse_f64(const char *text, int64_t bytes, double *value) {
    char copy[512], *end;
    if (!copy_number(copy, text, bytes)) return 0;
    *value = strtod(copy, &end);
    return *end == 0;
}

int32_t vx_parse_f32(const char *text, int64_t bytes, float *value) {
    char copy[512], *end;
    if (!copy_number(copy, text, bytes)) return 0;
    *value = strtof(copy, &end);
    return *end == 0;
}
