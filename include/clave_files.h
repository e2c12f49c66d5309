#ifndef CLAVE_FILES_H
#define CLAVE_FILES_H
/* Programs in memory, tensor files (safetensors), packed constants, and the kernel cache on
 * disk. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- programs in memory */

/* Like clave_program_load, but from the bytes of a .clv, or of an ONNX or TFLite model without
 * other files. The bytes are borrowed: they must outlive the program and not change. If the bytes
 * are not aligned to 64, packed constants are ignored, and other constants are copied if their
 * dtype needs more alignment. name: for messages. */
CLAVE_API clave_status clave_program_load_bytes(const void *clv, size_t size, const char *name,
                                                clave_program **out) CLAVE_CHECK;

/* Like clave_program_load_bytes, but only for a .clv. An executable that links libclave.a and calls
 * no other function that loads a program does not contain the importers of other formats. */
CLAVE_API clave_status clave_program_load_clv(const void *clv, size_t size, const char *name,
                                              clave_program **out) CLAVE_CHECK;

/* An op of another format from which clave_program_load makes programs. */
typedef struct clave_import_op {
  size_t size;        /* sizeof(clave_import_op) */
  const char *format; /* "ONNX" */
  const char *domain; /* "" for the format's own ops */
  const char *name;   /* as in the format: "Conv" */
  int since;          /* the first version of the op that is known, as the format counts */
} clave_import_op;
/* Describes op `index`, from 0. Returns false after the last. The texts are static. */
CLAVE_API bool clave_import_op_at(uint32_t index, clave_import_op *out);

/* ---------------------------------------------------------------- tensor files (safetensors) */

typedef struct clave_tensors clave_tensors;
CLAVE_API clave_status clave_tensors_load(const char *path,
                                          clave_tensors **out) CLAVE_CHECK; /* maps the file */
CLAVE_API uint32_t clave_tensors_count(const clave_tensors *tensors);
/* Returns tensor `index` in the file's order; name and data are borrowed. */
CLAVE_API void clave_tensors_get(const clave_tensors *tensors, uint32_t index, const char **name,
                                 clave_tensor *out);
CLAVE_API bool clave_tensors_find(const clave_tensors *tensors, const char *name,
                                  clave_tensor *out);
/* Fails with CLAVE_IO if the file was cut short since it was loaded, so that data may have been
 * replaced by zeros. Call it after using the data. */
CLAVE_API clave_status clave_tensors_check(const clave_tensors *tensors) CLAVE_CHECK;
CLAVE_API void clave_tensors_destroy(clave_tensors *tensors);
/* Writes a file of tensors, or none on failure. metadata: n_metadata pairs of key and value. */
CLAVE_API clave_status clave_tensors_save(const char *path, const char *const *names,
                                          const clave_tensor *tensors, uint32_t count,
                                          const char *const *metadata,
                                          uint32_t n_metadata) CLAVE_CHECK;

/* ---------------------------------------------------------------- packed constants */

/* Packs constants without a run, as the first runs of sessions with these options (NULL: the
 * defaults) on the device would. The program keeps the packed constants, and clave_program_save
 * writes them to a .clv. Sessions on devices of the same kind read them in place; other devices
 * pack their own. Call it before any session of the program is created. */
CLAVE_API clave_status clave_program_pack(clave_program *program, clave_device *device,
                                          const clave_session_options *options) CLAVE_CHECK;
/* Removes the packed constants, before any session of the program is created. */
CLAVE_API clave_status clave_program_unpack(clave_program *program) CLAVE_CHECK;

typedef struct clave_packed_weight_info {
  size_t size;        /* sizeof(clave_packed_weight_info) */
  const char *device; /* target: "cpu 1 x86-64 avx512" (kind, version, traits) */
  uint32_t slot;      /* slot of the constant */
  uint64_t bytes;
} clave_packed_weight_info;
CLAVE_API uint32_t clave_program_count_packed_weights(const clave_program *program);
CLAVE_API clave_status clave_program_packed_weight(const clave_program *program, uint32_t index,
                                                   clave_packed_weight_info *info) CLAVE_CHECK;

/* ---------------------------------------------------------------- kernel cache on disk */

typedef struct clave_cache_info {
  size_t size;      /* sizeof(clave_cache_info) */
  const char *path; /* NULL if there is no cache */
  uint64_t bytes, files, limit_bytes;
  uint64_t tables; /* tuning tables (clave_tune.h), included in files, but not limited */
} clave_cache_info;
CLAVE_API clave_status clave_cache_get_info(clave_cache_info *info)
    CLAVE_CHECK; /* path is valid until the next call */
/* Removes the least recently used binaries until at most max_bytes are left. 0 removes everything,
 * including tuning tables and libraries that Python's clave.executorch built. */
CLAVE_API clave_status clave_cache_trim(uint64_t max_bytes, uint64_t *removed_bytes) CLAVE_CHECK;

/* Kernel binaries of one device and driver, in a file that carries them to other machines. */
typedef struct clave_cache_kernels {
  size_t size;                            /* sizeof(clave_cache_kernels) */
  const char *platform, *device, *driver; /* valid during the call */
  uint64_t kernels, bytes;
  uint64_t added;  /* import: binaries that the cache lacked */
  bool is_present; /* import: this machine has the device and the driver */
} clave_cache_kernels;
typedef void (*clave_cache_report)(void *ctx, const clave_cache_kernels *kernels);
/* Writes all kernel binaries of the cache to a file. Calls `report` (may be NULL) for each device
 * and driver. */
CLAVE_API clave_status clave_cache_export(const char *path, clave_cache_report report,
                                          void *ctx) CLAVE_CHECK;
/* Adds the kernel binaries of such a file to the cache, if this machine has their device and
 * driver; the first run then compiles nothing. A damaged file changes nothing. Drivers execute the
 * binaries: import only files from someone you trust. */
CLAVE_API clave_status clave_cache_import(const char *path, clave_cache_report report,
                                          void *ctx) CLAVE_CHECK;
/* Runs in a child process: builds kernels for the process at the other end of `socket`, until that
 * process closes the socket or sends no request for a few seconds. The library starts such children
 * for drivers that build one kernel at a time (PoCL). They run the command line tool, found beside
 * the library or by CLAVE_HELPER (a path, or "off"). */
CLAVE_API clave_status clave_serve_builds(int socket) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif
#endif
