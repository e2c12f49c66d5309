/* Notes about a device, which its opener receives, its loss, and the key of its binaries. */
#include "backend/opencl/device/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/number.h"

void device_note(cl_device *device, const char *format, ...) {
  if (!device->message) return;
  char line[512];
  va_list args;
  va_start(args, format);
  number_vprint(line, sizeof line, format, args);
  va_end(args);
  mutex_lock(device->note_lock);
  device->message(device->message_ctx, line);
  mutex_unlock(device->note_lock);
}

static bool any_was_lost; /* atomic */

void device_set_lost(cl_device *device) {
  __atomic_store_n(&device->is_lost, true, __ATOMIC_RELEASE);
  __atomic_store_n(&any_was_lost, true, __ATOMIC_RELAXED);
}

bool opencl_was_lost(void) { return __atomic_load_n(&any_was_lost, __ATOMIC_RELAXED); }

/* Appends the "flags" or "Features" line of the first CPU, if there is one. */
static void append_cpu_flags(text *text) {
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return;
  char line[4096];
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) continue;
    text_append(text, line, strlen(line));
    break;
  }
  fclose(file);
}

/* Includes the CPU's flags, because PoCL's code for one CPU may be illegal on another. */
clave_status device_platform_key(const backend_info *info, uint64_t key[2]) {
  text text = {0};
  text_printf(&text, "%s\n%s\n%s\n%zu\n", info->platform, info->name, info->driver, sizeof(void *));
  if (strcmp(info->type, "CPU") == 0) append_cpu_flags(&text);
  clave_status st = text_status(&text);
  if (!st) hash_bytes_128(text.data, text.size, key);
  text_free(&text);
  return st;
}
