/* Guards of files that the host mapped itself. */
#include "base/file_guard.h"

#include <stdint.h>
#include <unistd.h>

#include "api/internal.h"
#include "clave_host.h"

clave_status clave_guard_create(const void *pages, size_t size, volatile bool *is_cut,
                                clave_guard **out) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *out = NULL;
  if (!pages || (uintptr_t)pages % page || !size)
    return INVALID(
        "a guard of %zu bytes at %p: expected the bytes of a mapping, which begins a page", size,
        pages);
  file_guard *g = file_guard_add(pages, size);
  if (!g) return status_new(STATUS_NO_MEMORY, "256 mapped files are guarded, expected fewer");
  file_guard_tell(g, is_cut);
  *out = (clave_guard *)g;
  return NULL;
}

void clave_guard_destroy(clave_guard *g) { file_guard_remove((file_guard *)g); }
