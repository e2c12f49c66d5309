#ifndef BASE_SMALL_ALLOC_H
#define BASE_SMALL_ALLOC_H
/* Memory for small objects. It comes from the heap or, in programs built with MEMORY_STATIC=BYTES,
 * from a static buffer, which reuses only the memory of its last block. */
#include <stddef.h>

void *small_alloc(size_t bytes);                 /* zeroed; NULL when memory is out */
void *small_realloc(void *memory, size_t bytes); /* like realloc; added memory is not cleared */
void small_free(void *memory);                   /* accepts NULL */

#endif
