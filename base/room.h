#ifndef BASE_ROOM_H
#define BASE_ROOM_H
/* Memory for small objects: from the heap, or, in programs built with MEMORY_STATIC=BYTES, from a
 * static buffer, which reuses only what was taken last. */
#include <stddef.h>

void *room_take(size_t bytes);                 /* zeroed; NULL when memory is out */
void *room_resize(void *memory, size_t bytes); /* like realloc; added memory is not cleared */
void room_give(void *memory);                  /* accepts NULL */

#endif
