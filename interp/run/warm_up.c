/* Warming up: a thread prepares a session on a device while another session, on the CPU backend,
 * active. The thread plans, builds and prepares, but runs nothing: state and arguments stay in the
 * other session until the move.
 *
 * From thread_create until is_done is set, only the thread may use the session. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "interp/run/argument_memory.h"
#include "interp/run/run.h"

struct warm_up {
  session *device; /* owned; NULL: it has replaced the other session, or preparing it failed */
  thread *worker;  /* owned; NULL if no thread is running or waiting to be joined */
  atomic_bool is_done, is_stopped;
  /* The worker's task and its outcome. */
  uint32_t index;     /* index of the method */
  method_sizes sizes; /* owned */
  clave_status status;
  text notes; /* messages of the device's session, in lines */
};

static bool is_stopped(void *ctx) { return atomic_load(&((warm_up *)ctx)->is_stopped); }

static void keep_note(void *ctx, const char *line) {
  warm_up *warm_up = ctx;
  text_puts(&warm_up->notes, line);
  text_puts(&warm_up->notes, "\n");
}

/* ---------------------------------------------------------------- lifetime */

clave_status warm_up_create(executable *executable, constant_store *const *stores,
                            const session_options *options, warm_up **out) {
  *out = NULL;
  warm_up *warm_up = calloc(1, sizeof *warm_up);
  if (!warm_up) return status_no_memory();
  session_options own = *options; /* replaced by the caller's options after the move */
  own.progress = NULL;
  own.message = keep_note;
  own.cancel = is_stopped;
  own.message_ctx = own.cancel_ctx = warm_up;
  clave_status st = session_create(executable, stores, &own, &warm_up->device);
  if (st) {
    free(warm_up);
    return st;
  }
  *out = warm_up;
  return NULL;
}

/* Waits for the worker and returns its status. */
static clave_status end_work(warm_up *warm_up) {
  thread_join(warm_up->worker);
  warm_up->worker = NULL;
  free(warm_up->sizes.values);
  free(warm_up->sizes.items);
  warm_up->sizes = (method_sizes){0};
  clave_status st = warm_up->status;
  warm_up->status = NULL;
  return st;
}

void warm_up_destroy(warm_up *warm_up) {
  if (!warm_up) return;
  atomic_store(&warm_up->is_stopped, true);
  status_free(end_work(warm_up));
  session_destroy(warm_up->device);
  text_free(&warm_up->notes);
  free(warm_up);
}

/* ---------------------------------------------------------------- the thread */

static void warm_up_work(void *ctx) {
  warm_up *warm_up = ctx;
  warm_up->status = session_prepare(warm_up->device, warm_up->index, &warm_up->sizes);
  atomic_store(&warm_up->is_done, true);
}

static clave_status copy_values(const scalar_value *from, uint32_t n, scalar_value **out) {
  *out = calloc((size_t)n + 1, sizeof **out);
  if (!*out) return status_no_memory();
  if (n) memcpy(*out, from, n * sizeof **out);
  return NULL;
}

/* Begins to prepare the device for these sizes and the items of the last run. Does nothing if that
 * run failed after reading items, because they may be wrong. */
static clave_status begin_work(warm_up *warm_up, const session *active, uint32_t index,
                               const scalar_value *values) {
  const method_state *last = &active->methods[index];
  if (last->has_failed && last->n_items) return NULL;
  TRY(session_match_sizes(warm_up->device, active));
  TRY(copy_values(values, active->prog->ir.values.count, &warm_up->sizes.values));
  TRY(copy_values(last->items, last->n_items, &warm_up->sizes.items));
  warm_up->sizes.n_items = last->n_items;
  warm_up->index = index;
  atomic_store(&warm_up->is_done, false);
  return thread_create(warm_up_work, warm_up, &warm_up->worker);
}

/* ---------------------------------------------------------------- the move to the device */

static void pass_notes(warm_up *warm_up, const session_options *to) {
  char *line = warm_up->notes.data;
  for (char *end; warm_up->notes.size && line && (end = strchr(line, '\n')); line = end + 1) {
    *end = 0;
    if (to->message) to->message(to->message_ctx, line);
  }
  text_clear(&warm_up->notes);
}

static void give_up(warm_up *warm_up, const session *active, clave_status why) {
  text note = {0};
  pass_notes(warm_up, &active->options);
  text_printf(&note, "preparing %s failed (%s); the CPU backend continues to run the program",
              session_device(warm_up->device)->name, status_message(why));
  if (active->options.message && note.data)
    active->options.message(active->options.message_ctx, note.data);
  text_free(&note);
  status_free(why);
  session_destroy(warm_up->device);
  warm_up->device = NULL;
}

static clave_status move(warm_up *warm_up, session **active) {
  session *from = *active, *to = warm_up->device;
  TRY(session_copy_state(to, from));
  move_arguments(to, from);
  pass_notes(warm_up, &from->options);
  to->options = from->options;
  session_observe(to, from->observe, from->observe_ctx);
  session_destroy(from);
  *active = to;
  warm_up->device = NULL;
  return NULL;
}

/* Errors in the inputs are ignored here, because the run reports them. */
static clave_status advance(warm_up *warm_up, session **active, uint32_t index,
                            scalar_value *values) {
  bool ready = false;
  clave_status st = end_work(warm_up);
  if (!st) st = session_values(*active, index, values);
  if (!st) st = session_is_ready(warm_up->device, index, values, &ready);
  if (!st) st = ready ? move(warm_up, active) : begin_work(warm_up, *active, index, values);
  if (status_code_of(st) != STATUS_INVALID) return st;
  status_free(st);
  return NULL;
}

void warm_up_advance(warm_up *warm_up, session **active, uint32_t index) {
  if (!warm_up->device || (warm_up->worker && !atomic_load(&warm_up->is_done))) return;
  scalar_value *values = calloc((*active)->prog->ir.values.count + (size_t)1, sizeof *values);
  clave_status st = values ? advance(warm_up, active, index, values) : status_no_memory();
  free(values);
  if (st) give_up(warm_up, *active, st);
}
