/* Large allocations. Windows has no large pages for ordinary users. */
#include <malloc.h>

#include "base/memory.h"

void *memory_alloc_aligned(size_t alignment, size_t bytes) {
  return _aligned_malloc(bytes, alignment);
}

void memory_free(void *memory) { _aligned_free(memory); }

void *memory_alloc(size_t bytes) {
  return bytes > SIZE_MAX / 2 ? NULL : memory_alloc_aligned(MEMORY_ALIGNMENT, bytes ? bytes : 1);
}
