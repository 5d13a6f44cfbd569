/* What a program calls for each entry of a plugin. Written by `python -m vx.runtime.device_abi`; included once, by
   devices.c, which opens the plugin and has the functions declared below. */

typedef struct {
    uint32_t (*vx_device_abi)(void);
    const char *(*vx_plugin_name)(void);
    const char *(*vx_last_error)(void);
    int32_t (*vx_open)(const vx_manifest *manifest);
    int32_t (*vx_close)(void);
    void *(*vx_tile)(int32_t arena, int64_t offset, int64_t bytes);
    int32_t (*vx_copy)(void *target, const void *source, int64_t bytes);
    int32_t (*vx_copy_rows)(void *target, int64_t target_pitch, const void *source, int64_t source_pitch, int64_t bytes, int64_t rows);
    int32_t (*vx_fill)(void *target, const void *value, int64_t element_bytes, int64_t count);
    int32_t (*vx_load)(void *target, const void *source, int64_t bytes);
    int32_t (*vx_set)(void *target, const void *value, int64_t bytes);
    int32_t (*vx_run)(int32_t region, int32_t device, const void *params, int64_t params_bytes, const vx_touch *touches, int64_t touch_count);
    int32_t (*vx_launch)(int32_t kernel, int32_t grid_x, int32_t grid_y, int32_t grid_z, void *const *args);
    int32_t (*vx_access)(const void *address, int64_t bytes, int32_t write);
    int32_t (*vx_sync)(void);
    void *(*vx_pin)(int64_t bytes);
    int32_t (*vx_unpin)(void *memory);
    void *(*vx_ring)(int32_t device, int32_t slots);
    int32_t (*vx_token)(void *ring, int64_t position, int64_t deadline, int32_t *token);
    int32_t (*vx_ring_clear)(void *ring, int64_t *dropped);
    int32_t (*vx_warm)(void);
    int32_t (*vx_phase)(const char *name, int32_t begin);
    int32_t (*vx_counter)(int32_t device, int32_t index, int64_t *value);
    int32_t (*vx_seconds)(int32_t device, float *seconds);
    int32_t (*vx_stamp)(int32_t device);
    int32_t (*vx_memory_of)(int32_t device, vx_memory *figures);
    int32_t (*vx_traffic_of)(int32_t device, vx_traffic *figures);
    int32_t (*vx_owner)(const void *address, int32_t *ordinal);
    void *(*vx_plugin_alloc_and_transfer)(uint64_t bytes, void *host, uint32_t topology, uint32_t access);
    uint64_t (*vx_plugin_dispatch_async)(const void *payload, uint64_t bytes, void **args, const int32_t *tags, int64_t arg_count);
    int32_t (*vx_plugin_await_future)(uint64_t future);
    int32_t (*vx_plugin_release_future)(uint64_t future);
    int32_t (*vx_plugin_transfer_device_to_host)(void *device, void *host, uint64_t bytes, uint32_t topology);
    void *(*vx_plugin_transfer_peer)(void *source, uint32_t source_topology, uint32_t target_topology, uint64_t bytes);
    int32_t (*vx_plugin_free)(void *device, uint32_t topology);
    int32_t (*vx_plugin_control)(uint32_t opcode, void *payload);
} Plugin;

static Plugin plugin;

