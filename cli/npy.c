/* .npy files as tensors of the library's. */
#include "cli/npy.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/npy.h"

static int take_array(const npy_array *a, npy_file *out) {
  out->data = malloc(a->bytes ? a->bytes : 1);
  if (!out->data) return fail_memory();
  if (a->bytes) memcpy(out->data, a->data, a->bytes);
  out->tensor = (clave_tensor){.dtype = (clave_dtype)a->type, .rank = a->rank, .data = out->data};
  memcpy(out->tensor.dims, a->dims, sizeof a->dims);
  memcpy(out->tensor.strides, a->strides, sizeof a->strides);
  return EXIT_GOOD;
}

int read_npy(const char *path, npy_file *out) {
  file_map m;
  npy_array a;
  *out = (npy_file){0};
  clave_status st = file_map_open(path, &m);
  if (!st) st = npy_read(path, m.data, m.size, &a);
  int result = st ? EXIT_GOOD : take_array(&a, out);
  st = status_first(file_map_check(&m, path, NULL), st);
  if (st) result = fail_status(st);
  file_map_close(&m);
  if (result) free_npy(out);
  return result;
}

void free_npy(npy_file *f) {
  free(f->data);
  *f = (npy_file){0};
}
