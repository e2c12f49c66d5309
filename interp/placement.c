/* Which device runs which op: the first of the session's list that supports it; views and host ops
 * need none. A state lives on the device that runs most of the ops that read it or make its next
 * value. */
#include "interp/internal.h"

static clave_status place_op(session *s, method *m, const rule_context *c, uint32_t i) {
  const ir_instruction *ins = &m->instructions[i];
  const char *first_reason = NULL;
  for (int b = 0; b < s->devices.count; b++) {
    const char *reason = NULL;
    backend *be = s->devices.backends[b];
    if (be->vt->supports(be, c, ins, &reason)) {
      m->where[i] = (uint8_t)b;
      m->reason[i] = first_reason;
      return NULL;
    }
    if (!first_reason) first_reason = reason ? reason : "not supported by the device";
    if (s->devices.no_fallback) break;
  }
  return UNSUPPORTED("%s cannot run here: %s", op_table[ins->op_type].name,
                     first_reason ? first_reason : "no device");
}

clave_status place_method(session *s, method *m) {
  scalar_value *unknown = mem_pool_alloc(s->pool, s->prog->ir.values.count + 1, sizeof *unknown);
  if (!unknown) return status_no_memory();
  rule_context c = {&s->prog->ir, s->prog->types, unknown};
  for (uint32_t i = 0; i < m->n; i++) {
    const op_info *info = &op_table[m->instructions[i].op_type];
    if (info->is_view) {
      m->where[i] = WHERE_VIEW;
    } else if (info->is_host) {
      m->where[i] = WHERE_HOST;
    } else if (m->instructions[i].op_type == IR_OP_ITEM) {
      m->where[i] = WHERE_HOST;
    } else if (info->is_control) {
      m->where[i] = WHERE_CONTROL;
    } else {
      clave_status st = place_op(s, m, &c, i);
      if (st) return while_in_node(st, s, m, i);
    }
  }
  return NULL;
}
