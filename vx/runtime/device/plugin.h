/* What the files of a plugin share. */
#ifndef VX_DEVICE_PLUGIN_H
#define VX_DEVICE_PLUGIN_H

#include "driver.h"

#define TRY(call)                            \
    do {                                     \
        int status_ = (call);                \
        if (status_ != VX_DEVICE_OK) return status_; \
    } while (0)

/* error.c: keeps the message for vx_last_error; gives `status` back. */
int vxd_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts what was being done in front of the message. */
int vxd_while(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* While held, failures on the way out leave the message of the first. */
void vxd_hold_message(bool hold);

typedef struct {
    const vx_device *declared;
    DeviceFacts facts;
    int32_t ordinal; /* read back from the driver */
    int64_t total, free_before, free_after, free_warm;
    bool warming; /* a graph was made since free_warm was noted */
    void *stamps[2];
    int32_t stamped;
    int32_t *errors; /* pinned copy of the error words; null: none */
    char *staging; /* two halves, each with an event of the copy that reads it */
    void *staged[2];
    bool staging_busy[2];
    int32_t staging_next;
    void **functions; /* one a kernel */
    void **modules;
} Device;

typedef struct {
    const vx_arena *declared;
    char *base;
} Arena;

typedef struct {
    const vx_manifest *manifest; /* null: closed */
    Device devices[DRV_DEVICES];
    Arena *arenas;
    int32_t driver; /* its version */
} Plugin;
extern Plugin vxd;

/* open.c */
int vxd_need_open(void);
int vxd_need_device(int32_t device);

/* kernels.c: files read and checked, then loaded on every device. */
int vxd_read_kernels(void);
int vxd_load_kernels(void);
void vxd_drop_images(void);
void vxd_unload_kernels(void);

/* arena.c: whose an address is. `arena` -1: host memory. A range partly in an arena is refused. */
int vxd_find(const void *address, int64_t bytes, int32_t *arena);
int32_t vxd_device_of(int32_t arena);

/* order.c: what is in flight, and who waits for whom. */
int vxd_order_before(int32_t device, Lane lane, const vx_touch *touches, int64_t count);
int vxd_order_after(int32_t device, Lane lane, const vx_touch *touches, int64_t count, uint64_t *serial);
int vxd_order_host(const vx_touch *touch);
/* Waits for one piece of work and what precedes it in its queue. */
int vxd_order_await(uint64_t serial);
int vxd_order_drain(void);
void vxd_order_forget(void);

/* failed.c: the error words of kernels. `follow` brings them to the host behind the copies out that were issued so far,
   `look` says what the last ones say, `fetch` waits for the device and looks. */
int vxd_errors_ready(int32_t device);
int vxd_errors_follow(int32_t device);
int vxd_errors_look(int32_t device);
int vxd_errors_fetch(int32_t device);
void vxd_errors_forget(int32_t device);

/* measure.c: notes what is free where the host waits first after a graph was made; from then on it must not change. */
int vxd_note_warm(int32_t device);

/* copy.c */
int vxd_move(void *target, const void *source, int64_t bytes, uint64_t *serial);
bool vxd_is_pinned(const void *address, int64_t bytes);
void vxd_copy_forget(void);
int vxd_set_ready(void);
void vxd_set_forget(void);

/* region.c: kernels started, by who made them. */
typedef enum { EMITTED, VENDOR, HOST, PROVENANCES } Provenance;
typedef struct {
    int64_t kernels[PROVENANCES];
} Launched;
int vxd_start_kernel(int32_t device, int32_t kernel, const int32_t grid[3], void *const *args, Launched *launched);
int vxd_tell_dispatch(const char *name, int32_t device, const Launched *launched, const char *by, bool recorded);
void vxd_region_forget(void);

/* ring.c, compat.c */
void vxd_ring_forget(void);
void vxd_compat_forget(void);

/* evidence.c: one event, its fields one after another. */
bool vxd_evidence(void);
void vxd_event(const char *name);
void vxd_text(const char *key, const char *value);
void vxd_number(const char *key, int64_t value);
void vxd_event_device(int32_t device);
void vxd_event_end(void);
bool vxd_evidence_lost(void);

/* sha256.c of the runtime */
void vx_sha256_begin(void *state);
void vx_sha256_update(void *state, const void *data, int64_t bytes);
void vx_sha256_end(void *state, void *digest);

#endif
