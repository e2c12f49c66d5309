/* Files of tensors by the endings of their names. */
#include "compile/runtime/files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/npy.h"
#include "base/room.h"
#include "compile/runtime/arguments.h"
#include "compile/runtime/safetensors.h"

/* ---------------------------------------------------------------- inputs */

static void append_shape(text *t, dtype type, int rank, const int64_t *dims) {
  text_printf(t, "%s (", dtype_name(type));
  for (int i = 0; i < rank; i++) text_printf(t, "%s%lld", i ? ", " : "", (long long)dims[i]);
  text_puts(t, ")");
}

/* The dtype and shape that a file has are the input's. */
static clave_status check_shape(const char *path, const model_method *m, const model_argument *a,
                                const stored_tensor *s) {
  bool fits = s->type == a->type && s->rank == a->rank;
  for (int i = 0; fits && i < a->rank; i++) fits = a->dims[i] < 0 || a->dims[i] == s->dims[i];
  if (fits) return NULL;
  text t = {0};
  append_shape(&t, s->type, s->rank, s->dims);
  text_printf(&t, "; input '%s' is ", a->name);
  append_type(&t, m, a);
  clave_status st = text_status(&t);
  if (!st) st = INVALID("%s: %s", path, t.data);
  text_free(&t);
  return st;
}

/* A copy where elements lie in another order, or not as their dtype wants it. */
static clave_status take_elements(const npy_array *a, input_file *f) {
  const bool is_aligned = (uintptr_t)a->data % dtype_size(a->type) == 0;
  f->data = a->data;
  f->bytes = a->bytes;
  f->has_shape = true;
  memcpy(f->dims, a->dims, sizeof f->dims);
  if (!a->bytes || (is_aligned && (!a->is_fortran || a->rank < 2))) return NULL;
  f->copy = room_take(a->bytes);
  if (!f->copy) return status_no_memory();
  if (a->is_fortran) {
    npy_copy(a, f->copy);
  } else {
    memcpy(f->copy, a->data, a->bytes);
  }
  f->data = f->copy;
  return NULL;
}

static clave_status read_npy(const char *path, const model_method *m, const model_argument *a,
                             input_file *f) {
  npy_array array;
  TRY(npy_read(path, f->map.data, f->map.size, &array));
  stored_tensor s = {.type = array.type, .rank = array.rank};
  memcpy(s.dims, array.dims, sizeof s.dims);
  TRY(check_shape(path, m, a, &s));
  return take_elements(&array, f);
}

static clave_status read_safetensors(const char *path, const model_method *m, int number,
                                     input_file *f) {
  char other[24];
  stored_tensor s;
  const model_argument *a = &m->inputs[number];
  (void)snprintf(other, sizeof other, "input_%d", number);
  clave_status st = stored_tensor_find(f->map.data, f->map.size, a->name, other, &s);
  if (st) return status_while(st, "%s", path);
  TRY(check_shape(path, m, a, &s));
  npy_array array = {.type = s.type, .rank = s.rank, .data = s.data, .bytes = s.bytes};
  memcpy(array.dims, s.dims, sizeof array.dims);
  return take_elements(&array, f);
}

static clave_status read_file(const char *path, const model_method *m, int number, input_file *f) {
  if (path_has_ending(path, ".npy")) return read_npy(path, m, &m->inputs[number], f);
  if (path_has_ending(path, ".safetensors")) return read_safetensors(path, m, number, f);
  f->data = f->map.data;
  f->bytes = f->map.size;
  return NULL;
}

clave_status input_file_open(const char *path, const model_method *m, int number, input_file *out) {
  *out = (input_file){0};
  TRY(file_map_open(path, &out->map));
  return read_file(path, m, number, out);
}

void input_file_close(input_file *f) {
  file_map_close(&f->map);
  room_give(f->copy);
  *f = (input_file){0};
}

/* ---------------------------------------------------------------- outputs */

static clave_status describe(const model_argument *a, const model_value *v, const char *path,
                             stored_tensor *out) {
  *out = (stored_tensor){.type = a->type, .rank = a->rank, .data = v->data};
  memcpy(out->dims, v->dims, sizeof out->dims);
  return argument_bytes(a, v->dims, &out->bytes) ? NULL : INVALID("%s: its size overflows", path);
}

static bool is_of_earlier(char *const *paths, int i) {
  for (int j = 0; j < i; j++)
    if (strcmp(paths[j], paths[i]) == 0) return true;
  return false;
}

/* Output `first` and those behind it of the same path. */
static clave_status gather(const model_method *m, const model_value *outputs, char *const *paths,
                           int first, stored_tensor *tensors, const char **names, int *n) {
  for (int i = first; i < m->n_outputs; i++) {
    if (strcmp(paths[i], paths[first]) != 0) continue;
    names[*n] = m->outputs[i].name;
    TRY(describe(&m->outputs[i], &outputs[i], paths[i], &tensors[(*n)++]));
  }
  return NULL;
}

static clave_status write_safetensors(const model_method *m, const model_value *outputs,
                                      char *const *paths, int first, file_writer *w) {
  const size_t most = (size_t)m->n_outputs;
  stored_tensor *tensors = room_take(most * sizeof *tensors);
  const char **names = room_take(most * sizeof *names);
  int n = 0;
  clave_status st = tensors && names ? NULL : status_no_memory();
  if (!st) st = gather(m, outputs, paths, first, tensors, names, &n);
  if (!st) st = stored_tensors_write(w, tensors, names, n);
  room_give(names);
  room_give(tensors);
  return st;
}

static clave_status write_array(const stored_tensor *s, bool is_npy, file_writer *w) {
  char header[NPY_HEADER_BYTES];
  if (is_npy)
    TRY(file_writer_append(w, header, npy_write_header(s->type, s->rank, s->dims, header)));
  return file_writer_append(w, s->data, s->bytes);
}

clave_status output_files_write(const model_method *m, const model_value *outputs,
                                char *const *paths, file_writer **writers) {
  for (int i = 0; i < m->n_outputs; i++) {
    stored_tensor s;
    const bool is_shared = path_has_ending(paths[i], ".safetensors");
    if (is_shared && is_of_earlier(paths, i)) continue;
    TRY(describe(&m->outputs[i], &outputs[i], paths[i], &s));
    TRY(file_writer_create(paths[i], &writers[i]));
    if (is_of_earlier(paths, i) && file_writer_replaces(writers[i]))
      return INVALID("%s: is given for two outputs, which .safetensors alone holds", paths[i]);
    TRY(is_shared ? write_safetensors(m, outputs, paths, i, writers[i])
                  : write_array(&s, path_has_ending(paths[i], ".npy"), writers[i]));
    TRY(file_writer_flush(writers[i]));
  }
  return NULL;
}
