/* Makes schedules for the sizes of each run and keeps the latest; their memory, packed weights and
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
  packed_weight_request request; /* its `pack` is not used */
  void *data;                    /* owned */
} open_weight;

/* The schedule for one set of sizes. */
typedef struct kept_plan {
  schedule *schedule; /* owned */
  void **weights; /* owned (n_commands, MAX_PACKED_WEIGHTS); pointers borrowed from plans.weights;
                     NULL: not resolved yet */
} kept_plan;

enum { KEPT_PLANS = 8 };

/* The run-time state of a model with open sizes. */
typedef struct plans {
  model *model;
  const planned_code *code;
  executable executable; /* executable of the code's program, on `cpu` */
  backend cpu;
  kept_plan kept[KEPT_PLANS];  /* most recently used first */
  scalar_value *values;        /* owned (n_values); values of this run */
  location *now;               /* owned (n_slots); locations of slots in this run */
  unsigned char (*scalars)[8]; /* owned (n_outputs) */
  open_weight *weights;        /* owned */
  size_t n_weights, cap_weights, arena_bytes, args_bytes;
  void *args; /* owned; arguments of the running kernel */
} plans;

static const graph *graph_of(const plans *plans) { return &plans->executable.methods[0].graph; }

/* ---------------------------------------------------------------- lifetime */

static const backend_vtable recorder = {.record = cpu_record,
                                        .recording_destroy = cpu_recording_destroy};

static void drop_plan(kept_plan *plan) {
  schedule_destroy(plan->schedule);
  free(plan->weights);
  *plan = (kept_plan){0};
}

static void destroy_plans(model *model) {
  plans *plans = model->plans;
  if (!plans) return;
  for (int i = 0; i < KEPT_PLANS; i++) drop_plan(&plans->kept[i]);
  for (size_t i = 0; i < plans->n_weights; i++)
    compiled_model.heap->release(plans->weights[i].data);
  free(plans->weights);
  free(plans->values);
  free(plans->now);
  free(plans->scalars);
  free(plans->args);
  free(plans);
  model->plans = NULL;
}

static clave_status create_plans(model *model) {
  const planned_code *code = compiled_model.planned;
  const program *program = code->executable->prog;
  plans *plans = model->plans = calloc(1, sizeof *plans);
  if (!plans) return status_no_memory();
  plans->model = model;
  plans->code = code;
  plans->cpu.vt = &recorder;
  plans->cpu.info = (backend_info){.kind = "cpu",
                                   .compute_units = (uint32_t)model->kernel.n_threads,
                                   .alignment = MODEL_ALIGNMENT};
  plans->executable = *code->executable;
  plans->executable.copy_instruction =
      (ir_instruction){.op_type = IR_OP_COPY, .op = &plans->executable.copy, .name = ""};
  plans->executable.devices = (device_set){.backends = {&plans->cpu}, .count = 1};
  plans->values = calloc((size_t)program->ir.values.count + 1, sizeof *plans->values);
  plans->now = calloc((size_t)slot_count(program) + 1, sizeof *plans->now);
  plans->scalars =
      calloc((size_t)graph_of(plans)->method->outputs.count + 1, sizeof *plans->scalars);
  if (plans->values && plans->now && plans->scalars) return NULL;
  destroy_plans(model);
  return status_no_memory();
}

/* ---------------------------------------------------------------- sizes */

static clave_status planned_bind_input(plans *plans, const ir_argument *argument,
                                       const model_argument *of, const model_value *value) {
  const ir_program *program = &plans->executable.prog->ir;
  scalar_value given;
  if (argument->tensor != IR_NONE)
    return scalar_bind_dims(program, argument, value->dims, plans->values);
  TRY(scalar_from_bytes(of->type, value->data, program->values.items[argument->value].type,
                        &given));
  return scalar_bind(program, argument, given, plans->values);
}

/* True if the argument is an input, and not a fixed scalar. */
static bool planned_is_input(const plans *plans, const ir_argument *argument) {
  return argument->tensor != IR_NONE || !plans->code->values[argument->value].known;
}

static clave_status planned_bind_inputs(plans *plans, const model_value *inputs) {
  const ir_arguments *all = &graph_of(plans)->method->inputs;
  const model_argument *of = compiled_model.info.methods->inputs;
  memcpy(plans->values, plans->code->values,
         plans->executable.prog->ir.values.count * sizeof *plans->values);
  for (uint32_t i = 0, n = 0; i < all->count; i++) {
    if (!planned_is_input(plans, &all->items[i])) continue;
    TRY(planned_bind_input(plans, &all->items[i], &of[n], &inputs[n]));
    n++;
  }
  return NULL;
}

/* ---------------------------------------------------------------- schedules */

