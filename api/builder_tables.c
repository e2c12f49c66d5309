/* The builder's tables: their memory, the first error, and the lookup of ids. */
#include "api/builder.h"

#include <string.h>

bool builder_ready(const clave_builder *builder) {
  return builder && !builder->error && !builder->finished;
}

ir_chain *builder_chain(clave_builder *builder) {
  if (builder->depth) return &builder->bodies.items[builder->open[builder->depth - 1]];
  return builder->ir.chains.count ? &builder->ir.chains.items[builder->ir.chains.count - 1] : NULL;
}

void builder_fail_op(clave_builder *builder, clave_status st) {
  if (st && builder->table) {
    const ir_instructions *list = &builder_chain(builder)->instructions;
    const ir_instruction *ins = &list->items[list->count - 1];
    st = status_while(st, "node %u (%.200s, %s)", list->count - 1, ins->name,
                      op_table[ins->op_type].name);
  }
  builder_fail(builder, st);
}

void builder_fail(clave_builder *builder, clave_status st) {
  if (builder->error) {
    status_free(st);
  } else {
    builder->error = st;
  }
}

void *builder_alloc(clave_builder *builder, size_t count, size_t size) {
  void *memory = mem_pool_alloc(builder->pool, count + 1, size);
  if (!memory) builder_fail(builder, status_no_memory());
  return memory;
}

void *builder_append(clave_builder *builder, void *vector, size_t size) {
  ir_vector v;
  memcpy(&v, vector, sizeof v);
  if (v.count == LIMIT_ITEMS) {
    builder_fail(builder, INVALID("a list has more than %d entries", (int)LIMIT_ITEMS));
    return NULL;
  }
  if ((v.count & (v.count - 1)) == 0) { /* full: capacities are powers of two */
    void *grown = builder_alloc(builder, v.count ? 2 * (size_t)v.count : 1, size);
    if (!grown) return NULL;
    if (v.count) memcpy(grown, v.items, v.count * size);
    v.items = grown;
  }
  void *item = (char *)v.items + v.count++ * size;
  memcpy(vector, &v, sizeof v);
  return item;
}

const char *builder_text(clave_builder *builder, const char *text) {
  const char *copy = mem_pool_strdup(builder->pool, text ? text : "", text ? strlen(text) : 0);
  if (!copy) builder_fail(builder, status_no_memory());
  return copy;
}

clave_status builder_index(const clave_builder *builder, clave_id id, id_kind kind,
                           uint32_t *index) {
  static const char *const names[] = {"nothing", "a tensor", "a value", "a body"};
  const uint32_t counts[] = {0, builder->ir.tensors.count, builder->ir.values.count,
                             builder->bodies.count};
  uint32_t is = id >> ID_SHIFT;
  *index = id & (((clave_id)1 << ID_SHIFT) - 1);
  if (is >= ID_KINDS || (is && *index >= counts[is]) || (!is && id))
    return INVALID("id %u: expected %s of this builder, got an unknown id", id, names[kind]);
  if (is == (uint32_t)kind) return NULL;
  return INVALID("id %u: expected %s, got %s", id, names[kind], names[is]);
}

clave_status builder_tids(clave_builder *builder, const clave_id *ids, uint32_t n, ir_u32s *out) {
  if (n > LIMIT_ITEMS || (n && !ids))
    return INVALID("expected an array of %u tensors, got NULL or too many", n);
  uint32_t *items = mem_pool_alloc(builder->pool, (size_t)n + 1, sizeof *items);
  if (!items) return status_no_memory();
  for (uint32_t i = 0; i < n; i++)
    TRY(status_while(builder_index(builder, ids[i], ID_TENSOR, &items[i]), "entry %u", i));
  *out = (ir_u32s){items, n};
  return NULL;
}

clave_status builder_ints(clave_builder *builder, const int64_t *literals, const clave_id *values,
                          uint32_t n, ir_int_or_vids *out) {
  if (n > LIMIT_ITEMS || (n && !literals))
    return INVALID("expected an array of %u integers, got NULL or too many", n);
  ir_int_or_vid *items = mem_pool_alloc(builder->pool, (size_t)n + 1, sizeof *items);
  if (!items) return status_no_memory();
  for (uint32_t i = 0; i < n; i++) {
    items[i] = (ir_int_or_vid){literals[i], IR_NONE, true};
    if (!values || !values[i]) continue;
    items[i].literal = 0;
    TRY(status_while(builder_index(builder, values[i], ID_VALUE, &items[i].vid), "entry %u", i));
  }
  *out = (ir_int_or_vids){items, n};
  return NULL;
}
