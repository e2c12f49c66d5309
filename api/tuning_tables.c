/* The tuning tables of a device's backends: identifies, loads and frees them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/file.h"

static void tuning_tables_append_field(text *to, const char *string) {
  text_puts(to, to->size ? "; " : "");
  for (; string && *string; string++) {
    char c = *string >= ' ' && *string <= '~' ? *string : '?';
    text_append(to, &c, 1);
  }
}

clave_status tuning_identity(const backend_info *info, text *out) {
  char units[32];
  bool is_cpu = strcmp(info->kind, "cpu") == 0;
  (void)snprintf(units, sizeof units, is_cpu ? "%u threads" : "%u units",
                 (unsigned)info->compute_units);
  const char *fields[] = {info->kind,
                          info->name,
                          info->platform,
                          info->driver,
                          units,
                          is_cpu ? info->weight_layout : "",
                          "clave " CLAVE_VERSION,
                          getenv("CLAVE_DEVICE_CLASS"),
                          getenv("CLAVE_ASM")};
  for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
    if (fields[k] && *fields[k]) tuning_tables_append_field(out, fields[k]);
  return text_status(out);
}

static void tuning_tables_note_ignored(const clave_device *device, const char *path,
                                       const char *why) {
  text text = {0};
  text_printf(&text, "the tuning table %s is ignored: %s", path, why);
  if (device->message && text.data) device->message(device->message_ctx, text.data);
  text_free(&text);
}

/* Loads a backend's table. A table that cannot be used is ignored, and a message says why. */
static clave_status load_table(const clave_device *device, int b) {
  const char *why = NULL;
  char *path = tuning_path(device->cache_dir, device->tuned_for[b].data);
  if (!path) return status_no_memory();
  clave_status st =
      tuning_load(device->set.backends[b]->tuning, path, device->tuned_for[b].data, &why);
  if (why) tuning_tables_note_ignored(device, path, why);
  if (st && status_code_of(st) != STATUS_NO_MEMORY) {
    tuning_tables_note_ignored(device, path, status_message(st));
    status_free(st);
    st = NULL;
  }
  free(path);
  return st;
}

clave_status device_open_tables(clave_device *device) {
  for (int b = 0; b < device->set.count; b++) {
    TRY(tuning_identity(&device->set.backends[b]->info, &device->tuned_for[b]));
    TRY(tuning_create(&device->set.backends[b]->tuning));
    if (device->cache_dir) TRY(load_table(device, b));
  }
  return NULL;
}

void device_close_tables(clave_device *device) {
  for (int b = 0; b < device->set.count; b++) {
    tuning_destroy(device->set.backends[b]->tuning);
    text_free(&device->tuned_for[b]);
  }
}

uint32_t tuning_count_kept(const char *folder, const char *device) {
  tuning *tuning = NULL;
  const char *why;
  char *path = tuning_path(folder, device);
  clave_status st = path && file_exists(path) ? tuning_create(&tuning) : NULL;
  if (!st && tuning) st = tuning_load(tuning, path, device, &why);
  const uint32_t n = !st && tuning ? (uint32_t)tuning_count(tuning) : 0;
  status_free(st);
  tuning_destroy(tuning);
  free(path);
  return n;
}