static clave_status planned_make_plan(plans *plans, kept_plan *plan) {
  const schedule_key key = {.values = plans->values};
  TRY(plan_schedule(&plans->executable, 0, &key, &plan->schedule));
  plan->weights =
      calloc((size_t)plan->schedule->n_commands * MAX_PACKED_WEIGHTS + 1, sizeof *plan->weights);
  if (plan->weights && plan->schedule->n_chunks[0] <= 1) return NULL;
  drop_plan(plan);
  return status_no_memory();
}

/* Finds or makes the plan for the run's sizes, and moves it to the front. */
static clave_status planned_find_plan(plans *plans) {
  const uint32_t n = plans->executable.prog->ir.values.count;
  kept_plan found = {0};
  int i = 0;
  while (i < KEPT_PLANS && plans->kept[i].schedule &&
         !scalars_equal(plans->kept[i].schedule->key, plans->values, n))
    i++;
  if (i < KEPT_PLANS && plans->kept[i].schedule) {
    found = plans->kept[i];
  } else {
    TRY(planned_make_plan(plans, &found));
    if (i == KEPT_PLANS) drop_plan(&plans->kept[--i]);
  }
  memmove(&plans->kept[1], &plans->kept[0], (size_t)i * sizeof plans->kept[0]);
  plans->kept[0] = found;
  return NULL;
}

/* ---------------------------------------------------------------- memory */

/* Enlarges a buffer whose contents matter only within a run. place: address of the pointer to it.
 */
static clave_status planned_grow(void *place, size_t *have, size_t want) {
  void *memory;
  memcpy(&memory, place, sizeof memory);
  if (memory && want <= *have) return NULL;
  compiled_model.heap->release(memory);
  *have = 0;
  memory = compiled_model.heap->allocate(want + 1);
  memcpy(place, &memory, sizeof memory);
  if (!memory) return status_no_memory();
  *have = want;
  return NULL;
}

/* Grows arena and scratch memory; even an empty arena is allocated. */
static clave_status reserve_memory(plans *plans, const schedule *schedule) {
  TRY(planned_grow(&plans->model->arena, &plans->arena_bytes,
                   schedule->n_chunks[0] ? schedule->chunk_bytes[0][0] : 0));
  return planned_grow(&plans->model->scratch, &plans->model->scratch_bytes,
                      schedule->scratch_bytes[0]);
}

/* A storage without a block has no elements, but its address must not be NULL. */
static char *address(const plans *plans, uint32_t in, int64_t offset) {
  const schedule *schedule = plans->kept[0].schedule;
  const uint32_t i = in == NO_INDEX ? NO_INDEX : schedule->storages[in].block[0];
  if (i == NO_INDEX) return plans->model->arena;
  const block *block = &schedule->blocks[i];
  if (block->kind == BLOCK_CONSTANT)
    return model_at(plans->code->weights + plans->code->places[block->slot], offset);
  if (block->kind == BLOCK_STATE)
    return plans->model->state + plans->code->places[block->slot] + offset;
  return plans->model->arena + block->a.offset + offset;
}

/* ---------------------------------------------------------------- kernels */

/* The two slots after the program's are the operands of the planner's copies. */
static uint32_t planned_storage_of(const plans *plans, const command *command, uint32_t slot) {
  const uint32_t n = slot_count(plans->executable.prog);
  return slot < n    ? plans->now[slot].storage
         : slot == n ? command->x.storage
                     : command->out.storage;
}

static clave_status failure(const plans *plans) {
  const model *model = plans->model;
  if (model->failed == MODEL_GOOD) return NULL;
  return model->failed == MODEL_NO_MEMORY ? status_no_memory() : fault_status(&model->fault);
}

/* weights: those of the recording. */
static clave_status planned_run_kernels(plans *plans, const command *command,
                                        const recording *recording, void *const *weights) {
  int n;
  const cpu_command *all = cpu_recorded_commands(recording, &n);
  for (int i = 0; i < n; i++) {
    const kernel_desc *desc = all[i].desc;
    if (!array_reserve(&plans->args, &plans->args_bytes, desc->args_size, 1))
      return status_no_memory();
    memcpy(plans->args, all[i].args, desc->args_size);
    for (int j = 0; j < all[i].n_operands; j++) {
      const cpu_operand_place *place = &all[i].operands[j];
      *cpu_data_at(plans->args, place->at) =
          place->is_packed ? weights[place->slot]
          : place->unless && weights[place->unless - 1]
              ? NULL
              : address(plans, planned_storage_of(plans, command, place->slot), place->offset);
    }
    if (all[i].n_threads) {
      model_call_on(plans->model, all[i].n_threads, desc, plans->args);
    } else {
      model_call(plans->model, desc, plans->args);
    }
  }
  return failure(plans);
}

/* Packs into `data`, which serves as the scratch memory of the packing kernel. */
static clave_status pack_into(plans *plans, const command *command,
                              const packed_weight_request *request, void *data) {
  model *model = plans->model;
  char *const scratch = model->scratch;
  const size_t bytes = model->scratch_bytes;
  model->scratch = data;
  model->scratch_bytes = request->bytes;
  clave_status st = planned_run_kernels(plans, command, request->pack, NULL);
  model->scratch = scratch;
  model->scratch_bytes = bytes;
  return st;
}

