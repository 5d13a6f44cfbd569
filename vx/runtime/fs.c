/* Files and standard input. Interrupted and short calls are continued here; errors are -errno. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int32_t vx_file_open(const char *path, int32_t mode) {
    int flags = O_RDONLY;
    if (mode == VX_FILE_CREATE) flags = O_WRONLY | O_CREAT | O_TRUNC;
    if (mode == VX_FILE_APPEND) flags = O_WRONLY | O_CREAT | O_APPEND;
    int file = open(path, flags | O_CLOEXEC, 0666);
    return file >= 0 ? file : -errno;
}

int64_t vx_file_size(int32_t file) {
    struct stat status;
    if (fstat(file, &status) < 0) return -errno;
    return S_ISDIR(status.st_mode) ? -EISDIR : status.st_size;
}

static ssize_t read_some(int32_t file, void *data, size_t bytes) {
    for (;;) {
        ssize_t got = read(file, data, bytes);
        if (got >= 0) return got;
        if (errno == EAGAIN) {
            struct pollfd ready = {.fd = file, .events = POLLIN};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return -errno;
        }
    }
}

int64_t vx_stdin_read(void *data, int64_t bytes) {
    return bytes > 0 ? read_some(STDIN_FILENO, data, (size_t)bytes) : 0;
}

int64_t vx_file_read(int32_t file, void *data, int64_t bytes) {
    int64_t done = 0;
    while (done < bytes) {
        ssize_t got = read_some(file, (char *)data + done, (size_t)(bytes - done));
        if (got < 0) return got;
        if (got == 0) break;
        done += got;
    }
    return done;
}

int64_t vx_file_write(int32_t file, const void *data, int64_t bytes) {
    int64_t done = 0;
    while (done < bytes) {
        ssize_t put = write(file, (const char *)data + done, (size_t)(bytes - done));
        if (put < 0 && errno != EINTR) return -errno;
        if (put > 0) done += put;
    }
    return done;
}

int32_t vx_file_close(int32_t file) { return close(file) == 0 || errno == EINTR ? 0 : -errno; }

void *vx_file_map(int32_t file, int64_t bytes) {
    if (bytes <= 0) return NULL;
    void *data = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, file, 0);
    return data == MAP_FAILED ? NULL : data;
}

void vx_file_unmap(void *data, int64_t bytes) {
    if (data && bytes > 0) munmap(data, (size_t)bytes);
}

const char *vx_error_text(int32_t code) { return strerror(code < 0 ? -code : code); }
