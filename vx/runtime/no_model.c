/* What a program without a model has; one with a model defines these itself. In a file of its own, so that
 * no code is compiled against this size of the table. */
#include "vx_abi.h"

__attribute__((weak)) const vx_model_entry vx_model_table[1] = {{0}};
__attribute__((weak)) const int32_t vx_model_count = 0;
__attribute__((weak)) const char *const vx_model_file = "";
__attribute__((weak)) const int64_t vx_model_random_seed = -1;
