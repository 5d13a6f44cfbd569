/* The program's model: its file mapped once, each tensor checked against it before use. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    pthread_mutex_t mutex;
    char path[PATH_MAX];
    const char *data; /* null until mapped */
    int64_t bytes;
    void **generated; /* one per entry, null until generated */
} model = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void join_path(const char *directory, size_t length, const char *rest) {
    int written = snprintf(model.path, sizeof model.path, "%.*s/%s", (int)length, directory, rest);
    if (written < 0 || (size_t)written >= sizeof model.path) vx_fail("model: the path of %s is too long", rest);
}

/* VX_MODEL_DIR, else the directory `model` beside the executable. */
static void find_file(void) {
    const char *directory = getenv("VX_MODEL_DIR");
    if (directory && *directory) {
        join_path(directory, strlen(directory), vx_model_file);
        return;
    }
    char self[PATH_MAX], beside[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self);
    if (length < 0 || (size_t)length >= sizeof self)
        vx_fail("model: this executable's directory cannot be read; set VX_MODEL_DIR");
    while (length > 0 && self[length - 1] != '/') length--;
    snprintf(beside, sizeof beside, "model/%s", vx_model_file);
    join_path(self, (size_t)length - 1, beside);
}

static _Noreturn void refuse_file(const char *why) {
    vx_fail("model: %s: %s (VX_MODEL_DIR names the model directory)", model.path, why);
}

static void map_file(void) {
    find_file();
    int file = open(model.path, O_RDONLY | O_CLOEXEC);
    if (file < 0) refuse_file(strerror(errno));
    struct stat status;
    if (fstat(file, &status) < 0) refuse_file(strerror(errno));
    if (!S_ISREG(status.st_mode)) refuse_file("not a regular file");
    if (status.st_size == 0) refuse_file("empty");
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) refuse_file(strerror(errno));
    close(file);
    madvise(data, (size_t)status.st_size, MADV_WILLNEED);
    model.data = data;
    model.bytes = status.st_size;
}

static const void *mapped(const vx_model_entry *entry) {
    if (!model.data) map_file();
    int64_t offset = entry->offset, bytes = entry->bytes;
    if (offset < 0 || bytes < 0 || offset > model.bytes || bytes > model.bytes - offset)
        vx_fail("model: %s: tensor \"%s\" is %lld bytes at offset %lld, but the file has %lld: it is truncated, or "
                "not the model this program was built for",
                model.path, entry->name, (long long)bytes, (long long)offset, (long long)model.bytes);
    return model.data + offset;
}

static const void *generated(int32_t index) {
    const vx_model_entry *entry = &vx_model_table[index];
    if (vx_model_random_seed < 0) vx_fail("model: tensor \"%s\" is to be random, but there is no seed", entry->name);
    if (!model.generated) model.generated = vx_alloc_zero(vx_model_count * (int64_t)sizeof(void *));
    void **slot = &model.generated[index];
    if (!*slot) *slot = vx_random_tensor(entry, (uint64_t)vx_model_random_seed);
    return *slot;
}

const void *vx_model_tensor(int32_t index) {
    if (index < 0 || index >= vx_model_count) vx_abort_index("model", index, vx_model_count);
    const vx_model_entry *entry = &vx_model_table[index];
    pthread_mutex_lock(&model.mutex);
    const void *data = entry->offset == VX_MODEL_GENERATED ? generated(index) : mapped(entry);
    pthread_mutex_unlock(&model.mutex);
    return data;
}
