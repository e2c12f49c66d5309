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

static tuning *preferred(const clave_device *device) { return device->set.backends[0]->tuning; }

clave_status clave_tuning_get(const clave_device *device, uint32_t index, clave_tuning_row *row) {
  tuning_row tuning_row;
  clave_tuning_row own;
  if (!tuning_get(preferred(device), index, &tuning_row))
    return INVALID("index %u is out of range: the tuning table has %zu rows", index,
                   tuning_count(preferred(device)));
  memset(&own, 0, sizeof own);
  memcpy(own.family, tuning_row.family, sizeof own.family);
  memcpy(own.key, tuning_row.key, sizeof own.key);
  memcpy(own.variant, tuning_row.variant, sizeof own.variant);
  return sized_write(&own, row, SIZED(clave_tuning_row, variant));
}

const char *clave_tuning_device(const clave_device *device) { return device->tuned_for[0].data; }

clave_status clave_tuning_put(clave_device *device, const char *family, const char *key,
                              const char *variant) {
  return tuning_put(preferred(device), family, key, variant);
}

static clave_status save_table(const clave_device *device, int b) {
  if (!device->cache_dir)
    return INVALID("no cache folder is usable to store the tuning table: set CLAVE_CACHE_DIR");
  return status_while(
      tuning_save(device->set.backends[b]->tuning, device->cache_dir, device->tuned_for[b].data),
      "saving the tuning table");
}

clave_status clave_tuning_save(clave_device *device) { return save_table(device, 0); }

clave_status clave_tuning_clear(clave_device *device) {
  tuning_clear(preferred(device));
  char *path = device->cache_dir ? tuning_path(device->cache_dir, device->tuned_for[0].data) : NULL;
  clave_status st = device->cache_dir && !path ? status_no_memory() : NULL;
  if (path && file_exists(path) && !file_remove(path))
    st = status_new(STATUS_IO, "cannot remove %s", path);
  free(path);
  return st;
}

/* ---------------------------------------------------------------- measuring */

typedef struct relay {
  clave_tune_options options;
  const clave_device *device;
} relay;

static bool relay_event(void *ctx, const tune_event *tune_event) {
  const relay *relay = ctx;
  const clave_tune_event event = {.size = sizeof event,
                                  .device = tune_event->device->name,
                                  .family = tune_event->family,
                                  .key = tune_event->key,
                                  .variant = tune_event->variant,
                                  .by_rule = tune_event->by_rule,
                                  .ratio = tune_event->ratio,
                                  .n_variants = (uint32_t)tune_event->n,
                                  .how = (clave_tune_how)tune_event->how,
                                  .done = (uint32_t)tune_event->done,
                                  .total = (uint32_t)tune_event->total};
  return !relay->options.report || relay->options.report(relay->options.ctx, &event);
}

static bool relay_cancel(void *ctx) {
  const relay *relay = ctx;
  return relay->options.cancel && relay->options.cancel(relay->options.ctx);
}

static clave_status keep_winner(void *ctx, const backend *backend) {
  const relay *relay = ctx;
  for (int i = 0; i < relay->device->set.count; i++)
    if (relay->device->set.backends[i] == backend) return save_table(relay->device, i);
  return NULL;
}

/* Saves the table before measuring, to fail early if it cannot be written. */
static clave_status check_kept(const relay *relay) {
  if (relay->options.unkept || relay->options.dry) return NULL;
  return save_table(relay->device, 0);
}

clave_status clave_session_tune(clave_session *session, const char *method,
                                const clave_tune_options *options, clave_tune_result *result) {
  OWN_FLOAT_ENV;
  relay relay = {.device = session->device};
  tune_result made;
  uint32_t m;
  TRY(device_check_process(session->device));
  TRY(sized_read(options, &relay.options, SIZED(clave_tune_options, ctx)));
  TRY(session_check_answers(session, "the session can be tuned"));
  TRY(program_find_method(session->program, method, &m));
  if (!(relay.options.budget_s >= 0))
    return INVALID("budget_s: expected 0 or more, got %g", relay.options.budget_s);
  TRY(check_kept(&relay));
  const tune_options tune_options = {.again = relay.options.again,
                                     .dry = relay.options.dry,
                                     .budget_s = relay.options.budget_s,
                                     .report = relay_event,
                                     .cancel = relay_cancel,
                                     .keep = relay.options.unkept ? NULL : keep_winner,
                                     .ctx = &relay};
  TRY(session_tune(session->session, m, &tune_options, &made));
  const clave_tune_result own = {
      .total = (uint32_t)made.total, .done = (uint32_t)made.done, .has_rest = made.has_rest};
  return result ? sized_write(&own, result, SIZED(clave_tune_result, has_rest)) : NULL;
}
