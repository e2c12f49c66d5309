#ifndef TEST_FUZZ_MUTATE_H
#define TEST_FUZZ_MUTATE_H
/* Changes one number of a decoded program, found by the schema's descriptors, so that the result is
 * nearly valid; programs with random bytes seldom pass the decoder. Sometimes all equal numbers are
 * changed, because a size occurs in many shapes. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "serialize/decode.h"
#include "serialize/encode.h"
#include "serialize/fields.h"

/* The state of a walk over all numbers of a program, which counts them or changes one (or its
 * equals). */
typedef struct mutation {
  uint32_t count, target; /* target: UINT32_MAX while counting */
  uint64_t random;
  bool everywhere, found;
  ir_field_kind kind; /* kind, old value and new value of the changed number */
  int64_t was, becomes;
} mutation;

static inline uint64_t mutation_random(mutation *mutation) {
  mutation->random = mutation->random * 6364136223846793005u + 1442695040888963407u;
  return mutation->random >> 33;
}

static inline int64_t new_number(mutation *mutation, int64_t was) {
  static const int64_t odd[] = {0,  1,  -1, 2,   3,    4,         7,        8,
                                63, 64, 65, 128, 4096, INT32_MAX, INT32_MIN};
  switch (mutation_random(mutation) % 8) {
    case 0:
      return was * 2;
    case 1:
      return was / 2;
    case 2:
      return -was;
    case 3:
    case 4:
      return was + (int64_t)(mutation_random(mutation) % 7) - 3;
    case 5:
      return mutation_random(mutation) % 16 ? (int64_t)(mutation_random(mutation) % 9) : INT64_MAX;
    default:
      return odd[mutation_random(mutation) % (sizeof odd / sizeof *odd)];
  }
}

/* Visits the number at `at`, 4 or 8 bytes wide. Enums and switches stay within their values. */
static inline void visit_number(mutation *mutation, const ir_field *field, char *at, size_t width) {
  int64_t v = 0;
  memcpy(&v, at, width);
  if (width == 4) v = (int32_t)v;
  bool is_target = mutation->count++ == mutation->target;
  if (is_target) {
    mutation->found = true;
    mutation->kind = field->kind;
    mutation->was = v;
    mutation->becomes = new_number(mutation, v);
    if (field->enum_)
      mutation->becomes =
          field->enum_->values[mutation_random(mutation) % field->enum_->count].number;
    if (field->kind == IR_FIELD_BOOL) mutation->becomes = !v;
    if (field->kind == IR_FIELD_F64) {
      static const double real[] = {0, -0.0, 1, 0.5, -1e30, 1e300, INFINITY, -INFINITY, NAN};
      memcpy(&mutation->becomes, &real[mutation_random(mutation) % 9], sizeof mutation->becomes);
    }
  }
  bool is_equal = mutation->everywhere && mutation->found && mutation->kind == field->kind &&
                  mutation->was == v;
  if (is_target || is_equal) memcpy(at, &mutation->becomes, width);
}

static inline void visit_table(mutation *mutation, const ir_table *table, void *base);

static inline void visit_field(mutation *mutation, const ir_field *field, char *at) {
  void *inner;
  switch (field->kind) {
    case IR_FIELD_BOOL:
      visit_number(mutation, field, at, 1);
      break;
    case IR_FIELD_I32:
    case IR_FIELD_U32:
    case IR_FIELD_ENUM:
    case IR_FIELD_TID:
    case IR_FIELD_VID:
    case IR_FIELD_OPT_I32:
      visit_number(mutation, field, at, 4);
      break;
    case IR_FIELD_I64:
    case IR_FIELD_U64:
    case IR_FIELD_F64:
    case IR_FIELD_OPT_I64:
    case IR_FIELD_OPT_F64:
      visit_number(mutation, field, at, 8);
      break;
    case IR_FIELD_INT_OR_VID:
    case IR_FIELD_FLOAT_OR_VID:
      if (!field_is_default(field, at - field->offset))
        visit_table(mutation, field_table(field), at);
      break;
    case IR_FIELD_TABLE:
      memcpy(&inner, at, sizeof inner);
      if (inner) visit_table(mutation, field->table, inner);
      break;
    default:
      break;
  }
}

/* Visits a vector's length, a number too: the vector may lose its last entry. */
static inline void visit_vector(mutation *mutation, const ir_field *field, char *at) {
  ir_vector vector;
  ir_field item = vector_item_field(field);
  memcpy(&vector, at, sizeof vector);
  if (mutation->count++ == mutation->target && vector.count) {
    vector.count--;
    memcpy(at, &vector, sizeof vector);
  }
  for (uint32_t i = 0; i < vector.count; i++) {
    char *entry = (char *)vector.items + i * vector_item_size(field);
    if (item.kind == IR_FIELD_TABLE) {
      visit_table(mutation, field->table, entry);
    } else {
      visit_field(mutation, &item, entry);
    }
  }
}

static inline void visit_table(mutation *mutation, const ir_table *table, void *base) {
  for (uint32_t i = 0; i < table->n_fields; i++) {
    const ir_field *field = &table->fields[i];
    char *at = (char *)base + field->offset;
    if (field->kind == IR_FIELD_UNION) {
      void *op;
      ir_op type;
      memcpy(&op, at, sizeof op);
      memcpy(&type, (char *)base + field->type_offset, sizeof type);
      if (op) visit_table(mutation, ir_op_tables[type], op);
    } else if (field_is_vector(field->kind)) {
      visit_vector(mutation, field, at);
    } else {
      visit_field(mutation, field, at);
    }
  }
}

/* Writes the changed program over `data`. Returns its size, or 0 if it does not decode or does not
 * fit. */
static inline size_t mutate_program(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  mem_pool *pool;
  ir_program ir = {0};
  text bytes = {0};
  mutation mutation = {.target = UINT32_MAX, .random = seed};
  if (mem_pool_create(&pool)) return 0;
  clave_status st = decode_flatbuffer(data, size, pool, &ir);
  if (!st) visit_table(&mutation, &ir_program_table, &ir);
  for (uint64_t n = 1 + mutation_random(&mutation) % 3; !st && n > 0; n--) {
    mutation.target = (uint32_t)(mutation_random(&mutation) % mutation.count);
    mutation.everywhere = mutation_random(&mutation) % 2;
    mutation.found = false;
    mutation.count = 0;
    visit_table(&mutation, &ir_program_table, &ir);
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
