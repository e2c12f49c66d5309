#ifndef SERIALIZE_COPY_H
#define SERIALIZE_COPY_H
/* Decoded tables copied and numbered anew, by their descriptors. */
#include "base/memory.h"
#include "base/status.h"
#include "ir.h"

/* Copies the struct at `from` and all it refers to; texts too. */
clave_status table_copy(mem_pool *pool, const ir_table *table, const void *from,
                        void *to) STATUS_CHECK;

/* New numbers by old ones; NULL: they stay. What is no number of the array stays, too. */
typedef struct table_numbers {
  const uint32_t *tensors, *values, *chains;
  uint32_t n_tensors, n_values, n_chains;
} table_numbers;
/* Replaces the numbers of tensors, values and bodies' chains in a table and all it holds. */
void table_renumber(const table_numbers *to, const ir_table *table, void *base);

#endif
