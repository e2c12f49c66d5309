/* Runs of unfused sessions whose results are kept and edited. */
#include "cli/node_run.h"

#include <stdlib.h>
#include <string.h>

#include "clave_debug.h"
#include "cli/bounds.h"
#include "cli/values.h"

typedef struct node_run {
  const run_edit *e; /* or NULL */
  records *out;
  size_t apart; /* the first record that is another; SIZE_MAX: none yet */
} node_run;

/* Whether the newest record is the one that the edited run has there. */
static bool follows(node_run *r) {
  const size_t at = r->out->count - 1;
  const records *base = r->e ? r->e->base : NULL;
  if (!base || r->apart != SIZE_MAX) return false;
  const record *mine = &r->out->items[at], *other = &base->items[at];
  const bool same = at < base->count && mine->node == other->node && mine->slot == other->slot &&
                    same_form(&mine->value, &other->value);
  if (!same) r->apart = at;
  return same;
}

static bool edit_value(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value,
                       bool *edited) {
  node_run *r = ctx;
  if (!keep_record(r->out, node, slot, value)) return false;
  if (!follows(r)) return true;
  const size_t at = r->out->count - 1;
  const clave_tensor *forced = r->e->forced ? r->e->forced[at] : NULL;
  const uint64_t n = count_elements(value);
  const size_t size = clave_dtype_size(value->dtype);
  for (uint64_t i = 0; forced && i < n; i++)
    memcpy((char *)value->data + i * size, element_at(forced, i), size);
  if (r->e->places) move_elements(value, r->e->places[at], r->e->opposite);
  *edited = forced || r->e->places;
  return true;
}

/* ---------------------------------------------------------------- inputs */

static int set_moved(const model *m, uint32_t index, const input *in, bool opposite) {
  records copy = {0};
  if (!keep_record(&copy, 0, 0, &in->value)) return fail_memory();
  move_elements(&copy.items->value, places_of(in->value.dtype, 1), opposite);
  clave_status st = clave_session_set_input(m->session, m->method.name, index, &copy.items->value);
  free_records(&copy);
  return st ? fail_status(st) : EXIT_GOOD;
}

static int set_all(const model *m, const input_set *inputs, const run_edit *e) {
  if (!e || !e->moves_inputs) return set_inputs(inputs, m);
  for (uint32_t i = 0; i < inputs->count; i++)
    TRY_EXIT(set_moved(m, i, &inputs->items[i], e->opposite));
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- a run */

static int keep_outputs(const model *m, node_run *r) {
  for (uint32_t i = 0; i < m->method.n_outputs; i++) {
    clave_tensor_info info = {.size = sizeof info};
    clave_tensor value;
    TRY_STATUS(clave_program_output(m->program, m->method.name, i, &info));
    TRY_STATUS(clave_session_output(m->session, m->method.name, i, &value));
    if (!keep_record(r->out, m->method.n_nodes + i, info.slot, &value)) return fail_memory();
    (void)follows(r);
  }
  return EXIT_GOOD;
}

int run_nodes(const model *m, const input_set *inputs, const run_edit *e, records *out,
              size_t *apart) {
  node_run r = {.e = e, .out = out, .apart = SIZE_MAX};
  TRY_STATUS(clave_session_reset(m->session));
  TRY_EXIT(set_all(m, inputs, e));
  TRY_STATUS(clave_session_edit(m->session, edit_value, &r));
  clave_status st = clave_session_run(m->session, m->method.name);
  if (out->no_memory) {
    clave_status_free(st); /* the run was stopped by us */
    return fail_memory();
  }
  if (st) return fail_status(st);
  TRY_EXIT(keep_outputs(m, &r));
  *apart = r.apart;
  return EXIT_GOOD;
}
