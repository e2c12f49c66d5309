/* The tuning tables of a device's backends in the cache folder: which device one is for, opening
 * and closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/file.h"

static void append_field(text *t, const char *s) {
  text_puts(t, t->size ? "; " : "");
  for (; s && *s; s++) {
    char c = *s >= ' ' && *s <= '~' ? *s : '?';
    text_append(t, &c, 1);
  }
}

clave_status tuning_identity(const backend_info *i, text *out) {
  char units[32];
  bool is_cpu = strcmp(i->kind, "cpu") == 0;
  (void)snprintf(units, sizeof units, is_cpu ? "%u threads" : "%u units",
                 (unsigned)i->compute_units);
  const char *fields[] = {i->kind,
                          i->name,
                          i->platform,
                          i->driver,
                          units,
                          is_cpu ? i->weight_layout : "",
                          "clave " CLAVE_VERSION,
                          getenv("CLAVE_DEVICE_CLASS"),
                          getenv("CLAVE_ASM")};
  for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
    if (fields[k] && *fields[k]) append_field(out, fields[k]);
  return text_status(out);
}

static void note_ignored(const clave_device *d, const char *path, const char *why) {
  text t = {0};
  text_printf(&t, "the tuning table %s is ignored: %s", path, why);
  if (d->message && t.data) d->message(d->message_ctx, t.data);
  text_free(&t);
}

/* A table that cannot be read costs what it would have gained. */
static clave_status load_table(const clave_device *d, int b) {
  const char *why = NULL;
  char *path = tuning_path(d->cache_dir, d->tuned_for[b].data);
  if (!path) return status_no_memory();
  clave_status st = tuning_load(d->set.backends[b]->tuning, path, d->tuned_for[b].data, &why);
  if (why) note_ignored(d, path, why);
  if (st && status_code_of(st) != STATUS_NO_MEMORY) {
    note_ignored(d, path, status_message(st));
    status_free(st);
    st = NULL;
  }
  free(path);
  return st;
}

clave_status device_open_tables(clave_device *d) {
  for (int b = 0; b < d->set.count; b++) {
    TRY(tuning_identity(&d->set.backends[b]->info, &d->tuned_for[b]));
    TRY(tuning_create(&d->set.backends[b]->tuning));
    if (d->cache_dir) TRY(load_table(d, b));
  }
  return NULL;
}

void device_close_tables(clave_device *d) {
  for (int b = 0; b < d->set.count; b++) {
    tuning_destroy(d->set.backends[b]->tuning);
    text_free(&d->tuned_for[b]);
  }
}

uint32_t tuning_count_kept(const char *folder, const char *device) {
  tuning *t = NULL;
  const char *why;
  char *path = tuning_path(folder, device);
  clave_status st = path && file_exists(path) ? tuning_create(&t) : NULL;
  if (!st && t) st = tuning_load(t, path, device, &why);
  const uint32_t n = !st && t ? (uint32_t)tuning_count(t) : 0;
  status_free(st);
  tuning_destroy(t);
  free(path);
  return n;
}
