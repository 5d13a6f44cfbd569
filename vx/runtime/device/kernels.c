/* Kernel files: read and compared with their SHA-256 before a device is touched, then loaded on every device. */
#include "plugin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHA256_STATE = 128, SHA256 = 32 };

/* A file that several kernels may share. */
typedef struct {
    const char *file;
    char *data;
    int64_t bytes;
} Image;

static Image *images;
static int32_t image_count;

static int directory(char *path, size_t room) {
    const char *given = vxd.manifest->directory;
    if (given) {
        if (snprintf(path, room, "%s", given) < (int)room) return VX_DEVICE_OK;
        return vxd_fail(VX_DEVICE_KERNEL, "the path of the kernels' directory is too long");
    }
    ssize_t length = readlink("/proc/self/exe", path, room - sizeof "kernels");
    if (length <= 0 || (size_t)length >= room - sizeof "kernels")
        return vxd_fail(VX_DEVICE_KERNEL, "this executable's directory cannot be read");
    while (path[length - 1] != '/') length--;
    strcpy(path + length, "kernels");
    return VX_DEVICE_OK;
}

static int read_file(const char *path, Image *image) {
    FILE *file = fopen(path, "rbe");
    if (!file) return vxd_fail(VX_DEVICE_KERNEL, "kernel file %s: %s", path, strerror(errno));
    int status = VX_DEVICE_OK;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    rewind(file);
    if (size <= 0) status = vxd_fail(VX_DEVICE_KERNEL, "kernel file %s is empty or cannot be read", path);
    if (!status && !(image->data = malloc((size_t)size)))
        status = vxd_fail(VX_DEVICE_NO_MEMORY, "no host memory for kernel file %s", path);
    if (!status && fread(image->data, 1, (size_t)size, file) != (size_t)size)
        status = vxd_fail(VX_DEVICE_KERNEL, "kernel file %s cannot be read", path);
    image->bytes = size;
    fclose(file);
    return status;
}

static int check_hash(const char *path, const Image *image, const void *expected) {
    uint64_t state[SHA256_STATE / 8];
    unsigned char digest[SHA256];
    vx_sha256_begin(state);
    vx_sha256_update(state, image->data, image->bytes);
    vx_sha256_end(state, digest);
    if (expected && memcmp(digest, expected, SHA256) == 0) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_KERNEL, "kernel file %s is not the one this program was built with (its SHA-256 differs): "
                                      "copy the artifact again",
                    path);
}

static Image *image_of(const char *file) {
    for (int32_t i = 0; i < image_count; i++)
        if (!strcmp(images[i].file, file)) return &images[i];
    return NULL;
}

static int read_kernel(const vx_kernel *k, const char *folder) {
    char path[PATH_MAX + 256];
    if (image_of(k->file)) return VX_DEVICE_OK;
    snprintf(path, sizeof path, "%s/%s", folder, k->file);
    Image *image = &images[image_count++];
    image->file = k->file;
    TRY(read_file(path, image));
    return check_hash(path, image, k->sha256);
}

static int check_kernel(const vx_kernel *k) {
    if (k->params < 0 || k->trailing < 0 || k->params + k->trailing > VX_LAUNCH_PARAMS)
        return vxd_fail(VX_DEVICE_ABI, "manifest: kernel %s has %d + %d parameters, at most %d", k->name, k->params,
                        k->trailing, VX_LAUNCH_PARAMS);
    if (k->threads < 1 || k->shared < 0)
        return vxd_fail(VX_DEVICE_ABI, "manifest: kernel %s with %d threads, %d bytes shared", k->name, k->threads,
                        k->shared);
    if (drv_traits.images || k->host) return VX_DEVICE_OK;
    return vxd_fail(VX_DEVICE_KERNEL, "kernel %s has no host function, which the stand-in needs: build with --devices host",
                    k->name);
}

int vxd_read_kernels(void) {
    const vx_manifest *m = vxd.manifest;
    char folder[PATH_MAX];
    for (int32_t i = 0; i < m->kernel_count; i++) TRY(check_kernel(&m->kernels[i]));
    if (!drv_traits.images || m->kernel_count == 0) return VX_DEVICE_OK;
    TRY(directory(folder, sizeof folder));
    images = calloc((size_t)m->kernel_count, sizeof *images);
    if (!images) return vxd_fail(VX_DEVICE_NO_MEMORY, "no host memory for the kernels");
    for (int32_t i = 0; i < m->kernel_count; i++) TRY(read_kernel(&m->kernels[i], folder));
    return VX_DEVICE_OK;
}

void vxd_drop_images(void) {
    for (int32_t i = 0; i < image_count; i++) free(images[i].data);
    free(images);
    images = NULL;
    image_count = 0;
}

static int load_on(int32_t device) {
    const vx_manifest *m = vxd.manifest;
    Device *d = &vxd.devices[device];
    d->functions = calloc((size_t)m->kernel_count + 1, sizeof(void *));
    d->modules = calloc((size_t)image_count + 1, sizeof(void *)); /* null ends it */
    if (!d->functions || !d->modules) return vxd_fail(VX_DEVICE_NO_MEMORY, "no host memory for the kernels");
    for (int32_t i = 0; i < image_count; i++)
        TRY(drv_module(device, images[i].data, images[i].bytes, images[i].file, &d->modules[i]));
    for (int32_t i = 0; i < m->kernel_count; i++) {
        const Image *image = drv_traits.images ? image_of(m->kernels[i].file) : NULL;
        void *module = image ? d->modules[image - images] : NULL;
        TRY(drv_function(device, module, &m->kernels[i], &d->functions[i]));
    }
    return VX_DEVICE_OK;
}

int vxd_load_kernels(void) {
    for (int32_t i = 0; i < vxd.manifest->device_count; i++) {
        int status = load_on(i);
        if (status) return vxd_while(status, "loading the kernels on %s", vxd.devices[i].declared->name);
    }
    return VX_DEVICE_OK;
}

void vxd_unload_kernels(void) {
    for (int32_t i = 0; i < vxd.manifest->device_count; i++) {
        Device *d = &vxd.devices[i];
        for (void **module = d->modules; module && *module; module++) drv_module_free(i, *module);
        free(d->modules);
        free(d->functions);
    }
}
