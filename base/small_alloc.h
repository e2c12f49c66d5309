#ifndef BASE_SMALL_ALLOC_H
#define BASE_SMALL_ALLOC_H
/* Memory for small objects: from the heap, or, in programs built with MEMORY_STATIC=BYTES, from a
 * static buffer, which only reuses the memory of the block allocated last. */
#include <stddef.h>

void *small_alloc(size_t bytes);                 /* zeroed; NULL when memory is out */
void *small_realloc(void *memory, size_t bytes); /* like realloc; added memory is not cleared */
void small_free(void *memory);                   /* accepts NULL */

#endif
