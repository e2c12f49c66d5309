/* Reads .npy files as clave tensors. */
#include "cli/npy.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/npy.h"

static int take_array(const npy_array *array, npy_file *out) {
  out->data = malloc(array->bytes ? array->bytes : 1);
  if (!out->data) return fail_memory();
  if (array->bytes) memcpy(out->data, array->data, array->bytes);
  out->tensor =
      (clave_tensor){.dtype = (clave_dtype)array->type, .rank = array->rank, .data = out->data};
  memcpy(out->tensor.dims, array->dims, sizeof array->dims);
  memcpy(out->tensor.strides, array->strides, sizeof array->strides);
  return EXIT_GOOD;
}

int read_npy(const char *path, npy_file *out) {
  file_map map;
  npy_array array;
  *out = (npy_file){0};
  clave_status st = file_map_open(path, &map);
  if (!st) st = npy_read(path, map.data, map.size, &array);
  int result = st ? EXIT_GOOD : take_array(&array, out);
  st = status_first(file_map_check(&map, path, NULL), st);
  if (st) result = fail_status(st);
  file_map_close(&map);
  if (result) free_npy(out);
  return result;
}

void free_npy(npy_file *file) {
  free(file->data);
  *file = (npy_file){0};
}
