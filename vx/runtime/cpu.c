/* Which x86-64 level this machine runs, asked of the processor itself. */
#include "internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

typedef struct {
    unsigned eax, ebx, ecx, edx;
} Cpuid;

static Cpuid cpuid(unsigned leaf, unsigned subleaf) {
    Cpuid r = {0, 0, 0, 0};
    __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
    return r;
}

static bool has(unsigned value, unsigned bits) { return (value & bits) == bits; }

/* Registers that the operating system saves: bits 2:1 AVX, bits 7:5 AVX-512. */
static unsigned saved_registers(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int32_t machine_level(void) {
    Cpuid basic = cpuid(1, 0), more = cpuid(7, 0), extended = cpuid(0x80000001, 0);
    const unsigned v2 = bit_SSE3 | bit_SSSE3 | bit_SSE41 | bit_SSE42 | bit_POPCNT | bit_CMPXCHG16B;
    if (!has(basic.ecx, v2) || !has(extended.ecx, bit_LAHF_LM)) return 1;
    const unsigned v3 = bit_AVX | bit_F16C | bit_FMA | bit_MOVBE | bit_OSXSAVE;
    const unsigned v3_more = bit_AVX2 | bit_BMI | bit_BMI2;
    if (!has(basic.ecx, v3) || !has(more.ebx, v3_more) || !has(extended.ecx, bit_LZCNT)) return 2;
    unsigned saved = saved_registers();
    if (!has(saved, 0x06)) return 2;
    const unsigned v4 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    return has(more.ebx, v4) && has(saved, 0xe6) ? 4 : 3;
}
#else
static int32_t machine_level(void) { return 0; }
#endif

static int32_t chosen_level(void) {
    int32_t machine = machine_level();
    const char *wish = getenv("VX_CPU_LEVEL");
    if (!wish) return machine;
    int32_t lowest = machine > 0 ? 1 : 0, level = wish[0] - '0';
    if (strlen(wish) != 1 || level < lowest || level > machine)
        vx_fail("VX_CPU_LEVEL is \"%s\": it must be a whole number from %d to %d on this machine", wish, lowest,
                machine);
    return level;
}

int32_t vx_cpu_level(void) {
    static _Atomic int32_t known = -1;
    int32_t level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level < 0) {
        level = chosen_level();
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return level;
}
