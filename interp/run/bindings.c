/* Creates and destroys bindings, and manages the list of bindings that a method keeps. */
#include "interp/run/bindings.h"

#include <stdlib.h>
#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/arenas.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- lifetime */

static void drop_state(const session *session, command_state *state) {
  const backend_vtable *vt = session->devices.backends[state->backend]->vt;
  if (state->state) vt->state_destroy(session->streams[state->backend], state->state);
  *state = (command_state){0};
}

static void drop_carried(const session *session, carried_list *list) {
  for (uint32_t k = 0; k < list->n; k++) drop_state(session, &list->items[k].copy);
  free(list->items);
  *list = (carried_list){0};
}

static void binding_destroy(session *session, binding *binding) {
  if (!binding) return;
  if (binding->schedule != binding->root) schedule_release(session->executable, binding->schedule);
  schedule_release(session->executable, binding->root);
  for (int i = 0; i < MAX_BACKENDS; i++) free(binding->bound[i]);
  for (size_t i = 0; i < binding->cap_commands; i++) drop_state(session, &binding->commands[i]);
  for (size_t i = 0; i < binding->cap_controls; i++) drop_carried(session, &binding->carried[i]);
  free(binding->carried);
  free(binding->blocks);
  free(binding->commands);
  free(binding);
}

/* Takes ownership of the schedule. */
static clave_status binding_create(session *session, schedule *schedule, binding **out) {
  size_t n = slot_count(session->prog);
  binding *binding = *out = calloc(1, sizeof *binding);
  bool good = binding;
  for (int i = 0; good && i < session->devices.count; i++)
    good = (binding->bound[i] = calloc(n + 2, sizeof *binding->bound[i]));
  if (!good) {
    binding_destroy(session, binding);
    *out = NULL;
    schedule_release(session->executable, schedule);
    return status_no_memory();
  }
  binding->root = schedule;
  return NULL;
}

/* Grows an array to n items or more; new items are zeroed. */
static clave_status grow_zeroed(void *array, size_t *capacity, size_t n, size_t size) {
  size_t had = *capacity;
  if (!array_reserve(array, capacity, n, size)) return status_no_memory();
  char *items;
  memcpy(&items, array, sizeof items);
  if (*capacity > had) memset(items + had * size, 0, (*capacity - had) * size);
  return NULL;
}

/* Allocates the states of a loop's carried values. */
static clave_status make_carried(const running *run, uint32_t index) {
  carried_list *list = &run->binding->carried[index];
  uint32_t n = run->binding->schedule->controls[index]->n_results;
  if (list->n == n) return NULL;
  drop_carried(run->session, list);
  list->items = calloc(n + (size_t)1, sizeof *list->items);
  if (!list->items) return status_no_memory();
  list->n = n;
  return NULL;
}

clave_status reserve_binding(const running *run) {
  binding *binding = run->binding;
  const schedule *schedule = binding->schedule;
  TRY(grow_zeroed(&binding->blocks, &binding->cap_blocks, schedule->n_blocks,
                  sizeof *binding->blocks));
  TRY(grow_zeroed(&binding->commands, &binding->cap_commands, schedule->n_commands,
                  sizeof *binding->commands));
  TRY(grow_zeroed(&binding->carried, &binding->cap_controls, schedule->n_controls,
                  sizeof *binding->carried));
  for (uint32_t i = schedule->first_control; i < schedule->n_controls; i++)
    TRY(make_carried(run, i));
  for (uint32_t i = schedule->first_command; i < schedule->n_commands; i++) {
    command_state *state = &binding->commands[i];
    if (state->backend != schedule->commands[i].backend) drop_state(run->session, state);
    state->backend = schedule->commands[i].backend;
    state->checked = false;
  }
  return NULL;
}

/* ---------------------------------------------------------------- kept bindings */

/* Finds the normal schedule, or the low-memory schedule if packed weights exceed the budget. */
static clave_status find_schedule(const running *run, const scalar_value *values, schedule **out) {
  TRY(schedule_find(run->session->executable, run->index, values, false, out));
  if (run->session->options.packs || fits_budget(run->session, *out)) return NULL;
  schedule_release(run->session->executable, *out);
  return schedule_find(run->session->executable, run->index, values, true, out);
}

clave_status find_binding(running *run, const scalar_value *values) {
  session *session = run->session;
  binding **list = run->state->bindings;
  uint32_t n_values = session->prog->ir.values.count;
  int i = 0;
  while (i < KEPT_BINDINGS && list[i] && !scalars_equal(list[i]->root->key, values, n_values)) i++;
  run->binding = i < KEPT_BINDINGS ? list[i] : NULL;
  if (!run->binding) {
    schedule *schedule;
    TRY(find_schedule(run, values, &schedule));
    TRY(binding_create(session, schedule, &run->binding));
    if (i == KEPT_BINDINGS) binding_destroy(session, list[--i]);
  }
  memmove(&list[1], &list[0], (size_t)i * sizeof list[0]);
  list[0] = run->binding;
  return NULL;
}

void forget_binding(const running *run) {
  binding **list = run->state->bindings;
  binding_destroy(run->session, list[0]);
  memmove(&list[0], &list[1], (KEPT_BINDINGS - 1) * sizeof list[0]);
  list[KEPT_BINDINGS - 1] = NULL;
}

void forget_bindings(session *session) {
  for (uint32_t k = 0; k < session->prog->ir.methods.count; k++)
    for (int i = 0; i < KEPT_BINDINGS; i++) {
      binding_destroy(session, session->methods[k].bindings[i]);
      session->methods[k].bindings[i] = NULL;
    }
}
