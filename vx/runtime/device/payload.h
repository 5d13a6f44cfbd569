/* The text that names a kernel in vx_plugin_dispatch_async. */
#ifndef VX_DEVICE_PAYLOAD_H
#define VX_DEVICE_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char kernel[128];
    char place[128]; /* toponame; empty if not said */
    uint32_t topology;
} Payload;

/* Null, or what is wrong with it. Every entry must be known, well formed and said once; abi and topo must be there. */
const char *vxd_parse_payload(const char *text, size_t bytes, Payload *payload);

#endif
