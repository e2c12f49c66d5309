#ifndef CLAVE_FILES_H
#define CLAVE_FILES_H
/* Files beside programs: tensors (safetensors), and the cache of kernels on disk. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- tensor files (safetensors) */

typedef struct clave_tensors clave_tensors;
CLAVE_API clave_status clave_tensors_load(const char *path,
                                          clave_tensors **out) CLAVE_CHECK; /* mapped */
CLAVE_API uint32_t clave_tensors_count(const clave_tensors *tensors);
/* Tensor i in the file's order; name and data borrowed. */
CLAVE_API void clave_tensors_get(const clave_tensors *tensors, uint32_t index, const char **name,
                                 clave_tensor *out);
CLAVE_API bool clave_tensors_find(const clave_tensors *tensors, const char *name,
                                  clave_tensor *out);
CLAVE_API void clave_tensors_destroy(clave_tensors *tensors);
/* metadata: n_metadata pairs key, value. Whole or not at all. */
CLAVE_API clave_status clave_tensors_save(const char *path, const char *const *names,
                                          const clave_tensor *tensors, uint32_t count,
                                          const char *const *metadata,
                                          uint32_t n_metadata) CLAVE_CHECK;

/* ---------------------------------------------------------------- kernel cache on disk */

typedef struct clave_cache_info {
  size_t size;      /* sizeof(clave_cache_info) */
  const char *path; /* NULL: no cache */
  uint64_t bytes, files, limit_bytes;
} clave_cache_info;
CLAVE_API clave_status clave_cache_get_info(clave_cache_info *info)
    CLAVE_CHECK; /* path valid until the next call */
/* Removes least recently used binaries until at most max_bytes are left (0: all). */
CLAVE_API clave_status clave_cache_trim(uint64_t max_bytes, uint64_t *removed_bytes) CLAVE_CHECK;
/* Where a driver builds one kernel at a time (PoCL), the library starts child processes for it: the
 * command line tool, found beside the library or as CLAVE_HELPER says (a path, or "off"). This is
 * what the child runs: builds for the process at the other end of `socket` until that closes it, or
 * has not asked for a few seconds. */
CLAVE_API clave_status clave_serve_builds(int socket) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
