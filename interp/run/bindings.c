/* Schedules with addresses: their making and what they own; and those of its last sizes, which a
 * method keeps. */
#include "interp/run/bindings.h"

#include <stdlib.h>
#include <string.h>

#include "interp/plan/schedule_cache.h"
#include "interp/run/arenas.h"
#include "interp/scalar.h"

/* ---------------------------------------------------------------- lifetime */

static void drop_state(const session *s, command_state *c) {
  const backend_vtable *vt = s->devices.backends[c->backend]->vt;
  if (c->state) vt->state_destroy(s->streams[c->backend], c->state);
  *c = (command_state){0};
}

static void drop_carried(const session *s, carried_list *l) {
  for (uint32_t k = 0; k < l->n; k++) drop_state(s, &l->items[k].copy);
  free(l->items);
  *l = (carried_list){0};
}

static void binding_destroy(session *s, binding *b) {
  if (!b) return;
  if (b->p != b->root) schedule_release(s->x, b->p);
  schedule_release(s->x, b->root);
  for (int i = 0; i < MAX_BACKENDS; i++) free(b->bound[i]);
  for (size_t i = 0; i < b->cap_commands; i++) drop_state(s, &b->commands[i]);
  for (size_t i = 0; i < b->cap_controls; i++) drop_carried(s, &b->carried[i]);
  free(b->carried);
  free(b->blocks);
  free(b->commands);
  free(b);
}

/* Takes p over. */
static clave_status binding_create(session *s, schedule *p, binding **out) {
  size_t n = slot_count(s->prog);
  binding *b = *out = calloc(1, sizeof *b);
  bool good = b;
  for (int i = 0; good && i < s->devices.count; i++)
    good = (b->bound[i] = calloc(n + 2, sizeof *b->bound[i]));
  if (!good) {
    binding_destroy(s, b);
    *out = NULL;
    schedule_release(s->x, p);
    return status_no_memory();
  }
  b->root = p;
  return NULL;
}

/* Zeroed room for n items. */
static clave_status grow_zeroed(void *array, size_t *capacity, size_t n, size_t size) {
  size_t had = *capacity;
  if (!array_reserve(array, capacity, n, size)) return status_no_memory();
  char *items;
  memcpy(&items, array, sizeof items);
  if (*capacity > had) memset(items + had * size, 0, (*capacity - had) * size);
  return NULL;
}

/* What loops of the current schedule carry. */
static clave_status make_carried(const running *r, uint32_t index) {
  carried_list *l = &r->b->carried[index];
  uint32_t n = r->b->p->controls[index]->n_results;
  if (l->n == n) return NULL;
  drop_carried(r->s, l);
  l->items = calloc(n + (size_t)1, sizeof *l->items);
  if (!l->items) return status_no_memory();
  l->n = n;
  return NULL;
}

clave_status reserve_binding(const running *r) {
  binding *b = r->b;
  const schedule *p = b->p;
  TRY(grow_zeroed(&b->blocks, &b->cap_blocks, p->n_blocks, sizeof *b->blocks));
  TRY(grow_zeroed(&b->commands, &b->cap_commands, p->n_commands, sizeof *b->commands));
  TRY(grow_zeroed(&b->carried, &b->cap_controls, p->n_controls, sizeof *b->carried));
  for (uint32_t i = p->first_control; i < p->n_controls; i++) TRY(make_carried(r, i));
  for (uint32_t i = p->first_command; i < p->n_commands; i++) {
    command_state *c = &b->commands[i];
    if (c->backend != p->commands[i].backend) drop_state(r->s, c);
    c->backend = p->commands[i].backend;
    c->checked = false;
  }
  return NULL;
}

/* ---------------------------------------------------------------- those of past sizes */

/* With the packed weights that the devices want, unless memory does not suffice for
 * them. */
static clave_status find_schedule(const running *r, const scalar_value *values, schedule **out) {
  TRY(schedule_find(r->s->x, r->index, values, false, out));
  if (r->s->options.packs || fits_budget(r->s, *out)) return NULL;
  schedule_release(r->s->x, *out);
  return schedule_find(r->s->x, r->index, values, true, out);
}

clave_status find_binding(running *r, const scalar_value *values) {
  session *s = r->s;
  binding **list = r->state->bindings;
  uint32_t n_values = s->prog->ir.values.count;
  int i = 0;
  while (i < KEPT_BINDINGS && list[i] && !scalars_equal(list[i]->root->key, values, n_values)) i++;
  r->b = i < KEPT_BINDINGS ? list[i] : NULL;
  if (!r->b) {
    schedule *p;
    TRY(find_schedule(r, values, &p));
    TRY(binding_create(s, p, &r->b));
    if (i == KEPT_BINDINGS) binding_destroy(s, list[--i]);
  }
  memmove(&list[1], &list[0], (size_t)i * sizeof list[0]);
  list[0] = r->b;
  return NULL;
}

void forget_binding(const running *r) {
  binding **list = r->state->bindings;
  binding_destroy(r->s, list[0]);
  memmove(&list[0], &list[1], (KEPT_BINDINGS - 1) * sizeof list[0]);
  list[KEPT_BINDINGS - 1] = NULL;
}

void forget_bindings(session *s) {
  for (uint32_t k = 0; k < s->prog->ir.methods.count; k++)
    for (int i = 0; i < KEPT_BINDINGS; i++) {
      binding_destroy(s, s->methods[k].bindings[i]);
      s->methods[k].bindings[i] = NULL;
    }
}
