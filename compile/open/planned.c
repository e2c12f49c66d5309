/* Schedules of the sizes that come, the latest of which are kept; their memory, packed weights and
 * runs. */
#include "compile/open/planned.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/fault.h"
#include "compile/runtime/planner.h"
#include "interp/plan/plan.h"
#include "interp/scalar.h"

typedef struct open_weight {
  packed_weight_request f; /* without `pack` */
  void *data;              /* owned */
} open_weight;

/* A schedule of some sizes. */
typedef struct kept_plan {
  schedule *p;    /* owned */
  void **weights; /* owned (n_commands, MAX_PACKED_WEIGHTS): borrowed from all; NULL: not looked for
                   yet */
} kept_plan;

enum { KEPT_PLANS = 8 };

/* What a model has of its sizes. */
typedef struct plans {
  model *m;
  const planned_code *code;
  executable x; /* the code's, on `cpu` */
  backend cpu;
  kept_plan kept[KEPT_PLANS];  /* the most recently used first */
  scalar_value *values;        /* owned (n_values): of this run */
  location *now;               /* owned (n_slots): where slots are in it */
  unsigned char (*scalars)[8]; /* owned (n_outputs) */
  open_weight *weights;        /* owned */
  size_t n_weights, cap_weights, arena_bytes, args_bytes;
  void *args; /* owned: of the kernel that runs */
} plans;

static const graph *graph_of(const plans *l) { return &l->x.methods[0].g; }

/* ---------------------------------------------------------------- lifetime */

static const backend_vtable recorder = {.record = cpu_record,
                                        .recording_destroy = cpu_recording_destroy};

static void drop_plan(kept_plan *k) {
  schedule_destroy(k->p);
  free(k->weights);
  *k = (kept_plan){0};
}

static void destroy_plans(model *m) {
  plans *l = m->plans;
  if (!l) return;
  for (int i = 0; i < KEPT_PLANS; i++) drop_plan(&l->kept[i]);
  for (size_t i = 0; i < l->n_weights; i++) compiled_model.heap->give(l->weights[i].data);
  free(l->weights);
  free(l->values);
  free(l->now);
  free(l->scalars);
  free(l->args);
  free(l);
  m->plans = NULL;
}

static clave_status create_plans(model *m) {
  const planned_code *code = compiled_model.planned;
  const program *p = code->x->prog;
  plans *l = m->plans = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->m = m;
  l->code = code;
  l->cpu.vt = &recorder;
  l->cpu.info = (backend_info){
      .kind = "cpu", .compute_units = (uint32_t)m->kernel.n_threads, .alignment = MODEL_ALIGNMENT};
  l->x = *code->x;
  l->x.copy_instruction = (ir_instruction){.op_type = IR_OP_COPY, .op = &l->x.copy, .name = ""};
  l->x.devices = (device_set){.backends = {&l->cpu}, .count = 1};
  l->values = calloc((size_t)p->ir.values.count + 1, sizeof *l->values);
  l->now = calloc((size_t)slot_count(p) + 1, sizeof *l->now);
  l->scalars = calloc((size_t)graph_of(l)->method->outputs.count + 1, sizeof *l->scalars);
  if (l->values && l->now && l->scalars) return NULL;
  destroy_plans(m);
  return status_no_memory();
}

/* ---------------------------------------------------------------- sizes */

static clave_status take_input(plans *l, const ir_argument *a, const model_argument *of,
                               const model_value *v) {
  const ir_program *p = &l->x.prog->ir;
  scalar_value given;
  if (a->tensor != IR_NONE) return scalar_bind_dims(p, a, v->dims, l->values);
  TRY(scalar_from_bytes(of->type, v->data, p->values.items[a->value].type, &given));
  return scalar_bind(p, a, given, l->values);
}

/* A scalar that is fixed is none of the inputs. */
static bool is_input(const plans *l, const ir_argument *a) {
  return a->tensor != IR_NONE || !l->code->values[a->value].known;
}

static clave_status take_inputs(plans *l, const model_value *inputs) {
  const ir_arguments *all = &graph_of(l)->method->inputs;
  const model_argument *of = compiled_model.info.methods->inputs;
  memcpy(l->values, l->code->values, l->x.prog->ir.values.count * sizeof *l->values);
  for (uint32_t i = 0, n = 0; i < all->count; i++) {
    if (!is_input(l, &all->items[i])) continue;
    TRY(take_input(l, &all->items[i], &of[n], &inputs[n]));
    n++;
  }
  return NULL;
}

/* ---------------------------------------------------------------- schedules */

