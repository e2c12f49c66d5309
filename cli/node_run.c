/* Runs of unfused sessions whose results are recorded and edited. */
#include "cli/node_run.h"

#include <stdlib.h>
#include <string.h>

#include "clave_debug.h"
#include "cli/bounds.h"
#include "cli/values.h"

typedef struct node_run {
  const run_edit *edit; /* or NULL */
  records *out;
  size_t diverged_at; /* the first record that differs from the base in slot or shape; SIZE_MAX:
                   none so far */
} node_run;

/* True if the newest record matches the base run's record at the same position. */
static bool node_run_follows(node_run *run) {
  const size_t at = run->out->count - 1;
  const records *base = run->edit ? run->edit->base : NULL;
  if (!base || run->diverged_at != SIZE_MAX) return false;
  const record *mine = &run->out->items[at], *other = &base->items[at];
  const bool same = at < base->count && mine->node == other->node && mine->slot == other->slot &&
                    same_shape(&mine->value, &other->value);
  if (!same) run->diverged_at = at;
  return same;
}

static bool edit_value(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value,
                       bool *edited) {
  node_run *run = ctx;
  if (!keep_record(run->out, node, slot, value)) return false;
  if (!node_run_follows(run)) return true;
  const size_t at = run->out->count - 1;
  const clave_tensor *forced = run->edit->forced ? run->edit->forced[at] : NULL;
  const uint64_t n = count_elements(value);
  const size_t size = clave_dtype_size(value->dtype);
  for (uint64_t i = 0; forced && i < n; i++)
    memcpy((char *)value->data + i * size, values_element_at(forced, i), size);
  if (run->edit->places) bounds_move_elements(value, run->edit->places[at], run->edit->opposite);
  *edited = forced || run->edit->places;
  return true;
}

/* ---------------------------------------------------------------- inputs */

static int set_moved(const model *model, uint32_t index, const input *in, bool opposite) {
  records copy = {0};
  if (!keep_record(&copy, 0, 0, &in->value)) return fail_memory();
  bounds_move_elements(&copy.items->value, places_of(in->value.dtype, 1), opposite);
  clave_status st =
      clave_session_set_input(model->session, model->method.name, index, &copy.items->value);
  free_records(&copy);
  return st ? fail_status(st) : EXIT_GOOD;
}

static int set_all(const model *model, const input_set *inputs, const run_edit *edit) {
  if (!edit || !edit->moves_inputs) return set_inputs(inputs, model);
  for (uint32_t i = 0; i < inputs->count; i++)
    TRY_EXIT(set_moved(model, i, &inputs->items[i], edit->opposite));
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- a run */

static int node_run_keep_outputs(const model *model, node_run *run) {
  for (uint32_t i = 0; i < model->method.n_outputs; i++) {
    clave_tensor_info info = {.size = sizeof info};
    clave_tensor value;
    TRY_STATUS(clave_program_output(model->program, model->method.name, i, &info));
    TRY_STATUS(clave_session_output(model->session, model->method.name, i, &value));
    if (!keep_record(run->out, model->method.n_nodes + i, info.slot, &value)) return fail_memory();
    (void)node_run_follows(run);
  }
  return EXIT_GOOD;
}

int run_nodes(const model *model, const input_set *inputs, const run_edit *edit, records *out,
              size_t *diverged_at) {
  node_run run = {.edit = edit, .out = out, .diverged_at = SIZE_MAX};
  TRY_STATUS(clave_session_reset(model->session));
  TRY_EXIT(set_all(model, inputs, edit));
  TRY_STATUS(clave_session_edit(model->session, edit_value, &run));
  clave_status st = clave_session_run(model->session, model->method.name);
  if (out->no_memory) {
    clave_status_free(st); /* stopped by the observer, not an error */
    return fail_memory();
  }
  if (st) return fail_status(st);
  TRY_EXIT(node_run_keep_outputs(model, &run));
  *diverged_at = run.diverged_at;
  return EXIT_GOOD;
}
