/* Every known oddity of a platform or device, each with its reason. The only such list. */
#include <string.h>

#include "backend/opencl/device.h"

/* platform, device: parts of names; "" matches all. */
typedef struct quirk {
  const char *platform, *device;
  const char *refusal; /* why it must not be used; NULL: it may */
  bool lanes;          /* a CPU that runs work-items in the lanes of its vectors, as a GPU does */
  const char *empty;   /* what it means that the platform has no device; NULL: nothing */
} quirk;

static const quirk quirks[] = {
    /* Mesa's old state tracker: OpenCL 1.1, miscompiles; rusticl replaces it. */
    {"Clover", "", "Mesa's Clover is OpenCL 1.1; use rusticl (RUSTICL_ENABLE)", false, NULL},
    /* Splits vectors into scalars, so kernels for CPUs are slow there, and gets shuffles of float16
       wrong (Mesa 22.3). In work-groups of one work-item, which those kernels use, an outer loop
       ends after its first pass. Loops also end when a work-item has made 65,535 passes in all:
       results of very large operands are wrong there. */
    {"rusticl", "llvmpipe", NULL, true, NULL},
    /* Has a device on every machine, but for this; it says nothing itself. */
    {"Portable Computing Language", "", NULL, false,
     "PoCL is installed and gives no device: it needs a folder for its cache that it can write to, "
     "set POCL_CACHE_DIR to one"},
};

static const quirk *find_quirk(const char *platform, const char *device) {
  for (size_t i = 0; i < sizeof quirks / sizeof *quirks; i++)
    if (strstr(platform, quirks[i].platform) && strstr(device, quirks[i].device)) return &quirks[i];
  return NULL;
}

const char *quirk_refusal(const char *platform, const char *device) {
  const quirk *q = find_quirk(platform, device);
  return q ? q->refusal : NULL;
}

const char *quirk_empty(const char *platform) {
  const quirk *q = find_quirk(platform, "");
  return q ? q->empty : NULL;
}

bool quirk_lanes(const char *platform, const char *device) {
  const quirk *q = find_quirk(platform, device);
  return q && q->lanes;
}
