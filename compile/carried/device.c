/* Opens the device of a carried program: only of the kind it was compiled for, without a fallback.
 */
#include "compile/carried/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/process.h"
#include "clave_tune.h"
#include "compile/carried/carried.h"

/* True if every item of the list begins with "opencl". */
static bool names_opencl(const char *choice) {
  for (;; choice++) {
    choice += strspn(choice, " ");
    if (strncmp(choice, "opencl", 6) != 0) return false;
    choice += strcspn(choice, ",");
    if (!*choice) return true;
  }
}

static const char *product_name(void) { return carried.is_library ? "library" : "executable"; }

clave_status carried_device(const char *device, const char *choice, const char *from,
                            const char **out) {
  *out = device;
  if (strcmp(device, "opencl") != 0) return NULL;
  if (choice && *choice && !names_opencl(choice))
    return INVALID(
        "%s is '%s', and this %s runs only on OpenCL devices: opencl, opencl:N or opencl:TEXT",
        from, choice, product_name());
  if (choice && *choice) *out = choice;
  /* PoCL needs PATH to find its linker. A library does not change its process's environment. */
  if (!carried.is_library && !getenv("PATH")) environment_set("PATH", "/usr/bin:/bin");
  const char *hint = clave_devices_hint();
  return carried_why(device, hint ? status_new(STATUS_DEVICE, "%s", hint) : NULL);
}

clave_status carried_why(const char *device, clave_status st) {
  return strcmp(device, "opencl") == 0
             ? status_while(st, "this %s runs only on OpenCL devices", product_name())
             : st;
}

/* Status codes have the same numbers as in the public header. */
clave_status carried_status(clave_status of_library) {
  if (!of_library) return NULL;
  clave_status st = status_new((status_code)clave_status_code(of_library), "%s",
                               clave_status_message(of_library));
  clave_status_free(of_library);
  return st;
}

int carried_answer(clave_status *kept, clave_status st) {
  status_free(*kept);
  *kept = st;
  return st != NULL;
}

/* Applies the tuning rows if the device is the tuned one; other devices use default choices. */
static clave_status put_tuned(clave_device *device, void (*note)(void *ctx, const char *line),
                              void *ctx) {
  text text = {0};
  if (!carried.n_tuned) return NULL;
  if (strcmp(carried.tuned_for, clave_tuning_device(device)) == 0) {
    for (int i = 0; i < carried.n_tuned; i++) {
      const carried_row *row = &carried.tuned[i];
      TRY(carried_status(clave_tuning_put(device, row->family, row->key, row->variant)));
    }
    return NULL;
  }
  text_printf(&text, "the program is tuned for %s, so the default kernels run on %s",
              carried.tuned_for, clave_tuning_device(device));
  if (note && !text.failed) note(ctx, text.data);
  text_free(&text);
  return NULL;
}

clave_status carried_open(int n_threads, void (*note)(void *ctx, const char *line), void *ctx,
                          clave_device **out) {
  const clave_device_options options = {.size = sizeof options,
                                        .n_threads = n_threads,
                                        .message = note,
                                        .message_ctx = ctx,
                                        .binaries = carried.binaries,
                                        .binaries_size = carried.binaries_size};
  const char *spec;
  *out = NULL;
  TRY(carried_device(carried.device, getenv("CLAVE_DEVICE"), "CLAVE_DEVICE", &spec));
  clave_status st = carried_status(clave_device_open(spec, &options, out));
  if (!st && (st = put_tuned(*out, note, ctx))) {
    clave_device_destroy(*out);
    *out = NULL;
  }
  return carried_why(carried.device, st);
}
