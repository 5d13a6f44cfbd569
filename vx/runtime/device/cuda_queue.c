/* Copies, events and waits on a device's streams. */
#include "cuda_api.h"

static CuAddress device_address(const void *address) { return (CuAddress)(uintptr_t)address; }

static void count_copy(vx_traffic *t, CopyKind kind, int64_t bytes) {
    if (kind == COPY_TO_HOST) t->to_host_bytes += bytes, t->to_host_calls++;
    else if (kind == COPY_LOCAL) t->local_bytes += bytes, t->local_calls++;
    else t->to_device_bytes += bytes, t->to_device_calls++;
    if (kind == COPY_LOAD) t->loaded_bytes += bytes, t->loads++;
}

int drv_fill(int32_t device, Lane lane, void *target, int64_t bytes, uint8_t value) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuMemsetD8Async(device_address(target), value, (size_t)bytes, c->lanes[lane]), "filling memory");
}

static int copy(const Cuda *c, Lane lane, CopyKind kind, void *target, const void *source, size_t bytes) {
    CuStream stream = c->lanes[lane];
    switch (kind) {
        case COPY_TO_HOST: return cu.cuMemcpyDtoHAsync_v2(target, device_address(source), bytes, stream);
        case COPY_LOCAL: return cu.cuMemcpyDtoDAsync_v2(device_address(target), device_address(source), bytes, stream);
        default: return cu.cuMemcpyHtoDAsync_v2(device_address(target), source, bytes, stream);
    }
}

int drv_copy(int32_t device, Lane lane, CopyKind kind, void *target, const void *source, int64_t bytes) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    TRY(cuda_check(copy(c, lane, kind, target, source, (size_t)bytes), "copying"));
    count_copy(&c->traffic, kind, bytes);
    return VX_DEVICE_OK;
}

int drv_copy_rows(int32_t device, Lane lane, CopyKind kind, const Rows *rows) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    bool to_device = kind != COPY_TO_HOST, from_device = kind == COPY_TO_HOST || kind == COPY_LOCAL;
    CuRows all = {.source_type = from_device ? CU_MEMORY_DEVICE : CU_MEMORY_HOST,
                  .source_pitch = (size_t)rows->source_pitch,
                  .target_type = to_device ? CU_MEMORY_DEVICE : CU_MEMORY_HOST,
                  .target_pitch = (size_t)rows->target_pitch,
                  .width = (size_t)rows->bytes,
                  .height = (size_t)rows->rows};
    if (from_device) all.source_device = device_address(rows->source);
    else all.source_host = rows->source;
    if (to_device) all.target_device = device_address(rows->target);
    else all.target_host = rows->target;
    TRY(cuda_check(cu.cuMemcpy2DAsync_v2(&all, c->lanes[lane]), "copying rows"));
    count_copy(&c->traffic, kind, rows->bytes * rows->rows);
    return VX_DEVICE_OK;
}

/* Whether `from` reaches `to` without the host; asked of the driver once, and switched on if so. */
static int reach(Cuda *from, int32_t target_device, const Cuda *to, bool *direct) {
    uint32_t bit = UINT32_C(1) << target_device;
    if (!(from->asked & bit)) {
        int can = 0;
        TRY(cuda_check(cu.cuDeviceCanAccessPeer(&can, from->handle, to->handle), "asking for peer access"));
        if (can) {
            int result = cu.cuCtxEnablePeerAccess(to->context, 0);
            if (result != CU_PEER_ALREADY) TRY(cuda_check(result, "switching peer access on"));
            from->peers |= bit;
        }
        from->asked |= bit;
    }
    *direct = from->peers & bit;
    return VX_DEVICE_OK;
}

int drv_copy_peer(int32_t source_device, Lane lane, int32_t target_device, void *target, const void *source,
                  int64_t bytes, bool *direct) {
    Cuda *from, *to;
    TRY(cuda_enter(target_device, &to));
    TRY(cuda_enter(source_device, &from));
    TRY(reach(from, target_device, to, direct));
    TRY(cuda_check(cu.cuMemcpyPeerAsync(device_address(target), to->context, device_address(source), from->context,
                                        (size_t)bytes, from->lanes[lane]),
                   "copying to a peer"));
    from->traffic.peer_bytes += bytes;
    from->traffic.peer_calls++;
    return VX_DEVICE_OK;
}

/* ---- events ---------------------------------------------------------------------------------------- */
int drv_event(int32_t device, bool timed, void **event) {
    Cuda *c;
    CuEvent made;
    TRY(cuda_enter(device, &c));
    TRY(cuda_check(cu.cuEventCreate(&made, timed ? 0 : CU_EVENT_NO_TIMING), "making an event"));
    *event = made;
    return VX_DEVICE_OK;
}

int drv_event_free(int32_t device, void *event) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuEventDestroy_v2(event), "giving an event back");
}

int drv_record(int32_t device, Lane lane, void *event) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuEventRecord(event, c->lanes[lane]), "recording an event");
}

int drv_wait(int32_t device, Lane lane, void *event) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuStreamWaitEvent(c->lanes[lane], event, 0), "waiting for an event");
}

int drv_await(int32_t device, void *event) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuEventSynchronize(event), "waiting for a device");
}

static int is_done(int result, bool *done) {
    *done = result == CU_OK;
    return result == CU_NOT_READY ? VX_DEVICE_OK : cuda_check(result, "the work of a device");
}

int drv_done(int32_t device, void *event, bool *done) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return is_done(cu.cuEventQuery(event), done);
}

int drv_lane_done(int32_t device, Lane lane, bool *done) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return is_done(cu.cuStreamQuery(c->lanes[lane]), done);
}

int drv_elapsed(int32_t device, void *first, void *second, float *seconds) {
    Cuda *c;
    float milliseconds;
    TRY(cuda_enter(device, &c));
    TRY(cuda_check(cu.cuEventElapsedTime(&milliseconds, first, second), "reading a device's clock"));
    *seconds = milliseconds / 1000;
    return VX_DEVICE_OK;
}

int drv_drain(int32_t device) {
    Cuda *c;
    TRY(cuda_enter(device, &c));
    return cuda_check(cu.cuCtxSynchronize(), "the work of a device");
}
