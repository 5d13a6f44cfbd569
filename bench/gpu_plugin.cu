// Kernels of bench/gpu_plugin.py. The last two parameters of each are those that Triton's kernels have.
#include <cstdint>

extern "C" __global__ void add(float *x, int n, float v, void *, void *) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] += v;
}

// As add, after `cycles`: whoever does not wait for it sees what was there before.
extern "C" __global__ void late_add(float *x, int n, float v, int cycles, void *, void *) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] += v;
}

// Block: position, seed. Stores (seed + 7 * position) % 97 and steps on.
extern "C" __global__ void token(uint64_t *ring, int *block, unsigned long long *counter, int slots, void *, void *) {
    int position = block[0];
    uint64_t word = (uint64_t)position << 32 | (uint32_t)((block[1] + 7 * position) % 97);
    block[0] = position + 1;
    *counter += 1;
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(ring + (position & (slots - 1))), "l"(word) : "memory");
}

// One of a chain: waits for the one before by itself, and lets the next one start.
extern "C" __global__ void link(float *x, void *, void *) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    if (blockIdx.x == 0 && threadIdx.x == 0) x[0] += 1;
}

// Reads n * 16 bytes.
extern "C" __global__ void read_all(const uint4 *x, long long n, unsigned *out, void *, void *) {
    unsigned sum = 0;
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 4 * stride) {
        uint4 v[4];
        for (int k = 0; k < 4; k++) v[k] = i + k * stride < n ? __ldcs(x + i + k * stride) : make_uint4(0, 0, 0, 0);
        for (int k = 0; k < 4; k++) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (sum == 12345u) *out = sum;
}