static clave_status make_plan(plans *l, kept_plan *k) {
  const schedule_key key = {.values = l->values};
  TRY(plan_schedule(&l->x, 0, &key, &k->p));
  k->weights = calloc((size_t)k->p->n_commands * MAX_PACKED_WEIGHTS + 1, sizeof *k->weights);
  if (k->weights && k->p->n_chunks[0] <= 1) return NULL;
  drop_plan(k);
  return status_no_memory();
}

/* The plan of the run's sizes, the first of those that are kept. */
static clave_status find_plan(plans *l) {
  const uint32_t n = l->x.prog->ir.values.count;
  kept_plan found = {0};
  int i = 0;
  while (i < KEPT_PLANS && l->kept[i].p && !scalars_equal(l->kept[i].p->key, l->values, n)) i++;
  if (i < KEPT_PLANS && l->kept[i].p) {
    found = l->kept[i];
  } else {
    TRY(make_plan(l, &found));
    if (i == KEPT_PLANS) drop_plan(&l->kept[--i]);
  }
  memmove(&l->kept[1], &l->kept[0], (size_t)i * sizeof l->kept[0]);
  l->kept[0] = found;
  return NULL;
}

/* ---------------------------------------------------------------- memory */

/* place: of a pointer to memory, whose contents matter within a run alone. */
static clave_status grow(void *place, size_t *have, size_t want) {
  void *p;
  memcpy(&p, place, sizeof p);
  if (p && want <= *have) return NULL;
  compiled_model.heap->give(p);
  *have = 0;
  p = compiled_model.heap->take(want + 1);
  memcpy(place, &p, sizeof p);
  if (!p) return status_no_memory();
  *have = want;
  return NULL;
}

/* An arena of no bytes is there from the start. */
static clave_status make_room(plans *l, const schedule *p) {
  TRY(grow(&l->m->arena, &l->arena_bytes, p->n_chunks[0] ? p->chunk_bytes[0][0] : 0));
  return grow(&l->m->scratch, &l->m->scratch_bytes, p->scratch_bytes[0]);
}

/* What has no memory is of no elements, and not absent. */
static char *address(const plans *l, uint32_t in, int64_t offset) {
  const schedule *p = l->kept[0].p;
  const uint32_t i = in == NO_INDEX ? NO_INDEX : p->storages[in].block[0];
  if (i == NO_INDEX) return l->m->arena;
  const block *b = &p->blocks[i];
  if (b->kind == BLOCK_CONSTANT)
    return model_at(l->code->weights + l->code->places[b->slot], offset);
  if (b->kind == BLOCK_STATE) return l->m->state + l->code->places[b->slot] + offset;
  return l->m->arena + b->a.offset + offset;
}

/* ---------------------------------------------------------------- kernels */

/* The two slots behind the program's are the operands of the planner's copies. */
static uint32_t storage_of(const plans *l, const command *c, uint32_t slot) {
  const uint32_t n = slot_count(l->x.prog);
  return slot < n ? l->now[slot].storage : slot == n ? c->x.storage : c->out.storage;
}

static clave_status failure(const plans *l) {
  const model *m = l->m;
  if (m->failed == MODEL_GOOD) return NULL;
  return m->failed == MODEL_NO_MEMORY ? status_no_memory() : fault_status(&m->fault);
}

/* weights: of the recording. */
static clave_status run_kernels(plans *l, const command *c, const recording *r,
                                void *const *weights) {
  int n;
  const cpu_command *all = cpu_recorded_commands(r, &n);
  for (int i = 0; i < n; i++) {
    const kernel_desc *k = all[i].k;
    if (!array_reserve(&l->args, &l->args_bytes, k->args_size, 1)) return status_no_memory();
    memcpy(l->args, all[i].args, k->args_size);
    for (int j = 0; j < all[i].n_operands; j++) {
      const cpu_operand_place *o = &all[i].operands[j];
      *cpu_data_at(l->args, o->at) = o->is_packed ? weights[o->slot]
                                     : o->unless && weights[o->unless - 1]
                                         ? NULL
                                         : address(l, storage_of(l, c, o->slot), o->offset);
    }
    if (all[i].n_threads) {
      model_call_on(l->m, all[i].n_threads, k, l->args);
    } else {
      model_call(l->m, k, l->args);
    }
  }
  return failure(l);
}

/* Into memory of its own, which is the scratch memory of what fills it. */
static clave_status pack_into(plans *l, const command *c, const packed_weight_request *f,
                              void *data) {
  model *m = l->m;
  char *const scratch = m->scratch;
  const size_t bytes = m->scratch_bytes;
  m->scratch = data;
  m->scratch_bytes = f->bytes;
  clave_status st = run_kernels(l, c, f->pack, NULL);
  m->scratch = scratch;
  m->scratch_bytes = bytes;
  return st;
}

