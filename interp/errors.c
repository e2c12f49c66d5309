/* Errors that the files of interp/ share: which node, which size. */
#include "interp/internal.h"

clave_status while_in_node(clave_status st, const session *s, const method *m, uint32_t i) {
  if (!st || i >= m->n) return st;
  const ir_instruction *ins = &m->instructions[i];
  (void)s;
  return status_while(st, "node %u (%s, %s)", m->source[i], op_table[ins->op_type].name, ins->name);
}

clave_status known_bytes(const tensor *t, size_t *out) {
  return tensor_bytes(t, out) ? NULL : INVALID("a tensor's size overflows");
}
