/* A Llama as one would write it in an afternoon: plain loops over f32, one thread, left to the compiler.
 *
 *   plain FILE DIM HIDDEN LAYERS HEADS KV_HEADS VOCAB POSITIONS   ->   seconds of the decode steps, then the ids
 *
 * FILE holds the tensors emb att_norm wq wk wv wo ffn_norm w1 w3 w2 out_norm, one after the other; the embedding is
 * also the head. Greedy from id 1. The first step is not timed, so that all pages are there. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int dim, hidden, layers, heads, kv_heads, vocab, positions, head_dim, kv_dim;
static float *x, *y, *q, *attended, *gate, *up, *logits, *scores, *keys, *values;

static float *floats(size_t count)
{
    float *memory = calloc(count, sizeof(float));
    if (!memory)
        exit(2);
    return memory;
}

static void norm(float *out, const float *in, const float *weight)
{
    float sum = 0;
    for (int i = 0; i < dim; i++)
        sum += in[i] * in[i];
    float scale = 1.0f / sqrtf(sum / (float)dim + 1e-5f);
    for (int i = 0; i < dim; i++)
        out[i] = in[i] * scale * weight[i];
}

static void multiply(float *out, const float *matrix, const float *in, int rows, int columns)
{
    for (int r = 0; r < rows; r++) {
        float sum = 0;
        for (int c = 0; c < columns; c++)
            sum += matrix[(size_t)r * (size_t)columns + (size_t)c] * in[c];
        out[r] = sum;
    }
}

static void rotate(float *vector, int count, int position)
{
    for (int i = 0; i < count; i += 2) {
        float angle = (float)position * powf(10000.0f, -(float)(i % head_dim) / (float)head_dim);
        float cosine = cosf(angle), sine = sinf(angle), even = vector[i], odd = vector[i + 1];
        vector[i] = even * cosine - odd * sine;
        vector[i + 1] = even * sine + odd * cosine;
    }
}

static void attend(const float *k, const float *v, int position)
{
    for (int h = 0; h < heads; h++) {
        const float *query = q + h * head_dim;
        float *out = attended + h * head_dim, most = -1e30f, total = 0;
        int offset = h / (heads / kv_heads) * head_dim;
        for (int p = 0; p <= position; p++) {
            float sum = 0;
            for (int i = 0; i < head_dim; i++)
                sum += query[i] * k[(size_t)p * (size_t)kv_dim + (size_t)(offset + i)];
            scores[p] = sum / sqrtf((float)head_dim);
            most = fmaxf(most, scores[p]);
        }
        for (int p = 0; p <= position; p++)
            total += scores[p] = expf(scores[p] - most);
        memset(out, 0, (size_t)head_dim * sizeof(float));
        for (int p = 0; p <= position; p++)
            for (int i = 0; i < head_dim; i++)
                out[i] += scores[p] / total * v[(size_t)p * (size_t)kv_dim + (size_t)(offset + i)];
    }
}

static void add(float *to, const float *from)
{
    for (int i = 0; i < dim; i++)
        to[i] += from[i];
}

/* The next token after `token` at `position`. */
static int step(const float *weights, int token, int position)
{
    size_t d = (size_t)dim, h = (size_t)hidden, kv = (size_t)kv_dim, n = (size_t)layers, v = (size_t)vocab;
    const float *emb = weights, *att_norm = emb + v * d, *wq = att_norm + n * d, *wk = wq + n * d * d;
    const float *wv = wk + n * kv * d, *wo = wv + n * kv * d, *ffn_norm = wo + n * d * d, *w1 = ffn_norm + n * d;
    const float *w3 = w1 + n * h * d, *w2 = w3 + n * h * d, *out_norm = w2 + n * h * d;
    memcpy(x, emb + (size_t)token * d, d * sizeof(float));
    for (size_t l = 0; l < n; l++) {
        float *k = keys + l * (size_t)positions * kv, *val = values + l * (size_t)positions * kv;
        float *k_here = k + (size_t)position * kv, *v_here = val + (size_t)position * kv;
        norm(y, x, att_norm + l * d);
        multiply(q, wq + l * d * d, y, dim, dim);
        multiply(k_here, wk + l * kv * d, y, kv_dim, dim);
        multiply(v_here, wv + l * kv * d, y, kv_dim, dim);
        rotate(q, dim, position);
        rotate(k_here, kv_dim, position);
        attend(k, val, position);
        multiply(y, wo + l * d * d, attended, dim, dim);
        add(x, y);
        norm(y, x, ffn_norm + l * d);
        multiply(gate, w1 + l * h * d, y, hidden, dim);
        multiply(up, w3 + l * h * d, y, hidden, dim);
        for (int i = 0; i < hidden; i++)
            gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
        multiply(y, w2 + l * h * d, gate, dim, hidden);
        add(x, y);
    }
    norm(y, x, out_norm);
    multiply(logits, emb, y, vocab, dim);
    int best = 0;
    for (int i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    int *figures[] = {&dim, &hidden, &layers, &heads, &kv_heads, &vocab, &positions};
    if (argc != 9)
        return 2;
    for (int i = 0; i < 7; i++)
        *figures[i] = atoi(argv[i + 2]);
    head_dim = dim / heads;
    kv_dim = head_dim * kv_heads;
    struct stat status;
    int file = open(argv[1], O_RDONLY);
    if (file < 0 || fstat(file, &status))
        return 2;
    const float *weights = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (weights == MAP_FAILED)
        return 2;
    float **rows[] = {&x, &y, &q, &attended};
    for (int i = 0; i < 4; i++)
        *rows[i] = floats((size_t)dim);
    gate = floats((size_t)hidden);
    up = floats((size_t)hidden);
    logits = floats((size_t)vocab);
    scores = floats((size_t)positions);
    keys = floats((size_t)layers * (size_t)positions * (size_t)kv_dim);
    values = floats((size_t)layers * (size_t)positions * (size_t)kv_dim);
    int *ids = calloc((size_t)positions, sizeof(int));
    if (!ids)
        return 2;
    ids[0] = 1;
    ids[1] = step(weights, 1, 0);
    double begin = seconds();
    for (int p = 1; p + 1 < positions; p++)
        ids[p + 1] = step(weights, ids[p], p);
    printf("%.9f\n", seconds() - begin);
    for (int p = 0; p < positions; p++)
        printf("%d ", ids[p]);
    return 0;
}