static clave_status planned_add_weight(plans *plans, const command *command,
                                       const packed_weight_request *request, void **out) {
  if (!array_reserve(&plans->weights, &plans->cap_weights, plans->n_weights + 1,
                     sizeof *plans->weights))
    return status_no_memory();
  void *data = compiled_model.heap->allocate(request->bytes + 1);
  clave_status st = data ? pack_into(plans, command, request, data) : status_no_memory();
  if (st) {
    compiled_model.heap->release(data);
    return st;
  }
  open_weight *made = &plans->weights[plans->n_weights++];
  *made = (open_weight){.request = *request, .data = data};
  made->request.pack = NULL;
  *out = data;
  return NULL;
}

static clave_status planned_get_weight(plans *plans, const command *command,
                                       const packed_weight_request *request, void **out) {
  if (*out) return NULL;
  for (size_t i = 0; i < plans->n_weights && !*out; i++)
    if (request->pack ? packed_weights_equal(&plans->weights[i].request, request)
                      : packed_weight_serves(&plans->weights[i].request, request))
      *out = plans->weights[i].data;
  return *out || !request->pack ? NULL : planned_add_weight(plans, command, request, out);
}

/* ---------------------------------------------------------------- runs */

static clave_status planned_run_command(plans *plans, uint32_t i) {
  const command *command = &plans->kept[0].schedule->commands[i];
  void **weights = plans->kept[0].weights + (size_t)i * MAX_PACKED_WEIGHTS;
  for (int k = 0; k < command->recorded->n_weights; k++)
    TRY(planned_get_weight(plans, command, &command->recorded->weights[k], &weights[k]));
  TRY(planned_run_kernels(plans, command, command->recorded, weights));
  if (command->kind == COMMAND_COPY && command->rebind != NO_INDEX)
    plans->now[command->rebind] = command->out;
  return NULL;
}

static clave_status planned_run_commands(plans *plans) {
  const schedule *schedule = plans->kept[0].schedule;
  plans->model->failed = MODEL_GOOD;
  plans->model->fault.kind = KERNEL_FAULT_NONE;
  (void)model_begin_stretch(plans->model);
  memcpy(plans->now, schedule->at, slot_count(plans->executable.prog) * sizeof *plans->now);
  for (uint32_t i = 0; i < schedule->n_commands; i++)
    TRY(while_in_node(planned_run_command(plans, i), graph_of(plans),
                      schedule->commands[i].instruction));
  return NULL;
}

static bool is_in_plan_arena(const schedule *schedule, uint32_t in) {
  const uint32_t b = in == NO_INDEX ? NO_INDEX : schedule->storages[in].block[0];
  return b != NO_INDEX && schedule->blocks[b].kind == BLOCK_ARENA;
}

static void copy_inputs(const plans *plans, const model_value *inputs) {
  const ir_arguments *all = &graph_of(plans)->method->inputs;
  const schedule *schedule = plans->kept[0].schedule;
  for (uint32_t i = 0, n = 0; i < all->count; i++) {
    const ir_argument *argument = &all->items[i];
    if (!planned_is_input(plans, argument)) continue;
    const model_value *value = &inputs[n++];
    const uint32_t in =
        argument->tensor == IR_NONE ? NO_INDEX : schedule->at[argument->tensor].storage;
    if (is_in_plan_arena(schedule, in) && schedule->storages[in].bytes)
      memcpy(address(plans, in, 0), value->data, schedule->storages[in].bytes);
  }
}

static void set_outputs(const plans *plans, model_value *outputs) {
  const ir_arguments *all = &graph_of(plans)->method->outputs;
  const schedule *schedule = plans->kept[0].schedule;
  for (uint32_t i = 0; i < all->count; i++) {
    const ir_argument *argument = &all->items[i];
    tensor tensor = {0};
    if (argument->tensor == IR_NONE) {
      scalar_to_bytes(&schedule->values[argument->value], &tensor, plans->scalars[i]);
      outputs[i].data = plans->scalars[i];
      continue;
    }
    const location *at = &schedule->at[argument->tensor];
    outputs[i].data = address(plans, at->storage, at->t.offset * (int64_t)dtype_size(at->t.type));
    memcpy(outputs[i].dims, schedule->types[argument->tensor].dims, sizeof outputs[i].dims);
  }
}

static clave_status planned_run(model *model, const model_value *inputs, model_value *outputs) {
  if (!model->plans) TRY(create_plans(model));
  plans *plans = model->plans;
  TRY(planned_bind_inputs(plans, inputs));
  TRY(planned_find_plan(plans));
  TRY(reserve_memory(plans, plans->kept[0].schedule));
  copy_inputs(plans, inputs);
  TRY(planned_run_commands(plans));
  set_outputs(plans, outputs);
  return NULL;
}

const model_planner model_open_sizes = {.run = planned_run, .destroy = destroy_plans};
