/* Tuning: rows of the tables of a device's backends, and measuring for a session. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/file.h"
#include "base/float_env.h"
#include "clave_tune.h"

_Static_assert(sizeof(((clave_tuning_row *)0)->family) == TUNING_FAMILY &&
                   sizeof(((clave_tuning_row *)0)->key) == TUNING_KEY &&
                   sizeof(((clave_tuning_row *)0)->variant) == TUNING_VARIANT,
               "rows");

/* ---------------------------------------------------------------- the table */

static tuning *preferred(const clave_device *d) { return d->set.backends[0]->tuning; }

clave_status clave_tuning_get(const clave_device *d, uint32_t index, clave_tuning_row *row) {
  tuning_row r;
  clave_tuning_row own;
  if (!tuning_get(preferred(d), index, &r))
    return INVALID("row %u of a tuning table with %zu", index, tuning_count(preferred(d)));
  memset(&own, 0, sizeof own);
  memcpy(own.family, r.family, sizeof own.family);
  memcpy(own.key, r.key, sizeof own.key);
  memcpy(own.variant, r.variant, sizeof own.variant);
  return sized_write(&own, row, SIZED(clave_tuning_row, variant));
}

const char *clave_tuning_device(const clave_device *d) { return d->tuned_for[0].data; }

clave_status clave_tuning_put(clave_device *d, const char *family, const char *key,
                              const char *variant) {
  return tuning_put(preferred(d), family, key, variant);
}

static clave_status save_table(const clave_device *d, int b) {
  if (!d->cache_dir)
    return INVALID("there is no cache folder to keep a tuning table in (CLAVE_CACHE_DIR)");
  return status_while(tuning_save(d->set.backends[b]->tuning, d->cache_dir, d->tuned_for[b].data),
                      "keeping the tuning table");
}

clave_status clave_tuning_save(clave_device *d) { return save_table(d, 0); }

clave_status clave_tuning_clear(clave_device *d) {
  tuning_clear(preferred(d));
  char *path = d->cache_dir ? tuning_path(d->cache_dir, d->tuned_for[0].data) : NULL;
  clave_status st = d->cache_dir && !path ? status_no_memory() : NULL;
  if (path && file_exists(path) && !file_remove(path))
    st = status_new(STATUS_IO, "%s cannot be removed", path);
  free(path);
  return st;
}

/* ---------------------------------------------------------------- measuring */

typedef struct relay {
  clave_tune_options o;
  const clave_device *device;
} relay;

static bool relay_event(void *ctx, const tune_event *e) {
  const relay *r = ctx;
  const clave_tune_event event = {.size = sizeof event,
                                  .device = e->device->name,
                                  .family = e->family,
                                  .key = e->key,
                                  .variant = e->variant,
                                  .by_rule = e->by_rule,
                                  .ratio = e->ratio,
                                  .n_variants = (uint32_t)e->n,
                                  .how = (clave_tune_how)e->how,
                                  .done = (uint32_t)e->done,
                                  .total = (uint32_t)e->total};
  return !r->o.report || r->o.report(r->o.ctx, &event);
}

static bool relay_cancel(void *ctx) {
  const relay *r = ctx;
  return r->o.cancel && r->o.cancel(r->o.ctx);
}

static clave_status keep_winner(void *ctx, const backend *b) {
  const relay *r = ctx;
  for (int i = 0; i < r->device->set.count; i++)
    if (r->device->set.backends[i] == b) return save_table(r->device, i);
  return NULL;
}

/* A table that cannot be written is told before anything is measured. */
static clave_status check_kept(const relay *r) {
  if (r->o.unkept || r->o.dry) return NULL;
  return save_table(r->device, 0);
}

clave_status clave_session_tune(clave_session *s, const char *method,
                                const clave_tune_options *options, clave_tune_result *result) {
  OWN_FLOAT_ENV;
  relay r = {.device = s->device};
  tune_result made;
  uint32_t m;
  TRY(device_check_process(s->device));
  TRY(sized_read(options, &r.o, SIZED(clave_tune_options, ctx)));
  TRY(session_check_answers(s, "it can be tuned"));
  TRY(program_find_method(s->program, method, &m));
  if (!(r.o.budget_s >= 0)) return INVALID("a budget of %g seconds", r.o.budget_s);
  TRY(check_kept(&r));
  const tune_options o = {.again = r.o.again,
                          .dry = r.o.dry,
                          .budget_s = r.o.budget_s,
                          .report = relay_event,
                          .cancel = relay_cancel,
                          .keep = r.o.unkept ? NULL : keep_winner,
                          .ctx = &r};
  TRY(session_tune(s->s, m, &o, &made));
  const clave_tune_result own = {
      .total = (uint32_t)made.total, .done = (uint32_t)made.done, .has_rest = made.has_rest};
  return result ? sized_write(&own, result, SIZED(clave_tune_result, has_rest)) : NULL;
}
