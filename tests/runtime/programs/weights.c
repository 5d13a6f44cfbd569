/* A program with a model: a tensor in the file, one beyond a short file's end, two generated ones. */
#include "vx_abi.h"

const vx_model_entry vx_model_table[] = {
    {"first", 16, 12, VX_ELEM_F32, 0, 3, 0, 0, 0},
    {"last", 1000, 8, VX_ELEM_F32, 0, 2, 0, 0, 0},
    {"random", VX_MODEL_GENERATED, 0, VX_ELEM_F32, 0, 200000, 0x1234567890abcdef, 0.125f, 0},
    {"norm", VX_MODEL_GENERATED, 0, VX_ELEM_F16, 0, 100, 7, 0.5f, 1.0f},
    {"sixteen", VX_MODEL_GENERATED, 0, VX_ELEM_BF16, 0, 100, 8, 3.0f, 0},
};
const int32_t vx_model_count = 5;
const char *const vx_model_file = "some.weights";
const int64_t vx_model_random_seed = 42;

int32_t vx_program_main(void) {
    int32_t index = vx_arg(0)[0] - '0';
    const vx_model_entry *entry = &vx_model_table[index];
    int64_t bytes = entry->count * (entry->elem == VX_ELEM_F32 ? 4 : 2);
    vx_print_bytes(vx_model_tensor(index), bytes);
    return vx_model_tensor(index) == vx_model_tensor(index) ? 0 : 1;
}
