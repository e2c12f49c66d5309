#ifndef INTERP_GRAPH_SIZES_H
#define INTERP_GRAPH_SIZES_H
/* A program's sizes as polynomials over its inputs' sizes. Sizes that are equal for all inputs
 * compare equal, however they are computed: (2 s) * t and t * (s + s). */
#include "base/memory.h"
#include "ir.h"

typedef struct size_table size_table;

/* A number, or a polynomial in a table (poly > 0). Equal extents of one table are the same size for
 * all inputs. NOT_A_SIZE equals nothing. */
typedef struct extent {
  int64_t literal;
  uint32_t poly;
} extent;
#define NOT_A_SIZE ((extent){0, UINT32_MAX})
static inline extent size_literal(int64_t n) { return (extent){n, 0}; }
static inline bool size_is_literal(extent extent) { return extent.poly == 0; }
static inline bool same_size(extent left, extent right) {
  return left.poly != UINT32_MAX && left.poly == right.poly && left.literal == right.literal;
}
static inline bool size_is(extent extent, int64_t n) {
  return extent.poly == 0 && extent.literal == n;
}

/* Creates a table of this program's values in the pool; NULL if memory runs out. */
size_table *size_table_create(const ir_program *program, mem_pool *pool);
extent size_of(size_table *table, const ir_int_or_vid *value);
extent size_add(size_table *table, extent left, extent right);
extent size_multiply(size_table *table, extent left, extent right);

#endif
