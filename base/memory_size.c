/* The sizes of a page and of the computer's memory. Compiled programs that allocate no memory
 * contain this file but not memory.c. */
#include <unistd.h>

#include "base/memory.h"

size_t memory_page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

uint64_t memory_total(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}
