/* The device of a carried program: of its own kind, with nothing in its place. */
#include "compile/carried/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "clave.h"

/* Every item of a list begins with "opencl". */
static bool names_opencl(const char *said) {
  for (;; said++) {
    said += strspn(said, " ");
    if (strncmp(said, "opencl", 6) != 0) return false;
    said += strcspn(said, ",");
    if (!*said) return true;
  }
}

clave_status carried_device(const char *device, const char *said, const char *from,
                            const char **out) {
  *out = device;
  if (strcmp(device, "opencl") != 0) return NULL;
  if (said && *said && !names_opencl(said))
    return INVALID(
        "%s is '%s'; this executable runs on OpenCL devices alone: opencl, opencl:N or "
        "opencl:TEXT",
        from, said);
  if (said && *said) *out = said;
  if (!getenv("PATH")) environment_set("PATH", "/usr/bin:/bin"); /* PoCL looks for its linker */
  const char *hint = clave_devices_hint();
  return carried_why(device, hint ? status_new(STATUS_DEVICE, "%s", hint) : NULL);
}

clave_status carried_why(const char *device, clave_status st) {
  return strcmp(device, "opencl") == 0
             ? status_while(st, "this executable runs on OpenCL devices alone")
             : st;
}
