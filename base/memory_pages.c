/* Large allocations. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/memory.h"

void *memory_alloc_aligned(size_t alignment, size_t bytes) {
  void *memory;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

void memory_free(void *memory) { free(memory); }

enum { LARGE_PAGE = 2 << 20 };

void *memory_alloc(size_t bytes) {
  const size_t alignment = bytes >= MEMORY_LARGE ? LARGE_PAGE : MEMORY_ALIGNMENT;
  if (bytes > SIZE_MAX - 2 * alignment) return NULL;
  void *memory = memory_alloc_aligned(
      alignment, (bytes / alignment + (bytes % alignment || !bytes)) * alignment);
#ifdef MADV_HUGEPAGE
  /* Covers whole pages only, so that no further memory becomes resident. The system may refuse. */
  if (memory && bytes >= MEMORY_LARGE)
    (void)madvise(memory, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
#endif
  return memory;
}
