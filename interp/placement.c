/* Placement: each op runs on the first device of the set that supports it. */
#include <stdlib.h>

#include "interp/executable.h"

static void place_op(const executable *executable, method *method, const rule_context *context,
                     uint32_t i) {
  const ir_instruction *ins = &method->graph.instructions[i];
  const char *first_reason = NULL;
  method->where[i] = WHERE_NOWHERE;
  for (int b = 0; b < executable->devices.count; b++) {
    const char *reason = NULL;
    backend *be = executable->devices.backends[b];
    if (be->vt->supports(be, context, ins, &reason)) {
      method->where[i] = (uint8_t)b;
      break;
    }
    if (!first_reason) first_reason = reason ? reason : "not supported by the device";
    if (executable->devices.no_fallback) break;
  }
  method->reason[i] = first_reason;
}

/* Places a custom op on the first device with a kernel for it. If no device has a kernel, the op's
 * reference runs instead. */
static void place_custom(const executable *executable, method *method, const rule_context *context,
                         uint32_t i) {
  place_op(executable, method, context, i);
  if (method->where[i] == WHERE_NOWHERE) method->where[i] = WHERE_CONTROL;
  if (method->where[i] == WHERE_CONTROL || executable->options.custom) return;
  method->where[i] = WHERE_NOWHERE;
  method->reason[i] =
      "the custom kernel of this op needs permission, because it can do anything on the device "
      "(allow_custom_kernels)";
}

clave_status place_method(const executable *executable, method *method) {
  scalar_value *unknown =
      mem_pool_alloc(executable->pool, executable->prog->ir.values.count + 1, sizeof *unknown);
  if (!unknown) return status_no_memory();
  rule_context context = {&executable->prog->ir, executable->prog->types, unknown};
  for (uint32_t i = 0; i < method->graph.n; i++) {
    ir_op op = method->graph.instructions[i].op_type;
    const op_info *info = &op_table[op];
    if (info->is_view) {
      method->where[i] = WHERE_VIEW;
    } else if (info->is_host || op == IR_OP_ITEM) {
      method->where[i] = WHERE_HOST;
    } else if (op == IR_OP_CUSTOM) {
      place_custom(executable, method, &context, i);
    } else if (info->is_control) {
      method->where[i] = WHERE_CONTROL;
    } else {
      place_op(executable, method, &context, i);
    }
  }
  return NULL;
}

clave_status check_placement(const method *method) {
  for (uint32_t i = 0; i < method->graph.n; i++) {
    if (method->where[i] < MAX_BACKENDS)
      i = method->graph.bodies[i][1].end - 1; /* skips the reference, which does not run */
    if (method->where[i] != WHERE_NOWHERE) continue;
    clave_status st =
        UNSUPPORTED("%s cannot run here: %s", name_of_op(&method->graph.instructions[i]),
                    method->reason[i] ? method->reason[i] : "no device");
    return while_in_node(st, &method->graph, i);
  }
  return NULL;
}

static node_placement describe_place(const executable *executable, const method *method,
                                     uint32_t i) {
  uint8_t w = method->where[i];
  bool is_reference = w == WHERE_CONTROL && method->graph.instructions[i].op_type == IR_OP_CUSTOM;
  const char *where = w == WHERE_HOST      ? "host"
                      : w == WHERE_VIEW    ? "view"
                      : is_reference       ? "reference"
                      : w == WHERE_CONTROL ? "control"
                      : w == WHERE_NOWHERE ? "none"
                                           : executable->devices.backends[w]->info.kind;
  bool supported = w != WHERE_NOWHERE && !is_reference && (w == 0 || w >= MAX_BACKENDS);
  return (node_placement){.where = where, .reason = method->reason[i], .supported = supported};
}

void executable_placement(const executable *executable, uint32_t method_index,
                          node_placement *rows) {
  const method *method = &executable->methods[method_index];
  uint32_t n = program_count_nodes(&executable->prog->ir, method->graph.method->chain);
  for (uint32_t i = 0; i < method->graph.n; i++)
    rows[method->graph.source[i]] = describe_place(executable, method, i);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t to = i;
    while (method->graph.joined[to] != to) to = method->graph.joined[to];
    if (to != i) {
      rows[i] = rows[to];
      rows[i].where = "fused";
    }
    rows[i].into = to;
  }
}

/* Counts the operands that are state, by state tensor and by the backend of their op: adds to count
 * (n_state, MAX_BACKENDS). */
static void interp_placement_count_operands(const executable *executable, const method *method,
                                            uint32_t *count) {
  for (uint32_t i = 0; i < method->graph.n; i++) {
    if (method->where[i] >= MAX_BACKENDS) continue;
    for (operand_iter k = operands_of(&method->graph.instructions[i]); next_operand(&k);)
      if (is_slot(executable->prog, k.operand.tid, SLOT_STATE))
        count[(k.operand.tid - first_state(executable->prog)) * MAX_BACKENDS + method->where[i]]++;
  }
}

/* Returns the backend for a state tensor: `home`, or the fallback if the tensor is known to exceed
 * the largest buffer of `home`. */
static uint8_t home_of_size(const executable *executable, const tensor *state, uint8_t home) {
  const backend_info *info = &executable->devices.backends[home]->info;
  const int fallback = device_set_fallback(&executable->devices);
  size_t bytes;
  const bool fits = !tensor_bytes(state, &bytes) || backend_holds(info, bytes);
  return fits || fallback < 0 ? home : (uint8_t)fallback;
}

clave_status place_state(executable *executable) {
  uint32_t n = executable->prog->ir.n_state;
  uint32_t *count = calloc((size_t)n * MAX_BACKENDS + 1, sizeof *count);
  if (!count) return status_no_memory();
  for (uint32_t k = 0; k < executable->prog->ir.methods.count; k++)
    interp_placement_count_operands(executable, &executable->methods[k], count);
  for (uint32_t i = 0; i < n; i++)
    for (uint8_t b = 1; b < executable->devices.count; b++)
      if (count[i * MAX_BACKENDS + b] > count[i * MAX_BACKENDS + executable->state_home[i]])
        executable->state_home[i] = b;
  for (uint32_t i = 0; i < n; i++)
    executable->state_home[i] =
        home_of_size(executable, &executable->prog->types[first_state(executable->prog) + i],
                     executable->state_home[i]);
  free(count);
  return NULL;
}
