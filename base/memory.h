#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H
/* A pool that frees everything at once (decoded programs, plans), bytes of others, growing arrays,
 * a growing string, and memory of a device's. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct mem_pool mem_pool;
clave_status mem_pool_create(mem_pool **out) STATUS_CHECK;
void mem_pool_destroy(mem_pool *pool); /* takes NULL */
void *mem_pool_alloc(mem_pool *pool, size_t count,
                     size_t size); /* zeroed, aligned as calloc does; NULL: overflow or no memory */
char *mem_pool_strdup(mem_pool *pool, const char *text,
                      size_t n); /* NUL-terminated copy; NULL when memory is out */
size_t mem_pool_bytes(const mem_pool *pool);
bool mem_pool_has(const mem_pool *pool, const void *at); /* true if the byte is in it; takes NULL */

typedef struct span {
  const char *data; /* borrowed */
  size_t size;
} span;

/* Room for `need` items in all, of `size` bytes each, in a malloc'ed array. array: the address of
 * its pointer, which may be NULL; *capacity: in items, 0 at first. An array that grows at least
 * doubles. False: overflow or no memory, and the array is as it was. */
bool array_reserve(void *array, size_t *capacity, size_t need, size_t size);

enum { MEMORY_ALIGNMENT = 64, MEMORY_LARGE = 2 << 20 };
/* Uninitialised, of that alignment, to be freed; NULL: no memory. From MEMORY_LARGE bytes on it is
 * asked for in large pages, which take a tenth of the time to be got and to be found. */
void *memory_alloc(size_t bytes);

/* Growing text. After a failed append `failed` is set and further appends do nothing: check once,
 * at the end. */
typedef struct text {
  char *data; /* owned; NUL-terminated once anything was appended */
  size_t size, capacity;
  int failed;
} text;
void text_append(text *text, const char *bytes, size_t n);
void text_puts(text *text, const char *string);
void text_vprintf(text *text, const char *format, va_list args) STATUS_PRINTF(2, 0);
void text_printf(text *text, const char *format, ...) STATUS_PRINTF(2, 3);
void text_clear(text *text); /* empties it and forgets a failed append; keeps its memory */
void text_free(text *text);
clave_status text_status(const text *text)
    STATUS_CHECK; /* status_no_memory() if an append failed */

#endif
