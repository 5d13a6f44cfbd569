/* Generated model tensors; abi.py defines every bit of them. */
#include "internal.h"

#include <string.h>

#pragma STDC FP_CONTRACT OFF

static const uint64_t GAMMA = 0x9E3779B97F4A7C15;

static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

typedef struct {
    void *values;
    uint64_t stream;
    float scale, bias;
    int32_t elem;
} Generation;

static float value_at(const Generation *g, int64_t i) {
    uint64_t bits = mix(g->stream + ((uint64_t)i + 1) * GAMMA) >> 40;
    float unit = (float)(uint32_t)bits * 0x1p-23f - 1.0f;
    float scaled = unit * g->scale;
    return scaled + g->bias;
}

static void generate(void *context, int64_t begin, int64_t end) {
    const Generation *g = context;
    switch (g->elem) {
        case VX_ELEM_F32:
            for (int64_t i = begin; i < end; i++) ((float *)g->values)[i] = value_at(g, i);
            break;
        case VX_ELEM_F64:
            for (int64_t i = begin; i < end; i++) ((double *)g->values)[i] = value_at(g, i);
            break;
        case VX_ELEM_F16:
            for (int64_t i = begin; i < end; i++) ((uint16_t *)g->values)[i] = vx_f32_to_f16(value_at(g, i));
            break;
        default:
            for (int64_t i = begin; i < end; i++) ((uint16_t *)g->values)[i] = vx_f32_to_bf16(value_at(g, i));
            break;
    }
}

void *vx_random_tensor(const vx_model_entry *entry, uint64_t seed) {
    enum { GRAIN = 1 << 16 };
    if (entry->elem < VX_ELEM_F32 || entry->elem > VX_ELEM_BF16)
        vx_fail("model: tensor \"%s\" is to be random, but its elements are not floats", entry->name);
    Generation g = {vx_alloc(entry->count * vx_elem_bytes(entry->elem)), mix(mix(seed + GAMMA) ^ entry->key),
                    entry->scale, entry->bias, entry->elem};
    vx_parallel(generate, &g, entry->count, GRAIN);
    return g.values;
}
