#ifndef BASE_NPY_H
#define BASE_NPY_H
/* NumPy's .npy files: formats 1 to 3, C and Fortran order, little endian, and the dtypes that both
 * NumPy and clave have. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

enum { NPY_MAX_RANK = 8, NPY_HEADER_BYTES = 384 };

typedef struct npy_array {
  dtype type;
  int rank;
  int64_t dims[NPY_MAX_RANK];
  int64_t strides[NPY_MAX_RANK]; /* in elements */
  bool is_fortran;               /* the first dimension varies fastest */
  const void *data;              /* (bytes); may be unaligned */
  size_t bytes;
} npy_array;

/* Reads a file of `size` bytes in memory; out->data points into it. name: for messages. Fails with
 * INVALID on a malformed file. */
clave_status npy_read(const char *name, const void *file, size_t size, npy_array *out) STATUS_CHECK;
/* Copies the elements to `to` (array->bytes bytes) in row-major order. */
void npy_copy(const npy_array *array, void *to);
/* Writes the header of a contiguous array. Returns its size in bytes. */
size_t npy_write_header(dtype t, int rank, const int64_t *dims, char to[NPY_HEADER_BYTES]);

#endif
