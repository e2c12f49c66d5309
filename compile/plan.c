/* The schedule that is printed, and the places of its blocks. */
#include "compile/plan.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/recorded.h"
#include "base/file.h"
#include "compile/runtime/info.h"
#include "interp/plan/schedule_cache.h"
#include "interp/scalar.h"

enum { ALIGNMENT = MEMORY_ALIGNMENT };

size_t plan_aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

size_t plan_scratch(const recording *r, const char *level) {
  int n;
  size_t most = 0;
  const cpu_command *c = cpu_recorded_commands(r, &n);
  for (int i = 0; i < n; i++) {
    const size_t bytes = cpu_command_scratch(&c[i], 1, level);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* ---------------------------------------------------------------- sizes */

const compile_dim *plan_find_dim(const compile_options *o, const char *name) {
  for (uint32_t i = 0; i < o->n_dims; i++)
    if (strcmp(o->dims[i].name, name) == 0) return &o->dims[i];
  return NULL;
}

/* Whether all that is asked for goes with sizes that are planned when they come: static memory has
 * the size of a plan, and what was tuned or packed is for the sizes that it was measured with. */
static bool may_be_open(const program *p, const compile_options *o) {
  return !o->bare && !o->static_memory && !o->packed_only && !o->tuning && !p->n_forms;
}

static bool is_open(const compile_plan *k, uint32_t vid) {
  for (uint32_t i = 0; i < k->n_open; i++)
    if (k->open[i] == vid) return true;
  return false;
}

/* what: of whom it is the size, or that it is a scalar input. */
static clave_status fix_size(compile_plan *k, const compile_options *o, uint32_t vid,
                             const char *what, const ir_argument *a) {
  const program *p = k->prog;
  const ir_value *v = &p->ir.values.items[vid];
  const compile_dim *d = plan_find_dim(o, v->name);
  if (k->sizes[vid].known) return NULL;
  if (d) return scalar_set(&p->ir, vid, (scalar_value){.i = d->size}, k->sizes, v->name);
  if (!k->why)
    k->why = UNSUPPORTED("%s '%s' is open (--dim %s=N fixes it)", what, a->name, v->name);
  if (a->tensor != IR_NONE && !is_open(k, vid)) k->open[k->n_open++] = vid;
  return NULL;
}

/* State has its largest size, as in a session that nobody resized. */
static void set_state_sizes(const program *p, scalar_value *values) {
  for (uint32_t i = 0; i < p->ir.n_state; i++) {
    const ir_int_or_vids *shape = &p->ir.tensors.items[first_state(p) + i].shape;
    for (uint32_t k = 0; k < shape->count; k++) {
      const uint32_t vid = shape->items[k].vid;
      if (vid == IR_NONE) continue;
      values[vid] = (scalar_value){.known = true, .type = IR_VALUE_TYPE_INT};
      values[vid].i = p->ir.values.items[vid].max.value;
    }
  }
}

static clave_status fix_scalar(compile_plan *k, const compile_options *o, const ir_argument *a) {
  if (k->prog->ir.values.items[a->value].type != IR_VALUE_TYPE_FLOAT)
    return fix_size(k, o, a->value, "scalar input", a);
  if (plan_find_dim(o, k->prog->ir.values.items[a->value].name))
    return UNSUPPORTED("scalar input '%s' is a float", a->name);
  if (!k->why) k->why = UNSUPPORTED("scalar input '%s' is a float", a->name);
  return NULL;
}

static clave_status fix_input(compile_plan *k, const compile_options *o, const ir_argument *a) {
  if (a->tensor == IR_NONE) return fix_scalar(k, o, a);
  const ir_int_or_vids *shape = &k->prog->ir.tensors.items[a->tensor].shape;
  for (uint32_t i = 0; i < shape->count; i++)
    if (shape->items[i].vid != IR_NONE)
      TRY(fix_size(k, o, shape->items[i].vid, "a size of input", a));
  return NULL;
}

bool plan_has_method(const compile_options *o, uint32_t number) {
  return o->all_methods || o->text || number == o->method;
}

static bool is_named(const program *p, uint32_t vid, const char *name) {
  return vid != IR_NONE && strcmp(p->ir.values.items[vid].name, name) == 0;
}

bool plan_is_scalar(const program *p, const ir_argument *a, const char *name) {
  return a->tensor == IR_NONE && is_named(p, a->value, name);
}

static uint32_t size_in(const program *p, const ir_argument *a, const char *name) {
  if (a->tensor == IR_NONE) return plan_is_scalar(p, a, name) ? a->value : IR_NONE;
  const ir_int_or_vids *shape = &p->ir.tensors.items[a->tensor].shape;
  for (uint32_t k = 0; k < shape->count; k++)
    if (is_named(p, shape->items[k].vid, name)) return shape->items[k].vid;
  return IR_NONE;
}

uint32_t plan_find_size(const program *p, const ir_method *m, const char *name) {
  uint32_t vid = IR_NONE;
  for (uint32_t i = 0; i < m->inputs.count && vid == IR_NONE; i++)
    vid = size_in(p, &m->inputs.items[i], name);
  return vid;
}

static clave_status check_dim(const program *p, const ir_method *m, const char *name) {
  if (plan_find_size(p, m, name) != IR_NONE) return NULL;
  return INVALID("method '%s' has no open size and no scalar input '%s'", m->name, name);
}

static clave_status fix_sizes(compile_plan *k, const compile_options *o) {
  const program *p = k->prog;
  const ir_method *m = &p->ir.methods.items[o->method];
  for (uint32_t i = 0; i < o->n_dims; i++) TRY(check_dim(p, m, o->dims[i].name));
  set_state_sizes(p, k->sizes);
  for (uint32_t i = 0; i < m->inputs.count; i++) TRY(fix_input(k, o, &m->inputs.items[i]));
  return NULL;
}

bool plan_has_input(const compile_plan *k, const ir_argument *a) {
  return a->tensor != IR_NONE || !k->sizes[a->value].known;
}

uint32_t compiled_inputs(const compile_plan *k) {
  const ir_arguments *all = &k->g->method->inputs;
  uint32_t n = 0;
  for (uint32_t i = 0; i < all->count; i++) n += plan_has_input(k, &all->items[i]);
  return n;
}

int64_t plan_dim(const compile_plan *k, const ir_int_or_vid *d) {
  if (d->vid == IR_NONE) return d->literal;
  if (k->sizes[d->vid].known) return k->sizes[d->vid].i;
  for (uint32_t i = 0; i < k->n_open; i++)
    if (k->open[i] == d->vid) return model_open_dim((int)i);
  return MODEL_FOLLOWS;
}

/* ---------------------------------------------------------------- the schedule */

static clave_status check_schedule(const compile_plan *k) {
  const schedule *p = k->p;
  if (p->reads != NO_INDEX)
    return while_in_node(UNSUPPORTED("sizes depend on data"), k->g, p->reads);
  for (uint32_t i = 0; i < p->n_controls; i++)
    for (int body = 0; body < 2; body++)
      if (p->controls[i]->late[body])
        return while_in_node(UNSUPPORTED("the sizes of a body depend on data, or fit no run"), k->g,
                             p->controls[i]->instruction);
  return NULL;
}

/* Bodies, and data that decides sizes, are planned in the midst of a run. */
static clave_status check_open(const compile_plan *k) {
  for (uint32_t i = 0; i < k->g->n; i++)
    if (op_table[k->g->instructions[i].op_type].is_control)
      return while_in_node(
          UNSUPPORTED("%s, and what it decides is not known before a run", status_message(k->why)),
          k->g, i);
  return NULL;
}

static clave_status find_plan(compile_plan *k, const compile_options *o) {
  const size_t n = (size_t)k->prog->ir.values.count + 1;
  k->sizes = calloc(n, sizeof *k->sizes);
  k->open = calloc(n, sizeof *k->open);
  if (!k->sizes || !k->open) return status_no_memory();
  TRY(fix_sizes(k, o));
  if (k->why && may_be_open(k->prog, o)) return check_open(k);
  if (k->why) return UNSUPPORTED("%s", status_message(k->why));
  TRY(schedule_find(k->x, k->method, k->sizes, false, &k->p));
  return check_schedule(k);
}

/* ---------------------------------------------------------------- places */

static size_t take(size_t *end, size_t bytes) {
  const size_t at = *end;
  *end += plan_aligned(bytes);
  return at;
}

static clave_status place_constant(compile_plan *k, uint32_t tid) {
  buffer *b;
  if (k->slot_place[tid] != NO_PLACE) return NULL;
  TRY(constant_store_get(k->constants, tid, &b));
  k->slot_place[tid] = take(&k->weight_bytes, b->bytes);
  k->weights[k->n_weights++] = tid;
  return NULL;
}

uint32_t plan_initial_constant(const program *p, uint32_t i) {
  const ir_state_inits *all = &p->ir.state_inits;
  for (uint32_t k = 0; k < all->count; k++)
    if (all->items[k].state == first_state(p) + i) return all->items[k].constant;
  return IR_NONE;
}

static clave_status find_state_place(compile_plan *k, uint32_t i) {
  const uint32_t tid = first_state(k->prog) + i, initial = plan_initial_constant(k->prog, i);
  size_t bytes;
  if (!program_state_bytes(&k->prog->ir, tid, &bytes)) return INVALID("a state's size overflows");
  k->slot_place[tid] = take(&k->state_bytes, bytes);
  return initial == IR_NONE ? NULL : place_constant(k, initial);
}

/* first: where each of the arena's chunks begins. */
static clave_status place_block(compile_plan *k, uint32_t i, const size_t *first) {
  const block *b = &k->p->blocks[i];
  if (b->kind == BLOCK_CONSTANT) return place_constant(k, b->slot);
  if (b->kind == BLOCK_ARENA) k->place[i] = first[b->a.chunk] + b->a.offset;
  if (b->kind == BLOCK_REBASED) k->place[i] = (size_t)k->n_rebased++;
  return NULL;
}

/* Of open sizes: the constants that instructions read; of encoded ones that are decoded once, that
 * result, which the planner takes for a constant. */
static clave_status place_operands(compile_plan *k, const ir_instruction *ins) {
  const uint32_t out = first_slot(ins, true);
  if (ins->op_type == IR_OP_DEQUANTIZE && is_slot(k->prog, out, SLOT_TEMPORARY))
    return place_constant(k, out);
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (is_slot(k->prog, i.o.tid, SLOT_CONSTANT)) TRY(place_constant(k, i.o.tid));
  return NULL;
}

static clave_status place_open(compile_plan *k) {
  const ir_state_updates *u = &k->g->method->updates;
  for (uint32_t i = 0; i < k->g->n; i++) TRY(place_operands(k, &k->g->instructions[i]));
  for (uint32_t i = 0; i < u->count; i++)
    if (is_slot(k->prog, u->items[i].value, SLOT_CONSTANT))
      TRY(place_constant(k, u->items[i].value));
  for (uint32_t i = 0; i < k->prog->ir.n_state; i++) TRY(find_state_place(k, i));
  return NULL;
}

static clave_status place_all(compile_plan *k, size_t *first) {
  const schedule *p = k->p;
  for (uint32_t c = 0; c < p->n_chunks[0]; c++)
    first[c] = take(&k->arena_bytes, p->chunk_bytes[0][c]);
  for (uint32_t i = 0; i < p->n_blocks; i++) TRY(place_block(k, i, first));
  for (uint32_t i = 0; i < k->prog->ir.n_state; i++) TRY(find_state_place(k, i));
  return NULL;
}

static clave_status find_places(compile_plan *k) {
  size_t *first = calloc((size_t)(k->p ? k->p->n_chunks[0] : 0) + 1, sizeof *first);
  const uint32_t n = slot_count(k->prog);
  k->place = calloc((size_t)(k->p ? k->p->n_blocks : 0) + 1, sizeof *k->place);
  k->slot_place = calloc((size_t)n + 1, sizeof *k->slot_place);
  k->weights = calloc((size_t)n + 1, sizeof *k->weights);
  for (uint32_t i = 0; k->slot_place && i < n; i++) k->slot_place[i] = NO_PLACE;
  const bool is_good = first && k->place && k->slot_place && k->weights;
  clave_status st = is_good ? NULL : status_no_memory();
  if (!st) st = k->p ? place_all(k, first) : place_open(k);
  free(first);
  return st;
}

/* ---------------------------------------------------------------- weights */

void plan_keep_weights(compile_plan *k, const bool *wanted) {
  const uint32_t n = k->n_weights;
  size_t end = 0;
  k->n_weights = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t tid = k->weights[i];
    const size_t bytes =
        (i + 1 < n ? k->slot_place[k->weights[i + 1]] : k->weight_bytes) - k->slot_place[tid];
    k->slot_place[tid] = wanted[tid] ? take(&end, bytes) : NO_PLACE;
    if (wanted[tid]) k->weights[k->n_weights++] = tid;
  }
  k->weight_bytes = end;
}

static clave_status append_weights(const void *plan, file_writer *w) {
  const compile_plan *k = plan;
  for (uint32_t i = 0; i < k->n_weights; i++) {
    buffer *b;
    TRY(constant_store_get(k->constants, k->weights[i], &b));
    TRY(file_writer_append(w, cpu_buffer_data(b), b->bytes));
    TRY(file_writer_pad(w, ALIGNMENT));
  }
  return NULL;
}

clave_status plan_write_weights(const compile_plan *k, const char *path) {
  return plan_write(path, append_weights, k);
}

clave_status plan_write(const char *path, clave_status (*append)(const void *of, file_writer *w),
                        const void *of) {
  file_writer *w;
  TRY(file_writer_create(path, &w));
  clave_status st = append(of, w);
  if (!st) st = file_writer_commit(w);
  file_writer_destroy(w);
  return st;
}

/* ---------------------------------------------------------------- lifetime */

static clave_status make_plan(compile_plan *k, const compile_options *o) {
  TRY(cpu_backend_create(0, &k->cpu));
  k->cpu->tuning = o->tuning;
  const device_set devices = {.backends = {k->cpu}, .count = 1};
  TRY(executable_create(k->prog, &devices, &(executable_options){0}, &k->x));
  TRY(constant_store_create(k->prog, k->cpu, &k->constants));
  k->g = &k->x->methods[k->method].g;
  TRY(find_plan(k, o));
  return find_places(k);
}

clave_status plan_create(const program *p, const compile_options *o, compile_plan *out) {
  *out = (compile_plan){.prog = p, .method = o->method};
  clave_status st = make_plan(out, o);
  if (st) plan_destroy(out);
  return st;
}

void plan_destroy(compile_plan *k) {
  if (k->p) schedule_release(k->x, k->p);
  constant_store_destroy(k->constants);
  executable_destroy(k->x);
  if (k->cpu) k->cpu->vt->destroy(k->cpu);
  program_drop_forms(&k->made);
  free(k->made.forms);
  free(k->sizes);
  free(k->open);
  status_free(k->why);
  free(k->place);
  free(k->slot_place);
  free(k->weights);
  *k = (compile_plan){0};
}
