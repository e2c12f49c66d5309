#ifndef SERIALIZE_COPY_H
#define SERIALIZE_COPY_H
/* Copies and renumbers decoded tables, driven by their descriptors. */
#include "base/memory.h"
#include "base/status.h"
#include "ir.h"

/* Copies the struct at `from` and everything it refers to, including strings, into pool memory. */
clave_status table_copy(mem_pool *pool, const ir_table *table, const void *from,
                        void *to) STATUS_CHECK;

/* New numbers, indexed by the old ones. A number beyond the array, such as IR_NONE, is unchanged.
 * If the array is NULL, all numbers are. */
typedef struct table_numbers {
  const uint32_t *tensors, *values, *chains;
  uint32_t n_tensors, n_values, n_chains;
} table_numbers;
/* Replaces the numbers of tensors, values and body chains in a table and everything it contains. */
void table_renumber(const table_numbers *to, const ir_table *table, void *base);

#endif
