/* Every known oddity of a platform or device, each with its reason. The only such list. */
#include <string.h>

#include "backend/opencl/device.h"

/* Parts of names; "" matches all. */
typedef struct quirk {
  const char *platform, *device, *refusal;
} quirk;

static const quirk quirks[] = {
    /* Mesa's old state tracker: OpenCL 1.1, miscompiles; rusticl replaces it. */
    {"Clover", "", "Mesa's Clover is OpenCL 1.1; use rusticl (RUSTICL_ENABLE)"},
};

const char *quirk_refusal(const char *platform, const char *device) {
  for (size_t i = 0; i < sizeof quirks / sizeof *quirks; i++)
    if (strstr(platform, quirks[i].platform) && strstr(device, quirks[i].device)) return quirks[i].refusal;
  return NULL;
}
