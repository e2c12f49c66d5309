#ifndef BASE_ROOM_H
#define BASE_ROOM_H
/* Memory of small things: the heap's, or, in programs that are built with MEMORY_STATIC=BYTES, a
 * buffer's, of which what was taken last can be given back. */
#include <stddef.h>

void *room_take(size_t bytes);                 /* zeroed; NULL: there is none */
void *room_resize(void *memory, size_t bytes); /* like realloc; what is added is not cleared */
void room_give(void *memory);                  /* takes NULL */

#endif
