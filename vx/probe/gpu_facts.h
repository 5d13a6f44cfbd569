/* Parts of the probe's JSON that say what a driver and a GPU are. */
#ifndef VX_PROBE_GPU_FACTS_H
#define VX_PROBE_GPU_FACTS_H

/* Members of the document: which driver. */
void gpu_put_driver(void);
/* Members of a device's object, each after a comma: what its memory and links could reach at most. */
void gpu_put_peaks(int ordinal, const char *uuid);

#endif
