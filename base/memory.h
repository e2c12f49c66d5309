#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H
/* Memory: a pool that frees everything at once (decoded programs, plans), spans of borrowed bytes,
 * growing arrays, aligned memory for tensors, and a growing string. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

typedef struct mem_pool mem_pool;
clave_status mem_pool_create(mem_pool **out) STATUS_CHECK;
void mem_pool_destroy(mem_pool *pool); /* accepts NULL */
/* Returns zeroed memory, aligned as by calloc; NULL on overflow or when memory is out. */
void *mem_pool_alloc(mem_pool *pool, size_t count, size_t size);
/* Returns a NUL-terminated copy of n bytes; NULL when memory is out. */
char *mem_pool_strdup(mem_pool *pool, const char *text, size_t n);
size_t mem_pool_bytes(const mem_pool *pool);
/* True if the byte is in the pool; accepts a NULL pool. */
bool mem_pool_has(const mem_pool *pool, const void *at);

typedef struct span {
  const char *data; /* borrowed */
  size_t size;
} span;
static inline bool span_is_same(span left, span right) {
  return left.size == right.size && (!left.size || memcmp(left.data, right.data, left.size) == 0);
}
static inline bool span_is(span text, const char *word) {
  return span_is_same(text, (span){word, strlen(word)});
}

/* Grows a malloc'ed array to at least `need` items of `size` bytes. array: the address of its
 * pointer, which may be NULL; *capacity: in items, 0 at first. A growing array at least doubles.
 * Returns false on overflow or when memory is out; the array is then unchanged. */
bool array_reserve(void *array, size_t *capacity, size_t need, size_t size);

enum { MEMORY_ALIGNMENT = 64, MEMORY_LARGE = 2 << 20 };
/* Returns uninitialised memory aligned to MEMORY_ALIGNMENT, to be released by memory_free; NULL
 * when memory is out. For MEMORY_LARGE bytes or more it requests large pages, which are about ten
 * times as fast to allocate and access. */
void *memory_alloc(size_t bytes);
/* Works like memory_alloc with an alignment: a power of 2, at least that of a pointer. */
void *memory_alloc_aligned(size_t alignment, size_t bytes);
void memory_free(void *memory); /* accepts NULL */
size_t memory_page(void);       /* the size of a page of the system */
uint64_t memory_total(void);    /* bytes of the computer's memory; 0 if unknown */

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
void text_clear(text *text); /* empties it, clears `failed`, and keeps the memory */
void text_free(text *text);
/* Returns status_no_memory() if an append failed, else NULL. */
clave_status text_status(const text *text) STATUS_CHECK;

#endif