static clave_status add_weight(plans *l, const command *c, const packed_weight_request *f,
                               void **out) {
  if (!array_reserve(&l->weights, &l->cap_weights, l->n_weights + 1, sizeof *l->weights))
    return status_no_memory();
  void *data = compiled_model.heap->take(f->bytes + 1);
  clave_status st = data ? pack_into(l, c, f, data) : status_no_memory();
  if (st) {
    compiled_model.heap->give(data);
    return st;
  }
  open_weight *made = &l->weights[l->n_weights++];
  *made = (open_weight){.f = *f, .data = data};
  made->f.pack = NULL;
  *out = data;
  return NULL;
}

static clave_status take_weight(plans *l, const command *c, const packed_weight_request *f,
                                void **out) {
  if (*out) return NULL;
  for (size_t i = 0; i < l->n_weights && !*out; i++)
    if (f->pack ? packed_weights_equal(&l->weights[i].f, f)
                : packed_weight_serves(&l->weights[i].f, f))
      *out = l->weights[i].data;
  return *out || !f->pack ? NULL : add_weight(l, c, f, out);
}

/* ---------------------------------------------------------------- runs */

static clave_status run_command(plans *l, uint32_t i) {
  const command *c = &l->kept[0].p->commands[i];
  void **weights = l->kept[0].weights + (size_t)i * MAX_PACKED_WEIGHTS;
  for (int k = 0; k < c->recorded->n_weights; k++)
    TRY(take_weight(l, c, &c->recorded->weights[k], &weights[k]));
  TRY(run_kernels(l, c, c->recorded, weights));
  if (c->kind == COMMAND_COPY && c->rebind != NO_INDEX) l->now[c->rebind] = c->out;
  return NULL;
}

static clave_status run_commands(plans *l) {
  const schedule *p = l->kept[0].p;
  l->m->failed = MODEL_GOOD;
  l->m->fault.kind = KERNEL_FAULT_NONE;
  (void)model_begin_stretch(l->m);
  memcpy(l->now, p->at, slot_count(l->x.prog) * sizeof *l->now);
  for (uint32_t i = 0; i < p->n_commands; i++)
    TRY(while_in_node(run_command(l, i), graph_of(l), p->commands[i].instruction));
  return NULL;
}

static bool lies_in_arena(const schedule *p, uint32_t in) {
  const uint32_t b = in == NO_INDEX ? NO_INDEX : p->storages[in].block[0];
  return b != NO_INDEX && p->blocks[b].kind == BLOCK_ARENA;
}

static void copy_inputs(const plans *l, const model_value *inputs) {
  const ir_arguments *all = &graph_of(l)->method->inputs;
  const schedule *p = l->kept[0].p;
  for (uint32_t i = 0, n = 0; i < all->count; i++) {
    const ir_argument *a = &all->items[i];
    if (!is_input(l, a)) continue;
    const model_value *v = &inputs[n++];
    const uint32_t in = a->tensor == IR_NONE ? NO_INDEX : p->at[a->tensor].storage;
    if (lies_in_arena(p, in) && p->storages[in].bytes)
      memcpy(address(l, in, 0), v->data, p->storages[in].bytes);
  }
}

static void give_outputs(const plans *l, model_value *outputs) {
  const ir_arguments *all = &graph_of(l)->method->outputs;
  const schedule *p = l->kept[0].p;
  for (uint32_t i = 0; i < all->count; i++) {
    const ir_argument *a = &all->items[i];
    tensor t = {0};
    if (a->tensor == IR_NONE) {
      scalar_to_bytes(&p->values[a->value], &t, l->scalars[i]);
      outputs[i].data = l->scalars[i];
      continue;
    }
    const location *at = &p->at[a->tensor];
    outputs[i].data = address(l, at->storage, at->t.offset * (int64_t)dtype_size(at->t.type));
    memcpy(outputs[i].dims, p->types[a->tensor].dims, sizeof outputs[i].dims);
  }
}

static clave_status run(model *m, const model_value *inputs, model_value *outputs) {
  if (!m->plans) TRY(create_plans(m));
  plans *l = m->plans;
  TRY(take_inputs(l, inputs));
  TRY(find_plan(l));
  TRY(make_room(l, l->kept[0].p));
  copy_inputs(l, inputs);
  TRY(run_commands(l));
  give_outputs(l, outputs);
  return NULL;
}

const model_planner model_open_sizes = {.run = run, .destroy = destroy_plans};
