/* The tables of a program that is being built: their memory, the first error, and what ids stand
 * for. */
#include "api/builder.h"

#include <string.h>

bool builder_ready(const clave_builder *b) { return b && !b->error && !b->finished; }

ir_chain *builder_chain(clave_builder *b) {
  if (b->depth) return &b->bodies.items[b->open[b->depth - 1]];
  return b->ir.chains.count ? &b->ir.chains.items[b->ir.chains.count - 1] : NULL;
}

void builder_fail_op(clave_builder *b, clave_status st) {
  if (st && b->table) {
    const ir_instructions *list = &builder_chain(b)->instructions;
    const ir_instruction *ins = &list->items[list->count - 1];
    st = status_while(st, "node %u (%.200s, %s)", list->count - 1, ins->name,
                      op_table[ins->op_type].name);
  }
  builder_fail(b, st);
}

void builder_fail(clave_builder *b, clave_status st) {
  if (b->error) {
    status_free(st);
  } else {
    b->error = st;
  }
}

void *builder_alloc(clave_builder *b, size_t count, size_t size) {
  void *p = mem_pool_alloc(b->pool, count + 1, size);
  if (!p) builder_fail(b, status_no_memory());
  return p;
}

void *builder_append(clave_builder *b, void *vector, size_t size) {
  ir_vector v;
  memcpy(&v, vector, sizeof v);
  if (v.count == LIMIT_ITEMS) {
    builder_fail(b, INVALID("more than %d of a kind", (int)LIMIT_ITEMS));
    return NULL;
  }
  if ((v.count & (v.count - 1)) == 0) { /* a power of two is full */
    void *grown = builder_alloc(b, v.count ? 2 * (size_t)v.count : 1, size);
    if (!grown) return NULL;
    if (v.count) memcpy(grown, v.items, v.count * size);
    v.items = grown;
  }
  void *item = (char *)v.items + v.count++ * size;
  memcpy(vector, &v, sizeof v);
  return item;
}

const char *builder_text(clave_builder *b, const char *s) {
  const char *copy = mem_pool_strdup(b->pool, s ? s : "", s ? strlen(s) : 0);
  if (!copy) builder_fail(b, status_no_memory());
  return copy;
}

clave_status builder_index(const clave_builder *b, clave_id id, id_kind kind, uint32_t *index) {
  static const char *const names[] = {"nothing", "a tensor", "a value", "a body"};
  const uint32_t counts[] = {0, b->ir.tensors.count, b->ir.values.count, b->bodies.count};
  uint32_t is = id >> ID_SHIFT;
  *index = id & (((clave_id)1 << ID_SHIFT) - 1);
  if (is >= ID_KINDS || (is && *index >= counts[is]) || (!is && id))
    return INVALID("id %u: expected %s of this builder, got none", id, names[kind]);
  if (is == (uint32_t)kind) return NULL;
  return INVALID("id %u: expected %s, got %s", id, names[kind], names[is]);
}

clave_status builder_tids(clave_builder *b, const clave_id *ids, uint32_t n, ir_u32s *out) {
  if (n > LIMIT_ITEMS || (n && !ids)) return INVALID("%u tensors, none given", n);
  uint32_t *items = mem_pool_alloc(b->pool, (size_t)n + 1, sizeof *items);
  if (!items) return status_no_memory();
  for (uint32_t i = 0; i < n; i++)
    TRY(status_while(builder_index(b, ids[i], ID_TENSOR, &items[i]), "entry %u", i));
  *out = (ir_u32s){items, n};
  return NULL;
}

clave_status builder_ints(clave_builder *b, const int64_t *literals, const clave_id *values,
                          uint32_t n, ir_int_or_vids *out) {
  if (n > LIMIT_ITEMS || (n && !literals)) return INVALID("%u integers, none given", n);
  ir_int_or_vid *items = mem_pool_alloc(b->pool, (size_t)n + 1, sizeof *items);
  if (!items) return status_no_memory();
  for (uint32_t i = 0; i < n; i++) {
    items[i] = (ir_int_or_vid){literals[i], IR_NONE, true};
    if (!values || !values[i]) continue;
    items[i].literal = 0;
    TRY(status_while(builder_index(b, values[i], ID_VALUE, &items[i].vid), "entry %u", i));
  }
  *out = (ir_int_or_vids){items, n};
  return NULL;
}
