/* Modules, launches and graphs. */
#include "cuda_api.h"

int drv_module(int32_t device, const void *image, int64_t bytes, const char *file, void **module) {
    Cuda *c;
    CuModule loaded;
    (void)bytes; /* an image knows its own length */
    TRY(cuda_enter(device, &c));
    int status = cuda_check(cu.cuModuleLoadData(&loaded, image), "loading a kernel file");
    if (status) return vxd_while(VX_DEVICE_KERNEL, "%s on device %d", file, c->ordinal);
    *module = loaded;
    return VX_DEVICE_OK;
}

int drv_module_free(int32_t device, void *module) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuModuleUnload(module), "unloading kernels");
}

/* Asking for an attribute also makes the driver load the code now, and not inside a recording. */
static int prepare(CuFunction function, const vx_kernel *k) {
    int most;
    TRY(cuda_check(cu.cuFuncGetAttribute(&most, CU_FUNCTION_MAX_THREADS, function), "asking about a kernel"));
    if (k->threads > most)
        return vxd_fail(VX_DEVICE_KERNEL, "it wants %d threads a block, the device gives it at most %d", k->threads, most);
    if (k->shared == 0) return VX_DEVICE_OK;
    return cuda_check(cu.cuFuncSetAttribute(function, CU_FUNCTION_MAX_DYNAMIC_SHARED, k->shared), "giving a kernel its "
                                                                                                  "shared memory");
}

int drv_function(int32_t device, void *module, const vx_kernel *kernel, void **function) {
    Cuda *c;
    CuFunction found;
    TRY(cuda_enter(device, &c));
    int status = cuda_check(cu.cuModuleGetFunction(&found, module, kernel->name), "finding a kernel");
    if (!status) status = prepare(found, kernel);
    if (status) return vxd_while(VX_DEVICE_KERNEL, "kernel %s of %s", kernel->name, kernel->file);
    *function = found;
    return VX_DEVICE_OK;
}

int drv_launch(int32_t device, const Launch *launch) {
    Cuda *c;
    const vx_kernel *k = launch->kernel;
    CuAttribute attributes[2];
    unsigned count = 0;
    TRY(cuda_enter(device, &c));
    if (k->cluster_x > 0)
        attributes[count++] = (CuAttribute){.id = CU_LAUNCH_CLUSTER,
                                            .value.cluster = {(unsigned)k->cluster_x, (unsigned)k->cluster_y,
                                                              (unsigned)k->cluster_z}};
    if (k->dependent) attributes[count++] = (CuAttribute){.id = CU_LAUNCH_DEPENDENT, .value.dependent = 1};
    const CuLaunch how = {.grid = {(unsigned)launch->grid[0], (unsigned)launch->grid[1], (unsigned)launch->grid[2]},
                          .block = {(unsigned)k->threads, 1, 1},
                          .shared = (unsigned)k->shared,
                          .stream = c->lanes[LANE_RUN],
                          .attributes = attributes,
                          .attribute_count = count};
    TRY(cuda_check(cu.cuLaunchKernelEx(&how, launch->function, (void **)launch->args, NULL), "launching"));
    c->traffic.launches++;
    return VX_DEVICE_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------------- */
int drv_capture_begin(int32_t device) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuStreamBeginCapture_v2(c->lanes[LANE_RUN], CU_CAPTURE_THREAD_LOCAL), "beginning to record");
}

static int make_executable(Cuda *c, CuGraph recorded, void **graph) {
    CuExec made;
    int status = cuda_check(cu.cuGraphInstantiateWithFlags(&made, recorded, 0), "making a graph");
    cu.cuGraphDestroy(recorded);
    TRY(status);
    status = cuda_check(cu.cuGraphUpload(made, c->lanes[LANE_RUN]), "uploading a graph");
    if (status) cu.cuGraphExecDestroy(made);
    else *graph = made;
    c->traffic.graphs += !status;
    return status;
}

int drv_capture_end(int32_t device, void **graph) {
    Cuda *c;
    CuGraph recorded = NULL;
    TRY(cuda_enter(device, &c));
    int result = cu.cuStreamEndCapture(c->lanes[LANE_RUN], &recorded);
    if (!graph) { /* the recording failed: its own message is the one that counts */
        if (result == CU_OK && recorded) cu.cuGraphDestroy(recorded);
        return VX_DEVICE_OK;
    }
    TRY(cuda_check(result, "ending a recording"));
    return make_executable(c, recorded, graph);
}

int drv_graph_launch(int32_t device, void *graph) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    TRY(cuda_check(cu.cuGraphLaunch(graph, c->lanes[LANE_RUN]), "launching a graph"));
    c->traffic.graph_launches++;
    return VX_DEVICE_OK;
}

int drv_graph_free(int32_t device, void *graph) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuGraphExecDestroy(graph), "giving a graph back");
}
