#ifndef CLAVE_FILES_H
#define CLAVE_FILES_H
/* Programs in memory; files beside programs: tensors (safetensors), the cache of kernels on disk;
 * and what a program's own file can carry for devices: packed constants. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- programs in memory */

/* As clave_program_load, from the bytes of a .clv, which are borrowed: they outlive the program and
 * do not change meanwhile. Where they do not begin at a multiple of 64, constants that were packed
 * ahead are left out, and others are copied as far as their dtype needs it. name: for messages. */
CLAVE_API clave_status clave_program_load_bytes(const void *clv, size_t size, const char *name,
                                                clave_program **out) CLAVE_CHECK;

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
/* CLAVE_IO if the file was cut short since it was loaded, and zeros may stand in place of tensors'
 * data. Called after the data was used. */
CLAVE_API clave_status clave_tensors_check(const clave_tensors *tensors) CLAVE_CHECK;
CLAVE_API void clave_tensors_destroy(clave_tensors *tensors);
/* metadata: n_metadata pairs key, value. Whole or not at all. */
CLAVE_API clave_status clave_tensors_save(const char *path, const char *const *names,
                                          const clave_tensor *tensors, uint32_t count,
                                          const char *const *metadata,
                                          uint32_t n_metadata) CLAVE_CHECK;

/* ---------------------------------------------------------------- packed constants */

/* Makes the packed forms of constants that sessions with these options (NULL: none) make on the
 * device at their first runs, without a run; the program has them from then on, and a .clv that it
 * is saved to. Sessions on devices of the same kind take them from the file, in place; others make
 * their own. Before any session of the program is created. */
CLAVE_API clave_status clave_program_pack(clave_program *program, clave_device *device,
                                          const clave_session_options *options) CLAVE_CHECK;
CLAVE_API clave_status clave_program_unpack(clave_program *program) CLAVE_CHECK; /* drops them */

typedef struct clave_form_info {
  size_t size;        /* sizeof(clave_form_info) */
  const char *device; /* what it is packed for: "cpu 1 x86-64 avx512": kind, version, traits */
  uint32_t slot;      /* of the constant */
  uint64_t bytes;
} clave_form_info;
CLAVE_API uint32_t clave_program_count_forms(const clave_program *program);
CLAVE_API clave_status clave_program_form(const clave_program *program, uint32_t index,
                                          clave_form_info *info) CLAVE_CHECK;

/* ---------------------------------------------------------------- kernel cache on disk */

typedef struct clave_cache_info {
  size_t size;      /* sizeof(clave_cache_info) */
  const char *path; /* NULL: no cache */
  uint64_t bytes, files, limit_bytes;
  uint64_t tables; /* of tuning (clave_tune.h), which are among the files and under no limit */
} clave_cache_info;
CLAVE_API clave_status clave_cache_get_info(clave_cache_info *info)
    CLAVE_CHECK; /* path valid until the next call */
/* Removes least recently used binaries until at most max_bytes are left (0: all, tuning tables, and
 * libraries that Python's clave.executorch built). */
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
