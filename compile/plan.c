/* Plans the schedule to emit and the places of its blocks. */
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

size_t plan_scratch(const recording *recording, const char *level) {
  int n;
  size_t most = 0;
  const cpu_command *command = cpu_recorded_commands(recording, &n);
  for (int i = 0; i < n; i++) {
    const size_t bytes = cpu_command_scratch(&command[i], 1, level);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* ---------------------------------------------------------------- sizes */

const compile_dim *plan_find_dim(const compile_options *options, const char *name) {
  for (uint32_t i = 0; i < options->n_dims; i++)
    if (strcmp(options->dims[i].name, name) == 0) return &options->dims[i];
  return NULL;
}

/* True if the options allow planning at run time. Static memory requires a plan's size, and tuned
 * or packed choices hold only for the sizes they were made for. */
static bool may_be_open(const program *program, const compile_options *options) {
  return !options->bare && !options->static_memory && !options->packed_only && !options->tuning &&
         !program->n_packed_weights;
}

static bool is_open_size(const compile_plan *plan, uint32_t vid) {
  for (uint32_t i = 0; i < plan->n_open; i++)
    if (plan->open[i] == vid) return true;
  return false;
}

/* Sets a value to the size that the options fix, or adds it to the open sizes. what: "a size of
 * input" or "scalar input", for messages. */
static clave_status fix_size(compile_plan *plan, const compile_options *options, uint32_t vid,
                             const char *what, const ir_argument *argument) {
  const program *program = plan->prog;
  const ir_value *value = &program->ir.values.items[vid];
  const compile_dim *dim = plan_find_dim(options, value->name);
  if (plan->sizes[vid].known) return NULL;
  if (dim)
    return scalar_set(&program->ir, vid, (scalar_value){.i = dim->size}, plan->sizes, value->name);
  if (!plan->why)
    plan->why = UNSUPPORTED("%s '%s' is not fixed (--dim %s=N fixes it)", what, argument->name,
                            value->name);
  if (argument->tensor != IR_NONE && !is_open_size(plan, vid)) plan->open[plan->n_open++] = vid;
  return NULL;
}

/* Sets the sizes of state to their maximum, as in a session that was not resized. */
static void set_state_sizes(const program *program, scalar_value *values) {
  for (uint32_t i = 0; i < program->ir.n_state; i++) {
    const ir_int_or_vids *shape = &program->ir.tensors.items[first_state(program) + i].shape;
    for (uint32_t k = 0; k < shape->count; k++) {
      const uint32_t vid = shape->items[k].vid;
      if (vid == IR_NONE) continue;
      values[vid] = (scalar_value){.known = true, .type = IR_VALUE_TYPE_INT};
      values[vid].i = program->ir.values.items[vid].max.value;
    }
  }
}

static clave_status fix_scalar_input(compile_plan *plan, const compile_options *options,
                                     const ir_argument *argument) {
  if (plan->prog->ir.values.items[argument->value].type != IR_VALUE_TYPE_FLOAT)
    return fix_size(plan, options, argument->value, "scalar input", argument);
  if (plan_find_dim(options, plan->prog->ir.values.items[argument->value].name))
    return UNSUPPORTED("scalar input '%s' is a float, which cannot be fixed", argument->name);
  if (!plan->why)
    plan->why = UNSUPPORTED("scalar input '%s' is a float, which cannot be fixed", argument->name);
  return NULL;
}

static clave_status fix_input(compile_plan *plan, const compile_options *options,
                              const ir_argument *argument) {
  if (argument->tensor == IR_NONE) return fix_scalar_input(plan, options, argument);
  const ir_int_or_vids *shape = &plan->prog->ir.tensors.items[argument->tensor].shape;
  for (uint32_t i = 0; i < shape->count; i++)
    if (shape->items[i].vid != IR_NONE)
      TRY(fix_size(plan, options, shape->items[i].vid, "a size of input", argument));
  return NULL;
}

bool plan_has_method(const compile_options *options, uint32_t number) {
  return options->all_methods || options->text || number == options->method;
}

static bool value_is_named(const program *program, uint32_t vid, const char *name) {
  return vid != IR_NONE && strcmp(program->ir.values.items[vid].name, name) == 0;
}

bool plan_is_scalar(const program *program, const ir_argument *argument, const char *name) {
  return argument->tensor == IR_NONE && value_is_named(program, argument->value, name);
}

static uint32_t size_in(const program *program, const ir_argument *argument, const char *name) {
  if (argument->tensor == IR_NONE)
    return plan_is_scalar(program, argument, name) ? argument->value : IR_NONE;
  const ir_int_or_vids *shape = &program->ir.tensors.items[argument->tensor].shape;
  for (uint32_t k = 0; k < shape->count; k++)
    if (value_is_named(program, shape->items[k].vid, name)) return shape->items[k].vid;
  return IR_NONE;
}

uint32_t plan_find_size(const program *program, const ir_method *method, const char *name) {
  uint32_t vid = IR_NONE;
  for (uint32_t i = 0; i < method->inputs.count && vid == IR_NONE; i++)
    vid = size_in(program, &method->inputs.items[i], name);
  return vid;
}

static clave_status check_fixed_dim(const program *program, const ir_method *method,
                                    const char *name) {
  if (plan_find_size(program, method, name) != IR_NONE) return NULL;
  return INVALID("method '%s' has no open size or scalar input '%s'", method->name, name);
}

static clave_status fix_sizes(compile_plan *plan, const compile_options *options) {
  const program *program = plan->prog;
  const ir_method *method = &program->ir.methods.items[options->method];
  for (uint32_t i = 0; i < options->n_dims; i++)
    TRY(check_fixed_dim(program, method, options->dims[i].name));
  set_state_sizes(program, plan->sizes);
  for (uint32_t i = 0; i < method->inputs.count; i++)
    TRY(fix_input(plan, options, &method->inputs.items[i]));
  return NULL;
}

bool plan_has_input(const compile_plan *plan, const ir_argument *argument) {
  return argument->tensor != IR_NONE || !plan->sizes[argument->value].known;
}

uint32_t compiled_inputs(const compile_plan *plan) {
  const ir_arguments *all = &plan->graph->method->inputs;
  uint32_t n = 0;
  for (uint32_t i = 0; i < all->count; i++) n += plan_has_input(plan, &all->items[i]);
  return n;
}

int64_t plan_dim(const compile_plan *plan, const ir_int_or_vid *value) {
  if (value->vid == IR_NONE) return value->literal;
  if (plan->sizes[value->vid].known) return plan->sizes[value->vid].i;
  for (uint32_t i = 0; i < plan->n_open; i++)
    if (plan->open[i] == value->vid) return model_open_dim((int)i);
  return MODEL_FOLLOWS;
}

/* ---------------------------------------------------------------- the schedule */

static clave_status check_schedule(const compile_plan *plan) {
  const schedule *schedule = plan->schedule;
  if (schedule->reads != NO_INDEX)
    return while_in_node(UNSUPPORTED("a size depends on data"), plan->graph, schedule->reads);
  for (uint32_t i = 0; i < schedule->n_controls; i++)
    for (int body = 0; body < 2; body++)
      if (schedule->controls[i]->late[body])
        return while_in_node(UNSUPPORTED("a size in a body depends on data, or is never valid"),
                             plan->graph, schedule->controls[i]->instruction);
  return NULL;
}

/* Rejects bodies and data-dependent sizes, which are planned during a run. */
static clave_status check_open(const compile_plan *plan) {
  for (uint32_t i = 0; i < plan->graph->n; i++)
    if (op_table[plan->graph->instructions[i].op_type].is_control)
      return while_in_node(
          UNSUPPORTED("%s, and the result of this control flow is not known before a run",
                      status_message(plan->why)),
          plan->graph, i);
  return NULL;
}

static clave_status find_schedule_or_sizes(compile_plan *plan, const compile_options *options) {
  const size_t n = (size_t)plan->prog->ir.values.count + 1;
  plan->sizes = calloc(n, sizeof *plan->sizes);
  plan->open = calloc(n, sizeof *plan->open);
  if (!plan->sizes || !plan->open) return status_no_memory();
  TRY(fix_sizes(plan, options));
  if (plan->why && may_be_open(plan->prog, options)) return check_open(plan);
  if (plan->why) return UNSUPPORTED("%s", status_message(plan->why));
  TRY(schedule_find(plan->executable, plan->method, plan->sizes, false, &plan->schedule));
  return check_schedule(plan);
}

/* ---------------------------------------------------------------- places of constants and state */

static size_t reserve_bytes(size_t *end, size_t bytes) {
  const size_t at = *end;
  *end += plan_aligned(bytes);
  return at;
}

static clave_status place_weight(compile_plan *plan, uint32_t tid) {
  buffer *buffer;
  if (plan->slot_place[tid] != NO_PLACE) return NULL;
  TRY(constant_store_get(plan->constants, tid, &buffer));
  plan->slot_place[tid] = reserve_bytes(&plan->weight_bytes, buffer->bytes);
  plan->weights[plan->n_weights++] = tid;
  return NULL;
}

uint32_t plan_initial_constant(const program *program, uint32_t i) {
  const ir_state_inits *all = &program->ir.state_inits;
  for (uint32_t k = 0; k < all->count; k++)
    if (all->items[k].state == first_state(program) + i) return all->items[k].constant;
  return IR_NONE;
}

static clave_status find_state_place(compile_plan *plan, uint32_t i) {
  const uint32_t tid = first_state(plan->prog) + i, initial = plan_initial_constant(plan->prog, i);
  size_t bytes;
  if (!program_state_bytes(&plan->prog->ir, tid, &bytes))
    return INVALID("the size of a state overflows");
  plan->slot_place[tid] = reserve_bytes(&plan->state_bytes, bytes);
  return initial == IR_NONE ? NULL : place_weight(plan, initial);
}

/* Sets the place of block i of the schedule. first: the offset of each chunk in the arena. */
static clave_status place_block(compile_plan *plan, uint32_t i, const size_t *first) {
  const block *block = &plan->schedule->blocks[i];
  if (block->kind == BLOCK_CONSTANT) return place_weight(plan, block->slot);
  if (block->kind == BLOCK_ARENA) plan->place[i] = first[block->a.chunk] + block->a.offset;
  if (block->kind == BLOCK_REBASED) plan->place[i] = (size_t)plan->n_rebased++;
  return NULL;
}

/* With open sizes, places the constants that instructions read. For encoded constants that are
 * decoded once, places the decoded result, which the planner treats as a constant. */
static clave_status place_operands(compile_plan *plan, const ir_instruction *ins) {
  const uint32_t out = first_slot(ins, true);
  if (ins->op_type == IR_OP_DEQUANTIZE && is_slot(plan->prog, out, SLOT_TEMPORARY))
    return place_weight(plan, out);
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (is_slot(plan->prog, i.operand.tid, SLOT_CONSTANT)) TRY(place_weight(plan, i.operand.tid));
  return NULL;
}

static clave_status place_open(compile_plan *plan) {
  const ir_state_updates *updates = &plan->graph->method->updates;
  for (uint32_t i = 0; i < plan->graph->n; i++)
    TRY(place_operands(plan, &plan->graph->instructions[i]));
  for (uint32_t i = 0; i < updates->count; i++)
    if (is_slot(plan->prog, updates->items[i].value, SLOT_CONSTANT))
      TRY(place_weight(plan, updates->items[i].value));
  for (uint32_t i = 0; i < plan->prog->ir.n_state; i++) TRY(find_state_place(plan, i));
  return NULL;
}

static clave_status place_scheduled(compile_plan *plan, size_t *first) {
  const schedule *schedule = plan->schedule;
  for (uint32_t c = 0; c < schedule->n_chunks[0]; c++)
    first[c] = reserve_bytes(&plan->arena_bytes, schedule->chunk_bytes[0][c]);
  for (uint32_t i = 0; i < schedule->n_blocks; i++) TRY(place_block(plan, i, first));
  for (uint32_t i = 0; i < plan->prog->ir.n_state; i++) TRY(find_state_place(plan, i));
  return NULL;
}

static clave_status find_places(compile_plan *plan) {
  size_t *first =
      calloc((size_t)(plan->schedule ? plan->schedule->n_chunks[0] : 0) + 1, sizeof *first);
  const uint32_t n = slot_count(plan->prog);
  plan->place =
      calloc((size_t)(plan->schedule ? plan->schedule->n_blocks : 0) + 1, sizeof *plan->place);
  plan->slot_place = calloc((size_t)n + 1, sizeof *plan->slot_place);
  plan->weights = calloc((size_t)n + 1, sizeof *plan->weights);
  for (uint32_t i = 0; plan->slot_place && i < n; i++) plan->slot_place[i] = NO_PLACE;
  const bool is_good = first && plan->place && plan->slot_place && plan->weights;
  clave_status st = is_good ? NULL : status_no_memory();
  if (!st) st = plan->schedule ? place_scheduled(plan, first) : place_open(plan);
  free(first);
  return st;
}

/* ---------------------------------------------------------------- weights */

void plan_keep_weights(compile_plan *plan, const bool *wanted) {
  const uint32_t n = plan->n_weights;
  size_t end = 0;
  plan->n_weights = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t tid = plan->weights[i];
    const size_t bytes = (i + 1 < n ? plan->slot_place[plan->weights[i + 1]] : plan->weight_bytes) -
                         plan->slot_place[tid];
    plan->slot_place[tid] = wanted[tid] ? reserve_bytes(&end, bytes) : NO_PLACE;
    if (wanted[tid]) plan->weights[plan->n_weights++] = tid;
  }
  plan->weight_bytes = end;
}

static clave_status append_weights(const void *given, file_writer *writer) {
  const compile_plan *plan = given;
  for (uint32_t i = 0; i < plan->n_weights; i++) {
    buffer *buffer;
    TRY(constant_store_get(plan->constants, plan->weights[i], &buffer));
    TRY(file_writer_append(writer, cpu_buffer_data(buffer), buffer->bytes));
    TRY(file_writer_pad(writer, ALIGNMENT));
  }
  return NULL;
}

clave_status plan_write_weights(const compile_plan *plan, const char *path) {
  return plan_write(path, append_weights, plan);
}

clave_status plan_write(const char *path,
                        clave_status (*append)(const void *of, file_writer *writer),
                        const void *of) {
  file_writer *writer;
  TRY(file_writer_create(path, &writer));
  clave_status st = append(of, writer);
  if (!st) st = file_writer_commit(writer);
  file_writer_destroy(writer);
  return st;
}

/* ---------------------------------------------------------------- lifetime */

static clave_status fill_plan(compile_plan *plan, const compile_options *options) {
  TRY(cpu_backend_create(0, &plan->cpu));
  plan->cpu->tuning = options->tuning;
  const device_set devices = {.backends = {plan->cpu}, .count = 1};
  TRY(executable_create(plan->prog, &devices, &(executable_options){0}, &plan->executable));
  TRY(constant_store_create(plan->prog, plan->cpu, &plan->constants));
  plan->graph = &plan->executable->methods[plan->method].graph;
  TRY(find_schedule_or_sizes(plan, options));
  return find_places(plan);
}

clave_status plan_create(const program *program, const compile_options *options,
                         compile_plan *out) {
  *out = (compile_plan){.prog = program, .method = options->method};
  clave_status st = fill_plan(out, options);
  if (st) plan_destroy(out);
  return st;
}

void plan_destroy(compile_plan *plan) {
  if (plan->schedule) schedule_release(plan->executable, plan->schedule);
  constant_store_destroy(plan->constants);
  executable_destroy(plan->executable);
  if (plan->cpu) plan->cpu->vt->destroy(plan->cpu);
  program_drop_packed_weights(&plan->made);
  free(plan->made.packed_weights);
  free(plan->sizes);
  free(plan->open);
  status_free(plan->why);
  free(plan->place);
  free(plan->slot_place);
  free(plan->weights);
  *plan = (compile_plan){0};
}
