/* Which device runs which op: the first of the set that supports it. */
#include <stdlib.h>

#include "interp/executable.h"

static void place_op(const executable *x, method *m, const rule_context *c, uint32_t i) {
  const ir_instruction *ins = &m->g.instructions[i];
  const char *first_reason = NULL;
  m->where[i] = WHERE_NOWHERE;
  for (int b = 0; b < x->devices.count; b++) {
    const char *reason = NULL;
    backend *be = x->devices.backends[b];
    if (be->vt->supports(be, c, ins, &reason)) {
      m->where[i] = (uint8_t)b;
      break;
    }
    if (!first_reason) first_reason = reason ? reason : "not supported by the device";
    if (x->devices.no_fallback) break;
  }
  m->reason[i] = first_reason;
}

/* On the first device that has a kernel for it; on none, its reference runs. */
static void place_custom(const executable *x, method *m, const rule_context *c, uint32_t i) {
  place_op(x, m, c, i);
  if (m->where[i] == WHERE_NOWHERE) m->where[i] = WHERE_CONTROL;
  if (m->where[i] == WHERE_CONTROL || x->options.custom) return;
  m->where[i] = WHERE_NOWHERE;
  m->reason[i] =
      "its kernel, which can do anything on the device, is not allowed "
      "(allow_custom_kernels)";
}

clave_status place_method(const executable *x, method *m) {
  scalar_value *unknown = mem_pool_alloc(x->pool, x->prog->ir.values.count + 1, sizeof *unknown);
  if (!unknown) return status_no_memory();
  rule_context c = {&x->prog->ir, x->prog->types, unknown};
  for (uint32_t i = 0; i < m->g.n; i++) {
    ir_op op = m->g.instructions[i].op_type;
    const op_info *info = &op_table[op];
    if (info->is_view) {
      m->where[i] = WHERE_VIEW;
    } else if (info->is_host || op == IR_OP_ITEM) {
      m->where[i] = WHERE_HOST;
    } else if (op == IR_OP_CUSTOM) {
      place_custom(x, m, &c, i);
    } else if (info->is_control) {
      m->where[i] = WHERE_CONTROL;
    } else {
      place_op(x, m, &c, i);
    }
  }
  return NULL;
}

clave_status check_placement(const method *m) {
  for (uint32_t i = 0; i < m->g.n; i++) {
    if (m->where[i] < MAX_BACKENDS) i = m->g.bodies[i][1].end - 1; /* a reference not needed */
    if (m->where[i] != WHERE_NOWHERE) continue;
    clave_status st = UNSUPPORTED("%s cannot run here: %s", name_of_op(&m->g.instructions[i]),
                                  m->reason[i] ? m->reason[i] : "no device");
    return while_in_node(st, &m->g, i);
  }
  return NULL;
}

static node_placement describe_place(const executable *x, const method *m, uint32_t i) {
  uint8_t w = m->where[i];
  bool is_reference = w == WHERE_CONTROL && m->g.instructions[i].op_type == IR_OP_CUSTOM;
  const char *where = w == WHERE_HOST      ? "host"
                      : w == WHERE_VIEW    ? "view"
                      : is_reference       ? "reference"
                      : w == WHERE_CONTROL ? "control"
                      : w == WHERE_NOWHERE ? "none"
                                           : x->devices.backends[w]->info.kind;
  bool supported = w != WHERE_NOWHERE && !is_reference && (w == 0 || w >= MAX_BACKENDS);
  return (node_placement){.where = where, .reason = m->reason[i], .supported = supported};
}

void executable_placement(const executable *x, uint32_t method_index, node_placement *rows) {
  const method *m = &x->methods[method_index];
  uint32_t n = program_count_nodes(&x->prog->ir, m->g.method->chain);
  for (uint32_t i = 0; i < m->g.n; i++) rows[m->g.source[i]] = describe_place(x, m, i);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t to = i;
    while (m->g.joined[to] != to) to = m->g.joined[to];
    if (to != i) {
      rows[i] = rows[to];
      rows[i].where = "fused";
    }
    rows[i].into = to;
  }
}

/* count: (n_state, MAX_BACKENDS) operands of the ops that run on each backend. */
static void count_operands(const executable *x, const method *m, uint32_t *count) {
  for (uint32_t i = 0; i < m->g.n; i++) {
    if (m->where[i] >= MAX_BACKENDS) continue;
    for (operand_iter k = operands_of(&m->g.instructions[i]); next_operand(&k);)
      if (is_slot(x->prog, k.o.tid, SLOT_STATE))
        count[(k.o.tid - first_state(x->prog)) * MAX_BACKENDS + m->where[i]]++;
  }
}

clave_status place_state(executable *x) {
  uint32_t n = x->prog->ir.n_state;
  uint32_t *count = calloc((size_t)n * MAX_BACKENDS + 1, sizeof *count);
  if (!count) return status_no_memory();
  for (uint32_t k = 0; k < x->prog->ir.methods.count; k++) count_operands(x, &x->methods[k], count);
  for (uint32_t i = 0; i < n; i++)
    for (uint8_t b = 1; b < x->devices.count; b++)
      if (count[i * MAX_BACKENDS + b] > count[i * MAX_BACKENDS + x->state_home[i]])
        x->state_home[i] = b;
  free(count);
  return NULL;
}
