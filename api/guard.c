/* Guards for files that the host program mapped itself (include/clave_host.h). */
#include "base/file_guard.h"

#include <stdint.h>

#include "api/internal.h"
#include "clave_host.h"

clave_status clave_guard_create(const void *pages, size_t size, volatile bool *is_cut,
                                clave_guard **out) {
  const size_t page = memory_page();
  *out = NULL;
  if (!pages || (uintptr_t)pages % page || !size)
    return INVALID(
        "pages and size: expected a mapping that starts at a page boundary, got %zu bytes at %p",
        size, pages);
  file_guard *guard = file_guard_add(pages, size);
  if (!guard)
    return status_new(STATUS_NO_MEMORY,
                      "the mapping cannot be guarded: 256 mappings are guarded already, or SIGBUS "
                      "cannot be handled");
  file_guard_notify(guard, is_cut);
  *out = (clave_guard *)guard;
  return NULL;
}

void clave_guard_destroy(clave_guard *guard) { file_guard_remove((file_guard *)guard); }
