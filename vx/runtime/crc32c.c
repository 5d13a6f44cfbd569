/* CRC-32C (Castagnoli), by the processor's instruction on three interleaved streams where it has one. */
#include "internal.h"

#include <stdatomic.h>
#include <string.h>

static const uint32_t POLYNOMIAL = 0x82F63B78; /* bit-reversed */

/* ---- without an instruction -------------------------------------------------------------------------------- */
static uint32_t by_table(uint32_t crc, const unsigned char *data, int64_t bytes) {
    static uint32_t table[256];
    static atomic_bool built;
    if (!atomic_load_explicit(&built, memory_order_acquire)) { /* two threads may build it: the same values */
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
            table[i] = c;
        }
        atomic_store_explicit(&built, true, memory_order_release);
    }
    for (int64_t i = 0; i < bytes; i++) crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    return crc;
}

#if defined(__x86_64__) || defined(__aarch64__)
#if defined(__x86_64__)
#include <immintrin.h>
#define HARDWARE __attribute__((target("sse4.2,crc32")))
#define CRC_8(crc, value) ((uint32_t)_mm_crc32_u64(crc, value))
#define CRC_1(crc, value) _mm_crc32_u8(crc, value)
static bool has_instruction(void) { return vx_cpu_level() >= 2; }
#else
#include <arm_acle.h>
#include <sys/auxv.h>
#define HARDWARE __attribute__((target("crc")))
#define CRC_8(crc, value) __crc32cd(crc, value)
#define CRC_1(crc, value) __crc32cb(crc, value)
static bool has_instruction(void) { return getauxval(AT_HWCAP) >> 7 & 1; }
#endif

/* ---- three streams ----------------------------------------------------------------------------------------- */
/* The instruction takes three cycles but can start every cycle: three lanes side by side keep it busy. A lane's
 * register is then moved past the bytes behind it: a product with x^(8 * bytes) modulo the polynomial. */
typedef struct {
    int64_t bytes;
    uint32_t past; /* x^(8 * bytes) mod P, bit 31 the power 0 */
} Lane;

static const Lane LANES[] = {{8192, 0x28461564}, {1024, 0xe4172b16}};

static uint32_t product(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (int i = 0; i < 32; i++) {
        sum ^= a & 0x80000000 ? b : 0;
        a <<= 1;
        b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
    }
    return sum;
}

static uint64_t word(const unsigned char *data) {
    uint64_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

HARDWARE static uint32_t by_lanes(uint32_t crc, const unsigned char *data, const Lane *lane) {
    int64_t bytes = lane->bytes;
    uint32_t second = 0, third = 0;
    for (int64_t i = 0; i < bytes; i += 8) {
        crc = CRC_8(crc, word(data + i));
        second = CRC_8(second, word(data + bytes + i));
        third = CRC_8(third, word(data + 2 * bytes + i));
    }
    return product(product(crc, lane->past) ^ second, lane->past) ^ third;
}

HARDWARE static uint32_t by_instruction(uint32_t crc, const unsigned char *data, int64_t bytes) {
    for (size_t i = 0; i < sizeof LANES / sizeof *LANES; i++) {
        int64_t block = 3 * LANES[i].bytes;
        for (; bytes >= block; data += block, bytes -= block) crc = by_lanes(crc, data, &LANES[i]);
    }
    for (; bytes >= 8; data += 8, bytes -= 8) crc = CRC_8(crc, word(data));
    for (; bytes > 0; data++, bytes--) crc = CRC_1(crc, *data);
    return crc;
}
#else
static bool has_instruction(void) { return false; }
static uint32_t by_instruction(uint32_t crc, const unsigned char *data, int64_t bytes) {
    return by_table(crc, data, bytes);
}
#endif

uint32_t vx_crc32c(uint32_t crc, const void *data, int64_t bytes) {
    return ~(has_instruction() ? by_instruction : by_table)(~crc, data, bytes);
}
