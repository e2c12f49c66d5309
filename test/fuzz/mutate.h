#ifndef TEST_FUZZ_MUTATE_H
#define TEST_FUZZ_MUTATE_H
/* Changes one number of a program that decodes, found by the schema's descriptors, so that what
 * comes out is nearly right: bytes changed at random seldom get past the decoder. With luck every
 * equal number is changed with it (a size stands in many shapes). */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "serialize/decode.h"
#include "serialize/encode.h"
#include "serialize/fields.h"

/* All numbers of a program, in the order of the walk: counts them, or changes one (or its equals).
 */
typedef struct mutation {
  uint32_t count, target; /* target: UINT32_MAX while counting */
  uint64_t random;
  bool everywhere, found;
  ir_field_kind kind; /* of the target, and what it was and becomes */
  int64_t was, becomes;
} mutation;

static inline uint64_t mutation_random(mutation *m) {
  m->random = m->random * 6364136223846793005u + 1442695040888963407u;
  return m->random >> 33;
}

static inline int64_t new_number(mutation *m, int64_t was) {
  static const int64_t odd[] = {0,  1,  -1, 2,   3,    4,         7,        8,
                                63, 64, 65, 128, 4096, INT32_MAX, INT32_MIN};
  switch (mutation_random(m) % 8) {
    case 0:
      return was * 2;
    case 1:
      return was / 2;
    case 2:
      return -was;
    case 3:
    case 4:
      return was + (int64_t)(mutation_random(m) % 7) - 3;
    case 5:
      return mutation_random(m) % 16 ? (int64_t)(mutation_random(m) % 9) : INT64_MAX;
    default:
      return odd[mutation_random(m) % (sizeof odd / sizeof *odd)];
  }
}

/* The number at `at` as an integer, 4 or 8 bytes wide; enums and switches stay within their values.
 */
static inline void visit_number(mutation *m, const ir_field *f, char *at, size_t width) {
  int64_t v = 0;
  memcpy(&v, at, width);
  if (width == 4) v = (int32_t)v;
  bool is_target = m->count++ == m->target;
  if (is_target) {
    m->found = true;
    m->kind = f->kind;
    m->was = v;
    m->becomes = new_number(m, v);
    if (f->enum_) m->becomes = f->enum_->values[mutation_random(m) % f->enum_->count].number;
    if (f->kind == IR_FIELD_BOOL) m->becomes = !v;
    if (f->kind == IR_FIELD_F64) {
      static const double real[] = {0, -0.0, 1, 0.5, -1e30, 1e300, INFINITY, -INFINITY, NAN};
      memcpy(&m->becomes, &real[mutation_random(m) % 9], sizeof m->becomes);
    }
  }
  bool is_equal = m->everywhere && m->found && m->kind == f->kind && m->was == v;
  if (is_target || is_equal) memcpy(at, &m->becomes, width);
}

static inline void visit_table(mutation *m, const ir_table *table, void *base);

static inline void visit_field(mutation *m, const ir_field *f, char *at) {
  void *inner;
  switch (f->kind) {
    case IR_FIELD_BOOL:
      visit_number(m, f, at, 1);
      break;
    case IR_FIELD_I32:
    case IR_FIELD_U32:
    case IR_FIELD_ENUM:
    case IR_FIELD_TID:
    case IR_FIELD_VID:
    case IR_FIELD_OPT_I32:
      visit_number(m, f, at, 4);
      break;
    case IR_FIELD_I64:
    case IR_FIELD_U64:
    case IR_FIELD_F64:
    case IR_FIELD_OPT_I64:
    case IR_FIELD_OPT_F64:
      visit_number(m, f, at, 8);
      break;
    case IR_FIELD_INT_OR_VID:
    case IR_FIELD_FLOAT_OR_VID:
      if (!field_is_default(f, at - f->offset)) visit_table(m, field_table(f), at);
      break;
    case IR_FIELD_TABLE:
      memcpy(&inner, at, sizeof inner);
      if (inner) visit_table(m, f->table, inner);
      break;
    default:
      break;
  }
}

/* The vector's length counts as a number too: it may lose its last entry. */
static inline void visit_vector(mutation *m, const ir_field *f, char *at) {
  ir_vector v;
  ir_field item = vector_item_field(f);
  memcpy(&v, at, sizeof v);
  if (m->count++ == m->target && v.count) {
    v.count--;
    memcpy(at, &v, sizeof v);
  }
  for (uint32_t i = 0; i < v.count; i++) {
    char *entry = (char *)v.items + i * vector_item_size(f);
    if (item.kind == IR_FIELD_TABLE) {
      visit_table(m, f->table, entry);
    } else {
      visit_field(m, &item, entry);
    }
  }
}

static inline void visit_table(mutation *m, const ir_table *table, void *base) {
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *f = &table->fields[i];
    char *at = (char *)base + f->offset;
    if (f->kind == IR_FIELD_UNION) {
      void *op;
      ir_op type;
      memcpy(&op, at, sizeof op);
      memcpy(&type, (char *)base + f->type_offset, sizeof type);
      if (op) visit_table(m, ir_op_tables[type], op);
    } else if (field_is_vector(f->kind)) {
      visit_vector(m, f, at);
    } else {
      visit_field(m, f, at);
    }
  }
}

/* Writes the changed program over `data`. Its size, or 0 if it does not decode or does not fit. */
static inline size_t mutate_program(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  mem_pool *pool;
  ir_program ir = {0};
  text bytes = {0};
  mutation m = {.target = UINT32_MAX, .random = seed};
  if (mem_pool_create(&pool)) return 0;
  clave_status st = decode_flatbuffer(data, size, pool, &ir);
  if (!st) visit_table(&m, &ir_program_table, &ir);
  for (uint64_t n = 1 + mutation_random(&m) % 3; !st && n > 0; n--) {
    m.target = (uint32_t)(mutation_random(&m) % m.count);
    m.everywhere = mutation_random(&m) % 2;
    m.found = false;
    m.count = 0;
    visit_table(&m, &ir_program_table, &ir);
  }
  if (!st) st = encode_flatbuffer(&ir, &bytes);
  size_t n = !st && bytes.size <= max_size ? bytes.size : 0;
  if (n) memcpy(data, bytes.data, n);
  status_free(st);
  text_free(&bytes);
  mem_pool_destroy(pool);
  return n;
}

#endif
