/* SHA-256 (FIPS 180-4), in pieces. */
#include "internal.h"

#include <string.h>

typedef struct {
    uint32_t hash[8];
    uint64_t bytes;           /* so far */
    unsigned char block[64];  /* bytes % 64 of them are waiting */
} State;

_Static_assert(sizeof(State) <= VX_SHA256_STATE_BYTES, "abi.py promises that a state fits");

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static uint32_t big_endian(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void schedule(uint32_t w[64], const unsigned char *block) {
    for (int i = 0; i < 16; i++) w[i] = big_endian(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void compress(uint32_t hash[8], const unsigned char *block) {
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4], f = hash[5], g = hash[6], h = hash[7];
    uint32_t w[64];
    schedule(w, block);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25), choice = (e & f) ^ (~e & g);
        uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22), majority = (a & b) ^ (a & c) ^ (b & c);
        uint32_t first = h + s1 + choice + ROUND[i] + w[i];
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + s0 + majority;
    }
    hash[0] += a, hash[1] += b, hash[2] += c, hash[3] += d, hash[4] += e, hash[5] += f, hash[6] += g, hash[7] += h;
}

void vx_sha256_begin(void *state) {
    static const uint32_t start[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    State *s = state;
    memcpy(s->hash, start, sizeof start);
    s->bytes = 0;
}

void vx_sha256_update(void *state, const void *data, int64_t bytes) {
    State *s = state;
    const unsigned char *at = data;
    while (bytes > 0) {
        int64_t waiting = (int64_t)(s->bytes % 64), taken = 64 - waiting < bytes ? 64 - waiting : bytes;
        if (taken == 64) {
            compress(s->hash, at);
        } else {
            memcpy(s->block + waiting, at, (size_t)taken);
            if (waiting + taken == 64) compress(s->hash, s->block);
        }
        s->bytes += (uint64_t)taken;
        at += taken;
        bytes -= taken;
    }
}

void vx_sha256_end(void *state, void *digest) {
    static const unsigned char padding[64] = {0x80};
    State *s = state;
    uint64_t bits = s->bytes * 8, used = s->bytes % 64;
    unsigned char length[8], *out = digest;
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    vx_sha256_update(s, padding, (int64_t)(used < 56 ? 56 - used : 120 - used));
    vx_sha256_update(s, length, sizeof length);
    for (int i = 0; i < 32; i++) out[i] = (unsigned char)(s->hash[i / 4] >> (24 - 8 * (i % 4)));
}
