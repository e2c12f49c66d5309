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
  clave_tensors *tensors = calloc(1, sizeof *tensors);
  if (!tensors) return status_no_memory();
  clave_status st = tensor_file_open(path, &tensors->file);
  if (st) {
    clave_tensors_destroy(tensors);
    return st;
  }
  *out = tensors;
  return NULL;
}

void clave_tensors_destroy(clave_tensors *tensors) {
  if (!tensors) return;
  tensor_file_destroy(tensors->file);
  free(tensors);
}

clave_status clave_tensors_check(const clave_tensors *tensors) {
  return tensor_file_check(tensors->file);
}

uint32_t clave_tensors_count(const clave_tensors *tensors) { return tensors->file->count; }

static void entry_to_public(const tensor_entry *entry, clave_tensor *out) {
  tensor tensor = {.type = entry->type, .rank = entry->rank};
  memcpy(tensor.dims, entry->dims, sizeof tensor.dims);
  tensor_to_public(&tensor, entry->data, out);
}

void clave_tensors_get(const clave_tensors *tensors, uint32_t index, const char **name,
                       clave_tensor *out) {
  *name = tensors->file->tensors[index].name;
  entry_to_public(&tensors->file->tensors[index], out);
}

bool clave_tensors_find(const clave_tensors *tensors, const char *name, clave_tensor *out) {
  const tensor_entry *entry = tensor_file_find(tensors->file, name);
  if (entry) entry_to_public(entry, out);
  return entry != NULL;
}

/* Describes a tensor for the file. A strided one is copied to *copy (owned by the caller). */
static clave_status entry_from_public(const char *name, const clave_tensor *in, tensor_entry *entry,
                                      void **copy) {
  if (!clave_dtype_name(in->dtype))
    return INVALID("tensor '%s': unknown dtype %d", name, (int)in->dtype);
  if (in->rank < 0 || in->rank > MAX_RANK)
    return INVALID("tensor '%s': expected rank 0 to %d, got %d", name, MAX_RANK, in->rank);
  tensor tensor = tensor_from_public(in);
  *entry = (tensor_entry){.name = name, .type = tensor.type, .rank = tensor.rank, .data = in->data};
  memcpy(entry->dims, tensor.dims, sizeof entry->dims);
  if (!tensor_bytes(&tensor, &entry->bytes))
    return INVALID("tensor '%s': its size is negative or overflows", name);
  if (tensor_is_contiguous(&tensor)) return NULL;
  entry->data = *copy = malloc(entry->bytes + 1);
  if (!*copy) return status_no_memory();
  copy_to_contiguous(&tensor, in->data, *copy);
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
