/* Our types of the CUDA driver interface against NVIDIA's own header; only compiled, and only where that header is. */
#include "cuda_api.h"
#include <cuda.h>
#define SAME(mine, theirs) _Static_assert(sizeof(mine) == sizeof(theirs), #theirs)
#define AT(mine, m, theirs, t) _Static_assert(offsetof(mine, m) == offsetof(theirs, t), #t)
SAME(CuLaunch, CUlaunchConfig);
SAME(CuAttribute, CUlaunchAttribute);
SAME(CuRows, CUDA_MEMCPY2D);
SAME(CuProperties, CUmemAllocationProp);
SAME(CuUuid, CUuuid);
AT(CuLaunch, stream, CUlaunchConfig, hStream);
AT(CuLaunch, attributes, CUlaunchConfig, attrs);
AT(CuLaunch, attribute_count, CUlaunchConfig, numAttrs);
AT(CuLaunch, shared, CUlaunchConfig, sharedMemBytes);
AT(CuAttribute, value, CUlaunchAttribute, value);
AT(CuAttribute, value.cluster, CUlaunchAttribute, value.clusterDim);
AT(CuAttribute, value.dependent, CUlaunchAttribute, value.programmaticStreamSerializationAllowed);
AT(CuRows, source_device, CUDA_MEMCPY2D, srcDevice);
AT(CuRows, target_type, CUDA_MEMCPY2D, dstMemoryType);
AT(CuRows, target_pitch, CUDA_MEMCPY2D, dstPitch);
AT(CuRows, height, CUDA_MEMCPY2D, Height);
AT(CuProperties, location, CUmemAllocationProp, location);
_Static_assert((int)CU_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "");
_Static_assert((int)CU_LAUNCH_DEPENDENT == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, "");
_Static_assert((int)CU_LAUNCH_CLUSTER == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, "");
_Static_assert((int)CU_PINNED_ON_DEVICE == CU_MEM_ALLOCATION_TYPE_PINNED, "");
_Static_assert((int)CU_ON_DEVICE == CU_MEM_LOCATION_TYPE_DEVICE, "");
_Static_assert((int)CU_MEMORY_HOST == CU_MEMORYTYPE_HOST && (int)CU_MEMORY_DEVICE == CU_MEMORYTYPE_DEVICE, "");
_Static_assert((int)CU_HOST_PORTABLE == CU_MEMHOSTALLOC_PORTABLE && (int)CU_HOST_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP, "");
_Static_assert((int)CU_PEER_ALREADY == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "");
#define CHECK_FUNCTION(name, arguments) _Static_assert(sizeof(&name) > 0, "");
CUDA_FUNCTIONS(CHECK_FUNCTION)