static const struct {
    const char *name;
    size_t at;
} MEMBERS[] = {
    {"vx_device_abi", offsetof(Plugin, vx_device_abi)},
    {"vx_plugin_name", offsetof(Plugin, vx_plugin_name)},
    {"vx_last_error", offsetof(Plugin, vx_last_error)},
    {"vx_open", offsetof(Plugin, vx_open)},
    {"vx_close", offsetof(Plugin, vx_close)},
    {"vx_tile", offsetof(Plugin, vx_tile)},
    {"vx_copy", offsetof(Plugin, vx_copy)},
    {"vx_copy_rows", offsetof(Plugin, vx_copy_rows)},
    {"vx_fill", offsetof(Plugin, vx_fill)},
    {"vx_load", offsetof(Plugin, vx_load)},
    {"vx_set", offsetof(Plugin, vx_set)},
    {"vx_run", offsetof(Plugin, vx_run)},
    {"vx_launch", offsetof(Plugin, vx_launch)},
    {"vx_access", offsetof(Plugin, vx_access)},
    {"vx_sync", offsetof(Plugin, vx_sync)},
    {"vx_pin", offsetof(Plugin, vx_pin)},
    {"vx_unpin", offsetof(Plugin, vx_unpin)},
    {"vx_ring", offsetof(Plugin, vx_ring)},
    {"vx_token", offsetof(Plugin, vx_token)},
    {"vx_ring_clear", offsetof(Plugin, vx_ring_clear)},
    {"vx_warm", offsetof(Plugin, vx_warm)},
    {"vx_phase", offsetof(Plugin, vx_phase)},
    {"vx_counter", offsetof(Plugin, vx_counter)},
    {"vx_seconds", offsetof(Plugin, vx_seconds)},
    {"vx_stamp", offsetof(Plugin, vx_stamp)},
    {"vx_memory_of", offsetof(Plugin, vx_memory_of)},
    {"vx_traffic_of", offsetof(Plugin, vx_traffic_of)},
    {"vx_owner", offsetof(Plugin, vx_owner)},
    {"vx_plugin_alloc_and_transfer", offsetof(Plugin, vx_plugin_alloc_and_transfer)},
    {"vx_plugin_dispatch_async", offsetof(Plugin, vx_plugin_dispatch_async)},
    {"vx_plugin_await_future", offsetof(Plugin, vx_plugin_await_future)},
    {"vx_plugin_release_future", offsetof(Plugin, vx_plugin_release_future)},
    {"vx_plugin_transfer_device_to_host", offsetof(Plugin, vx_plugin_transfer_device_to_host)},
    {"vx_plugin_transfer_peer", offsetof(Plugin, vx_plugin_transfer_peer)},
    {"vx_plugin_free", offsetof(Plugin, vx_plugin_free)},
    {"vx_plugin_control", offsetof(Plugin, vx_plugin_control)},
};

static int32_t check(int32_t status);
static void *check_address(void *address);
static void need_plugin(void);

int32_t vx_device_close(void);
void *vx_device_tile(int32_t arena, int64_t offset, int64_t bytes);
int32_t vx_device_copy(void *target, const void *source, int64_t bytes);
int32_t vx_device_copy_rows(void *target, int64_t target_pitch, const void *source, int64_t source_pitch, int64_t bytes, int64_t rows);
int32_t vx_device_fill(void *target, const void *value, int64_t element_bytes, int64_t count);
int32_t vx_device_load(void *target, const void *source, int64_t bytes);
int32_t vx_device_set(void *target, const void *value, int64_t bytes);
int32_t vx_device_run(int32_t region, int32_t device, const void *params, int64_t params_bytes, const vx_touch *touches, int64_t touch_count);
int32_t vx_device_launch(int32_t kernel, int32_t grid_x, int32_t grid_y, int32_t grid_z, void *const *args);
int32_t vx_device_access(const void *address, int64_t bytes, int32_t write);
int32_t vx_device_sync(void);
void *vx_device_pin(int64_t bytes);
int32_t vx_device_unpin(void *memory);
void *vx_device_ring(int32_t device, int32_t slots);
int32_t vx_device_token(void *ring, int64_t position, int64_t deadline, int32_t *token);
int32_t vx_device_ring_clear(void *ring, int64_t *dropped);
int32_t vx_device_warm(void);
int32_t vx_device_phase(const char *name, int32_t begin);
int32_t vx_device_counter(int32_t device, int32_t index, int64_t *value);
int32_t vx_device_seconds(int32_t device, float *seconds);
int32_t vx_device_stamp(int32_t device);
int32_t vx_device_memory_of(int32_t device, vx_memory *figures);
int32_t vx_device_traffic_of(int32_t device, vx_traffic *figures);
int32_t vx_device_owner(const void *address, int32_t *ordinal);
void vx_device_open(const char *plugin, const vx_manifest *manifest);
void vx_device_move(void *target, const void *source, int64_t bytes, int32_t sides);
void vx_device_move_strided(void *target, const int64_t *target_strides, const void *source, const int64_t *source_strides, const int64_t *extents, int32_t rank, int64_t elem_bytes, int32_t sides);
void *vx_plugin_alloc_and_transfer(uint64_t bytes, void *host, uint32_t topology, uint32_t access);
uint64_t vx_plugin_dispatch_async(const void *payload, uint64_t bytes, void **args, const int32_t *tags, int64_t arg_count);
int32_t vx_plugin_await_future(uint64_t future);
int32_t vx_plugin_release_future(uint64_t future);
int32_t vx_plugin_transfer_device_to_host(void *device, void *host, uint64_t bytes, uint32_t topology);
void *vx_plugin_transfer_peer(void *source, uint32_t source_topology, uint32_t target_topology, uint64_t bytes);
int32_t vx_plugin_free(void *device, uint32_t topology);
int32_t vx_plugin_control(uint32_t opcode, void *payload);

enum { VX_MOVE_TO_HOST = 1, VX_MOVE_FROM_HOST = 2 };

