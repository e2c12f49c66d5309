/* safetensors files of the public API. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "clave_files.h"
#include "interp/host_copy.h"
#include "serialize/safetensors.h"

struct clave_tensors {
  tensor_file *file; /* owned */
};

clave_status clave_tensors_load(const char *path, clave_tensors **out) {
  *out = NULL;
  clave_tensors *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  clave_status st = tensor_file_open(path, &t->file);
  if (st) {
    clave_tensors_destroy(t);
    return st;
  }
  *out = t;
  return NULL;
}

void clave_tensors_destroy(clave_tensors *t) {
  if (!t) return;
  tensor_file_destroy(t->file);
  free(t);
}

clave_status clave_tensors_check(const clave_tensors *t) { return tensor_file_check(t->file); }

uint32_t clave_tensors_count(const clave_tensors *t) { return t->file->count; }

static void entry_to_public(const tensor_entry *e, clave_tensor *out) {
  tensor t = {.type = e->type, .rank = e->rank};
  memcpy(t.dims, e->dims, sizeof t.dims);
  tensor_to_public(&t, e->data, out);
}

void clave_tensors_get(const clave_tensors *t, uint32_t index, const char **name,
                       clave_tensor *out) {
  *name = t->file->tensors[index].name;
  entry_to_public(&t->file->tensors[index], out);
}

bool clave_tensors_find(const clave_tensors *t, const char *name, clave_tensor *out) {
  const tensor_entry *e = tensor_file_find(t->file, name);
  if (e) entry_to_public(e, out);
  return e != NULL;
}

/* Strided tensors are made contiguous into *copy (owned by the caller). */
static clave_status entry_from_public(const char *name, const clave_tensor *in, tensor_entry *e,
                                      void **copy) {
  if (!clave_dtype_name(in->dtype))
    return INVALID("tensor '%s' has no known dtype (%d)", name, (int)in->dtype);
  if (in->rank < 0 || in->rank > MAX_RANK)
    return INVALID("tensor '%s': expected rank 0 to %d, got %d", name, MAX_RANK, in->rank);
  tensor t = tensor_from_public(in);
  *e = (tensor_entry){.name = name, .type = t.type, .rank = t.rank, .data = in->data};
  memcpy(e->dims, t.dims, sizeof e->dims);
  if (!tensor_bytes(&t, &e->bytes))
    return INVALID("tensor '%s' has a size that is negative or overflows", name);
  if (tensor_is_contiguous(&t)) return NULL;
  e->data = *copy = malloc(e->bytes + 1);
  if (!*copy) return status_no_memory();
  copy_to_contiguous(&t, in->data, *copy);
  return NULL;
}

clave_status clave_tensors_save(const char *path, const char *const *names,
                                const clave_tensor *tensors, uint32_t count,
                                const char *const *metadata, uint32_t n_metadata) {
  tensor_entry *entries = calloc((size_t)count + 1, sizeof *entries);
  void **copies = calloc((size_t)count + 1, sizeof *copies);
  clave_status st = entries && copies ? NULL : status_no_memory();
  for (uint32_t i = 0; i < count && !st; i++)
    st = entry_from_public(names[i], &tensors[i], &entries[i], &copies[i]);
  if (!st) st = tensor_file_save(path, entries, count, metadata, n_metadata);
  for (uint32_t i = 0; copies && i < count; i++) free(copies[i]);
  free(copies);
  free(entries);
  return st;
}
