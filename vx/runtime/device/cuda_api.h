/* What this plugin uses of the CUDA driver's C interface, found at run time with dlopen. Types and numbers are those of
   NVIDIA's documented ABI, which is stable. */
#ifndef VX_DEVICE_CUDA_API_H
#define VX_DEVICE_CUDA_API_H

#include "plugin.h"

typedef uint64_t CuAddress;
typedef struct CuContext *CuContext;
typedef struct CuStream *CuStream;
typedef struct CuEvent *CuEvent;
typedef struct CuModule *CuModule;
typedef struct CuFunction *CuFunction;
typedef struct CuGraph *CuGraph;
typedef struct CuExec *CuExec;

typedef struct {
    char bytes[16];
} CuUuid;

typedef struct {
    int id;
    int pad;
    union {
        char room[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int dependent;
    } value;
} CuAttribute;

typedef struct {
    unsigned grid[3], block[3], shared;
    CuStream stream;
    CuAttribute *attributes;
    unsigned attribute_count;
} CuLaunch;

typedef struct {
    size_t source_x, source_y;
    int source_type;
    const void *source_host;
    CuAddress source_device;
    void *source_array;
    size_t source_pitch;
    size_t target_x, target_y;
    int target_type;
    void *target_host;
    CuAddress target_device;
    void *target_array;
    size_t target_pitch;
    size_t width, height;
} CuRows;

typedef struct {
    int type;
    int handles;
    struct {
        int type, id;
    } location;
    void *security;
    unsigned char flags[8];
} CuProperties;

enum {
    CU_OK = 0,
    CU_OUT_OF_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_NOT_READY = 600,
    CU_PEER_ALREADY = 704,
    CU_MAJOR = 75,
    CU_MINOR = 76,
    CU_POINTER_ORDINAL = 9,
    CU_FUNCTION_MAX_THREADS = 0,
    CU_FUNCTION_MAX_DYNAMIC_SHARED = 8,
    CU_STREAM_ALONE = 1,
    CU_EVENT_NO_TIMING = 2,
    CU_HOST_PORTABLE = 1,
    CU_HOST_MAPPED = 2,
    CU_CAPTURE_THREAD_LOCAL = 1,
    CU_LAUNCH_CLUSTER = 4,
    CU_LAUNCH_DEPENDENT = 6,
    CU_MEMORY_HOST = 1,
    CU_MEMORY_DEVICE = 2,
    CU_PINNED_ON_DEVICE = 1,
    CU_ON_DEVICE = 1,
};

#define CUDA_FUNCTIONS(F)                                                                              \
    F(cuInit, (unsigned))                                                                              \
    F(cuDriverGetVersion, (int *))                                                                     \
    F(cuGetErrorName, (int, const char **))                                                            \
    F(cuGetErrorString, (int, const char **))                                                          \
    F(cuDeviceGetCount, (int *))                                                                       \
    F(cuDeviceGet, (int *, int))                                                                       \
    F(cuDeviceGetName, (char *, int, int))                                                             \
    F(cuDeviceGetUuid_v2, (CuUuid *, int))                                                             \
    F(cuDeviceGetAttribute, (int *, int, int))                                                         \
    F(cuDevicePrimaryCtxRetain, (CuContext *, int))                                                    \
    F(cuDevicePrimaryCtxRelease_v2, (int))                                                             \
    F(cuDeviceCanAccessPeer, (int *, int, int))                                                        \
    F(cuCtxSetCurrent, (CuContext))                                                                    \
    F(cuCtxGetDevice, (int *))                                                                         \
    F(cuCtxSynchronize, (void))                                                                        \
    F(cuCtxEnablePeerAccess, (CuContext, unsigned))                                                    \
    F(cuMemGetAllocationGranularity, (size_t *, const CuProperties *, int))                            \
    F(cuMemGetInfo_v2, (size_t *, size_t *))                                                           \
    F(cuMemAlloc_v2, (CuAddress *, size_t))                                                            \
    F(cuMemFree_v2, (CuAddress))                                                                       \
    F(cuMemHostAlloc, (void **, size_t, unsigned))                                                     \
    F(cuMemFreeHost, (void *))                                                                         \
    F(cuPointerGetAttribute, (void *, int, CuAddress))                                                 \
    F(cuMemsetD8Async, (CuAddress, unsigned char, size_t, CuStream))                                   \
    F(cuMemcpyHtoDAsync_v2, (CuAddress, const void *, size_t, CuStream))                               \
    F(cuMemcpyDtoHAsync_v2, (void *, CuAddress, size_t, CuStream))                                     \
    F(cuMemcpyDtoDAsync_v2, (CuAddress, CuAddress, size_t, CuStream))                                  \
    F(cuMemcpy2DAsync_v2, (const CuRows *, CuStream))                                                  \
    F(cuMemcpyPeerAsync, (CuAddress, CuContext, CuAddress, CuContext, size_t, CuStream))               \
    F(cuStreamCreate, (CuStream *, unsigned))                                                          \
    F(cuStreamDestroy_v2, (CuStream))                                                                  \
    F(cuStreamQuery, (CuStream))                                                                       \
    F(cuStreamWaitEvent, (CuStream, CuEvent, unsigned))                                                \
    F(cuStreamBeginCapture_v2, (CuStream, int))                                                        \
    F(cuStreamEndCapture, (CuStream, CuGraph *))                                                       \
    F(cuEventCreate, (CuEvent *, unsigned))                                                            \
    F(cuEventDestroy_v2, (CuEvent))                                                                    \
    F(cuEventRecord, (CuEvent, CuStream))                                                              \
    F(cuEventQuery, (CuEvent))                                                                         \
    F(cuEventSynchronize, (CuEvent))                                                                   \
    F(cuEventElapsedTime, (float *, CuEvent, CuEvent))                                                 \
    F(cuModuleLoadData, (CuModule *, const void *))                                                    \
    F(cuModuleUnload, (CuModule))                                                                      \
    F(cuModuleGetFunction, (CuFunction *, CuModule, const char *))                                     \
    F(cuFuncGetAttribute, (int *, int, CuFunction))                                                    \
    F(cuFuncSetAttribute, (CuFunction, int, int))                                                      \
    F(cuLaunchKernelEx, (const CuLaunch *, CuFunction, void **, void **))                              \
    F(cuGraphInstantiateWithFlags, (CuExec *, CuGraph, unsigned long long))                            \
    F(cuGraphDestroy, (CuGraph))                                                                       \
    F(cuGraphUpload, (CuExec, CuStream))                                                               \
    F(cuGraphLaunch, (CuExec, CuStream))                                                               \
    F(cuGraphExecDestroy, (CuExec))

typedef struct {
#define DECLARE(name, arguments) int(*name) arguments;
    CUDA_FUNCTIONS(DECLARE)
#undef DECLARE
} CudaFunctions;

/* cuda_library.c: the functions, once drv_start has succeeded. */
extern CudaFunctions cu;

/* OK, or DRIVER (NO_MEMORY if that is what it is) with the driver's own words for `result`. */
int cuda_check(int result, const char *doing);

/* A device as one manifest index sees it; nothing here is shared between devices. */
typedef struct {
    bool open;
    int handle, ordinal;
    CuContext context;
    CuStream lanes[LANES];
    uint32_t peers; /* bit i: device i can be reached without the host */
    uint32_t asked; /* bit i: `peers` knows about it */
    vx_traffic traffic;
    int64_t allocations;
} Cuda;

/* cuda_device.c: makes the device current and reads back from the driver that it is. */
int cuda_enter(int32_t device, Cuda **c);

#endif