int32_t vx_device_close(void) { return check(plugin.vx_close()); }
void *vx_device_tile(int32_t arena, int64_t offset, int64_t bytes) { return check_address(plugin.vx_tile(arena, offset, bytes)); }
int32_t vx_device_copy(void *target, const void *source, int64_t bytes) { return check(plugin.vx_copy(target, source, bytes)); }
int32_t vx_device_copy_rows(void *target, int64_t target_pitch, const void *source, int64_t source_pitch, int64_t bytes, int64_t rows) { return check(plugin.vx_copy_rows(target, target_pitch, source, source_pitch, bytes, rows)); }
int32_t vx_device_fill(void *target, const void *value, int64_t element_bytes, int64_t count) { return check(plugin.vx_fill(target, value, element_bytes, count)); }
int32_t vx_device_load(void *target, const void *source, int64_t bytes) { return check(plugin.vx_load(target, source, bytes)); }
int32_t vx_device_set(void *target, const void *value, int64_t bytes) { return check(plugin.vx_set(target, value, bytes)); }
int32_t vx_device_run(int32_t region, int32_t device, const void *params, int64_t params_bytes, const vx_touch *touches, int64_t touch_count) { return check(plugin.vx_run(region, device, params, params_bytes, touches, touch_count)); }
int32_t vx_device_launch(int32_t kernel, int32_t grid_x, int32_t grid_y, int32_t grid_z, void *const *args) { return plugin.vx_launch(kernel, grid_x, grid_y, grid_z, args); }
int32_t vx_device_access(const void *address, int64_t bytes, int32_t write) { return check(plugin.vx_access(address, bytes, write)); }
int32_t vx_device_sync(void) { return check(plugin.vx_sync()); }
void *vx_device_pin(int64_t bytes) { return check_address(plugin.vx_pin(bytes)); }
int32_t vx_device_unpin(void *memory) { return check(plugin.vx_unpin(memory)); }
void *vx_device_ring(int32_t device, int32_t slots) { return check_address(plugin.vx_ring(device, slots)); }
int32_t vx_device_token(void *ring, int64_t position, int64_t deadline, int32_t *token) { return check(plugin.vx_token(ring, position, deadline, token)); }
int32_t vx_device_ring_clear(void *ring, int64_t *dropped) { return check(plugin.vx_ring_clear(ring, dropped)); }
int32_t vx_device_warm(void) { return check(plugin.vx_warm()); }
int32_t vx_device_phase(const char *name, int32_t begin) { return check(plugin.vx_phase(name, begin)); }
int32_t vx_device_counter(int32_t device, int32_t index, int64_t *value) { return check(plugin.vx_counter(device, index, value)); }
int32_t vx_device_seconds(int32_t device, float *seconds) { return check(plugin.vx_seconds(device, seconds)); }
int32_t vx_device_stamp(int32_t device) { return check(plugin.vx_stamp(device)); }
int32_t vx_device_memory_of(int32_t device, vx_memory *figures) { return check(plugin.vx_memory_of(device, figures)); }
int32_t vx_device_traffic_of(int32_t device, vx_traffic *figures) { return check(plugin.vx_traffic_of(device, figures)); }
int32_t vx_device_owner(const void *address, int32_t *ordinal) { return check(plugin.vx_owner(address, ordinal)); }

void *vx_plugin_alloc_and_transfer(uint64_t bytes, void *host, uint32_t topology, uint32_t access) { need_plugin(); return plugin.vx_plugin_alloc_and_transfer(bytes, host, topology, access); }
uint64_t vx_plugin_dispatch_async(const void *payload, uint64_t bytes, void **args, const int32_t *tags, int64_t arg_count) { need_plugin(); return plugin.vx_plugin_dispatch_async(payload, bytes, args, tags, arg_count); }
int32_t vx_plugin_await_future(uint64_t future) { need_plugin(); return plugin.vx_plugin_await_future(future); }
int32_t vx_plugin_release_future(uint64_t future) { need_plugin(); return plugin.vx_plugin_release_future(future); }
int32_t vx_plugin_transfer_device_to_host(void *device, void *host, uint64_t bytes, uint32_t topology) { need_plugin(); return plugin.vx_plugin_transfer_device_to_host(device, host, bytes, topology); }
void *vx_plugin_transfer_peer(void *source, uint32_t source_topology, uint32_t target_topology, uint64_t bytes) { need_plugin(); return plugin.vx_plugin_transfer_peer(source, source_topology, target_topology, bytes); }
int32_t vx_plugin_free(void *device, uint32_t topology) { need_plugin(); return plugin.vx_plugin_free(device, topology); }
int32_t vx_plugin_control(uint32_t opcode, void *payload) { need_plugin(); return plugin.vx_plugin_control(opcode, payload); }
